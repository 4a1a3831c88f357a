//! One attempt of a job, from its delivery to its settlement: [`attempt`] makes each step up to the
//! decision, and [`Decided::settle`] the last one.
//!
//! The attempt is a future of jobq's runtime and owns the delivery. Only the call runs user code,
//! in a task of its own in the program's runtime or, for a plain `fn`, on a blocking thread. So a
//! function that panics, never yields or outlives its timeout costs only its slot.

mod call;

use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use tokio::time::sleep;

pub(super) use self::call::Lingering;
use self::call::{Call, Called};
use super::attempt::Attempt;
use super::cancellation::Cancellation;
use super::live::Running;
use super::registry::{QueuePlan, Registered};
use super::shared::Shared;
use super::watched;
use crate::engine::{Delivery, Settlement};
use crate::error::{Error, ErrorKind};
use crate::job::{Ending, FailedReason, Failure, Outcome};
use crate::period;
use crate::retry::{self, Next};
use crate::telemetry::Who;

/// How long a function may take to end after an operator cancelled its job.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// How long a job is snoozed when the system has no thread for it.
const NO_THREAD_WAIT: Duration = Duration::from_secs(1);

/// An attempt whose outcome is decided. Dropping it unsettled releases the job.
pub(crate) struct Decided {
    who: Who,
    delivery: Delivery,
    decision: Decision,
    took: Option<Duration>,
    /// The function, if it goes on after its timeout.
    pub(super) function: Option<Lingering>,
}

/// A settled delivery.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) settlement: Settlement,
    /// Whether the settlement could not be recorded because the delivery was stale.
    pub(super) is_stale: bool,
    /// How long the function ran, if it was called.
    pub(super) took: Option<Duration>,
}

/// Makes one attempt, up to its settlement. Dropping the future cancels the function and releases
/// the job.
pub(crate) async fn attempt(
    pool: &Shared,
    queue: &'static str,
    delivery: Delivery,
    halt: impl Future<Output = ()>,
) -> Decided {
    let (who, resolved) = resolve(pool, queue, &delivery);
    let Ran { decision, called, function } = match resolved {
        Ok(job) => run(pool, &who, &job, &delivery, halt).await,
        Err(decision) => Ran::not(decision),
    };
    let took = called.as_ref().map(|(_, took)| *took);
    report(pool, &who, &decision, called);
    Decided { who, delivery, decision, took, function }
}

impl Decided {
    /// Settles it.
    pub(super) async fn settle(self, pool: &Shared) -> Settled {
        settle(pool, &self.who, self.delivery, self.decision.settlement, self.took).await
    }

    pub(super) fn is_completed(&self) -> bool {
        self.decision.settlement == Settlement::Complete
    }
}

/// For attempts outside of a pool.
#[cfg(feature = "testing")]
impl Decided {
    /// The delivery, unsettled, with the decision.
    pub(crate) fn into_parts(self) -> (Delivery, Decision) {
        (self.delivery, self.decision)
    }
}

/// Settles a redelivery with the outcome of its attempt.
pub(super) async fn settle_again(
    pool: &Shared,
    queue: &'static str,
    delivery: Delivery,
    outcome: Settlement,
) -> Settled {
    settle(pool, &identify(pool, queue, &delivery).0, delivery, outcome, None).await
}

/// Settles a delivery without running it.
pub(super) async fn settle_unrun(
    pool: &Shared,
    queue: &'static str,
    delivery: Delivery,
    settlement: Settlement,
) -> Settled {
    let (who, _) = identify(pool, queue, &delivery);
    let decision = match settlement {
        Settlement::Fail { reason, error, attempts } => {
            Decision::failed(reason, unrun(reason, error), attempts)
        }
        other => Decision::plain(other),
    };
    report(pool, &who, &decision, None);
    settle(pool, &who, delivery, decision.settlement, None).await
}

/// A decision about a job, with the failure that led to it.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) settlement: Settlement,
    pub(crate) failure: Failure,
}

impl Decision {
    /// A decision without a failure.
    fn plain(settlement: Settlement) -> Self {
        Self { settlement, failure: Failure::default() }
    }

    fn failed(reason: FailedReason, failure: Failure, attempts: u32) -> Self {
        let settlement = Settlement::Fail { reason, error: failure.kept(), attempts };
        Self { settlement, failure }
    }

    fn of(next: Next, failure: Failure, attempts: u32) -> Self {
        let settlement = match next {
            Next::Complete => Settlement::Complete,
            Next::Retry(wait) => Settlement::Retry(wait),
            Next::Snooze(wait) => Settlement::Snooze(wait),
            Next::Fail(reason) => return Self::failed(reason, failure, attempts),
        };
        Self { settlement, failure }
    }
}

