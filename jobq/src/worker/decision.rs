//! Decisions about a delivery: whether its job runs, and how it is settled afterwards.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::attempt::Attempt;
use super::registry::Registered;
use super::shared::Shared;
use crate::engine::{Delivery, Settlement};
use crate::job::{Ending, FailedReason, Failure, Outcome, rfc3339};
use crate::period;
use crate::retry::{self, Next};
use crate::telemetry::Who;

/// The `type` that RabbitMQ gives a message whose body is a value of AMQP 1.0's own encoding.
const AMQP_1_0: &str = "amqp-1.0";
const AMQP_1_0_BODY: &str = "the message was sent by AMQP 1.0 with a body that is no `data` section; \
                             send the JSON as one `data` section, with the job's name in the \
                             message annotation `x-basic-type`";

/// The most jobs of a queue that an error names.
const MOST_NAMED: usize = 10;

/// The result of a call: the outcome of the function, or the decode error of its payload.
pub(super) type Called = serde_json::Result<Outcome>;

/// A decision about a job, with the failure that led to it.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) settlement: Settlement,
    pub(crate) failure: Failure,
    /// What the job needs and this version of jobq lacks, if that decided.
    pub(crate) unmet_need: Option<String>,
}

impl Decision {
    /// A decision without a failure.
    pub(super) fn plain(settlement: Settlement) -> Self {
        Self { settlement, failure: Failure::default(), unmet_need: None }
    }

    fn failed(reason: FailedReason, failure: Failure, attempts: u32) -> Self {
        let settlement = Settlement::Fail { reason, error: failure.kept(), attempts };
        Self { settlement, failure, unmet_need: None }
    }

    /// The job fails without a failure of its function.
    fn unrun(reason: FailedReason, error: String, attempts: u32) -> Self {
        Self::failed(reason, failure(reason, error), attempts)
    }

    fn of(next: Next, failure: Failure, attempts: u32) -> Self {
        let settlement = match next {
            Next::Complete => Settlement::Complete,
            Next::Retry(wait) => Settlement::Retry(wait),
            Next::Snooze(wait) => Settlement::Snooze(wait),
            Next::Fail(reason) => return Self::failed(reason, failure, attempts),
        };
        Self { settlement, failure, unmet_need: None }
    }
}

/// The identity of a delivery, and its job if the pool has it.
pub(super) fn identify<'p>(
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

/// A delivery with its job, or with the decision if it must not run now.
pub(super) struct Resolved {
    pub(super) who: Who,
    pub(super) job: Result<Arc<Registered>, Decision>,
}

/// Finds the job of a delivery, or decides the settlement if it must not run now.
pub(super) fn resolve(pool: &Shared, queue: &'static str, delivery: &Delivery) -> Resolved {
    let (envelope, attempt) = (delivery.envelope(), delivery.attempt);
    let (who, job) = identify(pool, queue, delivery);
    let not_understood = |lacking| {
        let error = format!(
            "no worker that took it {lacking}; send what these workers understand, or update them"
        );
        unknown(attempt, error)
    };
    let job = match job {
        _ if let Some(decision) = unmet_need(delivery) => Err(decision),
        _ if pool.has_solo && delivery.solo.is_none() && retry::is_suspected(delivery.crashes) => {
            Err(Decision::plain(Settlement::Isolate))
        }
        None if who.job == AMQP_1_0 => {
            let attempts = attempt.saturating_sub(1);
            Err(Decision::unrun(FailedReason::UnreadablePayload, AMQP_1_0_BODY.into(), attempts))
        }
        None => {
            let known: Vec<_> = pool.plan.jobs_of(queue).collect();
            Err(unknown(attempt, unknown_job(&who.job, pool.plan.queues[queue].only_job, &known)))
        }
        Some(job) if retry::is_expired(&job.options, envelope, || pool.clock().now()) => {
            let error = expired(envelope.expires_at);
            Err(Decision::unrun(FailedReason::Expired, error, attempt.saturating_sub(1)))
        }
        Some(job) => envelope.lacking().map(not_understood).map_or(Ok(Arc::clone(job)), Err),
    };
    Resolved { who, job }
}

