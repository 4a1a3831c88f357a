//! Delay levels: any wait as a number with a few digits. Pure; `docs/delays.md` says why.
//!
//! A wait is counted in units of 100 milliseconds and written in one radix, one digit a
//! level, as the start of the routing key. A level has one queue for each digit but 0,
//! which keeps a message for as long as that digit means and passes it on to the next
//! lower level, where the next digit of the same key decides. So a fixed number of queues
//! gives every wait, and since all messages of one queue wait equally long, none waits
//! behind another.

use std::ops::RangeInclusive;

use crate::period;

/// What a wait is counted in, in milliseconds. Waits are rounded up to it.
pub(crate) const UNIT: u64 = 100;
/// How many digits there are. More make fewer hops, and more queues.
pub(crate) const RADIX: u64 = 8;
/// The longest wait that the levels hold, in milliseconds: the longest that an attribute
/// can name, and the longest time to live that the broker accepts.
pub(crate) const HORIZON: u64 = period::MAX.as_secs() * 1_000;
/// How many levels there are.
pub(crate) const LEVELS: u32 = (HORIZON / UNIT).ilog(RADIX) + 1;

/// Where a message enters the levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The level of the highest digit that is not 0: those above would keep it for no
    /// time at all.
    pub(crate) level: u32,
    /// The routing key, the same through all levels.
    pub(crate) key: String,
}

/// The way of a message for this queue that waits for so long; `None` beyond the
/// [`HORIZON`].
pub(crate) fn entry(millis: u64, queue: &str) -> Option<Entry> {
    if millis > HORIZON {
        return None;
    }
    let units = millis.div_ceil(UNIT);
    let mut key = String::new();
    for level in (0..LEVELS).rev() {
        key.push_str(&(units / RADIX.pow(level) % RADIX).to_string());
        key.push('.');
    }
    let level = units.checked_ilog(RADIX).unwrap_or(0);
    Some(Entry { level, key: key + &tail(queue) })
}

/// The digits of a level that have a queue. The highest level needs no more than those of
/// the [`HORIZON`].
pub(crate) fn digits(level: u32) -> RangeInclusive<u64> {
    1..=(RADIX - 1).min(HORIZON / UNIT / RADIX.pow(level))
}

/// How long a message is kept for this digit of this level, in milliseconds.
pub(crate) const fn ttl(level: u32, digit: u64) -> u64 {
    digit * RADIX.pow(level) * UNIT
}

/// What matches the keys with this digit at this level. The number of words before it is
/// exact: `#` in their place would match the digit anywhere in the key.
pub(crate) fn pattern(level: u32, digit: u64) -> String {
    format!("{}{digit}.#", any(LEVELS - 1 - level))
}

/// What matches the keys of this queue, whatever their wait was.
pub(crate) fn delivery_pattern(queue: &str) -> String {
    any(LEVELS) + &tail(queue)
}

/// The queue of a key that [`entry`] made.
pub(crate) fn queue_of(key: &str) -> Option<&str> {
    let digits = (0..LEVELS).try_fold(key, |key, _| key.split_once('.').map(|(_, rest)| rest));
    digits?.strip_prefix("q.")
}

/// So many words.
fn any(words: u32) -> String {
    (0..words).map(|_| "*.").collect()
}

/// A letter of its own, so that what else than queues may once be the end of a way stays
/// apart from them.
fn tail(queue: &str) -> String {
    format!("q.{queue}")
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
