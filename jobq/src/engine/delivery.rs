use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::error::Result;
use crate::job::{Envelope, FailedReason};

/// One hand-over of a job to a worker. It is unsettled until [`settle`](Self::settle)
/// is called; dropping it hands the job back.
#[derive(Debug)]
pub struct Delivery {
    /// The number of the attempt that this delivery is for, from 1.
    pub attempt: u32,
    /// How often its worker may have died of it before. It may have been that of another
    /// job which the same worker had in hand, and an engine that cannot tell counts what
    /// was handed back as well.
    pub crashes: u32,
    /// Set on a delivery of a [solo](super::Consume::solo) consumer.
    pub solo: Option<Solo>,
    due: Option<SystemTime>,
    receipt: Box<dyn Receipt>,
}

/// What is known of a job that is to be run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Solo {
    /// How often it was started alone, this time not counted unless it is `started`.
    pub starts: u32,
    /// Whether this delivery answers a [`Settlement::Start`] of the same consumer: then
    /// it is to be run now.
    pub started: bool,
}

impl Solo {
    /// A job that was started alone so often, the start that this delivery answers included.
    #[must_use]
    pub fn new(starts: u32, started: bool) -> Self {
        Self { starts, started }
    }
}

impl Delivery {
    /// The delivery of the job that `receipt` has, which is settled through it.
    #[must_use]
    pub fn new(attempt: u32, receipt: Box<dyn Receipt>) -> Self {
        Self { attempt, crashes: 0, solo: None, due: None, receipt }
    }

    /// The job.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        self.receipt.envelope()
    }

    /// The job, for what outlives the delivery: a function may go on after its attempt.
    pub(crate) fn shared_envelope(&self) -> Arc<Envelope> {
        Arc::clone(self.receipt.envelope())
    }

    /// The delivery of a job whose worker may have died of it so often.
    #[must_use]
    pub fn crashed(mut self, crashes: u32) -> Self {
        self.crashes = crashes;
        self
    }

    /// The delivery of an attempt that was due then.
    #[must_use]
    pub fn due_at(mut self, time: Option<SystemTime>) -> Self {
        self.due = time;
        self
    }

    /// When the attempt was due. `None` where the engine does not know: RabbitMQ knows it of the
    /// first attempt alone.
    #[must_use]
    pub fn due(&self) -> Option<SystemTime> {
        self.due
    }

    /// The delivery of a job that is to be run alone.
    #[must_use]
    pub fn alone(mut self, solo: Solo) -> Self {
        self.solo = Some(solo);
        self
    }

    /// Whether it is known already that it is no longer this worker's.
    pub(crate) fn is_stale(&self) -> bool {
        self.receipt.is_stale()
    }

    /// The connection epoch, or the lease, that the delivery belongs to. Two unsettled deliveries
    /// of one epoch are never one job, whatever their ids.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.receipt.epoch()
    }

    /// Records what became of the job. It is durable when the call returns `Ok`, but
    /// for [`Complete`](Settlement::Complete), which may be recorded a moment later; a
    /// crash in that moment runs the job again. Of a [`solo`](Self::solo) delivery it is
    /// recorded before any start that is asked for afterwards.
    ///
    /// # Errors
    ///
    /// [`Stale`](crate::ErrorKind::Stale) if the delivery is no longer this worker's;
    /// any other error if the engine could not record it. The job is delivered again
    /// in both cases.
    pub async fn settle(self, settlement: Settlement) -> Result<()> {
        self.receipt.settle(Settle::new(self.attempt, settlement)).await
    }
}

/// An engine's side of a [`Delivery`], with all of it that is large: a delivery changes hands
/// several times. Dropping it unsettled hands the job back.
#[async_trait]
pub trait Receipt: fmt::Debug + Send + Sync {
    /// See [`Delivery::envelope`].
    fn envelope(&self) -> &Arc<Envelope>;

    /// See [`Delivery::settle`].
    async fn settle(self: Box<Self>, settle: Settle) -> Result<()>;

    /// Whether it is known already that the delivery is no longer this worker's. Such
    /// deliveries are not handed out by [`Consumer::next`](super::Consumer::next).
    fn is_stale(&self) -> bool {
        false
    }

    /// The connection epoch, or the lease, that the delivery belongs to: a job is delivered again
    /// while it is in flight only in another epoch.
    fn epoch(&self) -> u64;
}

/// How a delivery is settled.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settle {
    /// The number of the delivery's attempt.
    pub attempt: u32,
    /// What became of it.
    pub settlement: Settlement,
}

impl Settle {
    /// This settlement of this attempt.
    #[must_use]
    pub fn new(attempt: u32, settlement: Settlement) -> Self {
        Self { attempt, settlement }
    }
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// attempt, at once. Of one that was `started` alone, that start does not count.
    Release,
    /// The job may take its worker down and was not run: it is delivered again, as the
    /// same attempt, by a [solo](super::Consume::solo) consumer.
    Isolate,
    /// The job is about to be run alone: that is recorded, and it is delivered again, to the
    /// same consumer and as [`started`](Solo::started), soon, but maybe after others. It
    /// runs then, so that each start is recorded before it.
    Start,
}
