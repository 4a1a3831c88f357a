//! The schedules of a queue in the hands of the pool that holds its seat: what changes do to them, and
//! which jobs are due. Pure.
//!
//! The book is written in two parts. The *list* has the schedules. The *position* is the time up to
//! which all jobs are enqueued.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::change::{self, Change};
use super::deadlines::{Deadline, Deadlines, id_of};
use super::report::{ScheduleReport, SeatReport};
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

/// A schedule as the list has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    spec: Spec,
    /// The program that last changed it.
    by: String,
    /// It has no deadlines up to this time.
    after_ms: u64,
    /// When a pool last named it, if it is part of code.
    #[serde(default)]
    named_ms: Option<u64>,
    #[serde(default)]
    paused: Option<Paused>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Paused {
    since_ms: u64,
    by: String,
}

#[derive(Serialize, Deserialize)]
struct List<K> {
    schedules: K,
}

#[derive(Serialize, Deserialize)]
struct Position {
    until_ms: u64,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    /// The bytes of the list that it takes.
    size: usize,
    /// The error if this version or this machine cannot tell them.
    deadlines: Result<Deadlines>,
    next: Option<Deadline>,
    /// Why the last job was not enqueued.
    problem: Option<String>,
}

impl Entry {
    fn new(kept: Kept, until: Option<SystemTime>) -> Self {
        let (size, deadlines) = (change::write(&kept).len(), kept.spec.deadlines());
        let mut entry = Self { kept, size, deadlines, next: None, problem: None };
        entry.find_next(entry.from(until));
        entry
    }

    /// The time up to which its deadlines are dealt with.
    fn from(&self, until: Option<SystemTime>) -> SystemTime {
        let after = from_millis(self.kept.after_ms);
        until.map_or(after, |until| until.max(after))
    }

    fn find_next(&mut self, after: SystemTime) {
        let deadlines = self.deadlines.as_ref().ok();
        let active = deadlines.filter(|_| self.kept.paused.is_none());
        self.next = active.and_then(|deadlines| deadlines.next(after));
    }
}

/// A job to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) id: JobId,
    pub(crate) spec: Spec,
    pub(crate) due: SystemTime,
    pub(crate) missed: usize,
}

