//! The attempts of a queue that run, for reports and for cancelling.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use slab::Slab;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::minute::LastMinute;
use super::registry::Registered;
use crate::engine::{Cancel, Minute, RunningJob, Settlement};
use crate::job::JobId;

/// The most running attempts in a report.
const MAX_REPORTED: usize = 1_000;

/// The attempts of a queue that run, and the outcomes of the last minute.
#[derive(Debug)]
pub(crate) struct Live {
    running: Mutex<Slab<Entry>>,
    minute: Mutex<LastMinute>,
}

#[derive(Debug)]
struct Entry {
    attempt: Attempt,
    timeout: Option<std::time::Duration>,
    blocks: bool,
}

/// An attempt that runs, until this is dropped.
pub(super) struct Running<'l> {
    live: &'l Live,
    key: usize,
}

impl Default for Live {
    fn default() -> Self {
        Self { running: Mutex::default(), minute: Mutex::new(LastMinute::new(Instant::now())) }
    }
}

impl Live {
    fn running(&self) -> MutexGuard<'_, Slab<Entry>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn minute(&self) -> MutexGuard<'_, LastMinute> {
        self.minute.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt that was due at this time starts.
    pub(super) fn starts(
        &self,
        attempt: &Attempt,
        job: &Registered,
        due: Option<SystemTime>,
    ) -> Running<'_> {
        if let Some(due) = due {
            // Clocks of two machines differ.
            let waited = attempt.now().duration_since(due).unwrap_or_default();
            self.minute().waited(waited, Instant::now());
        }
        let entry =
            Entry { attempt: attempt.clone(), timeout: job.options.timeout, blocks: job.blocks };
        Running { live: self, key: self.running().insert(entry) }
    }

    /// A worker decided about a job.
    pub(super) fn decided(&self, settlement: &Settlement) {
        self.minute().decided(settlement, Instant::now());
    }

    /// The outcomes and waits of the last minute.
    pub(super) fn last_minute(&self) -> Minute {
        self.minute().read(Instant::now())
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
        let mut running: Vec<_> = self.running().iter().map(report).collect();
        running.sort_by_key(|job| std::cmp::Reverse(job.running));
        running.truncate(MAX_REPORTED);
        running
    }

    /// Cancels all attempts of a job.
    pub(super) fn cancel(&self, id: JobId) -> Cancel {
        let mut cancel = Cancel::NotRunning;
        for (_, entry) in self.running().iter().filter(|(_, entry)| entry.attempt.id() == id) {
            entry.attempt.order_cancel();
            cancel = if entry.blocks { Cancel::AskedBlocking } else { Cancel::Asked };
        }
        cancel
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.live.running().remove(self.key);
    }
}
