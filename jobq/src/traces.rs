//! Traces: spans by OpenTelemetry's messaging conventions (version 1.42.0, `docs/tracing.md`), and
//! their context in the headers of jobs.
//!
//! A client has them if it has a [`Propagation`]. Without one an attempt has the span of
//! [`Who::span`] alone: the log prints the fields of all spans of a line, and these are many.

use std::fmt;
use std::sync::{Arc, Once};

use tracing::Span;
use tracing::field::Empty;

use crate::engine::Settlement;
use crate::error::{Error, ErrorKind};
use crate::guard::{self, guarded};
use crate::job::{Failure, Headers, JobId};
use crate::telemetry::Who;

/// Passes the context of a trace from the span that sends a job to the spans of its attempts, in
/// headers of the job. Set by [`ClientBuilder::propagation`](crate::ClientBuilder::propagation);
/// the crate `jobq-opentelemetry` has one for OpenTelemetry.
///
/// Both methods run in the program's tasks. A panic in one loses the context, and no job.
///
/// ```
/// use jobq::{Client, Propagation, Trace};
/// use tracing::Span;
///
/// /// Carries the number of a span, for a log.
/// struct Numbers;
///
/// impl Propagation for Numbers {
///     fn inject(&self, span: &Span, set: &mut dyn FnMut(&str, &str)) {
///         if let Some(id) = span.id() {
///             set("span", &id.into_u64().to_string());
///         }
///     }
///
///     fn extract(&self, _: &Span, get: &dyn Fn(&str) -> Option<String>, _: Trace) {
///         println!("an attempt of the job of span {:?}", get("span"));
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let client = Client::builder("sqlite::memory:").propagation(Numbers).connect().await?;
/// # Ok(())
/// # }
/// ```
pub trait Propagation: Send + Sync + 'static {
    /// Passes the context of a span to `set`, as names and values of headers. It is called for each
    /// [`enqueue`](crate::Client::enqueue), [`enqueue_all`](crate::Client::enqueue_all) and
    /// [`publish`](crate::Client::publish). The span is disabled if no subscriber wants it.
    ///
    /// If the job has one of these headers already, all of its own are kept. A header that
    /// [`Headers::set`] refuses is left out, and the first one is logged.
    fn inject(&self, span: &Span, set: &mut dyn FnMut(&str, &str));

    /// Relates the span of an attempt to the context in the headers of its job, which `get`
    /// returns. The span has not been entered yet.
    fn extract(&self, span: &Span, get: &dyn Fn(&str) -> Option<String>, mode: Trace);
}

/// How the span of an attempt is related to the span that sent its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Trace {
    /// Each attempt begins a trace of its own, with a link to the span that sent the job.
    #[default]
    Link,
    /// Each attempt is a child of the span that sent the job, in the same trace. A job that waits
    /// for days makes a trace that lasts for days.
    Child,
}

/// The traces of a client and its pools.
pub(crate) struct Traces {
    propagation: Arc<dyn Propagation>,
    mode: Trace,
    /// The name of the messaging system.
    system: &'static str,
}

/// The destination of jobs that are sent together, or of an event.
pub(crate) struct Sent<'a> {
    /// The queue, or the topic of an event.
    pub(crate) to: &'a str,
    pub(crate) job: Option<&'a str>,
    /// `None` for several jobs.
    pub(crate) id: Option<JobId>,
}

impl Traces {
    pub(crate) fn new(
        propagation: Arc<dyn Propagation>,
        mode: Trace,
        system: &'static str,
    ) -> Self {
        Self { propagation, mode, system }
    }

    /// Begins the span of a call that sends.
    pub(crate) fn send(&self, sent: &Sent<'_>) -> Sending {
        let Sent { to, job, id } = *sent;
        let span = tracing::info_span!(
            "send",
            otel.name = %format_args!("send {to}"),
            otel.kind = "producer",
            otel.status_code = Empty,
            otel.status_description = Empty,
            messaging.system = self.system,
            messaging.operation.name = "send",
            messaging.operation.type = "send",
            messaging.destination.name = to,
            messaging.message.id = id.map(display),
            messaging.batch.message_count = Empty,
            messaging.rabbitmq.destination.routing_key = Empty,
            error.type = Empty,
            jobq.job = job,
        );
        let mut context = Vec::new();
        let mut add = |name: &str, value: &str| context.push((name.to_owned(), value.to_owned()));
        if let Err(panic) = guarded(|| self.propagation.inject(&span, &mut add)) {
            guard::dispose(panic);
            context.clear();
        }
        Sending { span, context }
    }

    /// The span of an attempt. It has the fields of [`Who::span`] as well, so that the log is the
    /// same.
    pub(crate) fn process(&self, who: &Who) -> Span {
        let Who { job, id, queue, attempt, .. } = who;
        tracing::info_span!(
            "attempt",
            %job, %id, %queue, attempt,
            otel.name = %format_args!("process {queue}"),
            otel.kind = "consumer",
            otel.status_code = Empty,
            otel.status_description = Empty,
            messaging.system = self.system,
            messaging.operation.name = "process",
            messaging.operation.type = "process",
            messaging.destination.name = %queue,
            messaging.message.id = %id,
            messaging.rabbitmq.destination.routing_key = Empty,
            error.type = Empty,
            jobq.job = %job,
            jobq.attempt = i64::from(*attempt),
            jobq.outcome = Empty,
        )
    }

    /// Relates the span of an attempt to the context in the headers of its job.
    pub(crate) fn extract(&self, span: &Span, headers: &Headers) {
        let get = |name: &str| headers.get(name).map(str::to_owned);
        if let Err(panic) = guarded(|| self.propagation.extract(span, &get, self.mode)) {
            guard::dispose(panic);
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A call that sends, with its span and the context for its jobs.
pub(crate) struct Sending {
    pub(crate) span: Span,
    context: Vec<(String, String)>,
}

impl Sending {
    /// Adds the context of the call to the headers of a job, unless it has one of its own.
    pub(crate) fn add_context(&self, headers: &mut Headers) {
        static REFUSED: Once = Once::new();
        if self.context.iter().any(|(name, _)| headers.get(name).is_some()) {
            return;
        }
        for (name, value) in &self.context {
            if let Err(error) = headers.set(name, value) {
                REFUSED.call_once(|| {
                    tracing::warn!(%error, "trace header left out; later ones are not logged");
                });
            }
        }
    }

    /// Records how many jobs were sent together.
    pub(crate) fn counted(&self, jobs: usize) {
        // OpenTelemetry's integers are signed.
        let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
        self.span.record("messaging.batch.message_count", jobs);
    }

    /// Records that the call failed.
    pub(crate) fn failed(&self, error: &Error) {
        record_error(&self.span, class(error.kind()), &error.to_string());
    }
}

/// Records the routing key with which a job came.
pub(crate) fn record_key(span: &Span, key: &str) {
    span.record("messaging.rabbitmq.destination.routing_key", key);
}

/// Records the end of an attempt.
pub(crate) fn ended(span: &Span, settlement: &Settlement, failure: &Failure) {
    span.record("jobq.outcome", settlement.outcome());
    if !failure.class().is_empty() {
        record_error(span, failure.class(), failure.error());
    }
}

fn record_error(span: &Span, class: &str, error: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", error);
    span.record("error.type", class);
}

/// The class of an error of a call.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Connection => "connection",
        ErrorKind::Refused => "refused",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Timeout => "timeout",
        ErrorKind::NotFound => "not-found",
        ErrorKind::Stale => "stale",
        ErrorKind::Closed => "closed",
    }
}
