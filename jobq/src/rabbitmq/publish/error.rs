//! Errors of publishing. Each says whether the message may be stored.

use std::time::Duration;

use super::channel_end::Refusal;
use crate::error::{Error, ErrorKind};
use crate::rabbitmq::connection::patience::Patience;
use crate::rabbitmq::errors::{self, timed_out};
use crate::rabbitmq::message::properties::Message;

fn publishing(message: &Message) -> String {
    format!("publishing to {}", message.route())
}

/// The broker did not answer in time. The message may be stored if it was sent.
pub(crate) fn unanswered(message: &Message, limit: Duration, trouble: &str, sent: bool) -> Error {
    let error = |what| timed_out(&format!("{} ({what})", publishing(message)), limit, trouble);
    if sent {
        error("sent, and possibly stored").and_maybe_enqueued()
    } else {
        error("never sent, and not stored")
    }
}

/// The broker has been out of reach for longer than calls wait.
pub(crate) fn out_of_reach(message: &Message, patience: &Patience, trouble: &str) -> Error {
    patience.error(&format!("{} (never sent, and not stored)", publishing(message)), trouble)
}

/// The channel ended before the broker answered.
pub(crate) fn lost(message: &Message) -> Error {
    let text =
        format!("{}: the connection was lost before the broker answered", publishing(message));
    Error::new(ErrorKind::Connection, text).and_maybe_enqueued()
}

/// The broker closed the channel because of this message.
pub(crate) fn refused(message: &Message, error: lapin::Error) -> Error {
    match Refusal::of(&error) {
        Some(Refusal::Size { limit }) => too_large(message, limit).with_source(error),
        _ => errors::failure(&publishing(message), error),
    }
}

/// The message is larger than the broker's limit.
pub(crate) fn too_large(message: &Message, limit: usize) -> Error {
    let text = format!(
        "{}: the payload has {} bytes, more than the broker's limit of {limit}; store large data \
         elsewhere and enqueue a reference to it, or raise `max_message_size` in rabbitmq.conf",
        publishing(message),
        message.payload.len()
    );
    Error::new(ErrorKind::Refused, text)
}

/// The channel is not in confirm mode.
pub(crate) fn unconfirmed(message: &Message) -> Error {
    let text = format!("{}: the channel is not in confirm mode", publishing(message));
    Error::new(ErrorKind::Connection, text).and_maybe_enqueued()
}

/// The broker answered with `basic.nack`. Another queue of an event may have taken it, and of a
/// job RabbitMQ does not promise that it is nowhere.
pub(crate) fn nacked(message: &Message) -> Error {
    let text = format!(
        "{}: the broker refused the message (basic.nack), but may still have stored it; the queue \
         has no quorum, or a policy limits its length",
        publishing(message)
    );
    Error::new(ErrorKind::Refused, text).and_maybe_enqueued()
}
