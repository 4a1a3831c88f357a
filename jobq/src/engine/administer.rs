use std::fmt;

use async_trait::async_trait;
use serde::Serialize;

use super::QueueSpec;
use crate::error::Result;
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

    /// Puts failed jobs back into their queue, with fresh attempts, no expiry and no further delay,
    /// and returns how many.
    ///
    /// # Errors
    ///
    /// As [`failed_list`](Self::failed_list). Each job is then in its queue or still failed, or
    /// both after a lost connection.
    async fn failed_retry(&self, queue: &str, which: Which) -> Result<u64>;

    /// Deletes failed jobs, and returns how many.
    ///
    /// # Errors
    ///
    /// As [`failed_list`](Self::failed_list).
    async fn failed_discard(&self, queue: &str, which: Which) -> Result<u64>;

    /// Ends the subscription of a queue to this pattern, if there is one. Jobs already in the queue
    /// stay.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()>;

    /// Deletes a queue, its subscriptions and its failed jobs, and returns how many jobs were
    /// deleted with it. For a queue that does not exist it returns 0.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if there are jobs or consumers and `force` is not
    /// set: nothing has changed then; an engine that cannot be reached or refuses.
    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64>;
}

/// A selection of the failed jobs of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// The oldest failed job with this id.
    One(JobId),
    /// All jobs that had failed when the call began.
    All,
}

/// The numbers of jobs in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs that are due and not in flight.
    pub ready: u64,
    /// Jobs that are not due yet. On RabbitMQ these are the jobs in the tiers that this client or
    /// its pools declared, for waits that a job's `delay` names. Jobs with any other wait are in
    /// the delay levels, which the queues of a namespace share, and are not counted. `None` if this
    /// client has declared no job of the queue and does not know its tiers.
    pub waiting: Option<u64>,
    /// Failed jobs. On RabbitMQ the broker does not count jobs while a client lists them, so the
    /// call waits for the end of the list.
    pub failed: u64,
}

impl Counts {
    /// Counts with these numbers of jobs.
    #[must_use]
    pub fn new(ready: u64, waiting: u64, failed: u64) -> Self {
        Self { ready, waiting: Some(waiting), failed }
    }

    /// Whether there are certainly no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::new(0, 0, 0)
    }
}
