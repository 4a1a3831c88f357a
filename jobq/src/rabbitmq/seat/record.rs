//! The messages in the queue of a seat. Pure.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use uuid::Uuid;

use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::values::{fits, integer};

const TERM: &str = "jobq-term";
const SEQ: &str = "jobq-seq";
const PERSISTENT: u8 = 2;

/// A part of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    List,
    Position,
}

pub(super) const PARTS: [Part; 2] = [Part::List, Part::Position];

/// The place of a part among all that were written: by the number of its holder, and by that of the
/// write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    pub(super) term: i64,
    pub(super) seq: i64,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Part(Part, Stamp),
    Change,
    /// A message that makes its receiver the holder.
    Seed,
    /// A message of a new holder: all that comes before it was in the queue.
    Mark(Uuid),
    /// A message of somebody else.
    Unknown,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Part(Part::List, _) => "list",
            Self::Part(Part::Position, _) => "position",
            Self::Change => "change",
            Self::Seed => "seed",
            Self::Mark(_) => "mark",
            Self::Unknown => "",
        }
    }

    /// The message of this kind.
    pub(super) fn message(self, to: Route, payload: Vec<u8>) -> Message {
        let mut properties =
            BasicProperties::default().with_delivery_mode(PERSISTENT).with_type(fits(self.name()));
        match self {
            Self::Part(_, Stamp { term, seq }) => {
                let mut headers = FieldTable::default();
                headers.insert(fits(TERM), AMQPValue::LongLongInt(term));
                headers.insert(fits(SEQ), AMQPValue::LongLongInt(seq));
                properties = properties.with_headers(headers);
            }
            Self::Mark(id) => properties = properties.with_message_id(fits(id.to_string())),
            Self::Change | Self::Seed | Self::Unknown => {}
        }
        Message { to: to.into(), properties, payload }
    }

    /// The kind of a message.
    pub(super) fn of(properties: &BasicProperties) -> Self {
        let text = |text: &Option<lapin::types::ShortString>| {
            text.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()
        };
        let part = |part| {
            let headers = properties.headers().as_ref()?.inner();
            let number = |name: &str| headers.get(name).and_then(integer);
            Some(Self::Part(part, Stamp { term: number(TERM)?, seq: number(SEQ)? }))
        };
        let known = match text(properties.kind()).as_str() {
            "list" => part(Part::List),
            "position" => part(Part::Position),
            "change" => Some(Self::Change),
            "seed" => Some(Self::Seed),
            "mark" => text(properties.message_id()).parse().ok().map(Self::Mark),
            _ => None,
        };
        known.unwrap_or(Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_was_written() {
        let stamp = Stamp { term: 3, seq: i64::MAX };
        let kinds = [
            Kind::Part(Part::List, stamp),
            Kind::Part(Part::Position, stamp),
            Kind::Change,
            Kind::Seed,
            Kind::Mark(Uuid::from_u128(7)),
            Kind::Unknown,
        ];
        for kind in kinds {
            let to = Route::new("jobq.control".to_owned(), "seat:mail".to_owned()).unwrap();
            let message = kind.message(to, vec![1]);
            assert_eq!(Kind::of(&message.properties), kind);
        }
        assert_eq!(Kind::of(&BasicProperties::default()), Kind::Unknown);
        // Without stamps.
        assert_eq!(Kind::of(&BasicProperties::default().with_type("list".into())), Kind::Unknown);
    }

    #[test]
    fn a_later_holder_wins() {
        let stamp = |term, seq| Stamp { term, seq };
        assert!(stamp(2, 0) > stamp(1, 9) && stamp(1, 9) > stamp(1, 8));
    }
}
