//! Encoding of jobs as messages, and decoding. Pure; `docs/wire.md` documents it for other clients.

mod republish;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

pub(crate) use republish::{Changes, again, fresh};

use super::deaths::{ATTEMPTS_HEADER, History, clamped, key_at_death};
use super::size::{MAX_HEADERS, size_of_table};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::job::headers::{DUE, NEEDS, NONCE, ONCE, OPERATIONS, UNREADABLE, is_own_name};
use crate::job::{
    Envelope, EventEnvelope, FailedJob, FailedReason, Headers, JobId, MAX_PAYLOAD, from_millis,
    to_millis,
};
use crate::rabbitmq::topology::destination::Destination;
use crate::rabbitmq::topology::levels::{self, End};
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key::decimal;
use crate::rabbitmq::values::{fits, integer, long, short, text};

const TOPIC: &str = "jobq-topic";
/// The number of solo runs that were started. Only jobs that run solo have it.
const SOLO: &str = "jobq-solo";
/// The id of the last solo run, for the consumer that started it.
const START: &str = "jobq-solo-start";
/// When the wait is over with which the message was published last.
const WAIT_UNTIL: &str = "jobq-wait-until";
const EXPIRES_AT: &str = "jobq-expires-at";
const ERROR: &str = "jobq-error";
const REASON: &str = "jobq-failed-reason";
const FAILED_AT: &str = "jobq-failed-at";
/// Marks a stray that was sent again.
const STRAY: &str = "jobq-stray";
/// The original routing key of an unroutable message.
pub(crate) const QUEUE: &str = "jobq-queue";
const PERSISTENT: u8 = 2;

/// A message to publish.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) to: Destination,
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Vec<u8>,
}

impl Message {
    /// The route if it is sent now.
    pub(crate) fn route(&self) -> Arc<Route> {
        self.to.route()
    }
}

/// Encodes a job as a message.
pub(crate) fn encode(job: Envelope, to: impl Into<Destination>) -> Result<Message> {
    let mut headers = Table::default();
    let to = to.into();
    headers.add_time(EXPIRES_AT, job.expires_at);
    headers.add_time(WAIT_UNTIL, to.until());
    headers.add_all(&job.headers);
    if let Some(topic) = &job.topic {
        headers.add(TOPIC, topic.as_str());
    }
    if job.attempts > 0 {
        headers.0.insert(fits(ATTEMPTS_HEADER), AMQPValue::LongLongInt(job.attempts.into()));
    }
    let mut properties = headers.into_properties(job.id, job.enqueued_at)?;
    if let Some(encoding) = &job.content_encoding {
        properties = properties.with_content_encoding(short(&**encoding)?);
    }
    if let Some(name) = &job.name {
        properties = properties.with_type(short(&**name)?);
    }
    if let Some(origin) = &job.enqueued_by {
        properties = properties.with_app_id(short(&**origin)?);
    }
    message(to, job.id, properties, job.payload)
}

/// Encodes an event as a message. It names no job: each subscriber has its own.
pub(crate) fn encode_event(event: EventEnvelope, to: impl Into<Destination>) -> Result<Message> {
    let mut headers = Table::default();
    let to = to.into();
    headers.add_time(EXPIRES_AT, event.expires_at);
    headers.add_time(WAIT_UNTIL, to.until());
    headers.add_all(&event.headers);
    headers.add(TOPIC, event.topic.as_str());
    let mut properties = headers.into_properties(event.id, event.published_at)?;
    if let Some(encoding) = &event.content_encoding {
        properties = properties.with_content_encoding(short(&**encoding)?);
    }
    if let Some(program) = &event.enqueued_by {
        properties = properties.with_app_id(short(&**program)?);
    }
    message(to, event.id, properties, event.payload)
}

/// The headers of a new message.
#[derive(Default)]
struct Table(FieldTable);

impl Table {
    fn add(&mut self, key: &str, text: impl Into<Vec<u8>>) {
        self.0.insert(fits(key), long(text));
    }

    fn add_all(&mut self, headers: &Headers) {
        for (name, value) in headers.iter() {
            self.add(name, value);
        }
    }

    fn add_time(&mut self, key: &str, time: Option<SystemTime>) {
        if let Some(time) = time {
            self.add(key, to_millis(time).to_string());
        }
    }

