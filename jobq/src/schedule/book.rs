//! The schedules of a queue in the hands of the pool that holds its seat: what changes do to them, and
//! which jobs are due. Pure.
//!
//! The book is written in two parts. The *list* has the schedules. The *position* is the time up to
//! which all jobs are enqueued.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::change::{self, Change};
use super::deadlines::{Fire, LATE};
use super::entry::{Entry, Kept, Paused};
use super::report::SeatReport;
use super::spec::Spec;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, from_millis, to_millis};

/// The most schedules of a queue that clients make.
const MOST: usize = 1_000;
/// How long a schedule is kept that is part of the code of other pools, of which none has named it.
const FORGOTTEN: Duration = Duration::from_secs(30 * 60);
/// The most bytes of the list: some less than a seat takes.
pub(crate) const MAX_LIST: usize = 250 * 1024;
/// The most refused changes that are remembered.
const MOST_REFUSED: usize = 10;

#[derive(Serialize, Deserialize)]
struct List<K> {
    schedules: K,
}

#[derive(Serialize, Deserialize)]
struct Position {
    until_ms: u64,
}

/// A job to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) id: JobId,
    pub(crate) spec: Spec,
    pub(crate) due: SystemTime,
    pub(crate) missed: usize,
}

/// The jobs to be enqueued, and the schedules with missed deadlines that get none, with the number of
/// these.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) jobs: Vec<Tick>,
    pub(crate) skipped: Vec<(String, usize)>,
}

/// The effect of a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Nothing,
    /// The list is another one now.
    Changed,
    /// It has replaced the schedule of another program.
    Replaced {
        name: String,
        of: String,
    },
    Run(Box<Tick>),
    Refused(String),
}

/// The schedules of a queue.
#[derive(Debug)]
pub(crate) struct Book {
    queue: String,
    entries: BTreeMap<String, Entry>,
    /// The time up to which all jobs are enqueued.
    until: Option<SystemTime>,
    /// The schedules in the code of this pool.
    own: BTreeSet<String>,
    opened_at: SystemTime,
    refused: Vec<String>,
}

impl Book {
    /// Reads the book from the parts that the last holder wrote.
    ///
    /// # Errors
    ///
    /// Parts of another version of jobq.
    pub(crate) fn open(
        queue: &str,
        (list, position): (&[u8], &[u8]),
        now: SystemTime,
    ) -> Result<Self> {
        let unreadable = |error: String| {
            let text = format!("the schedules of queue `{queue}` cannot be read: {error}");
            Error::new(ErrorKind::Unsupported, text)
        };
        let until = match position {
            [] => None,
            written => {
                let Position { until_ms } = change::read(written).map_err(unreadable)?;
                Some(from_millis(until_ms))
            }
        };
        let kept: Vec<Kept> = match list {
            [] => Vec::new(),
            written => change::read::<List<_>>(written).map_err(unreadable)?.schedules,
        };
        let entry = |kept: Kept| (kept.spec.name.clone(), Entry::new(queue, kept, until));
        Ok(Self {
            queue: queue.to_owned(),
            entries: kept.into_iter().map(entry).collect(),
            until,
            own: BTreeSet::new(),
            opened_at: now,
            refused: Vec::new(),
        })
    }

    /// Adds the schedules in the code of a pool that began at this time, and returns what that did. New
    /// ones count from then on.
    pub(crate) fn add_own(
        &mut self,
        specs: &[Spec],
        by: &str,
        began: SystemTime,
        now: SystemTime,
    ) -> Vec<Applied> {
        let mut all = Vec::new();
        for spec in specs {
            let applied = self.name(spec, by, began, now);
            all.push(self.remembered(applied));
            self.own.insert(spec.name.clone());
        }
        all
    }

