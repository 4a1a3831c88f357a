//! The deadlines of a schedule, and which of them get a job. Pure.

use std::time::{Duration, SystemTime};

use super::Schedule;
use crate::error::{Error, Result};
use crate::job::{JobId, Missed, to_millis};
use crate::period;

/// How late a deadline may be before it is missed. The successor of a holder whose node is cut off
/// begins after some 70 s.
pub(crate) const LATE: Duration = Duration::from_secs(120);
/// The most jobs for missed deadlines.
const MOST: usize = 100;
/// The most missed deadlines that are counted.
const MOST_COUNTED: usize = 1_000;
/// The most deadlines within the jitter, all of which are looked at for the next one.
const MOST_SPREAD: usize = 1_000;
/// The first part of the past that is searched for the last deadlines.
const FIRST_WINDOW: Duration = Duration::from_secs(128);

/// A time at which a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) due: SystemTime,
    /// When the job is enqueued: later than that by the jitter.
    pub(crate) at: SystemTime,
}

/// A job to be enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fire {
    pub(crate) due: SystemTime,
    /// How many missed deadlines it stands for, beside its own.
    pub(crate) missed: usize,
}

/// The jobs of the deadlines up to now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fires {
    pub(crate) jobs: Vec<Fire>,
    /// How many deadlines get no job.
    pub(crate) skipped: usize,
}

/// The deadlines of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Deadlines {
    /// Tells the schedule from all others of the namespace.
    key: String,
    times: Vec<Schedule>,
    jitter: Duration,
}

impl Deadlines {
    pub(crate) fn new(
        queue: &str,
        name: &str,
        times: Vec<Schedule>,
        jitter: Duration,
    ) -> Result<Self> {
        let deadlines = Self { key: format!("{queue} {name}"), times, jitter };
        if deadlines.is_spread_too_far() {
            let text = format!(
                "the jitter of schedule `{name}`, {}, is longer than {MOST_SPREAD} of its times; use a \
                 shorter one",
                period::format(jitter)
            );
            return Err(Error::invalid(text));
        }
        Ok(deadlines)
    }

    fn is_spread_too_far(&self) -> bool {
        // From any of its times on.
        let first = self.due_after(SystemTime::UNIX_EPOCH).next();
        let end = first.and_then(|first| first.checked_add(self.jitter));
        let (Some(first), false) = (first, self.jitter.is_zero()) else { return false };
        let within = self.due_after(first).take_while(|due| end.is_none_or(|end| *due <= end));
        within.take(MOST_SPREAD + 1).count() > MOST_SPREAD
    }

    /// The first deadline whose job is enqueued after a time.
    pub(crate) fn next(&self, after: SystemTime) -> Option<Deadline> {
        let mut next: Option<Deadline> = None;
        for due in self.due_after(self.before(after)) {
            if next.is_some_and(|next| next.at <= due) {
                break;
            }
            let at = self.at(due);
            if at > after && next.is_none_or(|next| at < next.at) {
                next = Some(Deadline { due, at });
            }
        }
        next
    }

    /// The jobs for the deadlines in `(from, now]`.
    pub(crate) fn fires(
        &self,
        (from, now): (SystemTime, SystemTime),
        missed: Missed,
        late: Duration,
    ) -> Fires {
        let oldest = now.checked_sub(late).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_missed = self.next(from).is_some_and(|next| next.at <= oldest);
        let each = |due| Fire { due, missed: 0 };
        if !is_missed || missed == Missed::Skip {
            let jobs = self.within(from.max(oldest), now).map(each).collect();
            let skipped = self.within(from, oldest.max(from)).take(MOST_COUNTED).count();
            return Fires { jobs, skipped };
        }
        let all = self.within(from, now).take(MOST_COUNTED + 1).count();
        let most = if missed == Missed::All { MOST } else { 1 };
        let mut jobs: Vec<_> = self.last(from, now, most).into_iter().map(each).collect();
        let uncounted = all.saturating_sub(jobs.len());
        if let Some(first) = jobs.first_mut() {
            first.missed = uncounted;
        }
        Fires { jobs, skipped: 0 }
    }

    /// The id of the job of a deadline: the same in each process, so that a job that is enqueued twice
    /// has one id.
    pub(crate) fn id(&self, due: SystemTime) -> JobId {
        JobId::of_key(&format!("schedule {} {}", self.key, to_millis(due)))
    }

    /// The last deadlines in `(from, now]`, in order. The past is searched in parts that double, since
    /// there may be millions of them.
    pub(super) fn last(&self, from: SystemTime, now: SystemTime, most: usize) -> Vec<SystemTime> {
        let mut window = FIRST_WINDOW;
        loop {
            let begin = now.checked_sub(window).filter(|begin| *begin > from);
            let mut found: Vec<_> = self.within(begin.unwrap_or(from), now).collect();
            if begin.is_none() || found.len() >= most {
                return found.split_off(found.len().saturating_sub(most));
            }
            window = window.saturating_mul(2);
        }
    }

    /// The deadlines in `(from, now]`, in the order in which they are due.
    fn within(&self, from: SystemTime, now: SystemTime) -> impl Iterator<Item = SystemTime> {
        let due = self.due_after(self.before(from)).take_while(move |due| *due <= now);
        due.filter(move |due| {
            let at = self.at(*due);
            at > from && at <= now
        })
    }

    /// The times of all rules after this one, in order, each once.
    fn due_after(&self, time: SystemTime) -> impl Iterator<Item = SystemTime> {
        let mut rules: Vec<_> =
            self.times.iter().map(|times| times.after(time).peekable()).collect();
        std::iter::from_fn(move || {
            let first = rules.iter_mut().filter_map(|rule| rule.peek().copied()).min()?;
            for rule in &mut rules {
                rule.next_if_eq(&first);
            }
            Some(first)
        })
    }

    /// A time before all deadlines whose jobs are enqueued after this time.
    fn before(&self, time: SystemTime) -> SystemTime {
        time.checked_sub(self.jitter).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// When the job of a deadline is enqueued: the same in each process.
    fn at(&self, due: SystemTime) -> SystemTime {
        let longest = u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX);
        if longest == 0 {
            return due;
        }
        let drawn = self.id(due).low_bits() % longest;
        due.checked_add(Duration::from_millis(drawn)).unwrap_or(due)
    }
}

#[cfg(test)]
#[path = "deadlines_tests.rs"]
mod tests;
