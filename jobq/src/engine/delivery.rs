use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::error::Result;
use crate::job::{Envelope, FailedReason};

/// One delivery of a job to a worker. It is unsettled until [`settle`](Self::settle) is called;
/// dropping it releases the job.
#[derive(Debug)]
pub struct Delivery {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How often the job may have crashed its worker. The cause may have been another job of the
    /// same worker, and an engine that cannot tell counts released deliveries as well.
    pub crashes: u32,
    /// Set on a delivery of a [solo](super::Consume::solo) consumer.
    pub solo: Option<Solo>,
    due: Option<SystemTime>,
    is_dated: bool,
    receipt: Box<dyn Receipt>,
}

/// The state of a solo run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Solo {
    /// The number of solo starts, including this one only if it is `started`.
    pub starts: u32,
    /// Whether this delivery answers a [`Settlement::Start`] of the same consumer, so that the job
    /// must run now.
    pub started: bool,
}

impl Solo {
    /// A state with this number of solo starts, including the one that this delivery answers.
    #[must_use]
    pub fn new(starts: u32, started: bool) -> Self {
        Self { starts, started }
    }
}

impl Delivery {
    /// A delivery of the job in `receipt`, settled through it.
    #[must_use]
    pub fn new(attempt: u32, receipt: Box<dyn Receipt>) -> Self {
        Self { attempt, crashes: 0, solo: None, due: None, is_dated: true, receipt }
    }

    /// The job.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        self.receipt.envelope()
    }

    /// The job, shared: a function may outlive the delivery.
    pub(crate) fn shared_envelope(&self) -> Arc<Envelope> {
        Arc::clone(self.receipt.envelope())
    }

    /// The delivery with this number of crashes.
    #[must_use]
    pub fn crashed(mut self, crashes: u32) -> Self {
        self.crashes = crashes;
        self
    }

    /// The delivery with the due time of its attempt.
    #[must_use]
    pub fn due_at(mut self, time: Option<SystemTime>) -> Self {
        self.due = time;
        self
    }

    /// The delivery of a message that does not state when its job was enqueued. The time in the
    /// envelope is then another one at each delivery, and does not tell one job from another.
    #[must_use]
    pub fn undated(mut self) -> Self {
        self.is_dated = false;
        self
    }

    /// When the job was enqueued, if its message states that.
    pub(crate) fn enqueued_at(&self) -> Option<SystemTime> {
        self.is_dated.then(|| self.envelope().enqueued_at)
    }

    /// When the attempt was due. `None` if the engine does not know: RabbitMQ knows it only for the
    /// first attempt.
    #[must_use]
    pub fn due(&self) -> Option<SystemTime> {
        self.due
    }

    /// The delivery as a solo run.
    #[must_use]
    pub fn alone(mut self, solo: Solo) -> Self {
        self.solo = Some(solo);
        self
    }

    /// See [`Receipt::route`].
    pub(crate) fn route(&self) -> Option<&str> {
        self.receipt.route()
    }

    /// Whether the delivery is known to be stale.
    pub(crate) fn is_stale(&self) -> bool {
        self.receipt.is_stale()
    }

    /// See [`Receipt::verification`].
    pub(crate) fn verification(&self) -> Option<BoxFuture<'static, ()>> {
        self.receipt.verification()
    }

    /// The connection epoch, or the lease, of the delivery. Two unsettled deliveries of one epoch
    /// are never the same job, whatever their ids.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.receipt.epoch()
    }

    /// [`settle`](Self::settle) without a future of its own.
    pub(crate) fn settle_boxed(self, settlement: Settlement) -> BoxFuture<'static, Result<()>> {
        self.receipt.settle(Settle::new(self.attempt, settlement))
    }

    /// Records the settlement. It is durable when the call returns `Ok`, except
    /// [`Complete`](Settlement::Complete), which may be recorded a moment later; a crash in between
    /// runs the job again. The settlement of a [`solo`](Self::solo) delivery is recorded before any
    /// later start.
    ///
    /// # Errors
    ///
    /// [`Stale`](crate::ErrorKind::Stale) if the worker no longer holds the delivery; any other
    /// error if the engine could not record it. The job is delivered again in both cases.
    pub async fn settle(self, settlement: Settlement) -> Result<()> {
        self.receipt.settle(Settle::new(self.attempt, settlement)).await
    }
}

/// An engine's side of a [`Delivery`]. It has the envelope, so that a delivery is small and cheap
/// to move. Dropping it unsettled releases the job.
#[async_trait]
pub trait Receipt: fmt::Debug + Send + Sync {
    /// See [`Delivery::envelope`].
    fn envelope(&self) -> &Arc<Envelope>;

    /// See [`Delivery::settle`].
    async fn settle(self: Box<Self>, settle: Settle) -> Result<()>;

    /// Whether the delivery is known to be stale. [`Consumer::next`](super::Consumer::next) skips
    /// stale deliveries.
    fn is_stale(&self) -> bool {
        false
    }

    /// Asks whether the worker still holds the delivery, if that is uncertain: after a suspension of
    /// the process, in which the engine may have delivered the job to another worker. When the
    /// future is ready, the delivery is held or [stale](Self::is_stale). The worker starts no job
    /// before that. `None` if it is certain, which is the default.
    fn verification(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// The name by which the engine routed the job, such as a routing key, for traces. None by
    /// default.
    fn route(&self) -> Option<&str> {
        None
    }

    /// The connection epoch, or the lease, of the delivery: a job in flight is delivered again only
    /// in another epoch.
    fn epoch(&self) -> u64;
}

/// A settlement with its attempt.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settle {
    /// The number of the delivery's attempt.
    pub attempt: u32,
    /// The settlement.
    pub settlement: Settlement,
}

impl Settle {
    /// This settlement of this attempt.
    #[must_use]
    pub fn new(attempt: u32, settlement: Settlement) -> Self {
        Self { attempt, settlement }
    }
}

/// The result of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The job is done and is deleted.
    Complete,
    /// The attempt failed: the job is delivered again, as the next attempt, after this wait at the
    /// earliest.
    Retry(Duration),
    /// The job is delivered again, as the same attempt, after this wait at the earliest.
    Snooze(Duration),
    /// The job failed for good and is kept with its failed jobs.
    Fail {
        /// The reason.
        reason: FailedReason,
        /// The error text, of at most 8 KiB.
        error: String,
        /// How many attempts were made.
        attempts: u32,
    },
    /// The job did not run and is released: it is delivered again, as the same attempt, at once. If
    /// the delivery was `started`, that start does not count.
    Release,
    /// The job may crash its worker and did not run: it is delivered again, as the same attempt, by
    /// a [solo](super::Consume::solo) consumer.
    Isolate,
    /// The job is about to run alone: the start is recorded, and the job is delivered again as
    /// [`started`](Solo::started) to the same consumer, soon, but maybe after others. It runs then,
    /// so each start is recorded before the run.
    Start,
}

impl Settlement {
    /// The word for it in metrics and traces.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Complete => "completed",
            Self::Retry(_) => "retried",
            Self::Snooze(_) => "snoozed",
            Self::Fail { .. } => "failed",
            Self::Release => "released",
            Self::Isolate => "isolated",
            Self::Start => "started",
        }
    }
}
