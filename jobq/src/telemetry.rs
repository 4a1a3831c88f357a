//! What jobq tells through `tracing`, in one place, so that the words and the fields
//! stay the same wherever it is told from.
//!
//! | event | level | fields |
//! |---|---|---|
//! | an attempt (span `attempt` around the job function) | info | `job`, `id`, `queue`, `attempt` |
//! | the job completed | debug | `job`, `id`, `queue`, `attempt`, `millis` |
//! | the attempt failed and is repeated | warn | the same, `error`, `wait` |
//! | the job was snoozed | debug | the same, `wait` |
//! | the job failed for good | error | the same, `error`, `reason` |
//! | the job was handed back | info | `job`, `id`, `queue`, `attempt` |
//! | an outcome could not be recorded | warn | `job`, `id`, `queue`, `attempt`, `error` |
//! | a queue is not consumed any more | error | `queue`, `error` |

use std::borrow::Cow;
use std::time::Duration;

use tracing::Span;

use crate::engine::{Delivery, Settlement};
use crate::error::Error;
use crate::job::JobId;
use crate::period;

/// Who a delivery is, for telling about it after it was settled.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) job: Cow<'static, str>,
    pub(crate) id: JobId,
    pub(crate) queue: &'static str,
    pub(crate) attempt: u32,
}

impl Who {
    /// The delivery of the job of this name.
    pub(crate) fn of(delivery: &Delivery, job: Cow<'static, str>, queue: &'static str) -> Self {
        let (id, attempt) = (delivery.envelope.id, delivery.attempt);
        Self { job, id, queue, attempt }
    }

    /// The span around the job function.
    pub(crate) fn span(&self) -> Span {
        let Self { job, id, queue, attempt } = self;
        tracing::info_span!("attempt", %job, %id, %queue, attempt)
    }

    /// What the worker decided.
    pub(crate) fn decided(&self, settlement: &Settlement, error: &str, took: Duration) {
        let Self { job, id, queue, attempt } = self;
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match settlement {
            Settlement::Complete => {
                tracing::debug!(%job, %id, %queue, attempt, millis, "the job completed");
            }
            Settlement::Retry(wait) => {
                let wait = period::format(*wait);
                tracing::warn!(%job, %id, %queue, attempt, millis, error, wait, "the attempt failed and is repeated");
            }
            Settlement::Snooze(wait) => {
                let wait = period::format(*wait);
                tracing::debug!(%job, %id, %queue, attempt, millis, wait, "the job was snoozed");
            }
            Settlement::Fail { reason, error, .. } => {
                tracing::error!(%job, %id, %queue, attempt, millis, error, %reason, "the job failed for good");
            }
            Settlement::Release => {
                tracing::info!(%job, %id, %queue, attempt, "the job was handed back");
            }
        }
    }

    /// The engine did not record what the worker decided.
    pub(crate) fn not_recorded(&self, error: &Error) {
        let Self { job, id, queue, attempt } = self;
        tracing::warn!(%job, %id, %queue, attempt, ?error, "an outcome could not be recorded; the job is delivered again");
    }
}

/// A queue of a pool ended before the pool did.
pub(crate) fn queue_stopped(queue: &str, error: &Error) {
    tracing::error!(queue, ?error, "the queue is not consumed any more");
}
