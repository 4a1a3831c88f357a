//! Live pools: the questions and orders that reach them, and their answers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Read;
use crate::error::Error;
use crate::job::{FailedReason, JobId, millis, rfc3339};

/// Identifies one run of a worker pool; no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PoolId(Uuid);

impl PoolId {
    /// A new, unique id.
    // A `Default` that differs at each call would surprise.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PoolId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::from_str(text).map(Self).map_err(|source| {
            Error::invalid(format!("`{text}` is no pool id: expected a UUID")).because(source)
        })
    }
}

/// A pool as an engine reaches it. An engine calls it from jobq's own threads, and no call waits.
pub trait Controlled: fmt::Debug + Send + Sync {
    /// The id of the pool.
    fn id(&self) -> PoolId;

    /// The names of its queues.
    fn queues(&self) -> Vec<String>;

    /// Its answer to a question. An order has begun when this returns.
    fn answer(&self, question: &Question) -> Reply;
}

/// A question or an order to pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Question {
    /// The report of the pool: see [`PoolReport`].
    Report,
    /// The outcomes of jobs that an operation put back with a single attempt.
    Watch {
        /// The jobs.
        jobs: Vec<Watched>,
    },
    /// Take no more jobs, and let running attempts end. The pool goes on answering.
    Quiet,
    /// Shut the pool down.
    Stop,
    /// Cancel the running attempts of a job.
    Cancel {
        /// The job.
        id: JobId,
    },
}

/// A job that an operation put back with a single attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Watched {
    /// The job.
    pub id: JobId,
    /// The operation, as in the header `jobq-once` of the job.
    pub operation: String,
}

impl Watched {
    /// A job of an operation.
    #[must_use]
    pub fn new(id: JobId, operation: impl Into<String>) -> Self {
        Self { id, operation: operation.into() }
    }
}

/// The answer of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// To [`Question::Report`].
    Report(PoolReport),
    /// To [`Question::Watch`]: the jobs whose single attempt ended in this pool.
    Outcomes {
        /// Each job with its outcome.
        jobs: Vec<WatchedOutcome>,
    },
    /// An order has begun.
    Accepted,
    /// To [`Question::Cancel`].
    Cancelled(Cancel),
    /// The pool does not take orders, for this reason.
    Refused {
        /// The reason.
        why: String,
    },
}

/// The outcome of a watched job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatchedOutcome {
    /// The job.
    pub job: Watched,
    /// The reason of its failure; `None` if it completed.
    pub failed: Option<FailedReason>,
}

impl WatchedOutcome {
    /// The outcome of a job.
    #[must_use]
    pub fn new(job: Watched, failed: Option<FailedReason>) -> Self {
        Self { job, failed }
    }
}

/// What a pool did to cancel a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cancel {
    /// The job does not run in this pool.
    NotRunning,
    /// Its function is asked to end, and is dropped at an `.await` after five seconds.
    Asked,
    /// Its function is a plain `fn`, which is asked to end and keeps its slot until it does.
    AskedBlocking,
}

/// What is asked, whom, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ask {
    /// The question or order.
    pub question: Question,
    /// The pool that is asked. `None` for all.
    pub pool: Option<PoolId>,
    /// The queues whose consumers should all be accounted for. An engine stops waiting when they
    /// are.
    pub queues: Vec<String>,
    /// How long to wait for answers at most.
    pub patience: Duration,
}

impl Ask {
    /// A question to all pools.
    #[must_use]
    pub fn all(question: Question, queues: Vec<String>, patience: Duration) -> Self {
        Self { question, pool: None, queues, patience }
    }

    /// A question to one pool.
    #[must_use]
    pub fn pool(pool: PoolId, question: Question, patience: Duration) -> Self {
        Self { question, pool: Some(pool), queues: Vec::new(), patience }
    }
}

/// The answers to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answers {
    /// The pools that answered, with their answers, sorted by pool.
    pub replies: Vec<(PoolId, Reply)>,
    /// For each of the queues: how many consumers belong to no pool that answered.
    pub unaccounted: BTreeMap<String, Read<u32>>,
}

impl Answers {
    /// Answers, and for each queue the number of consumers that did not answer.
    #[must_use]
    pub fn new(
        mut replies: Vec<(PoolId, Reply)>,
        unaccounted: BTreeMap<String, Read<u32>>,
    ) -> Self {
        replies.sort_by_key(|(pool, _)| *pool);
        Self { replies, unaccounted }
    }
}

/// The report of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolReport {
    /// The pool.
    pub pool: PoolId,
    /// The name of its machine.
    pub host: String,
    /// The id of its process.
    pub pid: u32,
    /// The version of jobq that it runs.
    pub version: String,
    /// Its start, by the clock of its machine.
    #[serde(with = "rfc3339")]
    pub started_at: SystemTime,
    /// Its queues, sorted by name.
    pub queues: Vec<PoolQueue>,
}

impl PoolReport {
    /// A report of a pool of this process.
    #[must_use]
    pub fn new(pool: PoolId, host: String, started_at: SystemTime, queues: Vec<PoolQueue>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { pool, host, pid: std::process::id(), version, started_at, queues }
    }

    /// What it reports about a queue.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&PoolQueue> {
        self.queues.iter().find(|queue| queue.queue == name)
    }
}

