//! Delay levels: any wait as a number with a few digits. Pure; `docs/delays.md` has the reasons.
//!
//! A wait is counted in units of 100 milliseconds and written in one radix, one digit a level, as
//! the start of the routing key. A level has one queue for each digit but 0. The queue keeps a
//! message for the time of its digit, and passes it on to the next lower level, where the next
//! digit of the same key decides. So a fixed number of queues gives every wait, and no message
//! waits behind another, since all of one queue wait equally long.

use std::ops::RangeInclusive;

use crate::period;

/// The unit of waits, in milliseconds. Waits are rounded up to it.
pub(crate) const UNIT: u64 = 100;
/// The number of digits, each written in decimal. More digits mean fewer hops and more queues.
pub(crate) const RADIX: u64 = 16;
/// The longest wait of the levels, in milliseconds: the longest that an attribute can name, and the
/// longest time to live that the broker accepts.
pub(crate) const HORIZON: u64 = period::MAX.as_secs() * 1_000;
/// The number of levels.
pub(crate) const LEVELS: u32 = (HORIZON / UNIT).ilog(RADIX) + 1;

/// The destination of a message. Each kind has a letter in the key, so that a queue and a topic of
/// one name differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End<'k> {
    /// The work queue of one lane.
    Queue(&'k str),
    /// The queues that subscribe to this topic.
    Topic(&'k str),
}

impl<'k> End<'k> {
    /// The lane, or the topic.
    pub(crate) fn text(self) -> &'k str {
        match self {
            Self::Queue(text) | Self::Topic(text) => text,
        }
    }

    fn tail(self) -> String {
        match self {
            Self::Queue(queue) => format!("q.{queue}"),
            Self::Topic(topic) => format!("e.{topic}"),
        }
    }

    fn of_tail(tail: &'k str) -> Option<Self> {
        let (letter, text) = tail.split_once('.')?;
        match letter {
            "q" => Some(Self::Queue(text)),
            "e" => Some(Self::Topic(text)),
            _ => None,
        }
    }
}

/// The level and key with which a message enters the levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The level of the highest digit that is not 0. Those above would not delay it.
    pub(crate) level: u32,
    /// The routing key, the same through all levels.
    pub(crate) key: String,
}

/// The entry for a wait; `None` beyond the [`HORIZON`].
pub(crate) fn entry(millis: u64, end: End<'_>) -> Option<Entry> {
    if millis > HORIZON {
        return None;
    }
    let units = millis.div_ceil(UNIT);
    Some(Entry { level: needed(millis) - 1, key: words(units) + &end.tail() })
}

/// The number of levels that a wait passes through, from the lowest: those above would not delay it.
/// A wait beyond the [`HORIZON`] needs all of them.
pub(crate) fn needed(millis: u64) -> u32 {
    millis.min(HORIZON).div_ceil(UNIT).checked_ilog(RADIX).unwrap_or(0) + 1
}

/// The digits of a wait, as the start of a key.
fn words(units: u64) -> String {
    let mut words = String::new();
    for level in (0..LEVELS).rev() {
        words.push_str(&(units / RADIX.pow(level) % RADIX).to_string());
        words.push('.');
    }
    words
}

/// The key of probes of a digit of a level. Its destination is none of a job or an event.
pub(crate) fn probe(level: u32, digit: u64) -> String {
    words(digit * RADIX.pow(level)) + PROBE
}

/// The binding pattern of probes, for any wait.
pub(crate) fn probe_pattern() -> String {
    any(LEVELS) + PROBE
}

/// The destination in the keys of probes.
const PROBE: &str = "p";

/// The digits of a level that have a queue. The highest level has only the digits of the
/// [`HORIZON`].
pub(crate) fn digits(level: u32) -> RangeInclusive<u64> {
    1..=(RADIX - 1).min(HORIZON / UNIT / RADIX.pow(level))
}

/// How long a message is kept for this digit of this level, in milliseconds.
pub(crate) const fn ttl(level: u32, digit: u64) -> u64 {
    digit * RADIX.pow(level) * UNIT
}

/// The binding pattern of a digit at a level. The number of words before it is exact: `#` in their
/// place would match the digit anywhere in the key.
pub(crate) fn pattern(level: u32, digit: u64) -> String {
    format!("{}{digit}.#", any(LEVELS - 1 - level))
}

/// The binding pattern of a destination, for any wait. A topic may be a pattern.
pub(crate) fn end_pattern(end: End<'_>) -> String {
    any(LEVELS) + &end.tail()
}

/// The destination in a key of [`entry`].
pub(crate) fn end_of(key: &str) -> Option<End<'_>> {
    let tail = (0..LEVELS).try_fold(key, |key, _| key.split_once('.').map(|(_, rest)| rest));
    End::of_tail(tail?)
}

/// Whether no wait is left for a message with this key at this level: the remaining digits are 0.
pub(crate) fn is_over(key: &str, level: u32) -> bool {
    let above = LEVELS.saturating_sub(level + 1) as usize;
    let mut rest = key.split('.').take(LEVELS as usize).skip(above);
    rest.all(|digit| digit == "0")
}

/// A pattern of this many words.
fn any(words: u32) -> String {
    (0..words).map(|_| "*.").collect()
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
