//! The seam between jobq and what stores the jobs.
//!
//! An engine records what it is told and decides nothing: which jobs run, whether and
//! when a failed attempt is repeated, what is failed for good, is all decided above
//! it. The conformance suite in the module `testing` (feature `testing`) states
//! what is expected of each method and runs against every engine.
//!
//! **Unstable.** The trait is public so that its suite can be, and may change in any
//! version.

mod detached;
#[cfg(feature = "rabbitmq")]
pub(crate) mod rabbitmq;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

pub(crate) use detached::Detached;
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::topology::Topology;

use crate::error::{Error, Result};
use crate::job::{Envelope, FailedJob, FailedReason, JobId};

/// A store of queues with jobs in them.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Makes queues ready for pushing and consuming. A queue that exists is left as it
    /// is, with its jobs; waits that it does not have yet are added.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) where something of that name exists
    /// that is no such queue; an engine that cannot be reached or refuses.
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()>;

    /// Stores jobs, each in its queue, which must have been declared. The answers come
    /// in the order of the jobs; a job whose answer is `Ok` is durable.
    ///
    /// An error for a job that may be stored all the same says so
    /// ([`Error::maybe_enqueued`]).
    async fn push(&self, jobs: Vec<Envelope>) -> Vec<Result<()>>;

    /// Starts to take jobs from a declared queue, oldest due job first, at most
    /// `prefetch` unsettled ones at a time. Where the engine loses its connection, it
    /// comes back by itself, and the consumer goes on.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) where the queue does not exist; an
    /// engine that cannot be reached or refuses.
    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Consumer>;

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

    /// Ends the engine: consumers end, jobs in hand are handed back, calls fail with
    /// [`Closed`](crate::ErrorKind::Closed).
    async fn close(&self);
}

/// What a queue must be able to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// The queue, as the user named it.
    pub name: String,
    /// The waits that its jobs' policies name. Other waits work as well; an engine may
    /// use these to prepare.
    pub waits: BTreeSet<Duration>,
}

/// Which failed jobs of a queue a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The oldest one with this id.
    One(JobId),
    /// All that had failed when the call began.
    All,
}

/// How many jobs are in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs that could start now and are in no worker's hands.
    pub ready: u64,
    /// Jobs that wait for their time. On RabbitMQ these are the jobs in the tiers that
    /// this client or its pools declared: those that wait for as long as a job's `delay`
    /// says. Jobs with any other wait are in the delay levels, which the queues of a
    /// namespace share, and are not counted.
    pub waiting: u64,
    /// Failed jobs.
    pub failed: u64,
}

impl Counts {
    /// These numbers of jobs.
    #[must_use]
    pub fn new(ready: u64, waiting: u64, failed: u64) -> Self {
        Self { ready, waiting, failed }
    }
}

/// Takes the jobs of one queue. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Consumer {
    deliveries: mpsc::Receiver<Result<Delivery>>,
    intake: Box<dyn Intake>,
}

impl Consumer {
    /// A consumer whose jobs come through this channel and are controlled by `intake`.
    #[must_use]
    pub fn new(deliveries: mpsc::Receiver<Result<Delivery>>, intake: Box<dyn Intake>) -> Self {
        Self { deliveries, intake }
    }

    /// The next job. `None` when the engine was closed or the consumer stopped. An
    /// error is the last item: the queue cannot be consumed any more and says why.
    pub async fn next(&mut self) -> Option<Result<Delivery>> {
        loop {
            match self.deliveries.recv().await {
                // Running it would run the job twice.
                Some(Ok(delivery)) if delivery.receipt.is_stale() => {}
                item => return item,
            }
        }
    }

    /// Changes how many unsettled jobs the consumer takes at most; 0 counts as 1.
    pub async fn set_prefetch(&self, prefetch: u16) {
        self.intake.set_prefetch(prefetch.max(1)).await;
    }

    /// Takes no further jobs and hands back those that nobody asked
    /// [`next`](Self::next) for. Jobs in hand can still be settled.
    pub async fn stop(&mut self) {
        self.intake.stop().await;
        self.deliveries.close();
        while let Some(item) = self.deliveries.recv().await {
            if let Ok(delivery) = item {
                // Stale means that it is handed back already.
                let _ = delivery.settle(Settlement::Release).await;
            }
        }
    }
}

/// An engine's side of a [`Consumer`]. Dropping it stops the intake.
#[async_trait]
pub trait Intake: fmt::Debug + Send + Sync {
    /// See [`Consumer::set_prefetch`].
    async fn set_prefetch(&self, prefetch: u16);

    /// Takes no further jobs; what was taken comes through the channel.
    async fn stop(&self);
}

/// One hand-over of a job to a worker. It is unsettled until [`settle`](Self::settle)
/// is called; dropping it hands the job back.
#[derive(Debug)]
pub struct Delivery {
    /// The job.
    pub envelope: Envelope,
    /// The number of the attempt that this delivery is for, from 1.
    pub attempt: u32,
    receipt: Box<dyn Receipt>,
}

impl Delivery {
    /// A delivery that is settled through `receipt`.
    #[must_use]
    pub fn new(envelope: Envelope, attempt: u32, receipt: Box<dyn Receipt>) -> Self {
        Self { envelope, attempt, receipt }
    }

    /// The life of the connection or the lease that the delivery belongs to. Two unsettled
    /// deliveries of one life are never one job, whatever their ids.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.receipt.life()
    }

    /// Records what became of the job. It is durable when the call returns `Ok`, but
    /// for [`Complete`](Settlement::Complete), which may be recorded a moment later; a
    /// crash in that moment runs the job again.
    ///
    /// # Errors
    ///
    /// [`Stale`](crate::ErrorKind::Stale) if the delivery is no longer this worker's;
    /// any other error if the engine could not record it. The job is delivered again
    /// in both cases.
    pub async fn settle(self, settlement: Settlement) -> Result<()> {
        self.receipt.settle(self.envelope, self.attempt, settlement).await
    }
}

/// An engine's side of a [`Delivery`]. Dropping it unsettled hands the job back.
#[async_trait]
pub trait Receipt: fmt::Debug + Send + Sync {
    /// See [`Delivery::settle`]; `envelope` and `attempt` are the delivery's own.
    async fn settle(
        self: Box<Self>,
        envelope: Envelope,
        attempt: u32,
        settlement: Settlement,
    ) -> Result<()>;

    /// Whether it is known already that the delivery is no longer this worker's. Such
    /// deliveries are not handed out by [`Consumer::next`].
    fn is_stale(&self) -> bool {
        false
    }

    /// The life of the connection or the lease that the delivery belongs to: a job comes
    /// again while it is in hand only in another life.
    fn life(&self) -> u64;
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The job is done and is deleted.
    Complete,
    /// The attempt failed: the job is delivered again, as the next attempt, not before
    /// this wait has passed.
    Retry(Duration),
    /// The job is delivered again, as the same attempt, not before this wait has passed.
    Snooze(Duration),
    /// The job failed for good and is kept with its failed jobs.
    Fail {
        /// Why.
        reason: FailedReason,
        /// The error, for a person. Engines may cut it to 8 KiB.
        error: String,
        /// How many attempts were made.
        attempts: u32,
    },
    /// The job was not run and is handed back: it is delivered again, as the same
    /// attempt, at once.
    Release,
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
}

/// The error of every call after [`Engine::close`].
pub(crate) fn closed() -> Error {
    Error::new(
        crate::error::ErrorKind::Closed,
        "the client is closed; keep it open for as long as it is used",
    )
}