/// The identity of a delivery, and its job if the pool has it.
fn identify<'p>(
    pool: &'p Shared,
    queue: &'static str,
    delivery: &Delivery,
) -> (Who, Option<&'p Arc<Registered>>) {
    let name = pool.plan.queues[queue].job_of(delivery.envelope());
    let job = pool.plan.jobs.get(name);
    let known = job.map_or_else(|| Cow::Owned(name.to_owned()), |job| Cow::Borrowed(job.name));
    let mut who = Who::of(delivery, known, queue);
    who.max_attempts = job.map(|job| job.options.max_attempts());
    (who, job)
}

/// Finds the job of a delivery, or decides the settlement if it must not run now.
fn resolve(
    pool: &Shared,
    queue: &'static str,
    delivery: &Delivery,
) -> (Who, Result<Arc<Registered>, Decision>) {
    let (envelope, attempt) = (delivery.envelope(), delivery.attempt);
    let (who, job) = identify(pool, queue, delivery);
    if let Some(job) = job {
        job.origins.check(job.name, envelope);
    }
    let not_understood = |lacking| {
        let error = format!("no worker that took it {lacking}; update the workers");
        Decision::of(retry::after_unknown(attempt), unrun(FailedReason::UnknownJob, error), attempt)
    };
    let resolved = match job {
        _ if pool.has_solo && delivery.solo.is_none() && retry::is_suspected(delivery.crashes) => {
            Err(Decision::plain(Settlement::Isolate))
        }
        None => {
            let failure =
                unrun(FailedReason::UnknownJob, unknown_job(&who.job, &pool.plan.queues[queue]));
            Err(Decision::of(retry::after_unknown(attempt), failure, attempt))
        }
        Some(job) if retry::is_expired(&job.options, envelope, || pool.clock().now()) => {
            let failure = unrun(FailedReason::Expired, "expired before the attempt started".into());
            Err(Decision::failed(FailedReason::Expired, failure, attempt.saturating_sub(1)))
        }
        Some(job) => envelope.lacking().map(not_understood).map_or(Ok(Arc::clone(job)), Err),
    };
    (who, resolved)
}

/// The failure of a job that cannot run, for this reason.
fn unrun(reason: FailedReason, error: String) -> Failure {
    Failure::new(reason.as_str(), error)
}

fn unknown_job(name: &str, queue: &QueuePlan) -> String {
    match (name, queue.only_job) {
        ("", None) => "message has no `type`, and the queue serves several jobs".to_owned(),
        (name, _) => format!("no worker that took it has a job named `{name}`"),
    }
}

/// The decision about a job after its function was called.
struct Ran<'p> {
    decision: Decision,
    /// The attempt and how long the function ran, if it was called.
    called: Option<(Running<'p>, Duration)>,
    /// The function, if it may go on.
    function: Option<Lingering>,
}

impl Ran<'_> {
    /// A decision without a call.
    fn not(decision: Decision) -> Self {
        Self { decision, called: None, function: None }
    }
}

/// Runs the job's function until it ends, its timeout is over, or the pool halts.
async fn run<'p>(
    pool: &'p Shared,
    who: &Who,
    job: &Arc<Registered>,
    delivery: &Delivery,
    halt: impl Future<Output = ()>,
) -> Ran<'p> {
    let number = delivery.attempt;
    let attempt = {
        let (envelope, most) = (delivery.shared_envelope(), job.options.max_attempts());
        Attempt::new(&pool.resources, envelope, job.name, (number, most))
    };
    let span = pool.span(who, delivery);
    let Some(mut call) = Call::start(pool, job, &attempt, span.clone()) else {
        who.no_thread(NO_THREAD_WAIT);
        let decision = Decision::plain(Settlement::Snooze(NO_THREAD_WAIT));
        pool.record(&span, &decision.settlement, &decision.failure);
        return Ran::not(decision);
    };
    let now = || pool.clock().now();
    let _measured = pool.metrics.queue(&who.queue).starts(delivery.due(), now);
    let running = pool.plan.queues[&*who.queue].live.starts(&attempt, job, delivery.due());
    let mut halt = pin!(halt);
    let limit = job.options.timeout.or(delivery.solo.map(|_| retry::SOLO_TIMEOUT));
    let mut task = None;
    let decision = tokio::select! {
        biased;
        called = call.ended() => {
            if let Ok(Ok(outcome)) = &called {
                who.layered(outcome, attempt.function_outcome());
            }
            decide(pool, job, delivery, called)
        }
        () = attempt.timed_out(limit) => {
            task = call.cancel(Cancellation::Timeout);
            let limit = limit.map(period::format).unwrap_or_default();
            after(job, delivery, Outcome::timed_out(&limit))
        }
        () = &mut halt => Decision::plain(Settlement::Release),
        () = attempt.cancel_ordered() => {
            attempt.cancelled().cancel(Cancellation::Operator);
            let ended = tokio::select! {
                biased;
                called = call.ended() => Some(called),
                () = sleep(CANCEL_LIMIT) => None,
                () = halt => None,
            };
            task = call.cancel(Cancellation::Operator);
            cancelled(pool, job, delivery, ended)
        }
    };
    // The order may have come when the function had just failed, or its timeout was just over.
    let is_again = matches!(decision.settlement, Settlement::Retry(_) | Settlement::Snooze(_));
    let decision = if is_again && attempt.is_cancel_ordered() {
        cancelled(pool, job, delivery, None)
    } else {
        decision
    };
    pool.record(&span, &decision.settlement, &decision.failure);
    let took = attempt.took();
    let lingering = |task| Lingering { who: who.clone(), attempt, job: Arc::clone(job), task };
    Ran { decision, called: Some((running, took)), function: task.map(lingering) }
}

