//! The log lines of pools and jobs, in one place, so that their texts and fields are consistent.
//!
//! `docs/logs.md` has each line of the crate with its level and its fields; a test compares them.

use std::borrow::Cow;
use std::time::Duration;

use tracing::Span;

use crate::engine::{Delivery, Hold, Pause, PoolId, Settlement};
use crate::error::Error;
use crate::finding::Finding;
use crate::job::{Envelope, Failure, JobId, Outcome};
use crate::period;

/// The identity of a delivery in logs, also after it was settled.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) job: Cow<'static, str>,
    pub(crate) id: JobId,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) attempt: u32,
    /// `None` if the pool does not know the job.
    pub(crate) max_attempts: Option<u32>,
}

impl Who {
    /// The identity of a delivery with this job name.
    pub(crate) fn of(delivery: &Delivery, job: Cow<'static, str>, queue: &'static str) -> Self {
        let (id, attempt) = (delivery.envelope().id, delivery.attempt);
        Self { job, id, queue: queue.into(), attempt, max_attempts: None }
    }

    /// The identity of a job in an engine. A job made from an event has no name of its own, so its
    /// queue, which has no other job, stands for it.
    #[cfg_attr(not(any(feature = "rabbitmq", feature = "sqlite")), allow(dead_code))]
    pub(crate) fn of_job(envelope: &Envelope, queue: &str) -> Self {
        let job = envelope.name.as_deref().unwrap_or(queue).to_owned().into();
        let (id, attempt) = (envelope.id, envelope.attempts.saturating_add(1));
        Self { job, id, queue: queue.to_owned().into(), attempt, max_attempts: None }
    }

    /// The span around the job function.
    pub(crate) fn span(&self) -> Span {
        let Self { job, id, queue, attempt, .. } = self;
        tracing::info_span!("attempt", %job, %id, %queue, attempt)
    }

    /// Logs the worker's decision.
    pub(crate) fn decided(&self, settlement: &Settlement, failure: &Failure, took: Duration) {
        let Self { job, id, queue, attempt, max_attempts: of } = self;
        let (error, backtrace) = (failure.error(), failure.backtrace());
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match settlement {
            Settlement::Complete => {
                tracing::debug!(%job, %id, %queue, attempt, millis, "job completed");
            }
            Settlement::Retry(wait) => {
                let wait = period::format(*wait);
                tracing::warn!(
                    %job, %id, %queue, attempt, of, millis, error, backtrace, wait,
                    "attempt failed; retrying"
                );
            }
            Settlement::Snooze(wait) => {
                let wait = period::format(*wait);
                tracing::debug!(%job, %id, %queue, attempt, millis, wait, "job snoozed");
            }
            Settlement::Fail { reason, .. } => {
                tracing::error!(
                    %job, %id, %queue, attempt, of, millis, error, backtrace, %reason,
                    "job failed for good"
                );
            }
            Settlement::Isolate => {
                tracing::warn!(
                    %job, %id, %queue, attempt,
                    "job returned unsettled several times, by workers that died or by another \
                     client; it will run alone"
                );
            }
            Settlement::Start => {
                tracing::info!(
                    %job, %id, %queue, attempt,
                    "job runs alone; the pool takes no other jobs meanwhile"
                );
            }
            Settlement::Release => {
                tracing::info!(%job, %id, %queue, attempt, "job returned to its queue");
            }
        }
    }

    /// Warns that jobs need what this version of jobq lacks.
    pub(crate) fn needs(&self, word: &str) {
        let Self { job, id, queue, attempt, .. } = self;
        tracing::warn!(
            %job, %id, %queue, attempt, needs = word,
            "job needs a feature that this version of jobq lacks; update this worker"
        );
    }

    /// Warns if a layer turned a failure into a success.
    pub(crate) fn layered(&self, outcome: &Outcome, function: Option<&Outcome>) {
        let Some(error) = function.and_then(Outcome::error) else { return };
        if outcome.is_completed() {
            let Self { job, id, queue, attempt, .. } = self;
            tracing::warn!(
                %job, %id, %queue, attempt, error,
                "function failed, but a layer completed its job"
            );
        }
    }

    /// Logs that the system has no thread for the function, and the job waits.
    pub(crate) fn no_thread(&self, wait: Duration) {
        let Self { job, id, queue, attempt, .. } = self;
        let wait = period::format(wait);
        tracing::error!(
            %job, %id, %queue, attempt, wait,
            "could not start a thread for a plain `fn`; its job waits; check the process limit"
        );
    }

