//! Invariants of input from the wire and from users: for fuzzing, and for tests that replay
//! findings (`fuzz/` and the feature `testing`).

mod enqueued;

use std::time::Duration;

use lapin::BasicProperties;
use lapin::message::Delivery as Stray;
use lapin::protocol::basic::{gen_properties, parse_properties};
use lapin::types::{FieldTable, ShortString};

pub(crate) use self::enqueued::envelope;
use crate::clock::Clock;
use crate::job::{
    FailedReason, Failure, JobId, check_name, check_pattern, check_topic, from_millis, to_millis,
};
use crate::rabbitmq::connection::address::Address;
use crate::rabbitmq::errors::conflict::conflict;
use crate::rabbitmq::message::deaths::{clamped, queues_of_death};
use crate::rabbitmq::message::properties::{
    self, Changes, Received, again, decode, decode_failed, fresh,
};
use crate::rabbitmq::message::size::{MAX_HEADERS, size_of_table};
use crate::rabbitmq::stray;
use crate::rabbitmq::topology::levels::{self, End, HORIZON};
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::telemetry::Who;

/// The most bytes of properties in a frame of 128 KiB, with a margin.
const FRAME: usize = 100 * 1024;
/// The most bytes of a name, a key or another short string on the wire.
const SHORT: usize = 255;
const QUEUE: &str = "mail";

fn names() -> Names {
    Names::new("jobq")
}

/// The properties as `lapin` encodes them.
fn written(properties: &BasicProperties) -> Vec<u8> {
    let written = gen_properties(properties)(Vec::new().into());
    written.expect("memory takes what is written").into_inner().0
}

/// Any message: properties as in a frame, then the body.
pub(crate) fn message(data: &[u8]) {
    let Ok((body, properties)) = parse_properties(data) else {
        return;
    };
    let names = names();
    let received = decode(&names, QUEUE.into(), &properties, body.to_vec());
    check_received(&received, body);
    check_again(&names, &properties, &received);
    check_failed(&names, &properties, &received);
    let waited =
        properties::topic_of_route(&names, QUEUE, ("jobq.deliver", QUEUE), &properties, |_| false);
    for topic in [None, Some("user.created"), waited.as_deref()] {
        let mut with_topic = properties.clone();
        properties::keep_topic(&mut with_topic, topic);
        let topic = topic.or(received.envelope.topic.as_deref());
        let received = decode(&names, QUEUE.into(), &with_topic, Vec::new());
        assert_eq!(received.envelope.topic.as_deref(), topic);
    }
    check_stray(&names, &properties, body);
}

fn check_received(received: &Received, body: &[u8]) {
    let (job, most) = (&received.envelope, clamped(i64::MAX));
    assert_eq!((job.payload.as_slice(), job.delay), (body, Duration::ZERO));
    assert!(received.history.attempts <= most && received.history.crashes <= most);
    assert!(received.history.attempts.checked_add(1).is_some(), "the next attempt has a number");
    assert_ne!(job.name.as_deref(), Some(""), "no name is none");
    // Due times must allow arithmetic.
    for time in [Some(job.enqueued_at), job.expires_at].into_iter().flatten() {
        assert_eq!(from_millis(to_millis(time)), time);
    }
}

/// Any message that is published again can be sent, read and counted.
fn check_again(names: &Names, properties: &BasicProperties, received: &Received) {
    let (id, used) = (received.envelope.id, received.history.attempts);
    let who = &Who::of_job(&received.envelope, QUEUE);
    let table = [
        (Changes::next(used), 0),
        (Changes::solo(used, 2, Some("start")), 2),
        (Changes::solo(used, 0, None), 0),
    ];
    for (changes, starts) in table {
        let properties = again(properties, (who, &received.envelope), changes);
        check_sent(&properties, id);
        assert_eq!(properties::solo(&properties).0, starts);
        let next = decode(names, QUEUE.into(), &properties, Vec::new());
        assert_eq!((next.history.attempts, next.history.crashes, next.has_id), (used, 0, true));
        assert_eq!(next.envelope.id, id);
        assert_eq!(next.envelope.name, received.envelope.name);
        assert!(next.is_movable, "whatever the first one was");
        // Publishing it once more changes nothing.
        let twice = again(&properties, (who, &received.envelope), Changes::next(used));
        let thrice = again(&twice, (who, &received.envelope), Changes::next(used));
        assert_eq!(written(&twice), written(&thrice));
    }
}

