//! Seats: each queue has at most one holder among all engines, and a value that outlives it.
//!
//! What must happen once for a whole fleet, such as a periodic job, is decided by the holder of the
//! queue's seat. The value is what the next holder needs to go on: a *list*, which grows by changes that
//! anybody may store, and a *position*, which the holder writes with each step.

use std::fmt;

use async_trait::async_trait;

use super::NotPushed;
use crate::error::Result;
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
use crate::error::{Error, ErrorKind};
use crate::job::Envelope;

/// The most bytes of a change, and of a position.
pub const MAX_CHANGE: usize = 16 * 1024;
/// About how many changes may wait for a holder.
pub const MAX_CHANGES: u64 = 1_000;

/// The seats of an engine.
#[async_trait]
pub trait Seats: fmt::Debug + Send + Sync {
    /// Waits until this engine holds the seat of a declared queue. One that waits for a seat that it
    /// holds itself waits for the end of that. Dropping the future withdraws.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if the queue does not exist; an engine that is closed
    /// or refuses. A lost connection is no error: the wait goes on with the next one.
    async fn take(&self, queue: &str) -> Result<Box<dyn Seat>>;

    /// Stores a change of the list of a declared queue, for its holder or for the next one. It is
    /// durable when this returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if it has more than [`MAX_CHANGE`] bytes;
    /// [`Refused`](crate::ErrorKind::Refused) if [`MAX_CHANGES`] wait for a holder; otherwise as
    /// [`take`](Self::take), and a lost connection. The change may be stored nevertheless if
    /// [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) is `true`.
    async fn change(&self, queue: &str, change: Vec<u8>) -> Result<()>;
}

/// A seat that an engine holds. Dropped, it is free for the next holder, as soon as the engine can
/// tell its store.
///
/// # Errors
///
/// An error of a method ends the seat: another engine may hold it already. The value is then what was
/// last written, or what was being written. It is [`Stale`](crate::ErrorKind::Stale) where another
/// engine was seen to hold it.
#[async_trait]
pub trait Seat: fmt::Debug + Send {
    /// The value as the last holder left it. Both parts of a new seat are empty.
    fn value(&self) -> &SeatValue;

    /// Waits for the next change that is no part of the list, in the order in which they were stored.
    /// Dropping the future loses nothing.
    async fn next_change(&mut self) -> Result<Vec<u8>>;

    /// Writes the list, of which all changes that were returned so far are a part now: they do not come
    /// again. Until then they come again to the next holder.
    async fn write_list(&mut self, list: Vec<u8>) -> Result<()>;

    /// Enqueues jobs of the queue, and then writes the position. If the engine ends in between, the
    /// next holder has the position before and enqueues them again.
    ///
    /// Returns the errors of jobs that were refused, with their positions among the jobs, in ascending
    /// order. They end no seat.
    async fn advance(&mut self, jobs: Vec<Envelope>, position: Vec<u8>) -> Result<Vec<NotPushed>>;

    /// Leaves the seat to the next holder, and returns when it is free.
    async fn leave(self: Box<Self>);
}

/// The value of a seat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeatValue {
    /// The list.
    pub list: Vec<u8>,
    /// The position.
    pub position: Vec<u8>,
}

/// Returns an error if a change is too large.
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) fn check_change(change: &[u8]) -> Result<()> {
    if change.len() <= MAX_CHANGE {
        return Ok(());
    }
    let text = format!(
        "a change of a schedule has {} bytes, more than the limit of {MAX_CHANGE}; store large data \
         elsewhere, and refer to it",
        change.len()
    );
    Err(Error::invalid(text))
}

/// Returns an error if so many changes of a queue wait for a holder.
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) fn check_waiting(queue: &str, waiting: u64) -> Result<()> {
    if waiting < MAX_CHANGES {
        return Ok(());
    }
    let text = format!(
        "{waiting} changes of the schedules of queue `{queue}` wait for a pool; start a pool that works \
         on the queue"
    );
    Err(Error::new(ErrorKind::Refused, text))
}

/// The error of a seat that another engine holds.
#[cfg(any(feature = "sqlite", feature = "testing"))]
pub(crate) fn not_held(queue: &str) -> Error {
    let text = format!("the seat of queue `{queue}` is not held any more; take it again");
    Error::new(ErrorKind::Stale, text)
}
