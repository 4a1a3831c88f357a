//! Metrics of clients and pools for the facade [`metrics`](https://docs.rs/metrics): their names and
//! labels.
//!
//! jobq counts and measures by itself. The program installs a recorder, such as that of
//! `metrics-exporter-prometheus`, **before** it makes the first client: a client and a pool get
//! their counters and gauges from the recorder when they are made, and what is made without one
//! records nothing. A histogram begins with its first value. `examples/observability.rs` serves
//! these metrics to Prometheus. `docs/metrics.md` says when each of them changes and which queries
//! answer which question.
//!
//! The values of labels are few. The label `job` is the name of a job that the pool has registered
//! or the client enqueues, and [`UNKNOWN`] for every other name, since names come from the store.
//! No label holds an id, a topic, a payload or an error text.
//!
//! ```
//! use jobq::metrics::{ATTEMPTS, Kind, OUTCOME};
//!
//! assert_eq!((ATTEMPTS.name, ATTEMPTS.kind), ("jobq_attempts_total", Kind::Counter));
//! assert!(ATTEMPTS.labels.contains(&OUTCOME));
//! ```

mod client;
#[cfg(feature = "rabbitmq")]
mod connection;
mod lazy;
mod pool;
mod relay;
#[cfg(feature = "rabbitmq")]
mod waits;

pub(crate) use client::{Batch, Call, ClientMetrics};
#[cfg(feature = "rabbitmq")]
pub(crate) use connection::ConnectionMetrics;
pub(crate) use pool::{PoolLevel, QueueMetrics, Switch};
pub(crate) use relay::RelayMetrics;
#[cfg(feature = "rabbitmq")]
pub(crate) use waits::comes_through;

use ::metrics::{Counter, Gauge, Key, KeyName, Label, Level, Metadata, Unit};

use self::lazy::LazyHistogram;

/// A metric of jobq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The description that the recorder gets.
    pub description: &'static str,
}

/// The kinds of a [`Metric`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A level that rises and falls.
    Gauge,
    /// A distribution of durations in seconds.
    Histogram,
}

/// The label with the name of a queue.
pub const QUEUE: &str = "queue";
/// The label with the name of a job, or [`UNKNOWN`].
pub const JOB: &str = "job";
/// The label with the result of a call: one of [`RESULTS`].
pub const RESULT: &str = "result";
/// The label with what a worker decided: one of [`OUTCOMES`].
pub const OUTCOME: &str = "outcome";
/// The label with the [`FailedReason`](crate::FailedReason) of a failed job.
pub const REASON: &str = "reason";

/// The label with the name of a table `jobq_outbox`: [`RelayHealth::source`](crate::relay::RelayHealth).
pub const OUTBOX: &str = "outbox";

/// The value of a label whose own value is not known to the program.
pub const UNKNOWN: &str = "unknown";

/// The values of [`RESULT`]: the job is stored; it is certainly not; no answer came, or the caller
/// did not wait for it.
pub const RESULTS: [&str; 3] = ["accepted", "refused", UNKNOWN];

/// The values of [`OUTCOME`]: the job is done; another attempt follows; the job failed for good; it
/// runs later as the same attempt; it was handed back; it is to run alone.
pub const OUTCOMES: [&str; 6] =
    ["completed", "retried", "failed", "snoozed", "released", "isolated"];

/// Jobs of `enqueue` and `enqueue_all`, by the result of the call.
pub const ENQUEUED: Metric = counter(
    "jobq_enqueued_total",
    &[QUEUE, JOB, RESULT],
    "Jobs of calls of enqueue and enqueue_all, by the result of the call.",
);
/// How long calls of `enqueue` took.
pub const ENQUEUE_DURATION: Metric =
    histogram("jobq_enqueue_duration_seconds", &[QUEUE], "How long calls of enqueue took.");
/// Events of `publish`, by the result of the call.
pub const PUBLISHED: Metric = counter(
    "jobq_published_total",
    &[RESULT],
    "Events of calls of publish, by the result of the call.",
);
/// How long calls of `publish` took.
pub const PUBLISH_DURATION: Metric =
    histogram("jobq_publish_duration_seconds", &[], "How long calls of publish took.");
/// Decisions of workers about jobs.
pub const ATTEMPTS: Metric = counter(
    "jobq_attempts_total",
    &[QUEUE, JOB, OUTCOME],
    "Decisions of workers about jobs, by the outcome.",
);
/// How long job functions ran.
pub const ATTEMPT_DURATION: Metric = histogram(
    "jobq_attempt_duration_seconds",
    &[QUEUE, JOB, OUTCOME],
    "How long job functions ran, by the outcome.",
);
/// How long attempts were due before they started.
pub const WAIT: Metric = histogram(
    "jobq_wait_seconds",
    &[QUEUE],
    "How long attempts were due before they started, where that is known.",
);
/// Jobs that failed for good.
pub const FAILED: Metric = counter(
    "jobq_failed_total",
    &[QUEUE, JOB, REASON],
    "Jobs that failed for good, by the reason.",
);
/// Attempts that run.
pub const RUNNING: Metric = gauge("jobq_running", "Attempts that run.");
/// Attempts that may run at once.
pub const SLOTS: Metric = gauge("jobq_slots", "Attempts that may run at once.");
/// Slots that functions hold beyond their timeout.
pub const LOST_SLOTS: Metric =
    gauge("jobq_lost_slots", "Slots that functions hold beyond their timeout.");
