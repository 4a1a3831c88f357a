//! Jobs as messages and messages as jobs. Pure; documented for other clients in
//! `docs/wire.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use super::death::{ATTEMPTS_HEADER, attempts_used, text};
use super::size::{MAX_HEADERS, shrink, size_of_table};
use super::topology::{Names, ORPHAN, WAIT_HEADER};
use super::way::Way;
use crate::clock;
use crate::error::{Error, Result};
use crate::job::{Envelope, FailedJob, FailedReason, JobId, MAX_PAYLOAD, check_name};
use crate::period;

const TOPIC: &str = "jobq-topic";
const EXPIRES_AT: &str = "jobq-expires-at";
const ERROR: &str = "jobq-error";
const REASON: &str = "jobq-failed-reason";
const FAILED_AT: &str = "jobq-failed-at";
/// The routing key of a message that belonged nowhere.
pub(crate) const QUEUE: &str = "jobq-queue";
/// What a failed job has and a job that is put back has not.
const OF_FAILED: [&str; 6] = [ATTEMPTS_HEADER, EXPIRES_AT, ERROR, REASON, FAILED_AT, QUEUE];

/// The most bytes of an error that a failed job keeps.
const MAX_ERROR: usize = 8 * 1024;
const PERSISTENT: u8 = 2;

/// A message on its way to the broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Vec<u8>,
}

/// A name on the wire: at most 255 bytes.
pub(crate) fn short(text: &str) -> Result<ShortString> {
    ShortString::try_new(text).map_err(|source| {
        let start: String = text.chars().take(40).collect();
        Error::invalid(format!("`{start}...` is too long for AMQP")).because(source)
    })
}

/// A text of this module or of jobq's own names, which always fits.
fn fits(text: &str) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
}

fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

/// The message that enqueues a job, on the way that its delay asks for.
pub(crate) fn encode(names: &Names, job: Envelope, way: &Way) -> Result<Message> {
    check_name("queue", &job.queue)?;
    if job.payload.len() > MAX_PAYLOAD {
        return Err(Error::invalid(format!(
            "the payload of job {} has {} bytes, the most is {MAX_PAYLOAD}; store large data \
             elsewhere and enqueue where it is",
            job.id,
            job.payload.len()
        )));
    }
    let mut headers = FieldTable::default();
    let mut add = |key: &str, text: &str| {
        headers.insert(fits(key), long(text));
    };
    // A tier goes by this header alone. The first retry has the worker set another wait.
    if let Some(wait) = way.wait().or(job.retry_wait.map(period::millis)) {
        add(WAIT_HEADER, &wait.to_string());
    }
    if let Some(time) = job.expires_at {
        add(EXPIRES_AT, &clock::to_millis(time).to_string());
    }
    if let Some(topic) = &job.topic {
        add(TOPIC, topic);
    }
    if size_of_table(&headers) > MAX_HEADERS {
        return Err(Error::invalid(format!(
            "the headers of job {} are longer than {MAX_HEADERS} bytes",
            job.id
        )));
    }
    let mut properties = BasicProperties::default()
        .with_content_type(fits("application/json"))
        .with_delivery_mode(PERSISTENT)
        .with_message_id(fits(&job.id.to_string()))
        .with_timestamp(clock::to_millis(job.enqueued_at) / 1_000)
        .with_headers(headers);
    if let Some(name) = &job.name {
        properties = properties.with_type(short(name)?);
    }
    let (exchange, key) = way.address(names, &job.queue);
    Ok(Message { exchange: short(&exchange)?, key: short(&key)?, properties, payload: job.payload })
}

/// A message as a worker is to see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Received {
    pub(crate) envelope: Envelope,
    /// The attempts that were used up before this delivery.
    pub(crate) attempts: u32,
    /// The text of `jobq-wait`.
    pub(crate) wait: Option<String>,
    /// Whether it came with its id: one that was made up now is lost when the broker
    /// moves the message.
    pub(crate) has_id: bool,
}

/// Reads a message of a queue. Whatever is missing or of another type counts as absent;
/// nothing is refused.
pub(crate) fn decode(
    names: &Names,
    queue: Cow<'static, str>,
    properties: &BasicProperties,
    payload: Vec<u8>,
) -> Received {
    let none = FieldTable::default();
    let headers = properties.headers().as_ref().unwrap_or(&none);
    let header = |key: &str| headers.inner().get(key).and_then(text);
    let number = |key: &str| header(key).and_then(decimal);
    let id = properties.message_id().as_ref().and_then(|id| id.as_str().parse().ok());
    let stated = |kind: &&ShortString| !kind.as_str().is_empty();
    let attempts = attempts_used(headers, &names.work(&queue));
    let name = properties.kind().as_ref().filter(stated);
    let enqueued_at = properties.timestamp().map(|seconds| seconds.saturating_mul(1_000));
    let envelope = Envelope {
        id: id.unwrap_or_else(JobId::new),
        queue,
        name: name.map(|name| Cow::Owned(name.as_str().to_owned())),
        payload,
        enqueued_at: enqueued_at.map_or_else(clock::now, clock::from_millis),
        delay: Duration::ZERO,
        retry_wait: number(WAIT_HEADER).map(Duration::from_millis),
        expires_at: number(EXPIRES_AT).map(clock::from_millis),
        topic: header(TOPIC).map(str::to_owned),
    };
    Received {
        envelope,
        attempts,
        wait: header(WAIT_HEADER).map(str::to_owned),
        has_id: id.is_some(),
    }
}