    /// The number of schedules.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn apply(&mut self, change: Change, now: SystemTime) -> Applied {
        let applied = match change {
            Change::Put { spec, at_ms, by } => self.put(spec, &by, from_millis(at_ms), now),
            Change::Code { spec, .. } if self.own.contains(&spec.name) => Applied::Nothing,
            Change::Code { spec, at_ms, by } => self.name(&spec, &by, from_millis(at_ms), now),
            Change::Remove { name } => self.remove(&name),
            Change::Pause { name, at_ms, by } => self.pause(&name, Paused { since_ms: at_ms, by }),
            Change::Resume { name, at_ms } => self.resume(&name, from_millis(at_ms).min(now)),
            Change::Run { name, id } => match self.entries.get(&name) {
                Some(entry) => {
                    let spec = entry.kept.spec.clone();
                    Applied::Run(Box::new(Tick { id, spec, due: now, missed: 0 }))
                }
                None => Applied::Nothing,
            },
        };
        self.remembered(applied)
    }

    /// The effect of a change, which is remembered if it was refused.
    fn remembered(&mut self, applied: Applied) -> Applied {
        if let Applied::Refused(why) = &applied {
            self.refuse(why.clone());
        }
        applied
    }

    /// Remembers why a change was refused.
    pub(crate) fn refuse(&mut self, why: String) {
        self.refused.push(why);
        self.refused.drain(..self.refused.len().saturating_sub(MOST_REFUSED));
    }

    fn remove(&mut self, name: &str) -> Applied {
        match self.entries.get(name).map(|entry| entry.kept.named_ms) {
            None => Applied::Nothing,
            Some(Some(_)) => Applied::Refused(format!(
                "schedule `{name}` was not removed: it is part of the code of a pool"
            )),
            Some(None) => {
                self.entries.remove(name);
                Applied::Changed
            }
        }
    }

    fn pause(&mut self, name: &str, paused: Paused) -> Applied {
        let Some(entry) = self.entries.get(name) else { return Applied::Nothing };
        let kept = Kept { paused: Some(paused), ..entry.kept.clone() };
        self.keep(kept)
    }

    fn resume(&mut self, name: &str, at: SystemTime) -> Applied {
        match self.entries.get(name).map(|entry| &entry.kept) {
            Some(kept) if kept.paused.is_some() => {
                self.keep(Kept { paused: None, after_ms: to_millis(at), ..kept.clone() })
            }
            _ => Applied::Nothing,
        }
    }

    /// Adds a schedule of a client.
    fn put(&mut self, spec: Spec, by: &str, at: SystemTime, now: SystemTime) -> Applied {
        let name = spec.name.clone();
        let before = self.entries.get(&name).map(|entry| &entry.kept);
        if before.is_some_and(|before| before.named_ms.is_some()) {
            return Applied::Refused(format!(
                "schedule `{name}` of {by} was not added: a job's code has a schedule of this name; \
                 choose another name"
            ));
        }
        if before.is_some_and(|before| before.spec == spec) {
            return Applied::Nothing;
        }
        let made = self.entries.values().filter(|entry| entry.kept.named_ms.is_none()).count();
        if before.is_none() && made >= MOST {
            return Applied::Refused(format!(
                "schedule `{name}` of {by} was not added: queue `{}` has {MOST} schedules, the limit; \
                 remove some, or use one schedule whose job enqueues the others",
                self.queue
            ));
        }
        let of = before.map(|before| before.by.clone()).filter(|of| of != by);
        replaced(self.insert(spec, by, at.min(now), None), name, of)
    }

    /// Adds a schedule in the code of a pool, or notes that it is still there.
    fn name(&mut self, spec: &Spec, by: &str, at: SystemTime, now: SystemTime) -> Applied {
        let named_ms = Some(to_millis(now));
        let (after, of) = match self.entries.get_mut(&spec.name).map(|entry| &mut entry.kept) {
            Some(kept) if kept.spec == *spec && kept.named_ms.is_some() => {
                kept.named_ms = named_ms;
                return Applied::Nothing;
            }
            Some(kept) if kept.named_ms.is_some() => (now, None),
            Some(kept) => (now, Some(kept.by.clone())),
            // A pool may have begun long ago, and the seat with all that was enqueued may have been deleted.
            None => (at.min(now).max(now.checked_sub(LATE).unwrap_or(at)), None),
        };
        replaced(self.insert(spec.clone(), by, after, named_ms), spec.name.clone(), of)
    }

    /// Adds a schedule, or replaces one of its name, which counts from now on if its times are others.
    fn insert(
        &mut self,
        spec: Spec,
        by: &str,
        after: SystemTime,
        named_ms: Option<u64>,
    ) -> Applied {
        let before = self.entries.get(&spec.name).map(|entry| &entry.kept);
        let same = before.filter(|before| before.spec.has_times_of(&spec));
        let after_ms = same.map_or_else(|| to_millis(after), |same| same.after_ms);
        let paused = before.and_then(|before| before.paused.clone());
        self.keep(Kept { spec, by: by.to_owned(), after_ms, named_ms, paused })
    }

    /// Keeps a schedule in place of the one of its name, if there is room.
    fn keep(&mut self, kept: Kept) -> Applied {
        let name = kept.spec.name.clone();
        let entry = Entry::new(&self.queue, kept, self.until);
        let before = self.entries.insert(name.clone(), entry);
        let size = self.entries.values().map(|entry| entry.size).sum::<usize>();
        if size <= MAX_LIST {
            return Applied::Changed;
        }
        match before {
            Some(before) => self.entries.insert(name.clone(), before),
            None => self.entries.remove(&name),
        };
        Applied::Refused(format!(
            "schedule `{name}` was not changed: with that, the schedules of queue `{}` have {size} \
             bytes, more than the limit of {MAX_LIST}; give schedules smaller payloads, or remove some",
            self.queue
        ))
    }

    /// Removes schedules in code that no pool has named for half an hour, and returns their names.
    pub(crate) fn forget(&mut self, now: SystemTime) -> Vec<String> {
        let (own, opened_at, mut forgotten) = (&self.own, self.opened_at, Vec::new());
        self.entries.retain(|name, entry| {
            let named = entry.kept.named_ms.map(from_millis).filter(|_| !own.contains(name));
            let since = named.map(|named| now.duration_since(named.max(opened_at)));
            let is_kept = since.is_none_or(|since| since.unwrap_or_default() <= FORGOTTEN);
            if !is_kept {
                forgotten.push(name.clone());
            }
            is_kept
        });
        forgotten
    }

    /// Removes the schedules that clients have made, and returns the changes that add each of them to
    /// another book.
    pub(crate) fn take_made(&mut self) -> Vec<Vec<Change>> {
        let is_made = |(_, entry): &(String, Entry)| entry.kept.named_ms.is_none();
        let (made, others) = std::mem::take(&mut self.entries).into_iter().partition(is_made);
        self.entries = others;
        let changes = |(name, entry): (String, Entry)| {
            let at_ms = to_millis(entry.from(self.until));
            let Kept { spec, by, paused, .. } = entry.kept;
            let put = Change::Put { spec, at_ms, by };
            let pause = |Paused { since_ms, by }| Change::Pause { name, at_ms: since_ms, by };
            [put].into_iter().chain(paused.map(pause)).collect()
        };
        BTreeMap::into_iter(made).map(changes).collect()
    }

    /// When the next job is enqueued, if there is one.
    pub(crate) fn next(&self) -> Option<SystemTime> {
        self.entries.values().filter_map(|entry| entry.next).map(|next| next.at).min()
    }

    /// The jobs that are due, all deadlines up to `now` being dealt with by that. `None` if no schedule
    /// has a deadline, so that the position may stay.
    pub(crate) fn ticks(&mut self, now: SystemTime, late: Duration) -> Option<Ticks> {
        let (mut ticks, mut moves) = (Ticks::default(), false);
        for (name, entry) in &mut self.entries {
            let Ok(deadlines) = &entry.deadlines else { continue };
            if entry.next.is_none_or(|next| next.at > now) {
                continue;
            }
            moves = true;
            let spec = &entry.kept.spec;
            let fires = deadlines.fires((entry.from(self.until), now), spec.missed, late);
            ticks.jobs.extend(fires.jobs.into_iter().map(|Fire { due, missed }| Tick {
                id: deadlines.id(due),
                spec: spec.clone(),
                due,
                missed,
            }));
            if fires.skipped > 0 {
                ticks.skipped.push((name.clone(), fires.skipped));
            }
            entry.find_next(now);
        }
        if !moves {
            return None;
        }
        self.until = Some(self.until.map_or(now, |until| until.max(now)));
        ticks.jobs.sort_by_key(|tick| tick.due);
        Some(ticks)
    }

    /// Notes whether the last job of a schedule was enqueued.
    pub(crate) fn note(&mut self, name: &str, problem: Option<String>) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.problem = problem;
        }
    }

    /// How far the position is ahead of a clock.
    pub(crate) fn ahead_of(&self, now: SystemTime) -> Duration {
        self.until.and_then(|until| until.duration_since(now).ok()).unwrap_or_default()
    }

    pub(crate) fn list(&self) -> Vec<u8> {
        let schedules: Vec<_> = self.entries.values().map(|entry| &entry.kept).collect();
        change::write(&List { schedules })
    }

    pub(crate) fn position(&self) -> Vec<u8> {
        self.until
            .map_or_else(Vec::new, |until| change::write(&Position { until_ms: to_millis(until) }))
    }

    pub(crate) fn report(&self) -> SeatReport {
        let report = |entry: &Entry| entry.report(&self.queue, self.until);
        let schedules = self.entries.values().map(report).collect();
        SeatReport { schedules, refused: self.refused.clone() }
    }
}

/// A change that has replaced the schedule of another program, if there is one.
fn replaced(applied: Applied, name: String, of: Option<String>) -> Applied {
    match (applied, of) {
        (Applied::Changed, Some(of)) => Applied::Replaced { name, of },
        (applied, _) => applied,
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
