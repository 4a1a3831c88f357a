//! AMQP values: strings of limited length, and header values.

use lapin::types::{AMQPValue, LongString, ShortString};

use crate::error::{Error, Result};

/// An AMQP short string: at most 255 bytes.
pub(crate) fn short(text: impl Into<String>) -> Result<ShortString> {
    let text = text.into();
    let is_long = text.len() > usize::from(u8::MAX);
    let start: Option<String> = is_long.then(|| text.chars().take(40).collect());
    ShortString::try_new(text).map_err(|source| {
        let start = start.unwrap_or_default();
        Error::invalid(format!("`{start}...` exceeds AMQP's limit of 255 bytes"))
            .with_source(source)
    })
}

/// A short string of a text that always fits, such as one of jobq's own names.
pub(crate) fn fits(text: impl Into<String>) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
}

/// A long string for a header.
pub(crate) fn long(text: impl Into<Vec<u8>>) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

/// The text of either kind of string, if it is UTF-8.
pub(crate) fn text(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

/// An integer of any width.
pub(crate) fn integer(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(number) => Some(number.into()),
        AMQPValue::ShortShortUInt(number) => Some(number.into()),
        AMQPValue::ShortInt(number) => Some(number.into()),
        AMQPValue::ShortUInt(number) => Some(number.into()),
        AMQPValue::LongInt(number) => Some(number.into()),
        AMQPValue::LongUInt(number) => Some(number.into()),
        AMQPValue::LongLongInt(number) => Some(number),
        _ => None,
    }
}
