//! The deadlines of a schedule, and which of them get a job. Pure.

use std::time::{Duration, SystemTime};

use super::Schedule;
use crate::job::{JobId, Missed, to_millis};

/// How late a deadline may be before it is missed. The successor of a holder whose node is cut off
/// begins after some 70 s.
pub(crate) const LATE: Duration = Duration::from_secs(120);
/// The most jobs for missed deadlines.
const MOST: usize = 100;
/// The most missed deadlines that are counted.
const MOST_COUNTED: usize = 10_000;
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

/// The deadlines of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Deadlines {
    name: String,
    times: Vec<Schedule>,
    jitter: Duration,
}

impl Deadlines {
    pub(crate) fn new(name: &str, times: Vec<Schedule>, jitter: Duration) -> Self {
        Self { name: name.to_owned(), times, jitter }
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
    ) -> Vec<Fire> {
        let oldest = now.checked_sub(late).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_missed = self.next(from).is_some_and(|next| next.at <= oldest);
        let each = |due| Fire { due, missed: 0 };
        if !is_missed || missed == Missed::Skip {
            return self.within(from.max(oldest), now).map(each).collect();
        }
        let all = self.within(from, now).take(MOST_COUNTED + 1).count();
        let most = if missed == Missed::All { MOST } else { 1 };
        let mut fires: Vec<_> = self.last(from, now, most).into_iter().map(each).collect();
        let uncounted = all.saturating_sub(fires.len());
        if let Some(first) = fires.first_mut() {
            first.missed = uncounted;
        }
        fires
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
        let drawn = id_of(&self.name, due).low_bits() % longest;
        due.checked_add(Duration::from_millis(drawn)).unwrap_or(due)
    }
}

/// The id of the job of a deadline: the same in each process, so that a job that is enqueued twice has
/// one id.
pub(crate) fn id_of(name: &str, due: SystemTime) -> JobId {
    JobId::of_key(&format!("schedule {name} {}", to_millis(due)))
}

#[cfg(test)]
#[path = "deadlines_tests.rs"]
mod tests;