/// Pools that consume the queue.
pub const CONSUMING: Metric = gauge("jobq_consuming", "Pools that consume the queue.");
/// Pools that take no jobs of the queue because it is paused.
pub const PAUSED: Metric =
    gauge("jobq_paused", "Pools that take no jobs of the queue because it is paused.");
/// Whether jobs that wait come late out of the queue's tiers, or out of the delay levels
/// ([`LEVELS`]).
pub const WAITS_LATE: Metric = gauge(
    "jobq_waits_late",
    "1 while jobs that wait in the broker come through late or not at all.",
);
/// Whether jobs that wait do not come out at all.
pub const WAITS_STUCK: Metric =
    gauge("jobq_waits_stuck", "1 while jobs that wait in the broker do not come through.");
/// The value of [`QUEUE`] for the delay levels, which belong to all queues of a namespace.
pub const LEVELS: &str = "@levels";
/// Connections to a broker that were lost and made again.
pub const RECONNECTS: Metric = counter(
    "jobq_reconnects_total",
    &[],
    "Connections to the broker that were lost and established again.",
);
/// Outcomes that the engine did not record.
pub const UNRECORDED: Metric =
    counter("jobq_unrecorded_total", &[], "Outcomes that the engine did not record.");
/// Rows that a relay has sent (`accepted`), and how often one was refused.
pub const RELAYED: Metric = counter(
    "jobq_relay_rows_total",
    &[OUTBOX, RESULT],
    "Rows of an outbox that a relay has sent, and how often one was refused.",
);
/// Relays that work on the table: 1 of all, while the others stand by.
pub const RELAY_WORKING: Metric =
    gauge_of_outbox("jobq_relay_working", "1 while this relay sends the rows of the outbox.");
/// The age of the oldest row that was not tried yet.
pub const RELAY_LAG: Metric = gauge_of_outbox(
    "jobq_relay_lag_seconds",
    "Age of the oldest row of the outbox that was not tried yet; 0 without one.",
);
/// Rows that were refused and are tried again.
pub const RELAY_REFUSED: Metric = gauge_of_outbox(
    "jobq_relay_refused_rows",
    "Rows of the outbox that were refused and are tried again.",
);

/// All metrics.
pub const ALL: [Metric; 21] = [
    ENQUEUED,
    ENQUEUE_DURATION,
    PUBLISHED,
    PUBLISH_DURATION,
    ATTEMPTS,
    ATTEMPT_DURATION,
    WAIT,
    FAILED,
    RUNNING,
    SLOTS,
    LOST_SLOTS,
    CONSUMING,
    PAUSED,
    WAITS_LATE,
    WAITS_STUCK,
    RECONNECTS,
    UNRECORDED,
    RELAYED,
    RELAY_WORKING,
    RELAY_LAG,
    RELAY_REFUSED,
];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, description }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, description }
}

const fn gauge(name: &'static str, description: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels: &[QUEUE], description }
}

const fn gauge_of_outbox(name: &'static str, description: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels: &[OUTBOX], description }
}

const METADATA: Metadata<'static> =
    Metadata::new(env!("CARGO_PKG_NAME"), Level::INFO, Some(module_path!()));

impl Metric {
    /// The key with these values of the labels, in their order.
    fn key<const N: usize>(&self, values: [&'static str; N]) -> Key {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        let labels = self.labels.iter().zip(values);
        let labels: Vec<_> =
            labels.map(|(label, value)| Label::from_static_parts(label, value)).collect();
        Key::from_parts(self.name, labels)
    }

    fn counter<const N: usize>(&self, values: [&'static str; N]) -> Counter {
        let key = self.key(values);
        ::metrics::with_recorder(|recorder| recorder.register_counter(&key, &METADATA))
    }

    fn gauge(&self, queue: &'static str) -> Gauge {
        let key = self.key([queue]);
        ::metrics::with_recorder(|recorder| recorder.register_gauge(&key, &METADATA))
    }

    fn histogram<const N: usize>(&self, values: [&'static str; N]) -> LazyHistogram {
        LazyHistogram::new(self.key(values))
    }
}

/// Gives the descriptions to the recorder.
fn describe() {
    ::metrics::with_recorder(|recorder| {
        for Metric { name, kind, description, .. } in ALL {
            let (name, description) = (KeyName::from_const_str(name), description.into());
            match kind {
                Kind::Counter => recorder.describe_counter(name, Some(Unit::Count), description),
                Kind::Gauge => recorder.describe_gauge(name, Some(Unit::Count), description),
                Kind::Histogram => {
                    recorder.describe_histogram(name, Some(Unit::Seconds), description);
                }
            }
        }
    });
}
