//! What is to become of a delivery: before its job function runs, and after.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::gate::Gate;
use super::lost::LostSlots;
use super::registry::{Plan, QueuePlan, Registered};
use super::tally::Tally;
use crate::client::Client;
use crate::engine::{Delivery, Settlement};
use crate::job::{FailedReason, Outcome};
use crate::retry::{self, Next};
use crate::telemetry::Who;

/// What all attempts of a pool share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    /// The runtime that the pool was started in: it runs the job functions, and they alone.
    pub(crate) runtime: Handle,
    pub(crate) plan: Plan,
    /// Before all its queues.
    pub(crate) gate: Arc<Gate>,
    pub(crate) lost: LostSlots,
    pub(crate) tally: Tally,
    /// Cancelled when the grace period is over.
    pub(crate) halt: CancellationToken,
}

impl Shared {
    /// Tells what was decided, and counts it.
    pub(crate) fn decided(&self, who: &Who, settlement: &Settlement, error: &str, took: Duration) {
        who.decided(settlement, error, took);
        self.tally.count(settlement);
    }

    /// Whether the runtime runs no task any more. A job function may have failed for that.
    pub(crate) fn has_runtime_ended(&self) -> bool {
        let task = self.runtime.spawn(std::future::pending::<()>());
        let has_ended = task.is_finished();
        task.abort();
        has_ended
    }
}

/// A settlement, with the error that led to it, for a person.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) settlement: Settlement,
    pub(crate) error: String,
}

impl Verdict {
    /// One that needs no words.
    pub(crate) fn plain(settlement: Settlement) -> Self {
        Self { settlement, error: String::new() }
    }

    fn failed(reason: FailedReason, error: String, attempts: u32) -> Self {
        let settlement = Settlement::Fail { reason, error: error.clone(), attempts };
        Self { settlement, error }
    }

    fn of(next: Next, error: String, attempts: u32) -> Self {
        let settlement = match next {
            Next::Complete => Settlement::Complete,
            Next::Retry(wait) => Settlement::Retry(wait),
            Next::Snooze(wait) => Settlement::Snooze(wait),
            Next::Fail(reason) => return Self::failed(reason, error, attempts),
        };
        Self { settlement, error }
    }

    /// What comes after the job function ended so.
    pub(crate) fn after(job: &Registered, attempt: u32, outcome: Outcome) -> Self {
        let next = retry::after(&job.options, attempt, &outcome.ending, fastrand::f64);
        Self::of(next, outcome.error, attempt)
    }

    /// What comes after a payload that the job cannot read.
    pub(crate) fn unreadable(job: &Registered, attempt: u32, problem: &serde_json::Error) -> Self {
        let error = format!("the payload is no payload of job `{}`: {problem}", job.name);
        Self::failed(FailedReason::UnreadablePayload, error, attempt.saturating_sub(1))
    }
}

/// The name of the job that a delivery is for, and the job if the pool has it.
pub(crate) fn find<'d>(
    shared: &'d Shared,
    queue: &'static str,
    delivery: &'d Delivery,
) -> (&'d str, Option<&'d Arc<Registered>>) {
    let (envelope, only_job) = (delivery.envelope(), shared.plan.queues[queue].only_job);
    // Whoever published an event knows nothing of the jobs that it becomes.
    let unsaid = envelope.topic.is_some() && only_job.is_some();
    let said = envelope.name.as_deref().filter(|_| !unsaid);
    let name = said.or(only_job).unwrap_or_default();
    (name, shared.plan.jobs.get(name))
}

/// The job that a delivery is for, which is to run now, or what is to become of it instead.
pub(crate) fn look_up(
    shared: &Shared,
    queue: &'static str,
    delivery: &Delivery,
) -> (Who, Result<Arc<Registered>, Verdict>) {
    let (name, job) = find(shared, queue, delivery);
    let known = job.map_or_else(|| Cow::Owned(name.to_owned()), |job| Cow::Borrowed(job.name));
    let mut who = Who::of(delivery, known, queue);
    who.max_attempts = job.map(|job| job.options.max_attempts());
    if let Some(job) = job {
        job.origins.check(job.name, delivery.envelope());
    }
    let attempt = delivery.attempt;
    let found = match job {
        _ if delivery.solo.is_none() && retry::is_suspected(delivery.crashes) => {
            Err(Verdict::plain(Settlement::Isolate))
        }
        None => {
            let error = unknown(&who, &shared.plan.queues[queue]);
            Err(Verdict::of(retry::after_unknown(attempt), error, attempt))
        }
        Some(job) if retry::is_expired(&job.options, delivery.envelope(), SystemTime::now) => {
            let error = "its time ran out before this attempt could start".to_owned();
            Err(Verdict::failed(FailedReason::Expired, error, attempt.saturating_sub(1)))
        }
        Some(job) => Ok(Arc::clone(job)),
    };
    (who, found)
}

fn unknown(who: &Who, queue: &QueuePlan) -> String {
    match (who.job.as_ref(), queue.only_job) {
        ("", None) => "the message states no job, and the queue has several".to_owned(),
        (name, _) => format!("no worker that took it has a job of the name `{name}`"),
    }
}

/// Records what became of a delivery; `true` if it was no longer this pool's to settle.
pub(crate) async fn settle(who: &Who, delivery: Delivery, settlement: Settlement) -> bool {
    is_stale(who, delivery.settle(settlement).await)
}

/// Tells of an outcome that was not recorded; `true` if the delivery was no longer this
/// pool's to settle.
pub(crate) fn is_stale(who: &Who, recorded: crate::Result<()>) -> bool {
    recorded.is_err_and(|error| {
        who.not_recorded(&error);
        error.is_stale()
    })
}

/// Equal for two deliveries of one attempt of one job.
pub(crate) fn likeness(delivery: &Delivery) -> u64 {
    let (envelope, mut hasher) = (delivery.envelope(), DefaultHasher::new());
    delivery.attempt.hash(&mut hasher);
    envelope.name.hash(&mut hasher);
    envelope.payload.hash(&mut hasher);
    envelope.enqueued_at.hash(&mut hasher);
    hasher.finish()
}
