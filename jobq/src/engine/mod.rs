//! The seam between jobq and what stores the jobs.
//!
//! An engine records what it is told and decides nothing: which jobs run, whether and
//! when a failed attempt is repeated, what is failed for good, is all decided above
//! it. The conformance suite in the module `testing` (feature `testing`) states
//! what is expected of each method and runs against every engine.
//!
//! **Unstable.** The trait is public so that its suite can be, and may change in any
//! version.

mod certificates;
mod consumer;
mod delivery;
mod detached;
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
mod refusal;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;

pub use certificates::{Certificates, ClientCertificate, ManagementUrl};
pub use consumer::{Consumer, Intake, Interruption};
pub use delivery::{Delivery, Receipt, Settlement, Solo};
pub(crate) use detached::Detached;
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use refusal::{must_be_unused, nobody_subscribes};

use crate::error::{Error, Result};
use crate::finding::{Finding, Report};
use crate::job::{Envelope, EventEnvelope, FailedJob, JobId};

/// A store of queues with jobs in them.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Makes queues ready for pushing and consuming. A queue that exists is left as it
    /// is, with its jobs; waits and patterns that it does not have yet are added.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) where something of that name exists
    /// that is no such queue; an engine that cannot be reached or refuses.
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()>;

    /// Makes ready what jobs wait in whose wait no queue's [`waits`](QueueSpec::waits) name, where
    /// an engine needs that.
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    async fn declare_delays(&self) -> Result<()> {
        Ok(())
    }

    /// Stores a job in its queue, which must have been declared. It is durable when the
    /// [`Pushing`] gives `Ok`. That may begin when this is called, and does not end where the
    /// answer is not waited for.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses. The error of a job that may be stored all
    /// the same says so ([`Error::maybe_enqueued`]).
    fn push(&self, job: Envelope) -> Pushing;

    /// Stores jobs as [`push`](Self::push) does, in their order and much faster than one after
    /// the other, and tells which of them got an error: by their place, in ascending order. All
    /// others are durable.
    ///
    /// The iterator is asked for a job when there is room for it, and to its end in any case, so
    /// that jobs without number need not be in memory at once.
    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed>;

    /// Stores an event: each queue that subscribes to its topic gets a job, durable when
    /// this returns `Ok`. Where the event has a delay, these are the queues that subscribe
    /// when it is over.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) where the event is `mandatory` and no
    /// queue subscribes to its topic; as [`push`](Self::push).
    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()>;

    /// Ends the subscription of a queue to this pattern, if there is one. The jobs that it
    /// brought stay.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()>;

    /// Deletes a queue, its subscriptions and its failed jobs, and says how many jobs were
    /// deleted with it. A queue that does not exist is deleted already.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) where there are jobs or consumers and it is
    /// not to be deleted by force: then nothing has changed; an engine that cannot be
    /// reached or refuses.
    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64>;

    /// Starts to take jobs from a declared queue, oldest due job first, at most
    /// `prefetch` unsettled ones at a time. Where the engine loses its connection, it
    /// comes back by itself, and the consumer goes on.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) where the queue does not exist; an
    /// engine that cannot be reached or refuses.
    async fn consume(&self, queue: &'static str, prefetch: u16) -> Result<Consumer>;

    /// Starts to take the jobs of a queue that may take their worker down. They come to one
    /// consumer in all processes, the others wait for its end.
    ///
    /// # Errors
    ///
    /// As [`consume`](Self::consume). The queue must have been declared as
    /// [`solo`](QueueSpec::solo).
    async fn consume_solo(&self, queue: &'static str) -> Result<Consumer>;

    /// The engine's name and version, and how long a worker may keep a job unsettled, as far as
    /// the store tells.
    async fn about(&self) -> About {
        About::new(std::any::type_name_of_val(self))
    }

    /// The error of a part of what this engine declared that the store has lost and that it may
    /// not declare again, once that was noticed. Jobs may wait for it.
    fn missing(&self) -> Option<Error> {
        None
    }

    /// How many jobs are in a queue. An engine without such a queue has none there.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn counts(&self, queue: &str) -> Result<Counts>;

    /// The failed jobs of a queue, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses. A queue that does not exist has no
    /// failed jobs.
    async fn failed_list(&self, queue: &str, limit: usize) -> Result<Vec<FailedJob>>;

    /// The oldest failed job of a queue with this id.
    ///
    /// # Errors
    ///
    /// As [`failed_list`](Self::failed_list).
    async fn failed_find(&self, queue: &str, id: JobId) -> Result<Option<FailedJob>>;

    /// Puts failed jobs back into the queue that they came from, with fresh attempts,
    /// no expiry and no further delay, and says how many.
    ///
    /// # Errors
    ///
    /// As [`failed_list`](Self::failed_list). Each job is then in its queue or still
    /// failed, or, after a lost connection, both.
    async fn failed_retry(&self, queue: &str, which: Which) -> Result<u64>;

    /// Deletes failed jobs, and says how many.
    ///
    /// # Errors
    ///
    /// As [`failed_list`](Self::failed_list).
    async fn failed_discard(&self, queue: &str, which: Which) -> Result<u64>;

    /// Looks for what weakens the promises of jobq: about these queues, those that this
    /// engine knows, and the store itself. Nothing changes.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn examine(&self, queues: &[QueueSpec]) -> Result<Report> {
        let _ = queues;
        Ok(Report::unexamined())
    }

    /// What was set from outside of jobq that weakens these queues, as far as it can be
    /// seen: what a pool that starts wants to know.
    ///
    /// # Errors
    ///
    /// As [`examine`](Self::examine).
    async fn examine_policies(&self, queues: &[QueueSpec]) -> Result<Vec<Finding>> {
        let _ = queues;
        Ok(Vec::new())
    }

    /// Ends the engine: consumers end, jobs in hand are handed back, calls fail with
    /// [`Closed`](crate::ErrorKind::Closed).
    async fn close(&self);
}

