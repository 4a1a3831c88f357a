//! The attempts of a queue that run, for reports and for cancelling.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use slab::Slab;

use super::attempt::Attempt;
use super::minute::LastMinute;
use super::registry::Registered;
use crate::engine::{Cancel, Minute, RunningJob, Settlement};
use crate::job::JobId;

/// The most running attempts in a report.
const MAX_REPORTED: usize = 1_000;

/// The attempts of a queue that run, and the outcomes of the last minute.
#[derive(Debug)]
pub(crate) struct Live(Mutex<State>);

#[derive(Debug)]
struct State {
    running: Slab<Entry>,
    minute: LastMinute,
}

#[derive(Debug)]
struct Entry {
    attempt: Attempt,
    timeout: Option<Duration>,
    blocks: bool,
}

/// An attempt that runs, until it is decided or this is dropped.
pub(super) struct Running<'l> {
    live: &'l Live,
    /// `None` once it is decided.
    key: Option<usize>,
    /// Its start, if the clock was read for it.
    since: Option<SystemTime>,
}

impl Default for Live {
    fn default() -> Self {
        let minute = LastMinute::new(SystemTime::UNIX_EPOCH);
        Self(Mutex::new(State { running: Slab::new(), minute }))
    }
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt that was due at this time starts.
    pub(super) fn starts(
        &self,
        attempt: &Attempt,
        job: &Registered,
        due: Option<SystemTime>,
    ) -> Running<'_> {
        let waited = due.map(|due| {
            let now = attempt.now();
            // Clocks of two machines differ.
            (now.duration_since(due).unwrap_or_default(), now)
        });
        let entry =
            Entry { attempt: attempt.clone(), timeout: job.options.timeout, blocks: job.blocks };
        let mut state = self.state();
        if let Some((waited, now)) = waited {
            state.minute.waited(waited, now);
        }
        let since = waited.map(|(_, now)| now);
        Running { live: self, key: Some(state.running.insert(entry)), since }
    }

    /// A worker decided about a job whose function was not called.
    pub(super) fn decided(&self, settlement: &Settlement, now: SystemTime) {
        self.state().minute.decided(settlement, None, now);
    }

    /// The outcomes and waits of the last minute.
    pub(super) fn last_minute(&self, now: SystemTime) -> Minute {
        self.state().minute.read(now)
    }

    /// The attempts that run, the longest first.
    pub(super) fn report(&self) -> Vec<RunningJob> {
        let report = |(_, entry): (usize, &Entry)| {
            let attempt = &entry.attempt;
            let (number, took) = (attempt.number(), attempt.took());
            let mut running = RunningJob::new(attempt.id(), attempt.job(), number, took);
            running.timeout = entry.timeout;
            running
        };
        let mut running: Vec<_> = self.state().running.iter().map(report).collect();
        running.sort_by_key(|job| std::cmp::Reverse(job.running));
        running.truncate(MAX_REPORTED);
        running
    }

    /// Cancels all attempts of a job.
    pub(super) fn cancel(&self, id: JobId) -> Cancel {
        let mut cancel = Cancel::NotRunning;
        for (_, entry) in self.state().running.iter().filter(|(_, entry)| entry.attempt.id() == id)
        {
            entry.attempt.order_cancel();
            cancel = if entry.blocks { Cancel::AskedBlocking } else { Cancel::Asked };
        }
        cancel
    }
}

impl Running<'_> {
    /// A worker decided about the job after its function ran this long.
    pub(super) fn decided(
        mut self,
        settlement: &Settlement,
        took: Duration,
        now: impl FnOnce() -> SystemTime,
    ) {
        // Where the clock was read for the start, it is not read for the end.
        let ended_at = self.since.and_then(|since| since.checked_add(took)).unwrap_or_else(now);
        let mut state = self.live.state();
        // Both at once, so that a report has it either way.
        let entry = self.key.take().and_then(|key| state.running.try_remove(key));
        state.minute.decided(settlement, Some(took), ended_at);
        // What layers left in the attempt may be dropped with it.
        drop(state);
        drop(entry);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.live.state().running.remove(key);
        }
    }
}
