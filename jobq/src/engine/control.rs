//! Live pools: the questions and orders that reach them, and their answers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Figure, PoolReport};
use crate::error::Error;
use crate::job::{FailedReason, JobId, rfc3339};

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
            Error::invalid(format!("`{text}` is not a pool id: expected a UUID"))
                .with_source(source)
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
    /// The outcomes of failed jobs that an operation retried with a single attempt.
    Watch {
        /// The jobs.
        jobs: Vec<Watched>,
    },
    /// Take no more jobs, and let running attempts end. The pool goes on answering.
    Quiet,
    /// Shut the pool down.
    Stop,
    /// Nothing: it tells the pool that its clock differs from the asker's by more than a second.
    Clock {
        /// By how many milliseconds it is ahead; negative if it is behind.
        ahead_ms: i64,
        /// The machine of the asker.
        of: String,
    },
    /// Cancel the running attempts of a job.
    Cancel {
        /// The job.
        id: JobId,
    },
    /// Run so many attempts of a queue at once, until the pool ends.
    Slots {
        /// The queue.
        queue: String,
        /// How many, at least 1.
        slots: u16,
    },
    /// The schedules that the pool holds.
    Schedules {
        /// A queue that may have its first schedule, which a pool of the queue takes on then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begun: Option<String>,
    },
}

/// A failed job that an operation retried with a single attempt.
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
    /// To [`Question::Schedules`]: those of each queue whose seat the pool holds, as JSON.
    Schedules {
        /// The queues.
        queues: BTreeMap<String, serde_json::Value>,
    },
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

/// How a pool cancels a job.
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

/// A question with its addressees and its time limit.
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
    pub unaccounted: BTreeMap<String, Figure<u32>>,
}

impl Answers {
    /// Answers, and for each queue the number of consumers that did not answer.
    #[must_use]
    pub fn new(
        mut replies: Vec<(PoolId, Reply)>,
        unaccounted: BTreeMap<String, Figure<u32>>,
    ) -> Self {
        replies.sort_by_key(|(pool, _)| *pool);
        Self { replies, unaccounted }
    }

    /// The reports among the answers.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &PoolReport> {
        self.replies.iter().filter_map(|(_, reply)| match reply {
            Reply::Report(report) => Some(report),
            _ => None,
        })
    }
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

    #[test]
    fn a_question_is_read_as_it_is_written() {
        for question in [
            Question::Report,
            Question::Watch { jobs: vec![Watched::new(JobId::new(), "op")] },
            Question::Quiet,
            Question::Stop,
            Question::Cancel { id: JobId::new() },
            Question::Slots { queue: "mail".to_owned(), slots: 4 },
            Question::Schedules { begun: None },
            Question::Schedules { begun: Some("mail".to_owned()) },
        ] {
            let json = serde_json::to_string(&question).unwrap();
            assert_eq!(serde_json::from_str::<Question>(&json).unwrap(), question, "{json}");
        }
    }
}
