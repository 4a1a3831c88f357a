//! The outcome of messages that were unconfirmed when their channel ended. Pure.
//!
//! The broker reads the messages of a channel in order, and closes the channel at the first one
//! that it refuses; it never reads those after it. The error does not name the message, but states
//! enough to find it.

use crate::rabbitmq::errors::{ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, refused};
use crate::rabbitmq::topology::routing::Route;

/// Why the broker refused a message and closed the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is larger than the broker's `max_message_size`, in bytes.
    Size { limit: usize },
    /// Its exchange does not exist, or this user may not publish to it.
    Exchange { name: String },
}

impl Refusal {
    /// The reason for which the broker refused a message, if this error states one.
    pub(crate) fn of(error: &lapin::Error) -> Option<Self> {
        refused(error).and_then(|(code, text)| Self::read(code, text))
    }

    fn read(code: u16, text: &str) -> Option<Self> {
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

    /// Whether a message with this route and payload may be the refused one.
    pub(super) fn may_be_of(&self, route: &Route, payload: &[u8]) -> bool {
        match self {
            Self::Size { limit } => payload.len() > *limit,
            Self::Exchange { name } => route.exchange.as_str() == name,
        }
    }
}

/// An unconfirmed message of a channel that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unconfirmed {
    /// False if `lapin` did not send it because the channel had ended.
    pub(super) was_sent: bool,
    /// Whether it may be the message that the broker refused.
    pub(super) may_be_refused: bool,
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The broker closed the channel because of it. It is not stored.
    Refused,
    /// The broker never read it. It is not stored.
    Unseen,
    /// It may be stored.
    Unknown,
}

/// The outcomes of the unconfirmed messages of a channel, in the order of sending.
pub(super) fn ends(messages: &[Unconfirmed]) -> Vec<End> {
    let refused = messages.iter().position(|message| message.was_sent && message.may_be_refused);
    let end = |(place, message): (usize, &Unconfirmed)| match refused {
        _ if !message.was_sent => End::Unseen,
        Some(refused) if place == refused => End::Refused,
        Some(refused) if place > refused => End::Unseen,
        _ => End::Unknown,
    };
    messages.iter().enumerate().map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_a_message_tells_which() {
        let size = |limit| Some(Refusal::Size { limit });
        let exchange = |name: &str| Some(Refusal::Exchange { name: name.to_owned() });
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
            assert_eq!(Refusal::read(code, text), expected, "{code} {text}");
        }
    }

    #[test]
    fn only_a_matching_message_may_be_refused() {
        let route = |exchange: &str| Route::new(exchange.into(), "k".into()).unwrap();
        let size = Refusal::Size { limit: 10 };
        assert!(size.may_be_of(&route("a"), &[0; 11]) && !size.may_be_of(&route("a"), &[0; 10]));
        let exchange = Refusal::Exchange { name: "a".to_owned() };
        assert!(exchange.may_be_of(&route("a"), &[]) && !exchange.may_be_of(&route("a.b"), &[]));
    }

    #[test]
    fn the_first_message_that_can_be_is_the_refused_one() {
        let sent = Unconfirmed { was_sent: true, may_be_refused: false };
        let suspect = Unconfirmed { may_be_refused: true, ..sent };
        let unsent = Unconfirmed { was_sent: false, ..suspect };
        let (refused, unseen, unknown) = (End::Refused, End::Unseen, End::Unknown);
        let table: [(&[Unconfirmed], &[End]); 6] = [
            (&[], &[]),
            (&[sent, sent], &[unknown, unknown]),
            (&[sent, suspect, sent, suspect], &[unknown, refused, unseen, unseen]),
            (&[suspect, unsent], &[refused, unseen]),
            (&[sent, unsent], &[unknown, unseen]),
            (&[unsent, suspect], &[unseen, refused]),
        ];
        for (messages, expected) in table {
            assert_eq!(ends(messages), expected, "{messages:?}");
        }
    }
}
