//! Jobs and events of a client become messages that are read as they were sent.

use std::time::Duration;

use super::{QUEUE, SHORT, check_sent, names};
use crate::job::{
    Envelope, EventEnvelope, Headers, JobId, MAX_PAYLOAD, check_name, check_topic, from_millis,
    to_millis,
};
use crate::period;
use crate::rabbitmq::message::properties::{self, Message, decode};
use crate::rabbitmq::topology::levels::{self, End, HORIZON, UNIT};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Tiers;
use crate::rabbitmq::topology::routing::Routing;
use crate::rabbitmq::topology::routing_key;

/// A job or an event of a client, from any bytes.
pub(crate) fn envelope(data: &[u8]) {
    let mut data = Bytes(data);
    let names = names();
    let (id, flags) = (JobId::from_bytes(data.array()), data.number());
    let has = |bit: u32| flags >> bit & 1 == 1;
    let (enqueued_at, expires_at) = (from_millis(data.number()), data.number());
    let (wait, tier) = (data.number() >> (flags % 64), data.number() >> 20);
    let (queue, name, topic) = (data.text(), data.text(), data.text());
    let job = Envelope {
        id,
        queue: queue.into(),
        name: has(0).then(|| name.clone().into()),
        payload: data.0.to_vec(),
        content_encoding: has(6).then(|| name.clone().into()),
        headers: headers(&name),
        attempts: u32::try_from(flags >> 8 & 0xff).unwrap_or_default(),
        enqueued_at,
        delay: Duration::from_millis(wait),
        retry_wait: has(1).then(|| Duration::from_millis(tier)),
        expires_at: has(2).then(|| from_millis(expires_at)),
        topic: has(3).then(|| topic.clone()),
        enqueued_by: has(5).then(|| name.into()),
    };
    let tiers = if has(4) { Tiers::from([tier, wait]) } else { Tiers::new() };
    check_enqueued(&names, &job, &tiers);
    let event = EventEnvelope {
        id,
        topic,
        payload: job.payload,
        content_encoding: job.content_encoding,
        headers: job.headers,
        published_at: enqueued_at,
        delay: Duration::ZERO,
        expires_at: job.expires_at,
        enqueued_by: job.enqueued_by,
    };
    check_published(&names, &event, wait);
}

/// Headers of a program, of any words.
fn headers(text: &str) -> Headers {
    let mut headers = Headers::new();
    for word in text.split(' ') {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        // Other headers are refused.
        let _ = headers.set(name, value);
    }
    headers
}

fn check_enqueued(names: &Names, job: &Envelope, tiers: &Tiers) {
    let wait = period::millis(job.delay);
    let Ok(routing) = Routing::of(job, tiers) else {
        return assert!(wait > HORIZON && !tiers.contains(&wait), "{wait} can be waited");
    };
    let sound = check_name("queue", &job.queue).is_ok()
        && job.payload.len() <= MAX_PAYLOAD
        && job.name.as_ref().is_none_or(|name| name.len() <= SHORT)
        && job.content_encoding.as_ref().is_none_or(|encoding| encoding.len() <= SHORT)
        && job.enqueued_by.as_ref().is_none_or(|origin| origin.len() <= SHORT);
    let route = routing.route(names, End::Queue(&job.queue));
    let message = match route.and_then(|route| properties::encode(job.clone(), route)) {
        Ok(message) => message,
        Err(error) => return assert!(error.is_invalid() && !sound, "{error}"),
    };
    assert!(sound, "{job:?}");
    check_sent(&message.properties, job.id);
    check_routing(names, &message, &routing, wait, End::Queue(&job.queue));
    let received = decode(names, job.queue.clone(), &message.properties, message.payload);
    assert_eq!(
        (received.history.attempts, received.history.crashes, received.has_id),
        (job.attempts, 0, true)
    );
    assert_eq!(received.has_time, properties::is_time(to_millis(job.enqueued_at) / 1_000));
    let mut back = received.envelope;
    if received.has_time {
        // Timestamps have whole seconds.
        let since = job.enqueued_at.duration_since(back.enqueued_at);
        assert!(since.is_ok_and(|since| since < Duration::from_secs(1)));
    }
    back.enqueued_at = job.enqueued_at;
    // The key states the retry wait, and a delay is over.
    let mut expected = Envelope { retry_wait: None, delay: Duration::ZERO, ..job.clone() };
    expected.name = expected.name.filter(|name| !name.is_empty());
    expected.content_encoding = expected.content_encoding.filter(|encoding| !encoding.is_empty());
    expected.enqueued_by = expected.enqueued_by.filter(|origin| !origin.is_empty());
    assert_eq!(back, expected);
}