    /// Logs that the function holds its slot beyond its timeout, with the number of lost slots.
    pub(crate) fn lost_slot(&self, lost: usize, slots: u16) {
        let Self { job, id, queue, attempt, .. } = self;
        tracing::warn!(
            %job, %id, %queue, attempt, lost, slots,
            "function still running after its timeout; its slot is lost until it ends; check \
             `JobContext::is_cancelled` in long loops"
        );
    }

    /// Logs that a lost slot is free again.
    pub(crate) fn regained_slot(&self, lost: usize, slots: u16) {
        let Self { job, id, queue, attempt, .. } = self;
        tracing::info!(
            %job, %id, %queue, attempt, lost, slots,
            "function ended; its slot is free again"
        );
    }

    /// Logs that the engine did not record the outcome.
    pub(crate) fn not_recorded(&self, settlement: &Settlement, error: &Error) {
        let Self { job, id, queue, attempt, .. } = self;
        let outcome = settlement.outcome();
        tracing::warn!(
            %job, %id, %queue, attempt, outcome, ?error,
            "outcome not recorded; the job will be redelivered"
        );
    }
}

/// Logs that a pool takes jobs of these queues, with their concurrency.
pub(crate) fn pool_started(
    engine: &str,
    namespace: &str,
    pool: Option<PoolId>,
    queues: impl Iterator<Item = (&'static str, u16)>,
) {
    let queues: Vec<_> =
        queues.map(|(name, concurrency)| format!("{name}={concurrency}")).collect();
    let queues = queues.join(" ");
    let control = pool.map_or_else(|| "off".to_owned(), |pool| pool.to_string());
    tracing::info!(engine, namespace, queues, control, "pool started");
}

/// Warns that a pool cannot be asked and does not learn of pauses.
pub(crate) fn control_forbidden(error: &Error) {
    tracing::warn!(%error, "pool control unavailable; orders and pauses do not reach this pool");
}

/// Logs that a pool was given an order.
pub(crate) fn told(pool: PoolId, order: &str) {
    tracing::info!(%pool, order, "pool received an order");
}

/// Logs that a pool runs another number of attempts of a queue at once.
pub(crate) fn slots_set(pool: PoolId, queue: &str, slots: u16, before: u16) {
    tracing::info!(%pool, queue, slots, before, "slots of the queue changed");
}

/// Logs that the clock of a pool is ahead of another machine's, or behind it.
pub(crate) fn clock_differs(pool: PoolId, ahead_ms: i64, of: &str) {
    tracing::warn!(
        %pool, ahead_ms, of,
        "clock differs from that of another machine; jobs with `expires` expire too early or too \
         late; synchronize the clocks"
    );
}

/// Logs that a queue is paused.
pub(crate) fn queue_paused(queue: &str, pause: &Pause) {
    let Pause { by, why, .. } = pause;
    tracing::info!(queue, by, why, "queue paused; its jobs wait");
}

/// Logs that a pool has ended, with the numbers of attempts.
pub(crate) fn pool_stopped([completed, retried, failed, unrecorded]: [u64; 4]) {
    tracing::info!(completed, retried, failed, unrecorded, "pool stopped");
}

/// Warns that a pool ends before it knows that the last settlements of a queue are recorded.
pub(crate) fn settlements_not_recorded(queue: &str) {
    tracing::warn!(queue, "last outcomes may be unrecorded; jobs without one will be redelivered");
}

/// Warns that the engine may take these jobs back while they still run.
pub(crate) fn may_be_taken_back(jobs: &[&str], hold: &Hold) {
    if !jobs.is_empty() {
        let (jobs, limit) = (jobs.join(", "), period::format(hold.limit));
        tracing::warn!(
            jobs,
            limit,
            remedy = hold.remedy,
            "jobs without a timeout below the limit are redelivered if they run past it"
        );
    }
}

/// Warns of a finding that does not keep a pool from starting.
pub(crate) fn weakened(finding: &Finding) {
    let (about, found) = (finding.about(), finding.what());
    let (why, remedy) = (finding.why(), finding.advice());
    tracing::warn!(about, found, why, remedy, "policy weakens jobq's guarantees");
}

/// Logs that a queue of a pool ended before the pool.
pub(crate) fn queue_stopped(queue: &str, error: &Error) {
    tracing::error!(queue, ?error, "queue is no longer consumed");
}
