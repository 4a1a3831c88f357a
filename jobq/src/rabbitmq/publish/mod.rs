//! Publishing with confirms.
//!
//! [`enqueue`] chooses the route of a job or an event, and [`publisher`] queues it for the
//! single task of [`sender`]. The task sends it on its channel, and [`confirm`] awaits the broker's
//! confirm, which answers the caller. Up to [`WINDOW`](sender::WINDOW)
//! messages of the channel are unconfirmed at a time. When the channel ends, [`channel_end`] finds
//! those that the broker has certainly not stored, and the task sends them again on the next
//! channel.
//!
//! Some messages get a channel of their own ([`send_alone`](confirm::send_alone)): mandatory
//! events, strays, and those that may exceed the broker's size limit ([`size_limit`]).

mod batch;
mod channel_end;
pub(crate) mod confirm;
mod enqueue;
pub(crate) mod error;
mod publisher;
mod sender;
mod size_limit;

pub(crate) use self::batch::Batch;
pub(crate) use self::enqueue::Enqueuer;
pub(crate) use self::publisher::Publisher;
