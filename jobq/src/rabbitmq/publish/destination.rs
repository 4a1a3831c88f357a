//! Where a message goes, and what may be said of it afterwards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::offence::Offence;
use crate::error::{Error, ErrorKind};
use crate::rabbitmq::errors::{self, timed_out};
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::topology::route::Route;

/// What is known of a message after it was sent.
#[derive(Debug)]
pub(crate) struct Destination(Arc<Route>);

impl Destination {
    pub(crate) fn of(message: &Message) -> Self {
        Self(Arc::clone(&message.route))
    }

    /// The broker did not answer in time, and the message may be there if it was sent.
    pub(crate) fn unanswered(&self, limit: Duration, trouble: &str, sent: bool) -> Error {
        let error = |what| timed_out(&format!("{self} ({what})"), limit, trouble);
        if sent {
            error("sent, and maybe stored all the same").but_maybe_enqueued()
        } else {
            error("never sent, and not stored")
        }
    }

    pub(crate) fn lost(&self) -> Error {
        let text = format!("{self}: the connection was lost before the answer came");
        Error::new(ErrorKind::Connection, text).but_maybe_enqueued()
    }

    /// The broker has closed the channel for this message, which had so many bytes.
    pub(crate) fn offended(&self, error: lapin::Error, size: usize) -> Error {
        let offence = errors::refused(&error).and_then(|(code, text)| Offence::read(code, text));
        match offence {
            Some(Offence::Size { limit }) => self.too_large(size, limit).because(error),
            _ => errors::failure(&self.to_string(), error),
        }
    }

    /// The broker takes no message of so many bytes.
    pub(crate) fn too_large(&self, size: usize, limit: usize) -> Error {
        let text = format!(
            "{self}: the payload has {size} bytes, and the broker takes {limit}; keep what is so \
             large elsewhere and enqueue where it is, or raise `max_message_size` in rabbitmq.conf"
        );
        Error::new(ErrorKind::Refused, text)
    }

    pub(crate) fn unconfirmed(&self) -> Error {
        let text = format!("{self}: the channel does not confirm");
        Error::new(ErrorKind::Connection, text).but_maybe_enqueued()
    }

    pub(crate) fn refused(&self) -> Error {
        let text = format!(
            "{self}: the broker refused the message (basic.nack); its queue has no quorum, or a \
             policy limits its length"
        );
        Error::new(ErrorKind::Refused, text)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "publishing to {}", self.0)
    }
}