/// Decides the settlement of a job whose call has ended.
fn decide(
    pool: &Shared,
    job: &Registered,
    delivery: &Delivery,
    ended: Result<Called, JoinError>,
) -> Decision {
    let outcome = match ended {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(problem)) => {
            let error = format!("payload of job `{}` cannot be read: {problem}", job.name);
            let (reason, attempts) =
                (FailedReason::UnreadablePayload, delivery.attempt.saturating_sub(1));
            return Decision::failed(reason, unrun(reason, error), attempts);
        }
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Outcome::panicked(panic),
            Err(_) => return Decision::plain(Settlement::Release),
        },
    };
    if outcome.ending != Ending::Completed && pool.has_runtime_ended() {
        // This may be why it failed.
        return Decision::plain(Settlement::Release);
    }
    after(job, delivery, outcome)
}

/// The decision after an attempt with this outcome.
fn after(job: &Registered, delivery: &Delivery, outcome: Outcome) -> Decision {
    let (attempt, once) = (delivery.attempt, delivery.envelope().once().is_some());
    let next = retry::after(&job.options, attempt, once, &outcome.ending, fastrand::f64);
    Decision::of(next, outcome.failure, attempt)
}

/// Decides the settlement of a job that an operator cancelled, and whose call has `ended` or goes
/// on.
fn cancelled(
    pool: &Shared,
    job: &Registered,
    delivery: &Delivery,
    ended: Option<Result<Called, JoinError>>,
) -> Decision {
    let decision = ended.map(|ended| decide(pool, job, delivery, ended));
    match decision {
        Some(decision) if decision.settlement == Settlement::Complete => decision,
        _ => {
            let reason = FailedReason::Cancelled;
            let failure = unrun(reason, "an operator cancelled the job while it ran".into());
            Decision::failed(reason, failure, delivery.attempt)
        }
    }
}

/// Logs a decision, and counts it for metrics and reports.
fn report(pool: &Shared, who: &Who, decision: &Decision, called: Option<(Running<'_>, Duration)>) {
    let took = called.as_ref().map(|(_, took)| *took);
    who.decided(&decision.settlement, &decision.failure, took.unwrap_or_default());
    pool.metrics.queue(&who.queue).decided(&who.job, &decision.settlement, took);
    let now = || pool.clock().now();
    match called {
        Some((running, took)) => running.decided(&decision.settlement, took, now),
        None => pool.plan.queues[&*who.queue].live.decided(&decision.settlement, now()),
    }
}

/// Settles the delivery, and counts it by whether the engine recorded that.
async fn settle(
    pool: &Shared,
    who: &Who,
    delivery: Delivery,
    settlement: Settlement,
    took: Option<Duration>,
) -> Settled {
    let watched = watched::outcome(delivery.envelope(), &settlement);
    let recorded = tokio::select! {
        biased;
        recorded = delivery.settle(settlement.clone()) => recorded,
        // Dropping the settlement releases the job, unless the engine has begun to record it.
        () = pool.outcome_is_overdue() => Err(overdue()),
    };
    pool.tally.count(&settlement, recorded.is_ok());
    if recorded.is_ok() {
        pool.watched.extend(watched);
    }
    let is_stale = recorded.is_err_and(|error| {
        who.not_recorded(&settlement, &error);
        pool.metrics.unrecorded();
        error.is_stale()
    });
    Settled { settlement, is_stale, took }
}

/// The error of an outcome that was not recorded before the pool had to end.
fn overdue() -> Error {
    let text = "the engine did not record it within the shutdown timeout of the pool";
    Error::new(ErrorKind::Timeout, text)
}