/// The answer to a [`push`](Engine::push). It knows the engine by itself, so that who waits for
/// it need not keep anything else.
pub type Pushing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// What a queue must be able to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// The queue, as the user named it.
    pub name: String,
    /// The waits that its jobs' policies name. Other waits work as well; an engine may
    /// use these to prepare.
    pub waits: BTreeSet<Duration>,
    /// The topic patterns that it subscribes to.
    pub patterns: BTreeSet<String>,
    /// Whether its jobs may have to run alone. Pools need it, clients do not.
    pub solo: bool,
}

impl QueueSpec {
    /// A queue without waits and subscriptions.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), waits: BTreeSet::new(), patterns: BTreeSet::new(), solo: false }
    }

    /// With these waits.
    #[must_use]
    pub fn waits(mut self, waits: impl IntoIterator<Item = Duration>) -> Self {
        self.waits.extend(waits);
        self
    }

    /// With the place in which its jobs can be run alone.
    #[must_use]
    pub fn solo(mut self) -> Self {
        self.solo = true;
        self
    }

    /// With subscriptions to these topic patterns.
    #[must_use]
    pub fn patterns<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.patterns.extend(patterns.into_iter().map(Into::into));
        self
    }
}

/// The description of an engine: its name, its version and its limit on unsettled jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// Its name and version, for a person, without secrets.
    pub name: String,
    /// Set if it takes jobs back from workers that are still running them.
    pub hold: Option<Hold>,
}

impl About {
    /// An engine of this name and version, which takes no job back from a worker that runs it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), hold: None }
    }
}

/// How long a worker may have a job in hand before the engine gives it to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// How long, as far as is known.
    pub limit: Duration,
    /// What to change to make it longer, for a person.
    pub remedy: String,
}

impl Hold {
    /// This long, and what to change.
    #[must_use]
    pub fn new(limit: Duration, remedy: impl Into<String>) -> Self {
        Self { limit, remedy: remedy.into() }
    }
}

/// Which failed jobs of a queue a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The oldest one with this id.
    One(JobId),
    /// All that had failed when the call began.
    All,
}

/// A job of [`Engine::push_all`] that is not certainly stored: its place among the others, and why.
pub type NotPushed = (usize, Error);

/// How many jobs are in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs that could start now and are in no worker's hands.
    pub ready: u64,
    /// Jobs that wait for their time. On RabbitMQ these are the jobs in the tiers that
    /// this client or its pools declared: those that wait for as long as a job's `delay`
    /// says. Jobs with any other wait are in the delay levels, which the queues of a
    /// namespace share, and are not counted. `None` where a client that has declared no job
    /// of the queue asks: it does not know which tiers there are.
    pub waiting: Option<u64>,
    /// Failed jobs. On RabbitMQ those that somebody looks at are not counted by the broker,
    /// so that the end of that is waited for.
    pub failed: u64,
}

impl Counts {
    /// These numbers of jobs.
    #[must_use]
    pub fn new(ready: u64, waiting: u64, failed: u64) -> Self {
        Self { ready, waiting: Some(waiting), failed }
    }

    /// Whether there certainly are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::new(0, 0, 0)
    }
}

/// What an engine needs to know beside its URL.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Keeps the queues of this client apart from those of other namespaces.
    pub namespace: String,
    /// The name under which the broker lists the connections.
    pub connection_name: String,
    /// How long to wait for an answer of the broker or the file.
    pub timeout: Duration,
    /// Who is trusted, and how the client shows who it is. An engine that has no use for
    /// them refuses them.
    pub certificates: Certificates,
    /// Where the broker's management API is, if it may be asked. An engine that has none
    /// refuses it.
    pub management: Option<ManagementUrl>,
    /// Whether opening the engine waits for no server: calls wait for it then.
    pub is_lazy: bool,
}

/// The error of every call after [`Engine::close`].
pub(crate) fn closed() -> Error {
    Error::new(
        crate::error::ErrorKind::Closed,
        "the client is closed; keep it open for as long as it is used",
    )
}
