//! The number of an attempt: a pure function of a message's headers.

use lapin::types::{AMQPValue, FieldArray, FieldTable};

use crate::rabbitmq::values::{integer, text};

/// The header with the number of attempts that were used up when the message was last
/// published; the broker counts those since then.
pub(crate) const ATTEMPTS_HEADER: &str = "jobq-attempts";
/// More attempts than any policy allows; a number beyond it has no other meaning.
const MOST: u32 = i32::MAX as u32;

/// What the headers of a message tell of the deliveries before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// See [`attempts_used`].
    pub(crate) attempts: u32,
    /// How often the worker that had a delivery may have died of it: what the broker counted
    /// as returns of it.
    ///
    /// Which returns count differs between versions, and of the prefetched deliveries of a
    /// worker that died each was returned. 4.0 says the rejections of before, which are
    /// failed attempts.
    pub(crate) crashes: u32,
    /// Whether the message died anywhere.
    pub(crate) died: bool,
    /// Whether `x-death` is not as a broker writes it.
    ///
    /// A broker that is to move such a message reads it, fails, and from then on moves nothing
    /// more out of that queue.
    pub(crate) is_forged: bool,
}

impl History {
    /// What these headers tell. The name of the work queue is asked for only where something
    /// died, which most messages have not.
    pub(crate) fn of(headers: &FieldTable, work_queue: impl FnOnce() -> String) -> Self {
        let number = |value| integer(value).map_or(0, sane);
        let (mut said, mut returns, mut deaths) = (0, 0, None);
        for (key, value) in headers.inner() {
            match key.as_str() {
                ATTEMPTS_HEADER => said = number(value),
                "x-delivery-count" => returns = number(value),
                "x-death" => deaths = Some(value),
                _ => {}
            }
        }
        let Some(deaths) = deaths else {
            return Self { attempts: said, crashes: returns, died: false, is_forged: false };
        };
        let rejections = rejections(deaths, &work_queue());
        Self {
            attempts: said.saturating_add(rejections).min(MOST),
            crashes: if returns == rejections { 0 } else { returns },
            died: true,
            is_forged: is_forged(deaths),
        }
    }
}

/// How many attempts were used up before this delivery: those that the message says,
/// and those that the broker counted since, as rejections by the work queue.
///
/// The broker's entry is searched for, since the order of entries differs between
/// versions. `x-delivery-count` and `redelivered` say nothing about attempts.
pub(crate) fn attempts_used(headers: &FieldTable, work_queue: &str) -> u32 {
    History::of(headers, || work_queue.to_owned()).attempts
}

/// How often the work queue rejected the message.
fn rejections(deaths: &AMQPValue, work_queue: &str) -> u32 {
    tables(deaths)
        .filter(|death| is_text(death, "queue", work_queue) && is_text(death, "reason", "rejected"))
        .find_map(|death| death.inner().get("count").and_then(integer))
        .map_or(0, sane)
}

/// The entries of an `x-death`.
fn tables(deaths: &AMQPValue) -> impl Iterator<Item = &FieldTable> {
    let deaths = deaths.as_array().map(FieldArray::as_slice).unwrap_or_default();
    deaths.iter().filter_map(AMQPValue::as_field_table)
}

/// Why the work queue lost the message, if not because a worker rejected it: then a policy
/// limits it, since jobq does not.
pub(crate) fn died_by_policy<'h>(headers: &'h FieldTable, work_queue: &str) -> Option<&'h str> {
    const OF_POLICIES: [&str; 3] = ["expired", "maxlen", "delivery_limit"];
    let here =
        tables(headers.inner().get("x-death")?).filter(|death| is_text(death, "queue", work_queue));
    let mut reasons = here.filter_map(|death| death.inner().get("reason").and_then(text));
    reasons.find(|reason| OF_POLICIES.contains(reason))
}

fn is_forged(deaths: &AMQPValue) -> bool {
    let deaths = deaths.as_array().map(FieldArray::as_slice);
    !deaths.is_some_and(|deaths| deaths.iter().all(is_death))
}

fn is_death(value: &AMQPValue) -> bool {
    let Some(death) = value.as_field_table() else {
        return false;
    };
    let is = |key: &str, sound: fn(&AMQPValue) -> bool| death.inner().get(key).is_some_and(sound);
    let is_long = |value: &AMQPValue| matches!(value, AMQPValue::LongString(_));
    is("queue", is_long)
        && is("reason", is_long)
        && is("exchange", is_long)
        && is("routing-keys", |keys| {
            let keys = keys.as_array().map(FieldArray::as_slice);
            keys.is_some_and(|keys| keys.iter().all(|key| text(key).is_some()))
        })
        && is(
            "count",
            |count| matches!(count, AMQPValue::LongLongInt(count) if (0..=i64::from(MOST)).contains(count)),
        )
        && is("time", |time| matches!(time, AMQPValue::Timestamp(_)))
}

/// The routing key that the message had in a queue in which it died.
pub(crate) fn key_at_death<'h>(headers: &'h FieldTable, queue: &str) -> Option<&'h str> {
    let mut here =
        tables(headers.inner().get("x-death")?).filter(|death| is_text(death, "queue", queue));
    let keys = here.find_map(|death| death.inner().get("routing-keys")?.as_array());
    keys?.as_slice().first().and_then(text)
}

/// The queues in which the message died, latest first where the broker says so.
pub(crate) fn queues_of_death(headers: &FieldTable) -> impl Iterator<Item = &str> {
    let deaths = headers.inner().get("x-death").into_iter().flat_map(tables);
    deaths.filter_map(|death| death.inner().get("queue").and_then(text))
}

fn is_text(table: &FieldTable, key: &str, expected: &str) -> bool {
    table.inner().get(key).and_then(text) == Some(expected)
}

/// A count that cannot be is none; one that is too large is cut.
pub(crate) fn sane(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
#[path = "deaths_tests.rs"]
mod tests;
