use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use super::{Answers, Ask, Controlled, Extent, Figure, Membership, Part, Pause, QueueSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{FailedJob, JobId};

/// The administration of an engine's queues: counts, failed jobs, subscriptions, deletion. Returned
/// by [`Engine::administer`](super::Engine::administer).
#[async_trait]
pub trait Administer: fmt::Debug + Send + Sync {
    /// The numbers of jobs in a queue; all 0 if it does not exist.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn counts(&self, queue: &str) -> Result<Counts>;

    /// Where the jobs of a queue are, in the order in which it is shown. The numbers make up its
    /// [`counts`](Self::counts), and an engine with solo runs tells the [solo](super::Place::Solo)
    /// jobs apart where it can. A queue that does not exist has no parts. Defaults to the three
    /// parts of the counts.
    ///
    /// # Errors
    ///
    /// As [`counts`](Self::counts).
    async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        Ok(self.counts(queue).await?.into_parts())
    }

    /// How many jobs wait in a place that all queues share, so that no queue's [`parts`](Self::parts)
    /// have them. Defaults to 0.
    ///
    /// # Errors
    ///
    /// As [`counts`](Self::counts).
    async fn in_levels(&self) -> Result<Figure<u64>> {
        Ok(Figure::Known(0))
    }

    /// Looks at the failed jobs of a queue, oldest first, each once, and settles them as `visit`
    /// says. Jobs that fail meanwhile may be seen as well. What stays keeps its order.
    ///
    /// It goes on to its end if the future is dropped. A panic of `visit` ends it, as an
    /// [`Invalid`](crate::ErrorKind::Invalid) error; what was decided before is done.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses, before a job was settled;
    /// [`Conflict`](crate::ErrorKind::Conflict) if somebody else looks at the failed jobs for longer
    /// than the timeout. A queue that does not exist is [missing](Visited::is_missing), and no
    /// error. An error after that is in [`Visited::end`]: each job that was to be retried is then
    /// in its queue or still failed, or both after a lost connection.
    async fn failed_visit(&self, queue: &str, visit: Visit) -> Result<Visited>;

    /// The queues that the engine knows of. One that cannot list all of them goes on to name a queue
    /// that it has seen once, until it has been missing for an hour.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn queues(&self) -> Result<QueueNames> {
        Err(unsupported("it cannot list queues; name them, or use another engine"))
    }

    /// The likely reason for a missing answer, for messages.
    fn trouble(&self) -> String {
        "it may be busy".to_owned()
    }

    /// Pauses a queue, durably: pools take no more of its jobs until it is resumed, whatever
    /// restarts. A further pause replaces the record.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses. The queue may be paused nevertheless.
    async fn pause(&self, _queue: &str, _pause: &Pause) -> Result<()> {
        Err(unsupported("it cannot pause queues; use another engine"))
    }

    /// Tells pools once more of a pause that an engine's nodes may see at different moments, and
    /// returns whether the queue is still paused. It pauses none that was resumed meanwhile.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn repeat_pause(&self, queue: &str, _pause: &Pause) -> Result<bool> {
        Ok(self.paused(queue).await? != Figure::Known(None))
    }

    /// Resumes a queue, and returns whether it was paused.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    async fn resume(&self, _queue: &str) -> Result<bool> {
        Err(unsupported("it cannot pause queues; use another engine"))
    }

    /// The record of a queue that is paused; `Known(None)` if it is not.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached.
    async fn paused(&self, _queue: &str) -> Result<Figure<Option<Pause>>> {
        Ok(Figure::Known(None))
    }

    /// Makes a pool one of those that are asked and told of pauses, until the membership is
    /// dropped. Called before the pool consumes.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if a permission is missing; an engine that cannot be
    /// reached.
    async fn join(&self, _pool: Arc<dyn Controlled>) -> Result<Membership> {
        Err(unsupported("it cannot query its pools; use another engine"))
    }

    /// Asks pools, and collects their answers.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses. A pool that does not answer is no error.
    async fn ask(&self, _ask: Ask) -> Result<Answers> {
        Err(unsupported("it cannot query its pools; use another engine"))
    }

    /// Ends the subscription of a queue to this pattern, if there is one. Jobs already in the queue
    /// stay.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()>;

    /// Why there may be jobs of a queue that [`counts`](Self::counts) does not show, such as jobs
    /// between two of its parts. `None` if there are certainly none, and by default.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn unseen(&self, _queue: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// Deletes a queue, its subscriptions and its failed jobs, and returns how many jobs were
    /// deleted with it. For a queue that does not exist it returns 0.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if there are jobs or consumers and `force` is not
    /// set: nothing has changed then; an engine that cannot be reached or refuses.
    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64>;
}

