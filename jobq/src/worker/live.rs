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

/// An attempt that runs, until this is dropped.
pub(super) struct Running<'l> {
    live: &'l Live,
    key: usize,
    /// Its start, if the clock was read for it.
    pub(super) since: Option<SystemTime>,
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
        Running { live: self, key: state.running.insert(entry), since }
    }

    /// A worker decided about a job.
    pub(super) fn decided(&self, settlement: &Settlement, now: SystemTime) {
        self.state().minute.decided(settlement, now);
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

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.live.state().running.remove(self.key);
    }
}
