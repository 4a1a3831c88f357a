//! Republished messages: which properties change, and which are dropped.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::{
    ENQUEUED_AT, ERROR, EXPIRES_AT, FAILED_AT, PERSISTENT, QUEUE, REASON, SOLO, START, STRAY,
    TOPIC, WAIT_UNTIL,
};
use crate::job::headers::{
    By, NEEDS, ONCE, OPERATIONS, PRIORITY, UNREADABLE, needs_with_once, needs_without_once,
    operations_with,
};
use crate::job::{Envelope, FailedReason, Priority, to_millis};
use crate::rabbitmq::message::deaths::ATTEMPTS_HEADER;
use crate::rabbitmq::message::size::shrink;
use crate::rabbitmq::topology::routing_key::decimal;
use crate::rabbitmq::values::{fits, long, short, text};
use crate::telemetry::Who;

/// Headers of failed jobs, dropped when a failed job is retried.
const OF_FAILED: [&str; 12] = [
    ATTEMPTS_HEADER,
    EXPIRES_AT,
    ERROR,
    REASON,
    FAILED_AT,
    QUEUE,
    SOLO,
    START,
    STRAY,
    WAIT_UNTIL,
    ONCE,
    OPERATIONS,
];

/// Headers to set on a republished message.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    headers: BTreeMap<&'static str, AMQPValue>,
}

impl Changes {
    /// The next attempt.
    pub(crate) fn next(attempts: u32) -> Self {
        let mut changes = Self::default();
        changes.number(ATTEMPTS_HEADER, attempts);
        changes
    }

    /// For a stray that is sent again.
    pub(crate) fn stray(attempts: u32) -> Self {
        let mut changes = Self::next(attempts);
        changes.number(STRAY, 1);
        changes
    }

    /// For a job that goes to the solo queue. `start` identifies the solo run.
    pub(crate) fn solo(attempts: u32, starts: u32, start: Option<&str>) -> Self {
        let mut changes = Self::next(attempts);
        changes.number(SOLO, starts);
        if let Some(start) = start {
            changes.text(START, start);
        }
        changes
    }

    /// For a failed job.
    pub(crate) fn failed(reason: FailedReason, error: &str, attempts: u32, at: SystemTime) -> Self {
        let mut changes = Self::next(attempts);
        changes.text(ERROR, error);
        changes.text(REASON, reason.as_str());
        changes.text(FAILED_AT, &to_millis(at).to_string());
        changes
    }

    /// Adds when the wait is over with which the message is published.
    pub(crate) fn wait_until(mut self, until: Option<SystemTime>) -> Self {
        if let Some(until) = until {
            self.text(WAIT_UNTIL, &to_millis(until).to_string());
        }
        self
    }

    /// Adds the original routing key of an unroutable message.
    pub(crate) fn sent_to(mut self, key: &str) -> Self {
        self.text(QUEUE, key);
        self
    }

    fn number(&mut self, key: &'static str, number: u32) {
        self.headers.insert(key, AMQPValue::LongLongInt(number.into()));
    }

    fn text(&mut self, key: &'static str, text: &str) {
        self.headers.insert(key, long(text));
    }
}

/// The properties of a republished message: the original ones with the changes, without those that
/// the broker acts upon.
///
/// Old `x-*` headers are wrong on a new message (3.10 loses one that has an old `x-death`). `CC`
/// and `BCC` would send it to further queues, an expiration would lose it, and a user id other than
/// the connection's closes the channel.
pub(crate) fn again(
    original: &BasicProperties,
    (who, job): (&Who, &Envelope),
    changes: Changes,
) -> BasicProperties {
    let goes = |key: &str| [SOLO, START, STRAY, WAIT_UNTIL].contains(&key);
    rewrite(original, (who, job), goes, changes)
}

/// The properties of a failed job that is retried, by an operation or by its id: fresh attempts and
/// fresh headers.
pub(crate) fn fresh(
    original: &BasicProperties,
    (who, job): (&Who, &Envelope),
    by: Option<By<'_>>,
) -> BasicProperties {
    // A stated 0 tells the job from one that was just enqueued.
    let mut changes = Changes::next(0);
    let header = |key| original.headers().as_ref().and_then(|headers| headers.inner().get(key));
    let words = |needs| text(needs).unwrap_or(UNREADABLE);
    if header(TOPIC).is_some() {
        // An event states that it has no expiry; otherwise its subscriber's would apply.
        changes.text(EXPIRES_AT, &i64::MAX.to_string());
    }
    let needs = match header(NEEDS) {
        needs if by.is_some_and(|by| by.once) => Some(needs_with_once(needs.map_or("", words))),
        needs => needs.and_then(text).map(needs_without_once),
    };
    if let Some(needs) = needs.as_deref().filter(|needs| !needs.is_empty()) {
        changes.text(NEEDS, needs);
    }
    if let Some(By { operation, once }) = by {
        let before = header(OPERATIONS).and_then(text);
        changes.text(OPERATIONS, &operations_with(before, operation));
        if once {
            changes.text(ONCE, operation);
        }
    }
    let needs_nothing = needs.is_some_and(|needs| needs.is_empty());
    let goes = |key: &str| OF_FAILED.contains(&key) || key == NEEDS && needs_nothing;
    rewrite(original, (who, job), goes, changes)
}

/// The properties with these changes. What the message lacks and the job has by now is added.
fn rewrite(
    original: &BasicProperties,
    (who, job): (&Who, &Envelope),
    without: impl Fn(&str) -> bool,
    changes: Changes,
) -> BasicProperties {
    let broker = |key: &str| key.starts_with("x-") || key == "CC" || key == "BCC";
    let mut headers: BTreeMap<ShortString, AMQPValue> = original
        .headers()
        .iter()
        .flat_map(FieldTable::inner)
        .filter(|(key, _)| !broker(key.as_str()) && !without(key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let enqueued_at = headers.get(ENQUEUED_AT).and_then(text).and_then(decimal);
    let enqueued_at = enqueued_at.unwrap_or_else(|| to_millis(job.enqueued_at));
    headers.insert(fits(ENQUEUED_AT), long(enqueued_at.to_string()));
    if job.priority() != Priority::Normal {
        headers.insert(fits(PRIORITY), long(job.priority().as_str()));
    }
    headers.extend(changes.headers.into_iter().map(|(key, value)| (fits(key), value)));
    shrink(&mut headers, who);
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(fits(who.id.to_text()))
        .with_headers(headers.into());
    let copy = |value: &Option<ShortString>| value.clone();
    if let Some(value) = copy(original.content_type()) {
        properties = properties.with_content_type(value);
    }
    if let Some(value) = copy(original.content_encoding()) {
        properties = properties.with_content_encoding(value);
    }
    if let Some(value) = *original.priority() {
        properties = properties.with_priority(value);
    }
    if let Some(value) = copy(original.correlation_id()) {
        properties = properties.with_correlation_id(value);
    }
    if let Some(value) = copy(original.reply_to()) {
        properties = properties.with_reply_to(value);
    }
    if let Some(value) = *original.timestamp() {
        properties = properties.with_timestamp(value);
    }
    let kind = copy(original.kind()).filter(|name| !name.as_str().is_empty());
    if let Some(value) = kind.or_else(|| short(job.name.as_deref()?).ok()) {
        properties = properties.with_type(value);
    }
    if let Some(value) = copy(original.app_id()) {
        properties = properties.with_app_id(value);
    }
    properties
}
