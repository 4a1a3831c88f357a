//! The metrics of a pool.

use std::collections::BTreeMap;
use std::time::Duration;

use ::metrics::{Counter, Gauge};

use super::lazy::LazyHistogram;
use super::{
    ATTEMPT_DURATION, ATTEMPTS, CONSUMING, FAILED, LOST_SLOTS, OUTCOMES, PAUSED, RUNNING, SLOTS,
    UNKNOWN, UNRECORDED, WAIT,
};
use crate::engine::Settlement;
use crate::job::FailedReason;

/// The handles for one queue.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    jobs: BTreeMap<&'static str, JobMetrics>,
    /// Of jobs that are not registered in this queue.
    unknown: JobMetrics,
    wait: LazyHistogram,
    running: Gauge,
    slots: Gauge,
    lost_slots: Gauge,
    consuming: Gauge,
    paused: Gauge,
    unrecorded: Counter,
}

/// The handles for one job.
#[derive(Debug)]
struct JobMetrics {
    /// In the order of [`OUTCOMES`], as the durations.
    attempts: [Counter; OUTCOMES.len()],
    durations: [LazyHistogram; OUTCOMES.len()],
    /// In the order of [`FailedReason::ALL`].
    failed: [Counter; FailedReason::ALL.len()],
}

impl QueueMetrics {
    /// The handles for a queue with these jobs.
    pub(crate) fn new(queue: &'static str, jobs: impl IntoIterator<Item = &'static str>) -> Self {
        super::describe();
        let jobs = jobs.into_iter().map(|job| (job, JobMetrics::new(queue, job)));
        Self {
            jobs: jobs.collect(),
            unknown: JobMetrics::new(queue, UNKNOWN),
            wait: WAIT.histogram([queue]),
            running: RUNNING.gauge(queue),
            slots: SLOTS.gauge(queue),
            lost_slots: LOST_SLOTS.gauge(queue),
            consuming: CONSUMING.gauge(queue),
            paused: PAUSED.gauge(queue),
            unrecorded: UNRECORDED.counter([]),
        }
    }

    /// The engine did not record an outcome.
    pub(crate) fn unrecorded(&self) {
        self.unrecorded.increment(1);
    }

    /// An attempt starts, and has waited so long after it was due.
    pub(crate) fn starts(&self, waited: Option<Duration>) -> PoolLevel {
        if let Some(waited) = waited {
            self.wait.record(waited);
        }
        PoolLevel::of(&self.running, 1)
    }

    /// A worker decided about a job, after its function took so long, if it was called.
    pub(crate) fn decided(&self, job: &str, settlement: &Settlement, took: Option<Duration>) {
        let Some(outcome) = outcome(settlement) else { return };
        let job = self.jobs.get(job).unwrap_or(&self.unknown);
        job.attempts[outcome].increment(1);
        if let Some(took) = took {
            job.durations[outcome].record(took);
        }
        if let Settlement::Fail { reason, .. } = settlement {
            job.failed[*reason as usize].increment(1);
        }
    }

    /// So many attempts may run at once.
    pub(crate) fn has_slots(&self, count: u16) -> PoolLevel {
        PoolLevel::of(&self.slots, count)
    }

    /// A slot is lost.
    pub(crate) fn loses_slot(&self) -> PoolLevel {
        PoolLevel::of(&self.lost_slots, 1)
    }

    /// Whether a pool consumes the queue: not yet.
    pub(crate) fn consuming(&self) -> Switch {
        Switch { gauge: self.consuming.clone(), level: None }
    }

    /// Whether a pause keeps a pool from consuming the queue: not yet.
    pub(crate) fn paused(&self) -> Switch {
        Switch { gauge: self.paused.clone(), level: None }
    }
}

impl JobMetrics {
    fn new(queue: &'static str, job: &'static str) -> Self {
        let duration = |outcome| ATTEMPT_DURATION.histogram([queue, job, outcome]);
        Self {
            attempts: OUTCOMES.map(|outcome| ATTEMPTS.counter([queue, job, outcome])),
            durations: OUTCOMES.map(duration),
            failed: FailedReason::ALL.map(|reason| FAILED.counter([queue, job, reason.as_str()])),
        }
    }
}

/// The position of a decision in [`OUTCOMES`]. The start of a solo run is none: the run is.
fn outcome(settlement: &Settlement) -> Option<usize> {
    OUTCOMES.iter().position(|outcome| *outcome == settlement.outcome())
}

/// A part of a gauge, until it is dropped: several pools of a process add up.
#[derive(Debug)]
pub(crate) struct PoolLevel {
    gauge: Gauge,
    by: u16,
}

impl PoolLevel {
    fn of(gauge: &Gauge, by: u16) -> Self {
        gauge.increment(by);
        Self { gauge: gauge.clone(), by }
    }
}

impl Drop for PoolLevel {
    fn drop(&mut self) {
        self.gauge.decrement(self.by);
    }
}

/// The part of a pool in a gauge of pools.
#[derive(Debug)]
pub(crate) struct Switch {
    gauge: Gauge,
    level: Option<PoolLevel>,
}

impl Switch {
    pub(crate) fn set(&mut self, is_on: bool) {
        if is_on != self.level.is_some() {
            self.level = is_on.then(|| PoolLevel::of(&self.gauge, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_has_its_outcome() {
        let (wait, error) = (Duration::from_secs(1), String::new());
        let failed = Settlement::Fail { reason: FailedReason::Poison, error, attempts: 1 };
        let table = [
            (Settlement::Complete, Some("completed")),
            (Settlement::Retry(wait), Some("retried")),
            (failed, Some("failed")),
            (Settlement::Snooze(wait), Some("snoozed")),
            (Settlement::Release, Some("released")),
            (Settlement::Isolate, Some("isolated")),
            (Settlement::Start, None),
        ];
        for (settlement, expected) in table {
            assert_eq!(outcome(&settlement).map(|place| OUTCOMES[place]), expected);
        }
    }

    #[test]
    fn each_reason_has_its_counter() {
        for (place, reason) in FailedReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason}");
        }
    }
}
