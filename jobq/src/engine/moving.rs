//! Jobs on their way from one engine to another.

use std::fmt;

use async_trait::async_trait;

use super::{NotPushed, QueueSpec};
use crate::error::Result;
use crate::job::{Envelope, EventEnvelope, FailedJob};

/// What one engine hands to another: a job or an event, as it was stored.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Admission {
    /// A job of a queue. Its [`delay`](Envelope::delay) is the rest of its wait.
    Job(Envelope),
    /// A job that is suspected of crashing workers, with the number of its solo starts.
    Solo(Envelope, u32),
    /// A job that failed for good.
    Failed(FailedJob),
    /// An event. Its [`delay`](EventEnvelope::delay) is the rest of its wait.
    Event(EventEnvelope),
}

/// An engine that takes what another one has stored.
#[async_trait]
pub trait Admit: fmt::Debug + Send + Sync {
    /// Stores jobs and events as they were: with the attempts that are used up, the rest of their
    /// waits, and the errors of failed jobs. Their queues must have been declared. Returns the errors
    /// with the positions of what was not stored, in ascending order; all else is durable.
    async fn admit(&self, batch: Vec<Admission>) -> Vec<NotPushed>;
}

/// An engine from which jobs can be taken in whatever state they are.
#[async_trait]
pub trait Depart: fmt::Debug + Send + Sync {
    /// The queues that there are, with their subscriptions.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn queues_to_declare(&self) -> Result<Vec<QueueSpec>>;

    /// Begins to take jobs. Workers get none that was taken, and the others meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if the queue does not exist; an engine that cannot be
    /// reached or refuses.
    async fn depart(&self, scope: Scope) -> Result<Box<dyn Departing>>;
}

/// What is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// The jobs of this queue.
    Queue(String),
    /// What waits in a place of no single queue: events, and on RabbitMQ the jobs in the delay levels.
    Shared,
}

/// Jobs that are being taken from an engine. What was taken and is neither gone nor given back is
/// given back when this is dropped, or when its process is gone: as the same attempt, and as suspect as
/// before.
#[async_trait]
pub trait Departing: fmt::Debug + Send {
    /// Takes the next ones, oldest first, some hundred at a time. What was [kept](Self::settle) is not
    /// taken again.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn next(&mut self) -> Result<Next>;

    /// Settles what was taken last: by position, those that are stored elsewhere are removed here, and
    /// the others are given back now or at the end.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses: whatever was to be removed may be there still.
    async fn settle(&mut self, dispositions: Vec<Disposition>) -> Result<()>;
}

/// The answer of [`Departing::next`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Next {
    /// These were taken.
    Taken(Vec<Admission>),
    /// All that is left is in use, such as by a worker: ask again later.
    Later,
    /// Nothing is left.
    Empty,
}

/// The settlement of a job or event that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// It is stored elsewhere, and removed here.
    Removed,
    /// It is given back now.
    Returned,
    /// It is given back at the end.
    Kept,
}
