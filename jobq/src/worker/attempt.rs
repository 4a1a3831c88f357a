//! One attempt, from its delivery to its settlement.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::context::JobContext;
use super::registry::{Plan, QueuePlan, Registered};
use super::run::{Kind, Scope};
use crate::client::Client;
use crate::engine::{Delivery, Settlement};
use crate::job::{FailedReason, Outcome};
use crate::period;
use crate::retry::{self, Next};
use crate::telemetry::Who;

/// What all attempts of a pool share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) plan: Plan,
    /// Cancelled when the grace period is over.
    pub(crate) halt: CancellationToken,
}

/// The right to run one attempt of a queue. It is free again when the last clone is
/// dropped: a blocking function that outlives its timeout keeps one.
pub(crate) type Slot = Arc<OwnedSemaphorePermit>;

/// What is left of an attempt when it is over.
#[derive(Debug)]
pub(crate) struct Finished {
    /// How it was to be settled, and whether it was.
    pub(crate) settlement: Settlement,
    pub(crate) stale: bool,
    /// How long the function ran, if it did.
    pub(crate) took: Option<Duration>,
}

/// How the run of a job function ended.
enum Ran {
    Ended(Outcome),
    Unreadable(serde_json::Error),
    /// The grace period was over first.
    Cancelled,
}

/// Runs a delivery and settles it.
pub(crate) async fn attempt(
    shared: Arc<Shared>,
    queue: &'static str,
    delivery: Delivery,
    slot: Slot,
) -> Finished {
    let envelope = &delivery.envelope;
    let name = envelope.name.clone().or(only_job(&shared, queue)).unwrap_or_default();
    let job = shared.plan.jobs.get(name.as_ref());
    let who = Who::of(&delivery, name, queue);
    let mut took = None;
    let mut error = String::new();
    let settlement = match job {
        None => {
            error = unknown(&who, &shared.plan.queues[queue]);
            settle_as(retry::after_unknown(delivery.attempt), &error, delivery.attempt)
        }
        Some(_) if envelope.expires_at.is_some_and(|time| time <= SystemTime::now()) => {
            let error = "its time ran out before this attempt could start".to_owned();
            fail(FailedReason::Expired, error, delivery.attempt.saturating_sub(1))
        }
        Some(job) => {
            let started = Instant::now();
            let ran = run(&shared, job, &who, &delivery, slot).await;
            took = Some(started.elapsed());
            match ran {
                Ran::Cancelled => Settlement::Release,
                Ran::Unreadable(problem) => {
                    let error =
                        format!("the payload is no payload of job `{}`: {problem}", job.name);
                    fail(FailedReason::UnreadablePayload, error, delivery.attempt.saturating_sub(1))
                }
                Ran::Ended(outcome) => {
                    error = outcome.error;
                    let random = fastrand::f64();
                    let next =
                        retry::after(&job.options, delivery.attempt, &outcome.ending, random);
                    settle_as(next, &error, delivery.attempt)
                }
            }
        }
    };
    who.decided(&settlement, &error, took.unwrap_or_default());
    let stale = settle(&who, delivery, settlement.clone()).await;
    Finished { settlement, stale, took }
}

/// Records what became of a delivery; `true` if it was no longer this pool's to settle.
pub(crate) async fn settle(who: &Who, delivery: Delivery, settlement: Settlement) -> bool {
    match delivery.settle(settlement).await {
        Ok(()) => false,
        Err(error) => {
            who.not_recorded(&error);
            error.is_stale()
        }
    }
}

/// The job of a message that states none.
fn only_job(shared: &Shared, queue: &str) -> Option<Cow<'static, str>> {
    shared.plan.queues.get(queue)?.only_job.map(Cow::Borrowed)
}

fn unknown(who: &Who, queue: &QueuePlan) -> String {
    match (who.job.as_ref(), queue.only_job) {
        ("", None) => "the message states no job, and the queue has several".to_owned(),
        (name, _) => format!("no worker that took it has a job of the name `{name}`"),
    }
}

fn settle_as(next: Next, error: &str, attempts: u32) -> Settlement {
    match next {
        Next::Complete => Settlement::Complete,
        Next::Retry(wait) => Settlement::Retry(wait),
        Next::Snooze(wait) => Settlement::Snooze(wait),
        Next::Fail(reason) => fail(reason, error.to_owned(), attempts),
    }
}

fn fail(reason: FailedReason, error: String, attempts: u32) -> Settlement {
    Settlement::Fail { reason, error, attempts }
}

/// Runs the job's function in a task of its own, so that neither its panic nor its
/// endless loop is this pool's.
async fn run(shared: &Shared, job: &Registered, who: &Who, delivery: &Delivery, slot: Slot) -> Ran {
    let cancelled = CancellationToken::new();
    let context = JobContext::new(
        &delivery.envelope,
        delivery.attempt,
        job.options.max_attempts(),
        shared.client.clone(),
        cancelled.clone(),
    );
    let scope = Scope { context, states: Arc::clone(&shared.plan.states) };
    // Reading the payload and making the call run the user's code, too.
    let call =
        match catch_unwind(AssertUnwindSafe(|| (job.start)(&delivery.envelope.payload, &scope))) {
            Ok(Ok(call)) => call,
            Ok(Err(problem)) => return Ran::Unreadable(problem),
            Err(panic) => return Ran::Ended(panicked(&*panic)),
        };
    let span = who.span();
    let task = match call.0 {
        Kind::Future(future) => tokio::spawn(
            async move {
                let _slot = slot;
                future.await
            }
            .instrument(span),
        ),
        Kind::Blocking(function) => tokio::task::spawn_blocking(move || {
            let _slot = slot;
            span.in_scope(function)
        }),
    };
    let mut task = AbortOnDropHandle::new(task);
    let timeout = async {
        match job.options.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = &mut task => match ended {
            Ok(outcome) => Ran::Ended(outcome),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Ran::Ended(panicked(&*panic)),
                // The runtime is shutting down.
                Err(_) => Ran::Cancelled,
            },
        },
        () = timeout => {
            cancelled.cancel();
            let limit = period::format(job.options.timeout.unwrap_or_default());
            Ran::Ended(Outcome::failed(format!("it took longer than its timeout of {limit}")))
        }
        () = shared.halt.cancelled() => {
            cancelled.cancel();
            Ran::Cancelled
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) => Outcome::failed(format!("it panicked: {text}")),
        None => Outcome::failed("it panicked"),
    }
}
