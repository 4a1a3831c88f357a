//! Encoding of jobs as messages, and decoding. Pure; `docs/wire.md` documents it for other clients.

mod read;
mod republish;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

#[cfg(all(feature = "testing", feature = "sqlite"))]
pub(crate) use read::is_time;
pub(crate) use read::{Received, decode, decode_failed, first_due};
pub(crate) use republish::{Changes, again, fresh};

use super::deaths::{ATTEMPTS_HEADER, clamped, key_at_death};
use super::size::{MAX_HEADERS, size_of_table};
use crate::error::{Error, Result};
use crate::job::headers::PRIORITY;
use crate::job::{
    Envelope, EventEnvelope, FailedReason, Headers, JobId, MAX_PAYLOAD, from_millis, to_millis,
};
use crate::rabbitmq::topology::destination::Destination;
use crate::rabbitmq::topology::levels::{self, End};
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key::{self, decimal};
use crate::rabbitmq::values::{fits, integer, long, short, text};
use crate::telemetry::Who;

const TOPIC: &str = "jobq-topic";
/// The number of solo runs that were started. Only jobs that run solo have it.
const SOLO: &str = "jobq-solo";
/// The id of the last solo run, for the consumer that started it.
const START: &str = "jobq-solo-start";
/// When the wait is over with which the message was published last.
const WAIT_UNTIL: &str = "jobq-wait-until";
/// When the job was enqueued, in milliseconds since 1970. Only messages that were published again
/// have it: a broker may overwrite the `timestamp` of each publish.
const ENQUEUED_AT: &str = "jobq-enqueued-at";
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

/// Encodes a job that was published before, on another broker or in a file, with these changes.
pub(crate) fn encode_again(
    mut job: Envelope,
    to: impl Into<Destination>,
    changes: Changes,
) -> Result<Message> {
    let payload = std::mem::take(&mut job.payload);
    let Message { to, properties, .. } = encode(job.clone(), to)?;
    let who = Who::of_job(&job, &job.queue);
    let properties = again(&properties, (&who, &job), changes);
    message(to, job.id, properties, payload)
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
/// another client may have no topic header. One of an exchange that is not jobq's was bound to
/// jobq's exchange of events, or to the queue: it is an event if the queue subscribes to its key.
pub(crate) fn topic_of_route<'w>(
    names: &Names,
    queue: &str,
    (exchange, key): (&'w str, &'w str),
    properties: &BasicProperties,
    subscribes: impl FnOnce(&str) -> bool,
) -> Option<Cow<'w, str>> {
    if let Some(topic) = names.topic_of(exchange, key) {
        return Some(Cow::Borrowed(topic));
    }
    let is_of_queue = || routing_key::read(key).queue == queue;
    if names.is_foreign(exchange) && !is_of_queue() && subscribes(key) {
        return Some(Cow::Borrowed(key));
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

/// When the wait of a message is over, as it states that.
pub(crate) fn wait_until(properties: &BasicProperties) -> Option<SystemTime> {
    let headers = properties.headers().as_ref()?;
    headers.inner().get(WAIT_UNTIL).and_then(text).and_then(decimal).map(from_millis)
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

/// The time at which a job was moved to the failed jobs.
pub(crate) fn failed_at(properties: &BasicProperties) -> SystemTime {
    let headers = properties.headers().as_ref();
    let time = headers.and_then(|headers| headers.inner().get(FAILED_AT)).and_then(text);
    time.and_then(decimal).map_or(UNIX_EPOCH, from_millis)
}

/// The lane to which the retry of a failed job of this queue goes.
pub(crate) fn return_lane(properties: &BasicProperties, queue: &str) -> ShortString {
    let headers = properties.headers().as_ref().map(FieldTable::inner);
    let priority = headers.and_then(|headers| text(headers.get(PRIORITY)?)?.parse().ok());
    let lane = |queue| routing_key::lane(queue, priority.unwrap_or_default());
    let key = stray_key(properties, queue).and_then(|key| ShortString::try_new(lane(key)).ok());
    key.unwrap_or_else(|| fits(lane(queue)))
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