    fn into_properties(self, id: JobId, time: SystemTime) -> Result<BasicProperties> {
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_message_id(fits(id.to_text()))
            .with_timestamp(to_millis(time) / 1_000);
        if self.0.inner().is_empty() {
            return Ok(properties);
        }
        if size_of_table(&self.0) > MAX_HEADERS {
            return Err(Error::invalid(format!(
                "the headers of job {id} exceed the limit of {MAX_HEADERS} bytes; move large \
                 values into the payload"
            )));
        }
        Ok(properties.with_headers(self.0))
    }
}

fn message(
    to: Destination,
    id: JobId,
    properties: BasicProperties,
    payload: Vec<u8>,
) -> Result<Message> {
    if payload.len() > MAX_PAYLOAD {
        return Err(Error::invalid(format!(
            "the payload of job {id} has {} bytes, more than the limit of {MAX_PAYLOAD}; store \
             large data elsewhere and enqueue a reference to it",
            payload.len()
        )));
    }
    Ok(Message { to, properties, payload })
}

/// The topic of an event, from the exchange and key by which it reached this queue. A message of
/// another client may have no topic header.
pub(crate) fn topic_of_route<'w>(
    names: &Names,
    queue: &str,
    (exchange, key): (&'w str, &'w str),
    properties: &BasicProperties,
) -> Option<Cow<'w, str>> {
    if let Some(topic) = names.topic_of(exchange, key) {
        return Some(Cow::Borrowed(topic));
    }
    let headers = properties.headers().as_ref()?;
    if !headers.contains_key("x-death") {
        return None;
    }
    match levels::end_of(key_at_death(headers, &names.due(queue))?) {
        Some(End::Topic(topic)) => Some(Cow::Owned(topic.to_owned())),
        _ => None,
    }
}

/// Stores this topic in a header for publishing by another route. True if the header changed.
pub(crate) fn keep_topic(properties: &mut BasicProperties, topic: Option<&str>) -> bool {
    let Some(topic) = topic else {
        return false;
    };
    let mut headers = properties.headers().clone().unwrap_or_default();
    if headers.inner().get(TOPIC).and_then(text) == Some(topic) {
        return false;
    }
    headers.insert(fits(TOPIC), long(topic));
    *properties = std::mem::take(properties).with_headers(headers);
    true
}

/// A message as a worker sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Received {
    pub(crate) envelope: Envelope,
    pub(crate) history: History,
    /// Whether the broker can dead-letter it, and to one queue only.
    pub(crate) is_movable: bool,
    /// Whether the message has its own id. A generated one is lost when the broker moves the
    /// message.
    pub(crate) has_id: bool,
}

/// Reads a message of a queue. Missing values and those of a wrong type count as absent. No message
/// is refused.
pub(crate) fn decode(
    names: &Names,
    queue: Cow<'static, str>,
    properties: &BasicProperties,
    payload: Vec<u8>,
) -> Received {
    let none = FieldTable::default();
    let headers = properties.headers().as_ref().unwrap_or(&none);
    let (mut expires_at, mut topic, mut is_copied) = (None, None, false);
    let mut kept = Headers::new();
    for (key, value) in headers.inner() {
        match key.as_str() {
            EXPIRES_AT => expires_at = text(value).and_then(decimal),
            TOPIC => topic = text(value),
            // The broker dead-letters a message to all queues that `CC` names.
            "CC" => is_copied = true,
            NEEDS => kept.put(NEEDS, text(value).unwrap_or(UNREADABLE)),
            name if is_own_name(name) || [ONCE, OPERATIONS, NONCE, DUE].contains(&name) => {
                if let Some(value) = text(value) {
                    kept.put(name, value);
                }
            }
            _ => {}
        }
    }
    let id = properties.message_id().as_ref().and_then(|id| id.as_str().parse().ok());
    let history = History::of(headers, || names.work(&queue));
    let name = stated(properties.kind().as_ref());
    // A job without a queue of its own has its name as the queue's name.
    let name = name.map(|name| if name == queue { queue.clone() } else { name.to_owned().into() });
    let enqueued_at = properties.timestamp().map(|seconds| seconds.saturating_mul(1_000));
    let envelope = Envelope {
        id: id.unwrap_or_else(JobId::new),
        queue,
        name,
        payload,
        content_encoding: stated(properties.content_encoding().as_ref())
            .map(|encoding| encoding.to_owned().into()),
        headers: kept,
        attempts: history.attempts,
        enqueued_at: enqueued_at.map_or_else(|| Clock::system().now(), from_millis),
        delay: Duration::ZERO,
        retry_wait: None,
        expires_at: expires_at.map(from_millis),
        topic: topic.map(str::to_owned),
        enqueued_by: stated(properties.app_id().as_ref()).map(Arc::from),
    };
    let is_movable = !history.is_forged && !is_copied;
    Received { envelope, is_movable, has_id: id.is_some(), history }
}

