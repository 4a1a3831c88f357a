//! Attempt numbers from the headers of a message. Pure.

use lapin::types::{AMQPValue, FieldArray, FieldTable};

use crate::rabbitmq::values::{integer, text};

/// Header with the number of attempts used up when the message was last published. The broker
/// counts those since then.
pub(crate) const ATTEMPTS_HEADER: &str = "jobq-attempts";
/// Upper bound of attempts, above what any policy allows.
const MOST: u32 = i32::MAX as u32;

/// The earlier deliveries of a message, as its headers state them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// See [`attempts_used`].
    pub(crate) attempts: u32,
    /// The number of broker-counted returns that may stand for a crash of the worker.
    ///
    /// Which returns count differs between versions. A crashed worker returns all of its prefetched
    /// deliveries. 4.0 also counts earlier rejections, which are failed attempts.
    pub(crate) crashes: u32,
    /// The broker's own count of returns, crashes or not.
    pub(crate) returns: u32,
    /// Whether the message was ever dead-lettered.
    pub(crate) died: bool,
    /// Whether `x-death` is not as a broker writes it. What it does with such a message differs
    /// between versions, so none is left to it.
    pub(crate) is_forged: bool,
}

impl History {
    /// Reads the headers. The names of the work queues, one for each lane, are computed only for a
    /// dead-lettered message; most are not.
    pub(crate) fn of(headers: &FieldTable, work_queues: impl FnOnce() -> Vec<String>) -> Self {
        let number = |value| integer(value).map_or(0, clamped);
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
            return Self {
                attempts: said,
                crashes: returns,
                returns,
                died: false,
                is_forged: false,
            };
        };
        let rejections = rejections(deaths, &work_queues());
        Self {
            attempts: said.saturating_add(rejections).min(MOST),
            crashes: if returns == rejections { 0 } else { returns },
            returns,
            died: true,
            is_forged: is_forged(deaths),
        }
    }
}

/// The number of attempts used up before this delivery: those that the header states, plus the
/// rejections by the work queues that the broker counted since.
///
/// The broker's entry is searched for, since the order of entries differs between versions.
/// `x-delivery-count` and `redelivered` do not count attempts.
pub(crate) fn attempts_used(headers: &FieldTable, work_queues: Vec<String>) -> u32 {
    History::of(headers, || work_queues).attempts
}

/// The number of rejections by the work queues.
fn rejections(deaths: &AMQPValue, work_queues: &[String]) -> u32 {
    let of_one = |queue: &String| {
        tables(deaths)
            .filter(|death| is_text(death, "queue", queue) && is_text(death, "reason", "rejected"))
            .find_map(|death| death.inner().get("count").and_then(integer))
            .map_or(0, clamped)
    };
    work_queues.iter().map(of_one).fold(0, u32::saturating_add).min(MOST)
}

/// The entries of an `x-death`.
fn tables(deaths: &AMQPValue) -> impl Iterator<Item = &FieldTable> {
    let deaths = deaths.as_array().map(FieldArray::as_slice).unwrap_or_default();
    deaths.iter().filter_map(AMQPValue::as_field_table)
}

/// The end of a message whose publisher set an `expiration` on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiration<'h> {
    /// The queue in which it expired.
    pub(crate) queue: &'h str,
    /// How it had come there.
    pub(crate) exchange: &'h str,
    pub(crate) key: &'h str,
    /// The `expiration`, in milliseconds as the publisher wrote them.
    pub(crate) original: &'h str,
}

/// The queues in which the message expired by its own `expiration`.
pub(crate) fn expirations(headers: &FieldTable) -> impl Iterator<Item = Expiration<'_>> {
    let deaths = headers.inner().get("x-death").into_iter().flat_map(tables);
    deaths.filter(|death| is_text(death, "reason", "expired")).filter_map(|death| {
        let header = |key| death.inner().get(key);
        let keys = header("routing-keys").and_then(AMQPValue::as_array);
        Some(Expiration {
            queue: header("queue").and_then(text)?,
            exchange: header("exchange").and_then(text)?,
            key: keys.and_then(|keys| text(keys.as_slice().first()?))?,
            original: header("original-expiration").and_then(text)?,
        })
    })
}

/// The reason for which the work queue dead-lettered the message, other than a rejection and an
/// `expiration` of its own. It comes from a policy, since jobq sets no limits.
pub(crate) fn died_by_policy<'h>(headers: &'h FieldTable, work_queue: &str) -> Option<&'h str> {
    const OF_POLICIES: [&str; 3] = ["expired", "maxlen", "delivery_limit"];
    let here =
        tables(headers.inner().get("x-death")?).filter(|death| is_text(death, "queue", work_queue));
    let here = here.filter(|death| !death.inner().contains_key("original-expiration"));
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

/// The routing key with which a queue dead-lettered the message.
pub(crate) fn key_at_death<'h>(headers: &'h FieldTable, queue: &str) -> Option<&'h str> {
    let mut here =
        tables(headers.inner().get("x-death")?).filter(|death| is_text(death, "queue", queue));
    let keys = here.find_map(|death| death.inner().get("routing-keys")?.as_array());
    keys?.as_slice().first().and_then(text)
}

/// When the message was last dead-lettered, in whole seconds.
pub(crate) fn last_death(headers: &FieldTable) -> Option<u64> {
    let time = |death: &FieldTable| match death.inner().get("time") {
        Some(AMQPValue::Timestamp(seconds)) => Some(*seconds),
        _ => None,
    };
    tables(headers.inner().get("x-death")?).filter_map(time).max()
}

/// The queues that dead-lettered the message, latest first if the broker keeps that order.
pub(crate) fn queues_of_death(headers: &FieldTable) -> impl Iterator<Item = &str> {
    let deaths = headers.inner().get("x-death").into_iter().flat_map(tables);
    deaths.filter_map(|death| death.inner().get("queue").and_then(text))
}

fn is_text(table: &FieldTable, key: &str, expected: &str) -> bool {
    table.inner().get(key).and_then(text) == Some(expected)
}

/// Clamps a count to 0..=`MOST`.
pub(crate) fn clamped(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
#[path = "deaths_tests.rs"]
mod tests;