fn check_failed(names: &Names, properties: &BasicProperties, received: &Received) {
    let (id, used) = (received.envelope.id, received.history.attempts);
    let who = &Who::of_job(&received.envelope, QUEUE);
    let error = String::from_utf8_lossy(&received.envelope.payload).repeat(3);
    let failure = Failure::new("error", error);
    let changes =
        Changes::failed(FailedReason::Exhausted, failure.error(), used, Clock::system().now());
    let failed = again(properties, (who, &received.envelope), changes);
    check_sent(&failed, id);
    assert!(properties::is_failed(&failed));
    let body = received.envelope.payload.clone();
    let job = decode_failed(names, QUEUE.into(), &failed, body);
    assert_eq!((job.id(), job.attempts(), job.queue()), (id, used, QUEUE));
    assert_eq!(job.reason(), FailedReason::Exhausted);
    assert!(failure.error().starts_with(job.error()), "it is not changed");
    let _ = (job.payload(), job.name(), job.topic(), job.failed_at());
    assert_eq!(properties::return_lane(&failed, QUEUE).as_str(), QUEUE);
    let back = fresh(&failed, (who, &received.envelope), None);
    check_sent(&back, id);
    assert!(!properties::is_failed(&back));
    assert_eq!(properties::solo(&back), (0, None));
    let job = decode(names, QUEUE.into(), &back, Vec::new());
    assert_eq!((job.history.attempts, job.history.crashes, job.envelope.id), (0, 0, id));
    let now = Clock::system().now();
    assert!(job.envelope.expires_at.is_none_or(|end| end > now), "it has all the time again");
    // As if another client had published it.
    let _ = (
        decode_failed(names, ORPHAN.into(), properties, Vec::new()),
        properties::failed_at(properties),
    );
    assert!(properties::return_lane(properties, ORPHAN).as_str().len() <= SHORT);
}

/// A stray gets a place among the failed jobs.
fn check_stray(names: &Names, properties: &BasicProperties, body: &[u8]) {
    let text: String = String::from_utf8_lossy(body).chars().take(80).collect();
    let key = ShortString::try_new(text.as_str()).unwrap_or_default();
    let exchanges = [names.jobs(), names.events(), names.level(2), names.retry(), text.clone()];
    for exchange in exchanges.iter().filter_map(|name| ShortString::try_new(name.as_str()).ok()) {
        let mut stray = Stray::mock(1, exchange, key.clone(), false, body.to_vec());
        stray.properties = properties.clone();
        let queue = stray::named_by(names, stray::key_of(names, &stray), properties);
        assert!(queue.is_none_or(|queue| check_name("queue", queue).is_ok()));
        let _ = stray::has_no_subscribers(names, &stray);
        let place = queue.unwrap_or(ORPHAN).to_owned();
        let who = stray::who(names, &stray);
        let sent = stray::failed(names, stray, &who, &place, Clock::system().now())
            .expect("there is always a route");
        assert_eq!((sent.route().key.as_str(), &*sent.payload), (&*place, body));
        check_sendable(&sent.properties);
        assert!(properties::is_failed(&sent.properties));
    }
    for queue in properties.headers().iter().flat_map(queues_of_death) {
        let _ = names.queue_of(queue);
    }
}

/// The broker accepts messages of jobq, and has no other effect from them.
fn check_sent(properties: &BasicProperties, id: JobId) {
    assert_eq!(properties.message_id().as_ref().map(ShortString::as_str), Some(&*id.to_string()));
    check_sendable(properties);
}

