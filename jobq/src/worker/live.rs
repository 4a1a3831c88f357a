//! The attempts of a queue that run or hold lost slots, for reports and for cancelling.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use slab::Slab;

use super::attempt::Attempt;
use super::minute::LastMinute;
use super::registry::Registered;
use crate::engine::{Cancel, Minute, RunningJob, Settlement};
use crate::job::JobId;

/// The most attempts of each kind in a report.
const MAX_REPORTED: usize = 1_000;

/// The attempts of a queue that run, and the outcomes of the last minute.
#[derive(Debug)]
pub(crate) struct Live(Mutex<State>);

#[derive(Debug)]
struct State {
    running: Slab<Entry>,
    /// Those whose functions hold lost slots.
    lost: Slab<Entry>,
    minute: LastMinute,
}

#[derive(Debug)]
struct Entry {
    attempt: Attempt,
    timeout: Option<Duration>,
    blocks: bool,
}

impl Entry {
    fn new(attempt: &Attempt, job: &Registered) -> Self {
        Self { attempt: attempt.clone(), timeout: job.options.timeout, blocks: job.blocks }
    }
}

/// An attempt that runs, until it is decided or this is dropped.
pub(super) struct Running<'l> {
    live: &'l Live,
    /// `None` once it is decided.
    key: Option<usize>,
    /// Its start, if the clock was read for it.
    since: Option<SystemTime>,
}

/// An attempt whose function holds a lost slot, until this is dropped.
pub(super) struct Lost<'l> {
    live: &'l Live,
    key: usize,
}

impl Default for Live {
    fn default() -> Self {
        let minute = LastMinute::new(SystemTime::UNIX_EPOCH);
        Self(Mutex::new(State { running: Slab::new(), lost: Slab::new(), minute }))
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
        let entry = Entry::new(attempt, job);
        let mut state = self.state();
        if let Some((waited, now)) = waited {
            state.minute.waited(waited, now);
        }
        let since = waited.map(|(_, now)| now);
        Running { live: self, key: Some(state.running.insert(entry)), since }
    }

    /// The function of an attempt that was decided goes on.
    pub(super) fn loses_slot(&self, attempt: &Attempt, job: &Registered) -> Lost<'_> {
        let key = self.state().lost.insert(Entry::new(attempt, job));
        Lost { live: self, key }
    }

    /// A worker decided about a job whose function was not called.
    pub(super) fn decided(&self, settlement: &Settlement, now: SystemTime) {
        self.state().minute.decided(settlement, None, now);
    }

    /// The outcomes and waits of the last minute.
    pub(super) fn last_minute(&self, now: SystemTime) -> Minute {
        self.state().minute.read(now)
    }

    /// The attempts that run, and those that hold lost slots, the longest first.
    pub(super) fn report(&self) -> (Vec<RunningJob>, Vec<RunningJob>) {
        let state = self.state();
        let (running, lost) = (reports(&state.running), reports(&state.lost));
        drop(state);
        (longest(running), longest(lost))
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

fn reports(entries: &Slab<Entry>) -> Vec<RunningJob> {
    let report = |(_, entry): (usize, &Entry)| {
        let attempt = &entry.attempt;
        let (number, took) = (attempt.number(), attempt.took());
        let mut running = RunningJob::new(attempt.id(), attempt.job(), number, took);
        running.timeout = entry.timeout;
        running
    };
    entries.iter().map(report).collect()
}

fn longest(mut jobs: Vec<RunningJob>) -> Vec<RunningJob> {
    jobs.sort_by_key(|job| std::cmp::Reverse(job.running));
    jobs.truncate(MAX_REPORTED);
    jobs
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

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        let entry = self.live.state().lost.try_remove(self.key);
        // Outside of the lock, since what layers left in the attempt may be dropped with it.
        drop(entry);
    }
}
