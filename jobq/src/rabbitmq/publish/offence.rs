//! For which message the broker has closed a channel. Pure.
//!
//! The broker does the publishes of a channel in their order, and ends the channel at the first
//! that it refuses: those after it are never looked at. The error does not say which one it
//! was, but it says enough to find it.

use crate::rabbitmq::errors::{ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED};
use crate::rabbitmq::message::properties::Message;

/// What is wrong with the message for which a channel was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offence {
    /// It is larger than the broker takes (`max_message_size`), in bytes.
    Size { limit: usize },
    /// Its exchange does not exist, or this user may not publish to it.
    Exchange { name: String },
}

impl Offence {
    /// What the broker's refusal says, if it is of a message.
    pub(crate) fn read(code: u16, text: &str) -> Option<Self> {
        match code {
            PRECONDITION_FAILED => {
                let (_, limit) = text.split_once("is larger than configured max size ")?;
                let digits = limit.split(|c: char| !c.is_ascii_digit()).next()?;
                Some(Self::Size { limit: digits.parse().ok()? })
            }
            NOT_FOUND | ACCESS_REFUSED => {
                let (_, name) = text.split_once("exchange '")?;
                let (name, _) = name.split_once('\'')?;
                Some(Self::Exchange { name: name.to_owned() })
            }
            _ => None,
        }
    }

    /// Whether it may be this message's.
    pub(crate) fn is_of(&self, message: &Message) -> bool {
        match self {
            Self::Size { limit } => message.payload.len() > *limit,
            Self::Exchange { name } => message.route.exchange.as_str() == name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rabbitmq::topology::route::Route;

    #[test]
    fn each_refusal_of_a_message_tells_which() {
        let size = |limit| Some(Offence::Size { limit });
        let exchange = |name: &str| Some(Offence::Exchange { name: name.to_owned() });
        let table = [
            (
                406,
                "PRECONDITION_FAILED - message size 200008 is larger than configured max size 100000",
                size(100_000),
            ),
            (406, "message size 5 is larger than configured max size 4.", size(4)),
            (406, "message size 5 is larger than configured max size ", None),
            (406, "PRECONDITION_FAILED - inequivalent arg 'x' for exchange 'jobq'", None),
            (404, "NOT_FOUND - no exchange 'jobq.retry' in vhost '/'", exchange("jobq.retry")),
            (
                403,
                "ACCESS_REFUSED - access to exchange 'jobq' in vhost '/' refused for user 'ann'",
                exchange("jobq"),
            ),
            (
                403,
                "ACCESS_REFUSED - write access to exchange 'jobq' in vhost '/' refused for user 'a'",
                exchange("jobq"),
            ),
            (
                403,
                "ACCESS_REFUSED - write access to topic 'a.b' in exchange 'jobq.events' in vhost '/'",
                exchange("jobq.events"),
            ),
            (404, "NOT_FOUND - no queue 'jobq' in vhost '/'", None),
            (404, "exchange 'jobq", None),
            (541, "INTERNAL_ERROR", None),
        ];
        for (code, text, expected) in table {
            assert_eq!(Offence::read(code, text), expected, "{code} {text}");
        }
    }

    #[test]
    fn only_a_message_that_it_is_about_can_be_the_one() {
        let message = |exchange: &str, size| Message {
            route: Route::new(exchange.into(), "k".into()).unwrap().into(),
            properties: lapin::BasicProperties::default(),
            payload: vec![0; size],
        };
        let size = Offence::Size { limit: 10 };
        assert!(size.is_of(&message("a", 11)) && !size.is_of(&message("a", 10)));
        let exchange = Offence::Exchange { name: "a".to_owned() };
        assert!(exchange.is_of(&message("a", 0)) && !exchange.is_of(&message("a.b", 0)));
    }
}