/// Decides about each failed job of [`Administer::failed_visit`].
pub type Visit = Box<dyn FnMut(FailedJob) -> Verdict + Send>;

/// The decision about a failed job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It stays, and no further job is looked at.
    Enough,
    /// It returns to its queue, with fresh attempts, no expiry and no further delay. Nothing
    /// of former operations is left.
    Retry,
    /// The same by an operation. Its id joins the others in the header `jobq-operations`, of which
    /// the last eight are kept.
    RetryBy {
        /// The id of the operation.
        operation: String,
        /// With a single attempt, for an operation that watches it.
        once: bool,
    },
    /// It is deleted.
    Discard,
}

/// The result of [`Administer::failed_visit`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Visited {
    /// Whether the queue does not exist.
    pub is_missing: bool,
    /// How many jobs were looked at.
    pub seen: u64,
    /// Whether all jobs were looked at that there were at the beginning.
    pub complete: bool,
    /// The jobs that there were at the beginning. An operation settles at most as many: without
    /// this it is limited by the header `jobq-operations` alone.
    pub extent: Option<Extent>,
    /// The jobs that were retried or deleted.
    pub settled: Vec<JobId>,
    /// Jobs that could not be retried and stay, with the errors.
    pub refused: Vec<(JobId, Error)>,
    /// Jobs of which it is not known whether they were retried or deleted.
    pub unknown: Vec<JobId>,
    /// The error that ended it early.
    pub end: Option<Error>,
}

impl Visited {
    /// A visit that has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The error of a call that an engine does not support.
fn unsupported(problem: &str) -> Error {
    let text = format!("this engine does not support the call: {problem}");
    Error::new(ErrorKind::Unsupported, text)
}

/// The queues that an engine knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueNames {
    /// The names, sorted.
    pub names: BTreeSet<String>,
    /// Where they are from: `file`, `client`, `management`.
    pub sources: Vec<&'static str>,
    /// Whether there are certainly no others.
    pub complete: bool,
    /// Why there may be others, if that is known.
    pub incomplete: Option<String>,
}

impl QueueNames {
    /// Names from these sources.
    #[must_use]
    pub fn new(names: BTreeSet<String>, sources: Vec<&'static str>, complete: bool) -> Self {
        Self { names, sources, complete, incomplete: None }
    }

    /// Sets the reason for which there may be others.
    #[must_use]
    pub fn incomplete(mut self, why: impl Into<String>) -> Self {
        (self.complete, self.incomplete) = (false, Some(why.into()));
        self
    }
}

/// The numbers of jobs in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs that are due and not in flight.
    pub ready: Figure<u64>,
    /// Jobs that are not due yet. On RabbitMQ these are the jobs in the tiers of the queue, for
    /// waits that a job's `delay` names, and the probe of a pool in a tier of up to a minute. Jobs
    /// with any other wait are in the delay levels, which the queues of a namespace share: they are
    /// not counted here, and [`Overview::in_levels`](crate::admin::Overview::in_levels) is their
    /// number.
    ///
    /// AMQP does not list the tiers of a queue. With the URL of the management API
    /// (`ClientBuilder::management`) they are those that it lists, at most two seconds ago, and
    /// those that this client or its pools declared. Without it they are the latter alone: unknown
    /// if this client has declared no job of the queue, and too few if other programs have jobs
    /// with other delays in it. The figures themselves are asked for by AMQP.
    ///
    /// The broker counts a probe of a pool as a job: for up to a minute, this is one too many for
    /// each tier that has one.
    pub waiting: Figure<u64>,
    /// Failed jobs. On RabbitMQ the broker does not count jobs while a client looks at them.
    pub failed: Figure<u64>,
}

impl Counts {
    /// Counts with these numbers of jobs.
    #[must_use]
    pub fn new(ready: u64, waiting: u64, failed: u64) -> Self {
        Self {
            ready: Figure::Known(ready),
            waiting: Figure::Known(waiting),
            failed: Figure::Known(failed),
        }
    }

    /// Counts that are unknown for this reason.
    pub(crate) fn unknown(why: impl Into<Cow<'static, str>>) -> Self {
        let unknown = Figure::Unknown(why.into());
        Self { ready: unknown.clone(), waiting: unknown.clone(), failed: unknown }
    }

    /// The number of jobs of all three kinds.
    #[must_use]
    pub fn total(&self) -> Figure<u64> {
        self.open().zip(self.failed.clone(), |open, failed| open + failed)
    }

    /// The number of jobs that are due or waiting.
    #[must_use]
    pub fn open(&self) -> Figure<u64> {
        self.ready.clone().zip(self.waiting.clone(), |ready, waiting| ready + waiting)
    }

    /// Whether there are certainly no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }
}
