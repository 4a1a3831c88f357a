//! Messages as a worker, or whoever looks at failed jobs, sees them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::{ENQUEUED_AT, ERROR, EXPIRES_AT, REASON, TOPIC, failed_at, stray_key};
use crate::clock::Clock;
use crate::job::headers::{
    DUE, MISSED, NEEDS, NONCE, ONCE, OPERATIONS, PRIORITY, SCHEDULE, UNREADABLE, is_own_name,
};
use crate::job::{Envelope, FailedJob, FailedReason, Headers, JobId, from_millis};
use crate::rabbitmq::message::deaths::{ATTEMPTS_HEADER, History};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::routing_key::decimal;
use crate::rabbitmq::values::{integer, text};

/// The first second of the year 10,000. A `timestamp` beyond it was written in milliseconds.
const YEAR_10_000: u64 = 253_402_300_800;

/// Whether a `timestamp` can be meant: 0 is what clients send that set none.
pub(crate) fn is_time(seconds: u64) -> bool {
    (1..YEAR_10_000).contains(&seconds)
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
    /// Whether the message states when the job was enqueued. If not, the envelope has the time of
    /// this look.
    pub(crate) has_time: bool,
}

/// The headers of jobq that a job keeps, beside those of the program.
const OWN: [&str; 7] = [ONCE, OPERATIONS, NONCE, DUE, SCHEDULE, MISSED, PRIORITY];

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
    let (mut expires_at, mut enqueued_at, mut topic, mut is_copied) = (None, None, None, false);
    let mut kept = Headers::new();
    for (key, value) in headers.inner() {
        match key.as_str() {
            EXPIRES_AT => expires_at = time(value),
            ENQUEUED_AT => enqueued_at = time(value),
            TOPIC => topic = text(value),
            // The broker dead-letters a message to all queues that `CC` names.
            "CC" => is_copied = true,
            NEEDS => kept.put(NEEDS, text(value).unwrap_or(UNREADABLE)),
            name if is_own_name(name) || OWN.contains(&name) => {
                if let Some(value) = text(value) {
                    kept.put(name, value);
                }
            }
            _ => {}
        }
    }
    let id = properties.message_id().as_ref().and_then(|id| id.as_str().parse().ok());
    let history = History::of(headers, || names.work_queues(&queue));
    let name = stated(properties.kind().as_ref());
    // A job without a queue of its own has its name as the queue's name.
    let name = name.map(|name| if name == queue { queue.clone() } else { name.to_owned().into() });
    let timestamp = properties.timestamp().filter(|seconds| is_time(*seconds));
    let enqueued_at = enqueued_at.or_else(|| timestamp.map(|seconds| seconds * 1_000));
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
    let (has_id, has_time) = (id.is_some(), enqueued_at.is_some());
    Received { envelope, history, is_movable, has_id, has_time }
}

/// The milliseconds of a time. Other clients send numbers, which must not mean that a job never expires.
fn time(value: &AMQPValue) -> Option<u64> {
    let number = || integer(value).and_then(|number| u64::try_from(number).ok());
    text(value).and_then(decimal).or_else(number)
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

/// The text of a property that is present and not empty.
fn stated(property: Option<&ShortString>) -> Option<&str> {
    property.map(ShortString::as_str).filter(|text| !text.is_empty())
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
    let failed_at = failed_at(properties);
    let job = &mut received.envelope;
    job.queue = key.unwrap_or_else(|| std::mem::take(&mut job.queue));
    // Each look at the same message shows the same job.
    if !received.has_id {
        job.id = JobId::of_bytes(&job.payload);
    }
    if !received.has_time {
        job.enqueued_at = failed_at;
    }
    let headers = properties.headers().clone().unwrap_or_default();
    let header = |key: &str| headers.inner().get(key).and_then(text);
    // Only messages of other clients have no reason.
    let reason = header(REASON).and_then(FailedReason::parse);
    FailedJob::new(
        received.envelope,
        received.history.attempts,
        reason.unwrap_or(FailedReason::Unroutable),
        header(ERROR).unwrap_or_default().to_owned(),
        failed_at,
    )
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
