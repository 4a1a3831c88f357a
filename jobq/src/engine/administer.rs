use std::fmt;

use async_trait::async_trait;
use serde::Serialize;

use super::QueueSpec;
use crate::error::Result;
use crate::job::{FailedJob, JobId};

/// The administration of an engine's queues: counts, failed jobs, subscriptions, deletion. Given by
/// [`Engine::administer`](super::Engine::administer).
#[async_trait]
pub trait Administer: fmt::Debug + Send + Sync {
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
}

/// Which failed jobs of a queue a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// The oldest one with this id.
    One(JobId),
    /// All that had failed when the call began.
    All,
}

/// How many jobs are in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
