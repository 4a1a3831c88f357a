//! Seats: each queue has at most one holder among all engines, and a value that outlives it.
//!
//! The holder of a queue's seat decides on actions that must happen once for a whole fleet, such as a
//! periodic job. The value is what the next holder needs to go on: a *list*, which grows by changes that
//! anybody may store, and a *position*, which the holder writes with each step.

use std::fmt;

use async_trait::async_trait;

use super::NotPushed;
use crate::error::Result;
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
use crate::error::{Error, ErrorKind};
use crate::job::Envelope;

/// The most bytes of a list.
pub const MAX_LIST: usize = 256 * 1024;
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

    /// Whether the queue has a seat: somebody has [taken](Self::take) it or stored a
    /// [change](Self::change).
    ///
    /// # Errors
    ///
    /// An engine that is closed, cannot be reached or refuses.
    async fn exists(&self, queue: &str) -> Result<bool>;

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
/// Its holder polls [`next_change`](Self::next_change) whenever it does nothing else: a broker may end
/// a seat of which nothing is heard for long. A queue that is deleted takes its seat along; if somebody
/// deletes what an engine keeps the seat in, its holder brings the value back, and what was written
/// meanwhile is lost.
///
/// # Errors
///
/// An error of a method, other than an [invalid](crate::ErrorKind::Invalid) argument, ends the seat:
/// another engine may hold it already. Drop it then, or nobody else may get it. The value is what was
/// last written, or what was being written. The error is [`Stale`](crate::ErrorKind::Stale) where another
/// engine was seen to hold the seat. Dropping the future of `write_list` or `advance` leaves the write in
/// doubt, as an error does.
#[async_trait]
pub trait Seat: fmt::Debug + Send {
    /// The value as the last holder left it. Both parts of a new seat are empty.
    fn value(&self) -> &SeatValue;

    /// Waits for the next change that is no part of the list, in the order in which they were stored.
    /// Dropping the future loses nothing.
    async fn next_change(&mut self) -> Result<Vec<u8>>;

    /// Writes the list, of at most [`MAX_LIST`] bytes. All changes that were returned so far are a part of
    /// it now. They come again to the next holder if this one ends before that, or while it returns: a
    /// change that is applied twice must do no harm.
    async fn write_list(&mut self, list: Vec<u8>) -> Result<()>;

    /// Enqueues jobs of the queue, and then writes the position, of at most [`MAX_CHANGE`] bytes. If the
    /// engine ends in between, the next holder has the position before and enqueues them again.
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

/// Returns an error if a change or a position is too large.
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) fn check_change(change: &[u8]) -> Result<()> {
    check_size("a change of schedules", change, MAX_CHANGE)
}

/// Returns an error if a list is too large.
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) fn check_list(list: &[u8]) -> Result<()> {
    check_size("the list of schedules", list, MAX_LIST)
}

#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
fn check_size(what: &str, content: &[u8], most: usize) -> Result<()> {
    if content.len() <= most {
        return Ok(());
    }
    let text = format!(
        "{what} has {} bytes, more than the limit of {most}; store large data elsewhere and refer to it",
        content.len()
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
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) fn not_held(queue: &str) -> Error {
    let text = format!("the seat of queue `{queue}` is not held any more; take it again");
    Error::new(ErrorKind::Stale, text)
}
