use std::fmt;

use std::time::SystemTime;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};

use super::{Delivery, QueueName, Settlement};
use crate::error::{Error, Result};

/// What is to be consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consume {
    /// The queue, which must have been declared.
    pub queue: QueueName,
    /// How many unsettled jobs the consumer takes at most; 0 counts as 1.
    pub prefetch: u16,
    /// Whether it takes the jobs that may take their worker down, in place of all others. Such
    /// jobs come to one consumer in all processes, the others wait for its end. The queue must
    /// have been declared as [`solo`](super::QueueSpec::solo), and the prefetch does not count.
    pub solo: bool,
}

impl Consume {
    /// The jobs of a queue.
    #[must_use]
    pub fn new(queue: QueueName, prefetch: u16) -> Self {
        Self { queue, prefetch, solo: false }
    }

    /// The jobs of a queue that are to be run alone.
    #[must_use]
    pub fn solo(queue: QueueName) -> Self {
        Self { queue, prefetch: 1, solo: true }
    }
}

/// A consumer gets no jobs for now, and goes on trying.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Interruption {
    /// Since when.
    pub since: SystemTime,
    /// Why; the newest reason, where there were several.
    pub error: Error,
}

impl Interruption {
    /// Since this time, for this reason.
    #[must_use]
    pub fn new(since: SystemTime, error: Error) -> Self {
        Self { since, error }
    }
}

/// Takes the jobs of one queue. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Consumer {
    deliveries: mpsc::UnboundedReceiver<Result<Delivery>>,
    intake: Box<dyn Intake>,
}

impl Consumer {
    /// A consumer whose jobs come through this channel and are controlled by `intake`. The
    /// engine sends as many as the prefetch says; those that became stale stay in the channel
    /// until somebody asks for the next one.
    #[must_use]
    pub fn new(
        deliveries: mpsc::UnboundedReceiver<Result<Delivery>>,
        intake: Box<dyn Intake>,
    ) -> Self {
        Self { deliveries, intake }
    }

    /// The next job. `None` when the engine was closed or the consumer stopped. An
    /// error is the last item: the queue cannot be consumed any more and says why.
    pub async fn next(&mut self) -> Option<Result<Delivery>> {
        loop {
            match self.deliveries.recv().await {
                // Running it would run the job twice.
                Some(Ok(delivery)) if delivery.is_stale() => {}
                item => return item,
            }
        }
    }

    /// The next job or error, if it is there.
    pub(crate) fn ready(&mut self) -> Option<Result<Delivery>> {
        loop {
            match self.deliveries.try_recv().ok()? {
                Ok(delivery) if delivery.is_stale() => {}
                item => return Some(item),
            }
        }
    }

    /// Changes how many unsettled jobs the consumer takes at most; 0 counts as 1. Those that are
    /// in hand may come on top until they are settled.
    pub async fn set_prefetch(&self, prefetch: u16) {
        self.intake.set_prefetch(prefetch.max(1)).await;
    }

    /// Takes no further jobs and hands back those that nobody asked
    /// [`next`](Self::next) for. Jobs in hand can still be settled.
    pub async fn stop(&mut self) {
        self.intake.stop().await;
        self.deliveries.close();
        let mut left = Vec::new();
        while let Some(item) = self.deliveries.recv().await {
            left.extend(item.map(|delivery| delivery.settle(Settlement::Release)));
        }
        // Stale means that it is handed back already.
        join_all(left).await;
    }

    /// Whether it is interrupted, now and whenever that changes.
    #[must_use]
    pub fn interruptions(&self) -> watch::Receiver<Option<Interruption>> {
        self.intake.interruptions()
    }

    /// Waits, after [`stop`](Self::stop), until all deliveries are settled and that is
    /// recorded: whoever ends the process now runs none of their jobs again.
    pub async fn settled(&self) {
        self.intake.settled().await;
    }
}

/// An engine's side of a [`Consumer`]. Dropping it stops the intake.
#[async_trait]
pub trait Intake: fmt::Debug + Send + Sync {
    /// See [`Consumer::set_prefetch`].
    async fn set_prefetch(&self, prefetch: u16);

    /// Takes no further jobs; what was taken comes through the channel.
    async fn stop(&self);

    /// See [`Consumer::interruptions`]. Never, unless an engine says otherwise.
    fn interruptions(&self) -> watch::Receiver<Option<Interruption>> {
        watch::channel(None).1
    }

    /// See [`Consumer::settled`]. Nothing to wait for, unless an engine says otherwise.
    async fn settled(&self) {}
}