/// The due time of a job's first attempt. `None` for any later delivery: one that a worker
/// published again, or that the broker returned after a wait.
pub(crate) fn first_due(properties: &BasicProperties, received: &Received) -> Option<SystemTime> {
    let headers = properties.headers().as_ref().map(FieldTable::inner);
    let is_first = received.history.attempts == 0
        && headers.is_none_or(|headers| !headers.contains_key(ATTEMPTS_HEADER));
    is_first.then(|| received.envelope.headers.due().unwrap_or_else(|| enqueued_at(received)))
}

/// When a job was enqueued. The timestamp has whole seconds, and an id that was made when the job
/// was enqueued has the milliseconds.
fn enqueued_at(received: &Received) -> SystemTime {
    let since = received.envelope.enqueued_at;
    let made_at = received.envelope.id.made_at().filter(|_| received.has_id);
    let is_of_this_second = |made_at: &SystemTime| {
        made_at.duration_since(since).is_ok_and(|later| later < Duration::from_secs(1))
    };
    made_at.filter(is_of_this_second).unwrap_or(since)
}

/// When the wait of a message is over, as it states that.
pub(crate) fn wait_until(properties: &BasicProperties) -> Option<SystemTime> {
    let headers = properties.headers().as_ref()?;
    headers.inner().get(WAIT_UNTIL).and_then(text).and_then(decimal).map(from_millis)
}

/// The text of a property that is present and not empty.
fn stated(property: Option<&ShortString>) -> Option<&str> {
    property.map(ShortString::as_str).filter(|text| !text.is_empty())
}

/// The number of solo runs that were started, and the id of the last one.
pub(crate) fn solo(properties: &BasicProperties) -> (u32, Option<&str>) {
    let header = |key| properties.headers().as_ref().and_then(|headers| headers.inner().get(key));
    let starts = header(SOLO).and_then(integer).map_or(0, clamped);
    (starts, header(START).and_then(text))
}

/// Whether the message was moved to the failed jobs before.
pub(crate) fn is_failed(properties: &BasicProperties) -> bool {
    let header = properties.headers().as_ref().and_then(|headers| headers.inner().get(REASON));
    header.and_then(text).and_then(FailedReason::parse).is_some()
}

/// Whether the stray was sent again and is still unroutable. One that was in a queue since then may
/// be sent once more.
pub(crate) fn is_stray_again(properties: &BasicProperties) -> bool {
    let headers = properties.headers().as_ref().map(FieldTable::inner);
    headers.is_some_and(|headers| headers.contains_key(STRAY) && !headers.contains_key("x-death"))
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
    // Only messages of other clients have no reason.
    let reason = header(REASON).and_then(FailedReason::parse);
    FailedJob::new(
        received.envelope,
        received.history.attempts,
        reason.unwrap_or(FailedReason::Unroutable),
        header(ERROR).unwrap_or_default().to_owned(),
        failed_at(properties),
    )
}

/// The time at which a job was moved to the failed jobs.
pub(crate) fn failed_at(properties: &BasicProperties) -> SystemTime {
    let headers = properties.headers().as_ref();
    let time = headers.and_then(|headers| headers.inner().get(FAILED_AT)).and_then(text);
    time.and_then(decimal).map_or(UNIX_EPOCH, from_millis)
}

/// The queue to which the retry of a failed job of this queue goes.
pub(crate) fn return_queue(properties: &BasicProperties, queue: &str) -> ShortString {
    let key = stray_key(properties, queue).and_then(|key| ShortString::try_new(key).ok());
    key.unwrap_or_else(|| fits(queue))
}

/// The original routing key of an unroutable message. Only failed jobs of the orphan queue have
/// one; on others the header is another client's.
fn stray_key<'p>(properties: &'p BasicProperties, queue: &str) -> Option<&'p str> {
    let headers = properties.headers().as_ref().filter(|_| queue == ORPHAN)?;
    headers.inner().get(QUEUE).and_then(text)
}

#[cfg(test)]
#[path = "properties_tests.rs"]
mod tests;
