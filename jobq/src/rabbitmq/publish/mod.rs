//! Publishing, each message confirmed, by all callers on one channel.
//!
//! A caller publishes by itself as long as there is a channel with a place in its window: the
//! frames of a message are queued when its publish is first polled, and a change of thread
//! before that would only tear apart what could be sent together. What cannot be sent yet is
//! handed over to one [`task`]. What was sent is gone on with by the thread of the connection
//! when it has written it, and when it has read the answer: a change of thread for that
//! would have it send what comes next in smaller pieces, and nothing rests on a caller who stops
//! to listen.
//!
//! Messages on their way have a room of limited size, so that a broker which takes nothing,
//! for want of memory, of disk or of itself, costs its clients no memory without end: who
//! finds no room waits for it.

mod batch;
mod destination;
mod enqueue;
mod event;
mod gate;
mod largest;
mod offence;
mod open;
mod publication;
mod publisher;
mod task;

pub(crate) use self::batch::Batch;
pub(crate) use self::destination::Destination;
pub(crate) use self::enqueue::Enqueuer;
pub(crate) use self::event::Events;
pub(crate) use self::publisher::Publisher;
pub(crate) use self::task::open_confirming;