/// What a change did.
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
        let entry = |kept: Kept| (kept.spec.name.clone(), Entry::new(kept, until));
        Ok(Self {
            queue: queue.to_owned(),
            entries: kept.into_iter().map(entry).collect(),
            until,
            own: BTreeSet::new(),
            opened_at: now,
            refused: Vec::new(),
        })
    }

    /// Adds the schedules in the code of a pool that began at this time, and returns whether that
    /// changed the list. New ones count from then on.
    pub(crate) fn add_own(
        &mut self,
        specs: &[Spec],
        by: &str,
        began: SystemTime,
        now: SystemTime,
    ) -> bool {
        let mut changed = false;
        for spec in specs {
            match self.name(spec, by, began, now) {
                Applied::Nothing => {}
                Applied::Refused(why) => self.refuse(why),
                _ => changed = true,
            }
            self.own.insert(spec.name.clone());
        }
        changed
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
            Change::Remove { name } if self.own.contains(&name) => Applied::Refused(format!(
                "schedule `{name}` was not removed: it is part of the code of a pool that runs"
            )),
            Change::Remove { name } => match self.entries.remove(&name) {
                Some(_) => Applied::Changed,
                None => Applied::Nothing,
            },
            Change::Pause { name, at_ms, by } => self.change(&name, |entry| {
                entry.kept.paused = Some(Paused { since_ms: at_ms, by });
                entry.next = None;
            }),
            Change::Resume { name } => self.change(&name, |entry| {
                if entry.kept.paused.take().is_some() {
                    entry.kept.after_ms = to_millis(now);
                    entry.find_next(now);
                }
            }),
            Change::Run { name, id } => match self.entries.get(&name) {
                Some(entry) => {
                    let spec = entry.kept.spec.clone();
                    Applied::Run(Box::new(Tick { id, spec, due: now, missed: 0 }))
                }
                None => Applied::Nothing,
            },
        };
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

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Entry)) -> Applied {
        let Some(entry) = self.entries.get_mut(name) else { return Applied::Nothing };
        change(entry);
        Applied::Changed
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
        match (self.insert(spec, by, at.min(now), None), of) {
            (Applied::Changed, Some(of)) => Applied::Replaced { name, of },
            (applied, _) => applied,
        }
    }

    /// Adds a schedule in the code of a pool, or notes that it is still there.
    fn name(&mut self, spec: &Spec, by: &str, at: SystemTime, now: SystemTime) -> Applied {
        let now_ms = to_millis(now);
        let before = self.entries.get_mut(&spec.name);
        match before {
            Some(Entry { kept, .. }) if kept.spec == *spec && kept.named_ms.is_some() => {
                kept.named_ms = Some(now_ms);
                Applied::Nothing
            }
            // A changed schedule counts from now on.
            Some(_) => self.insert(spec.clone(), by, now, Some(now_ms)),
            None => self.insert(spec.clone(), by, at.min(now), Some(now_ms)),
        }
    }

    fn insert(
        &mut self,
        spec: Spec,
        by: &str,
        after: SystemTime,
        named_ms: Option<u64>,
    ) -> Applied {
        let name = spec.name.clone();
        let paused = self.entries.get(&name).and_then(|entry| entry.kept.paused.clone());
        let (by, after_ms) = (by.to_owned(), to_millis(after));
        let kept = Kept { spec, by, after_ms, named_ms, paused };
        let before = self.entries.insert(name.clone(), Entry::new(kept, self.until));
        let size = self.entries.values().map(|entry| entry.size).sum::<usize>();
        if size <= MAX_LIST {
            return Applied::Changed;
        }
        match before {
            Some(before) => self.entries.insert(name.clone(), before),
            None => self.entries.remove(&name),
        };
        Applied::Refused(format!(
            "schedule `{name}` was not added: with it, the schedules of queue `{}` have {size} bytes, \
             more than the limit of {MAX_LIST}; give schedules smaller payloads, or remove some",
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

    /// When the next job is enqueued, if there is one.
    pub(crate) fn next(&self) -> Option<SystemTime> {
        self.entries.values().filter_map(|entry| entry.next).map(|next| next.at).min()
    }

    /// The jobs that are due, all deadlines up to `now` being dealt with by that. `None` if no schedule
    /// has a deadline, so that the position may stay.
    pub(crate) fn ticks(&mut self, now: SystemTime, late: Duration) -> Option<Vec<Tick>> {
        let (mut ticks, mut moves) = (Vec::new(), false);
        for (name, entry) in &mut self.entries {
            let Ok(deadlines) = &entry.deadlines else { continue };
            if entry.next.is_none_or(|next| next.at > now) {
                continue;
            }
            moves = true;
            let fires =
                deadlines.fires((entry.from(self.until), now), entry.kept.spec.missed, late);
            ticks.extend(fires.into_iter().map(|fire| Tick {
                id: id_of(name, fire.due),
                spec: entry.kept.spec.clone(),
                due: fire.due,
                missed: fire.missed,
            }));
            entry.find_next(now);
        }
        if !moves {
            return None;
        }
        self.until = Some(self.until.map_or(now, |until| until.max(now)));
        ticks.sort_by_key(|tick| tick.due);
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
        let report = |entry: &Entry| {
            let Kept { spec, by, after_ms, named_ms, paused } = &entry.kept;
            let mut report = ScheduleReport::new(&self.queue, spec);
            report.in_code = named_ms.is_some();
            report.by.clone_from(by);
            report.paused = paused.as_ref().map(|paused| from_millis(paused.since_ms));
            report.paused_by = paused.as_ref().map(|paused| paused.by.clone());
            let deadlines = entry.deadlines.as_ref();
            let last = deadlines.ok().zip(self.until);
            report.last = last.and_then(|(deadlines, until)| {
                deadlines.last(from_millis(*after_ms), until, 1).pop()
            });
            let unknown = deadlines.err().map(ToString::to_string);
            report.problem = unknown.or_else(|| entry.problem.clone());
            report
        };
        let schedules = self.entries.values().map(report).collect();
        SeatReport { schedules, refused: self.refused.clone() }
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
