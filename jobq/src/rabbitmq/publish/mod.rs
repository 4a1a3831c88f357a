//! Publishing, each message confirmed.
//!
//! The walk of a message: [`enqueue`] or [`event`] gives it its route, [`publisher`] hands it to
//! the one task of [`sender`], that sends it on its channel, and [`confirm`] awaits the broker's
//! confirm, which goes back to the caller as the answer of a [`request`]. Up to
//! [`WINDOW`](sender::WINDOW) messages of the channel are unconfirmed at a time. Where the channel
//! ends, [`channel_end`] says which of them the broker has certainly not stored; the task sends
//! those again on the next channel.
//!
//! Messages that one channel must not carry together have a channel each
//! ([`send_alone`](confirm::send_alone)): mandatory events, messages that found no queue, and
//! those that may be larger than the broker takes ([`size_limit`]).

mod batch;
mod channel_end;
pub(crate) mod confirm;
mod enqueue;
pub(crate) mod error;
mod event;
mod publisher;
mod request;
mod sender;
mod size_limit;

pub(crate) use self::batch::Batch;
pub(crate) use self::enqueue::Enqueuer;
pub(crate) use self::event::Events;
pub(crate) use self::publisher::Publisher;