fn check_published(names: &Names, event: &EventEnvelope, wait: u64) {
    let Ok(routing) = Routing::new(wait, End::Topic(&event.topic), &Tiers::new()) else {
        return assert!(wait > HORIZON);
    };
    let sound = check_topic(&event.topic).is_ok()
        && event.payload.len() <= MAX_PAYLOAD
        && event.content_encoding.as_ref().is_none_or(|encoding| encoding.len() <= SHORT)
        && event.enqueued_by.as_ref().is_none_or(|program| program.len() <= SHORT);
    let route = routing.route(names, End::Topic(&event.topic));
    let message = match route.and_then(|route| properties::encode_event(event.clone(), route)) {
        Ok(message) => message,
        Err(error) => return assert!(error.is_invalid() && !sound, "{error}"),
    };
    assert!(sound, "{event:?}");
    check_sent(&message.properties, event.id);
    check_routing(names, &message, &routing, wait, End::Topic(&event.topic));
    let route = message.route();
    let topic = names.topic_of(route.exchange.as_str(), route.key.as_str());
    assert_eq!(topic, Some(&*event.topic));
    let job = decode(names, QUEUE.into(), &message.properties, message.payload).envelope;
    assert_eq!((job.id, job.topic.as_deref()), (event.id, topic));
    assert_eq!((job.expires_at, job.name, job.retry_wait), (event.expires_at, None, None));
    assert_eq!((job.payload, &job.headers), (event.payload.clone(), &event.headers));
}

/// Checks the wait and the destination.
fn check_routing(names: &Names, message: &Message, routing: &Routing, wait: u64, end: End<'_>) {
    let route = message.route();
    let (exchange, key) = (route.exchange.as_str(), route.key.as_str());
    assert!(exchange.len() <= SHORT && key.len() <= SHORT);
    let tier = match routing {
        Routing::Levels(_) => None,
        Routing::Tier(millis) => Some(*millis),
        Routing::Now(retry) => *retry,
    };
    let Routing::Levels(entry) = routing else {
        assert_eq!(routing_key::wait_in(key, end.text()), tier);
        return assert_eq!(key, routing_key::write(end.text(), tier));
    };
    assert_eq!(names.end_of_levels(exchange, key), Some(end));
    assert!(!levels::is_over(key, entry.level));
    let digits = key.split('.').take(levels::LEVELS as usize).map(str::parse::<u64>);
    let waits = (0..levels::LEVELS).rev().zip(digits).map(|(level, digit)| {
        let digit = digit.expect("a digit is a number");
        assert!(digit == 0 || level <= entry.level && levels::digits(level).contains(&digit));
        levels::ttl(level, digit)
    });
    let waits: u64 = waits.sum();
    assert!((wait..wait + UNIT).contains(&waits), "{waits} for {wait}");
}

/// Bytes of input, padded with zeros for ever.
struct Bytes<'d>(&'d [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut array = [0; N];
        array[..first.len()].copy_from_slice(first);
        array
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn text(&mut self) -> String {
        let [length] = self.array();
        let (first, rest) = self.0.split_at(usize::from(length).min(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(first).into_owned()
    }
}