/// A whole number, written as jobq writes it.
fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// What a message gets that is published again.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    headers: BTreeMap<&'static str, AMQPValue>,
}

impl Changes {
    /// The next attempt, through this tier if any.
    pub(crate) fn wait(attempts: u32, tier: Option<u64>) -> Self {
        let mut changes = Self::default();
        changes.number(ATTEMPTS_HEADER, attempts);
        if let Some(millis) = tier {
            changes.text(WAIT_HEADER, &millis.to_string());
        }
        changes
    }

    /// Its place among the failed jobs.
    pub(crate) fn failed(reason: FailedReason, error: &str, attempts: u32) -> Self {
        let mut changes = Self::default();
        changes.number(ATTEMPTS_HEADER, attempts);
        changes.text(ERROR, cut(error, MAX_ERROR));
        changes.text(REASON, reason.as_str());
        changes.text(FAILED_AT, &clock::to_millis(clock::now()).to_string());
        changes
    }

    /// The routing key that led nowhere.
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

/// The properties of a message that is published again: as it was, with the changes,
/// and without what the broker would act upon.
///
/// `x-*` headers lie about a new message (3.10 loses one that has an old `x-death`), `CC`
/// and `BCC` would send it to further queues, an expiration would lose it, and a user id
/// other than the connection's closes the channel.
pub(crate) fn again(original: &BasicProperties, id: JobId, changes: Changes) -> BasicProperties {
    rewrite(original, id, |_| false, changes)
}

/// The properties of a failed job that is put back: fresh attempts and fresh headers.
pub(crate) fn fresh(original: &BasicProperties, id: JobId) -> BasicProperties {
    rewrite(original, id, |key| OF_FAILED.contains(&key), Changes::default())
}

fn rewrite(
    original: &BasicProperties,
    id: JobId,
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
    headers.extend(changes.headers.into_iter().map(|(key, value)| (fits(key), value)));
    shrink(&mut headers);
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(fits(&id.to_string()))
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
    if let Some(value) = copy(original.kind()) {
        properties = properties.with_type(value);
    }
    if let Some(value) = copy(original.app_id()) {
        properties = properties.with_app_id(value);
    }
    properties
}

/// The start of a text, of at most so many bytes.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether a message was sent to the failed jobs before.
pub(crate) fn is_failed(properties: &BasicProperties) -> bool {
    let header = properties.headers().as_ref().and_then(|headers| headers.inner().get(REASON));
    header.and_then(text).and_then(FailedReason::parse).is_some()
}

/// Reads a failed job.
pub(crate) fn decode_failed(
    names: &Names,
    queue: Cow<'static, str>,
    properties: &BasicProperties,
    payload: Vec<u8>,
) -> FailedJob {
    let key = stray_key(properties, &queue).map(|key| Cow::Owned(key.to_owned()));
    let mut received = decode(names, queue, properties, payload);
    received.envelope.queue = key.unwrap_or(received.envelope.queue);
    let headers = properties.headers().clone().unwrap_or_default();
    let header = |key: &str| headers.inner().get(key).and_then(text);
    // Only what somebody else put here has no reason; it was routed by hand.
    let reason = header(REASON).and_then(FailedReason::parse);
    FailedJob::new(
        received.envelope,
        received.attempts,
        reason.unwrap_or(FailedReason::Unroutable),
        header(ERROR).unwrap_or_default().to_owned(),
        failed_at(properties),
    )
}

/// When a job was moved to the failed jobs.
pub(crate) fn failed_at(properties: &BasicProperties) -> SystemTime {
    let headers = properties.headers().as_ref();
    let time = headers.and_then(|headers| headers.inner().get(FAILED_AT)).and_then(text);
    time.and_then(decimal).map_or(UNIX_EPOCH, clock::from_millis)
}

/// The queue that a failed job of this queue goes back to.
pub(crate) fn home(properties: &BasicProperties, queue: &str) -> ShortString {
    let key = stray_key(properties, queue).and_then(|key| ShortString::try_new(key).ok());
    key.unwrap_or_else(|| fits(queue))
}

/// The routing key that led nowhere: only what was moved to the failed jobs of no queue
/// has one. Anywhere else the header is some other client's.
fn stray_key<'p>(properties: &'p BasicProperties, queue: &str) -> Option<&'p str> {
    let headers = properties.headers().as_ref().filter(|_| queue == ORPHAN)?;
    headers.inner().get(QUEUE).and_then(text)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