fn check_sendable(properties: &BasicProperties) {
    let none = FieldTable::default();
    let headers = properties.headers().as_ref().unwrap_or(&none);
    assert!(size_of_table(headers) <= MAX_HEADERS + 4);
    for key in headers.inner().keys().map(ShortString::as_str) {
        assert!(!key.starts_with("x-") && key != "CC" && key != "BCC", "{key}");
    }
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert!(properties.expiration().is_none() && properties.user_id().is_none());
    let sent = written(properties);
    assert!(sent.len() <= FRAME);
    let (rest, read) = parse_properties(&sent[..]).expect("what is sent can be read");
    assert!(rest.is_empty());
    // Not compared as values: a number that is none equals nothing.
    assert_eq!(written(&read), sent);
}

/// Names, topics, patterns and routing keys.
pub(crate) fn name(text: &str) {
    let names = names();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let words = text.split('.').all(|part| !part.is_empty() && part.chars().all(word));
    match check_name("queue", text) {
        Ok(()) => {
            assert!(words && text.len() <= 120);
            let queues = [names.work(text), names.failed(text), names.solo(text), names.due(text)];
            let others = [names.tier(text, HORIZON), names.failed_lock(text)];
            for name in queues.into_iter().chain(others) {
                assert!(name.len() <= SHORT);
                assert_eq!(names.queue_of(&name), Some(text), "{name}");
            }
        }
        Err(error) => {
            assert!(!words || text.len() > 120, "{error}");
            assert!(error.is_invalid() && error.to_string().len() < 1_200);
        }
    }
    let topic = check_topic(text);
    let plain = !text.is_empty() && text.len() <= 200 && text.split('.').all(|w| !w.is_empty());
    let apart = |c: char| c.is_whitespace() || c.is_control();
    let plain = plain && !text.contains(apart) && !text.contains(['*', '#']);
    assert_eq!(topic.is_ok(), plain);
    if topic.is_ok() {
        let entry = levels::entry(HORIZON, End::Topic(text)).expect("within the horizon");
        assert!(entry.key.len() <= SHORT);
        assert_eq!(levels::end_of(&entry.key), Some(End::Topic(text)));
    }
    if check_pattern(text).is_ok() {
        for (_, _, key) in names.subscription("mail", text) {
            assert!(key.len() <= SHORT);
        }
    } else {
        assert!(topic.is_err(), "every topic is a pattern");
    }
    for exchange in [text, "jobq.events", "jobq.level.0", "jobq.level.deliver"] {
        let topic = names.topic_of(exchange, text);
        assert!(topic.is_none_or(|topic| text.ends_with(topic)));
        let end = names.end_of_levels(exchange, text);
        assert!(end.is_none_or(|end| text.ends_with(end.text())));
        let _ = names.is_out_of_levels(exchange, text);
    }

    if let Ok(id) = text.parse::<JobId>() {
        assert_eq!(id.to_string().parse::<JobId>().ok(), Some(id));
    }
    let reason = FailedReason::parse(text);
    assert!(reason.is_none_or(|reason| reason.as_str() == text));
}

/// The URL of a broker, and a secret that must not be shown.
pub(crate) fn url(text: &str, secret: &str) {
    let second = Duration::from_secs(1);
    let shown = match Address::parse(text, second) {
        Ok(address) => {
            let mut nodes = 0;
            for (_, node) in address.nodes_from(usize::MAX) {
                nodes += 1;
                assert!(!node.authority.host.is_empty() && node.authority.port > 0);
                let timeout = node.query.connection_timeout;
                assert!(timeout.is_some_and(|timeout| timeout > 0));
                assert!(node.query.heartbeat.is_some());
            }
            assert!(nodes > 0 && nodes == address.count());
            assert!(address.vhost().len() <= SHORT);
            assert!(text.starts_with(if address.is_tls() { "amqps://" } else { "amqp://" }));
            format!("{address} {address:?}")
        }
        Err(error) => {
            assert!(error.is_invalid());
            format!("{error} {error:?}")
        }
    };
    assert!(!shown.contains(secret), "{shown}");
}

/// The broker's refusal of a declaration.
pub(crate) fn refusal(text: &str) {
    let error = conflict(text);
    assert!(error.is_conflict() && !error.maybe_enqueued());
    let said = error.to_string();
    let understood = said.contains("exists with other properties than jobq's");
    assert!(understood || said.contains(text), "what is not understood is shown");
    assert!(said.len() <= text.len() + 400);
}
