use std::fmt;

use std::time::SystemTime;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};

use super::{Delivery, Pause, PoolId, QueueName, Settlement};
use crate::error::{Error, Result};

/// The parameters of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consume {
    /// The queue, which must have been declared.
    pub queue: QueueName,
    /// How many unsettled jobs of each [priority](crate::Priority) the consumer takes at most; with 0 it
    /// takes none until that is [changed](Consumer::set_prefetch).
    pub prefetch: u16,
    /// Whether it takes the jobs that may crash their worker, instead of all others. These jobs go
    /// to one consumer in all processes; other consumers wait for its end. The queue must have been
    /// declared as [`solo`](super::QueueSpec::solo), and the prefetch is ignored.
    pub solo: bool,
    /// The pool for which it takes jobs, if that has [joined](super::Administer::join) those that
    /// are told of pauses. An engine checks whether the queue is paused before the consumer of a
    /// pool takes its first job, and again after it was reconnected.
    pub pool: Option<PoolId>,
    /// The name of jobs that come without one: that of the only job of the queue, if it has one.
    pub only_job: Option<&'static str>,
}

impl Consume {
    /// A consumer of the jobs of a queue.
    #[must_use]
    pub fn new(queue: QueueName, prefetch: u16) -> Self {
        Self { queue, prefetch, solo: false, pool: None, only_job: None }
    }

    /// A consumer of the solo jobs of a queue.
    #[must_use]
    pub fn solo(queue: QueueName) -> Self {
        Self { queue, prefetch: 1, solo: true, pool: None, only_job: None }
    }

    /// Sets the pool.
    #[must_use]
    pub fn pool(mut self, pool: Option<PoolId>) -> Self {
        self.pool = pool;
        self
    }

    /// Sets the name of jobs that come without one.
    #[must_use]
    pub fn only_job(mut self, name: Option<&'static str>) -> Self {
        self.only_job = name;
        self
    }
}

/// The state of a consumer that gets no jobs for now and keeps trying.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Interruption {
    /// The start of the interruption.
    pub since: SystemTime,
    /// The newest error, if there were several.
    pub error: Error,
}

impl Interruption {
    /// An interruption since this time, with this error.
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
    /// A consumer that receives jobs from this channel and is controlled by `intake`. The engine
    /// sends up to the prefetch; stale deliveries stay in the channel until the next call of
    /// [`next`](Self::next).
    #[must_use]
    pub fn new(
        deliveries: mpsc::UnboundedReceiver<Result<Delivery>>,
        intake: Box<dyn Intake>,
    ) -> Self {
        Self { deliveries, intake }
    }

    /// The next job. `None` if the engine was closed or the consumer stopped. An error is the last
    /// item: the reason why the queue cannot be consumed any more.
    pub async fn next(&mut self) -> Option<Result<Delivery>> {
        loop {
            match self.deliveries.recv().await {
                // Running it would run the job twice.
                Some(Ok(delivery)) if delivery.is_stale() => {}
                item => return item,
            }
        }
    }

    /// The next job or error, without waiting.
    pub(crate) fn ready(&mut self) -> Option<Result<Delivery>> {
        loop {
            match self.deliveries.try_recv().ok()? {
                Ok(delivery) if delivery.is_stale() => {}
                item => return Some(item),
            }
        }
    }

    /// Whether the jobs of the queue may have priorities, as far as the engine knew when the consumer
    /// started.
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        self.intake.has_priorities()
    }

    /// Changes how many unsettled jobs of each priority the consumer takes at most. Jobs that are in flight already
    /// may exceed it until they are settled. After a change to 0 it takes no more jobs, and those
    /// that it has taken still come by [`next`](Self::next).
    pub async fn set_prefetch(&self, prefetch: u16) {
        self.intake.set_prefetch(prefetch).await;
    }

    /// Stops taking jobs and releases those that [`next`](Self::next) has not returned. Jobs in
    /// flight can still be settled.
    pub async fn stop(&mut self) {
        self.intake.stop().await;
        self.deliveries.close();
        let mut left = Vec::new();
        while let Some(item) = self.deliveries.recv().await {
            left.extend(item.map(|delivery| delivery.settle(Settlement::Release)));
        }
        // A stale delivery is released already.
        join_all(left).await;
    }

    /// The current interruption, if any, and its changes.
    #[must_use]
    pub fn interruptions(&self) -> watch::Receiver<Option<Interruption>> {
        self.intake.interruptions()
    }

    /// The current pause of the queue, if any, and its changes. While it is paused the engine
    /// delivers nothing more than what was on its way; the worker releases all that it has not
    /// started.
    #[must_use]
    pub fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.intake.pauses()
    }

    /// The engine's names of the consumer, for reports; none while the queue is paused.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.intake.names()
    }

    /// Waits, after [`stop`](Self::stop), until all deliveries are settled and the settlements are
    /// recorded: if the process ends after that, none of these jobs runs again.
    pub async fn settled(&self) {
        self.intake.settled().await;
    }
}

/// An engine's side of a [`Consumer`]. Dropping it stops the intake.
#[async_trait]
pub trait Intake: fmt::Debug + Send + Sync {
    /// See [`Consumer::set_prefetch`]. A change to 0 has happened when this returns: what the worker
    /// releases then goes to other consumers.
    async fn set_prefetch(&self, prefetch: u16);

    /// Stops taking jobs; those already taken come through the channel.
    async fn stop(&self);

    /// See [`Consumer::interruptions`]. Defaults to none.
    fn interruptions(&self) -> watch::Receiver<Option<Interruption>> {
        watch::channel(None).1
    }

    /// See [`Consumer::pauses`]. Defaults to none.
    fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        watch::channel(None).1
    }

    /// See [`Consumer::names`]. Defaults to none.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// See [`Consumer::has_priorities`]. Defaults to `false`.
    fn has_priorities(&self) -> bool {
        false
    }

    /// See [`Consumer::settled`]. Returns at once by default.
    async fn settled(&self) {}
}