/// One queue in the report of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolQueue {
    /// The queue.
    pub queue: String,
    /// Whether the pool takes jobs from it.
    pub state: Activity,
    /// Since when it is in this state, by the clock of its machine, if that is known.
    #[serde(with = "rfc3339::option")]
    pub since: Option<SystemTime>,
    /// The problem, if it is interrupted or ended by an error.
    pub problem: Option<String>,
    /// How many attempts it runs at once at most.
    pub slots: u32,
    /// Slots of functions that did not end within a second of their timeout.
    pub lost_slots: u32,
    /// Jobs that were delivered to the pool and are not settled, those that run included.
    pub in_flight: u32,
    /// The attempts that run, the longest first, at most 1,000.
    pub running: Vec<RunningJob>,
    /// The outcomes of the last minute.
    pub minute: Minute,
    /// The engine's names of the consumers of the pool.
    pub consumers: Vec<String>,
}

impl PoolQueue {
    /// A queue with this many slots that does nothing yet.
    #[must_use]
    pub fn new(queue: impl Into<String>, slots: u32) -> Self {
        Self {
            queue: queue.into(),
            state: Activity::Consuming,
            since: None,
            problem: None,
            slots,
            lost_slots: 0,
            in_flight: 0,
            running: Vec::new(),
            minute: Minute::default(),
            consumers: Vec::new(),
        }
    }
}

/// Whether a pool takes jobs from a queue, for reports. [`QueueState`](crate::QueueState) has more
/// about the pool of one's own program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// Jobs are taken.
    Consuming,
    /// No jobs are taken because of a problem, and the pool keeps trying.
    Interrupted,
    /// A job that may crash its worker runs alone, and the queue waits for its end.
    Resting,
    /// The queue is paused.
    Paused,
    /// The pool was told to take no more jobs.
    Quiet,
    /// No jobs are taken any more.
    Ended,
}

impl Activity {
    /// Its name, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Consuming => "consuming",
            Self::Interrupted => "interrupted",
            Self::Resting => "resting",
            Self::Paused => "paused",
            Self::Quiet => "quiet",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An attempt that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunningJob {
    /// The job.
    pub id: JobId,
    /// The name of the job.
    pub job: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How long it has run. In JSON: whole milliseconds (`running_ms`).
    #[serde(rename = "running_ms", with = "millis::duration")]
    pub running: Duration,
    /// The timeout of an attempt. In JSON: whole milliseconds (`timeout_ms`).
    #[serde(rename = "timeout_ms", with = "millis::duration::option")]
    pub timeout: Option<Duration>,
}

impl RunningJob {
    /// An attempt of a job that has run this long.
    #[must_use]
    pub fn new(id: JobId, job: impl Into<String>, attempt: u32, running: Duration) -> Self {
        Self { id, job: job.into(), attempt, running, timeout: None }
    }
}

/// What a pool did with the jobs of a queue in the last minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Minute {
    /// Jobs completed.
    pub completed: u64,
    /// Attempts failed that are retried.
    pub retried: u64,
    /// Jobs failed for good.
    pub failed: u64,
    /// The longest wait from due to start. `None` if nothing started. In JSON: whole milliseconds
    /// (`waited_ms`).
    #[serde(rename = "waited_ms", with = "millis::duration::option")]
    pub waited: Option<Duration>,
}

/// The record of a paused queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pause {
    /// When it was paused, by the clock of who paused it. `None` if that is not known.
    #[serde(with = "rfc3339::option")]
    pub since: Option<SystemTime>,
    /// Who paused it, if that is known.
    pub by: Option<String>,
    /// The reason, if that is known.
    pub why: Option<String>,
}

impl Pause {
    /// A pause by somebody for a reason.
    #[must_use]
    pub fn new(since: SystemTime, by: impl Into<String>, why: impl Into<String>) -> Self {
        Self { since: Some(since), by: Some(by.into()), why: Some(why.into()) }
    }
}

/// The membership of a pool among those that are asked. Dropping it ends it.
pub struct Membership {
    _guard: Box<dyn Send + Sync>,
}

impl Membership {
    /// A membership that ends when the guard is dropped.
    #[must_use]
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::from_millis;

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let mut queue = PoolQueue::new("mail", 4);
        queue.since = Some(from_millis(1_700_000_000_123));
        queue.running =
            vec![RunningJob::new(JobId::new(), "greet", 2, Duration::from_millis(1_500))];
        queue.minute.waited = Some(Duration::from_millis(7));
        let report = PoolReport::new(
            PoolId::new(),
            "web1".into(),
            from_millis(1_700_000_000_000),
            vec![queue],
        );
        let json = serde_json::to_value(Reply::Report(report.clone())).unwrap();
        assert_eq!(json["reply"], "report");
        assert_eq!(json["started_at"], "2023-11-14T22:13:20.000Z");
        assert_eq!(json["queues"][0]["since"], "2023-11-14T22:13:20.123Z");
        assert_eq!(json["queues"][0]["running"][0]["running_ms"], 1_500);
        assert_eq!(json["queues"][0]["minute"]["waited_ms"], 7);
        assert_eq!(serde_json::from_value::<Reply>(json).unwrap(), Reply::Report(report));
    }

    #[test]
    fn a_question_is_read_as_it_is_written() {
        for question in [
            Question::Report,
            Question::Watch { jobs: vec![Watched::new(JobId::new(), "op")] },
            Question::Quiet,
            Question::Stop,
            Question::Cancel { id: JobId::new() },
        ] {
            let json = serde_json::to_string(&question).unwrap();
            assert_eq!(serde_json::from_str::<Question>(&json).unwrap(), question, "{json}");
        }
    }
}