/// The error of a job that expires at this time; `None` if only its subscriber says when.
fn expired(at: Option<SystemTime>) -> String {
    let at = at.map(|at| format!(" at {}", rfc3339::format(at))).unwrap_or_default();
    format!("expired{at}, before the attempt started")
}

/// The decision about a job that needs what this version of jobq lacks, if it does.
pub(super) fn unmet_need(delivery: &Delivery) -> Option<Decision> {
    let word = delivery.envelope().headers.unmet_need()?;
    let decision = Decision::of(retry::after_unmet_need(), Failure::default(), 0);
    Some(Decision { unmet_need: Some(word.to_owned()), ..decision })
}

/// The failure of a job that cannot run, for this reason.
fn failure(reason: FailedReason, error: String) -> Failure {
    Failure::new(reason.as_str(), error)
}

/// The decision about a job that this pool cannot run.
fn unknown(attempt: u32, error: String) -> Decision {
    Decision::of(retry::after_unknown(attempt), failure(FailedReason::UnknownJob, error), attempt)
}

fn unknown_job(name: &str, only_job: Option<&str>, known: &[&str]) -> String {
    let named: Vec<_> = known.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    let more = if known.len() > MOST_NAMED { ", .." } else { "" };
    let last = format!("the last one has {}{more}", named.join(", "));
    match (name, only_job) {
        ("", None) => {
            format!("the message has no `type`, and workers have several jobs of its queue: {last}")
        }
        (name, _) => format!("no worker that took it has a job named `{name}`: {last}"),
    }
}

/// The attempt of a delivery.
pub(super) fn attempt_of(pool: &Shared, job: &Registered, delivery: &Delivery) -> Attempt {
    let (envelope, most) = (delivery.shared_envelope(), job.options.max_attempts());
    Attempt::new(&pool.resources, envelope, job.name, (delivery.attempt, most))
}

/// How long an attempt may take, if that is limited.
pub(super) fn limit(job: &Registered, delivery: &Delivery) -> Option<Duration> {
    job.options.timeout.or(delivery.solo.map(|_| retry::SOLO_TIMEOUT))
}

/// The decision about a job whose call has ended.
pub(super) fn ended(
    pool: &Shared,
    job: &Registered,
    delivery: &Delivery,
    called: Called,
) -> Decision {
    match called {
        // This may be why it failed.
        Ok(outcome) if outcome.ending != Ending::Completed && pool.has_runtime_ended() => {
            Decision::plain(Settlement::Release)
        }
        Ok(outcome) => after(job, delivery, outcome),
        Err(problem) => {
            let error = format!("payload of job `{}` cannot be read: {problem}", job.name);
            let attempts = delivery.attempt.saturating_sub(1);
            Decision::unrun(FailedReason::UnreadablePayload, error, attempts)
        }
    }
}

/// The decision about a job whose attempt has taken longer than this.
pub(super) fn timed_out(
    job: &Registered,
    delivery: &Delivery,
    limit: Option<Duration>,
) -> Decision {
    let limit = limit.map(period::format).unwrap_or_default();
    after(job, delivery, Outcome::timed_out(&limit))
}

/// The decision after an attempt with this outcome.
fn after(job: &Registered, delivery: &Delivery, outcome: Outcome) -> Decision {
    let (attempt, once) = (delivery.attempt, delivery.envelope().once().is_some());
    let next = retry::after(&job.options, attempt, once, &outcome.ending, fastrand::f64);
    Decision::of(next, outcome.failure, attempt)
}

/// The decision about a job that an operator cancelled.
pub(super) fn cancelled(delivery: &Delivery) -> Decision {
    let error = "an operator cancelled the job while it ran".into();
    Decision::unrun(FailedReason::Cancelled, error, delivery.attempt)
}

/// A settlement that was decided without a call.
pub(super) fn unrun(settlement: Settlement) -> Decision {
    match settlement {
        Settlement::Fail { reason, error, attempts } => Decision::unrun(reason, error, attempts),
        other => Decision::plain(other),
    }
}
