use std::time::Duration;

use lapin::types::{AMQPValue, LongString};

use super::*;
use crate::clock::Clock;
use crate::job::headers::By;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::routing::Routing;
use crate::telemetry::Who;

fn names() -> Names {
    Names::new("jobq")
}

fn encode(names: &Names, job: Envelope, routing: &Routing) -> Result<Message> {
    let route = routing.route(names, End::Queue(&job.queue))?;
    super::encode(job, route)
}

fn job() -> Envelope {
    Envelope {
        id: "0190b6d6-7d6c-7a3a-8a4e-0123456789ab".parse().unwrap(),
        name: Some("send_welcome".into()),
        enqueued_at: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        retry_wait: Some(Duration::from_secs(30)),
        expires_at: Some(UNIX_EPOCH + Duration::from_millis(1_700_003_600_123)),
        topic: Some("user.created".to_owned()),
        enqueued_by: Some("shop-web".into()),
        ..Envelope::new("mail", br#"{"user_id":7}"#.to_vec())
    }
}

fn who(id: JobId) -> Who {
    Who { id, ..Who::of_job(&job(), "mail") }
}

fn headers(entries: impl IntoIterator<Item = (&'static str, AMQPValue)>) -> BasicProperties {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert(fits(key), value);
    }
    BasicProperties::default().with_headers(table)
}

fn keys(properties: &BasicProperties) -> Vec<&str> {
    properties
        .headers()
        .iter()
        .flat_map(|table| table.inner().keys().map(ShortString::as_str))
        .collect()
}

fn value<'p>(properties: &'p BasicProperties, key: &str) -> Option<&'p AMQPValue> {
    properties.headers().as_ref()?.inner().get(key)
}

#[test]
fn a_job_travels_as_documented() {
    let message = encode(&names(), job(), &Routing::Now(Some(30_000))).unwrap();
    assert_eq!(
        (message.route().exchange.as_str(), message.route().key.as_str()),
        ("jobq", "mail@30000")
    );
    let properties = &message.properties;
    let text = |value: &Option<ShortString>| value.as_ref().map(ToString::to_string);
    assert_eq!(*properties.content_type(), None, "JSON is what is meant where nothing is said");
    assert_eq!(text(properties.kind()).as_deref(), Some("send_welcome"));
    assert_eq!(text(properties.app_id()).as_deref(), Some("shop-web"));
    assert_eq!(text(properties.message_id()).unwrap(), job().id.to_string());
    assert_eq!(*properties.timestamp(), Some(1_700_000_000));
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(*properties.expiration(), None);
    assert_eq!(value(properties, "jobq-expires-at"), Some(&long("1700003600123")));
    assert_eq!(value(properties, "jobq-topic"), Some(&long("user.created")));
    assert_eq!(message.payload, job().payload);
    let plain = Envelope { expires_at: None, topic: None, ..job() };
    let message = encode(&names(), plain, &Routing::Now(None)).unwrap();
    assert_eq!(message.route().key.as_str(), "mail");
    assert_eq!(*message.properties.headers(), None, "most jobs need none");
}

#[test]
fn a_delay_is_in_the_route_and_not_a_header() {
    let table = [
        (Routing::Tier(60_000), "jobq.retry", "mail@60000"),
        (
            Routing::new(60_000, End::Queue("mail"), &[].into()).unwrap(),
            "jobq.level.2",
            "0.0.0.0.0.2.5.8.q.mail",
        ),
    ];
    for (routing, exchange, key) in table {
        let message = encode(&names(), job(), &routing).unwrap();
        assert_eq!(
            (message.route().exchange.as_str(), message.route().key.as_str()),
            (exchange, key)
        );
        assert_eq!(message.properties.headers().as_ref().unwrap().inner().len(), 2);
    }
}

#[test]
fn a_job_is_read_as_it_was_written() {
    let mut bare = job();
    (bare.name, bare.expires_at, bare.topic) = (None, None, None);
    for job in [job(), bare] {
        let message = encode(&names(), job.clone(), &Routing::Now(None)).unwrap();
        let read = decode(&names(), "mail".into(), &message.properties, message.payload);
        assert_eq!(read.envelope, Envelope { retry_wait: None, ..job }, "the key says that");
        assert_eq!((read.history.attempts, read.has_id, read.is_movable), (0, true, true));
    }
}

#[test]
fn a_foreign_message_is_a_job() {
    let before = Clock::system().now();
    let read = decode(&names(), "mail".into(), &BasicProperties::default(), b"7".to_vec());
    assert!(!read.has_id && read.envelope.enqueued_at >= before);
    assert_eq!((read.history.attempts, read.is_movable), (0, true));
    assert_eq!(read.envelope.name, None);
    assert_eq!(read.envelope.queue, "mail");
}

#[test]
fn wrong_types_and_senseless_values_count_as_absent() {
    let number = |n| AMQPValue::LongLongInt(n);
    let table = [
        ("jobq-expires-at", number(-5)),
        ("jobq-expires-at", AMQPValue::Boolean(true)),
        ("jobq-expires-at", long("soon")),
        ("jobq-expires-at", long("-1")),
        ("jobq-expires-at", long("+5")),
        ("jobq-expires-at", long("007")),
        ("jobq-expires-at", long("99999999999999999999999")),
        ("jobq-topic", AMQPValue::Boolean(true)),
        ("jobq-topic", AMQPValue::LongString(LongString::from(vec![0xff]))),
        ("jobq-attempts", long("3")),
    ];
    for (key, wrong) in table {
        let properties = headers([(key, wrong.clone())])
            .with_message_id(fits("order 17"))
            .with_timestamp(u64::MAX)
            .with_type(fits(""));
        let read = decode(&names(), "mail".into(), &properties, Vec::new());
        let envelope = &read.envelope;
        assert_eq!(envelope.expires_at, None, "{key} {wrong:?}");
        assert_eq!(envelope.topic, None, "{key} {wrong:?}");
        assert_eq!(envelope.name, None, "{key} {wrong:?}");
        assert_eq!((read.history.attempts, read.has_id), (0, false), "{key} {wrong:?}");
    }
}

#[test]
fn invalid_jobs_are_refused_before_sending() {
    let mut large = job();
    large.payload = vec![b' '; MAX_PAYLOAD + 1];
    assert!(encode(&names(), large.clone(), &Routing::Now(None)).unwrap_err().is_invalid());
    large.payload.pop();
    assert!(encode(&names(), large, &Routing::Now(None)).is_ok());
    for wrong in ["", "a b", "a@b", &"q".repeat(300)] {
        let mut job = job();
        job.queue = wrong.to_owned().into();
        assert!(encode(&names(), job, &Routing::Now(None)).unwrap_err().is_invalid(), "{wrong}");
    }
    let mut named = job();
    named.name = Some("n".repeat(256).into());
    assert!(encode(&names(), named, &Routing::Now(None)).unwrap_err().is_invalid());
    let mut wide = job();
    wide.topic = Some("t".repeat(70_000));
    assert!(encode(&names(), wide, &Routing::Now(None)).unwrap_err().is_invalid());
}

#[test]
fn published_again_it_keeps_what_is_its_own_and_nothing_that_the_broker_acts_upon() {
    let original = headers([
        ("x-death", AMQPValue::Boolean(true)),
        ("x-delivery-count", AMQPValue::LongLongInt(3)),
        ("X-Request-Id", long("kept")),
        ("CC", long("elsewhere")),
        ("BCC", long("elsewhere")),
        ("trace", AMQPValue::Boolean(true)),
        ("jobq-topic", long("user.created")),
        ("jobq-attempts", AMQPValue::LongLongInt(1)),
    ])
    .with_expiration(fits("1000"))
    .with_user_id(fits("somebody"))
    .with_correlation_id(fits("c"))
    .with_reply_to(fits("r"))
    .with_app_id(fits("a"))
    .with_timestamp(5)
    .with_type(fits("send_welcome"))
    .with_delivery_mode(1);
    let id = JobId::new();
    let moved = again(&original, (&who(id), &job()), Changes::next(2));
    assert_eq!(
        keys(&moved),
        ["X-Request-Id", "jobq-attempts", "jobq-enqueued-at", "jobq-topic", "trace"]
    );
    assert_eq!(value(&moved, "jobq-attempts"), Some(&AMQPValue::LongLongInt(2)));
    assert_eq!(moved.message_id().as_ref().unwrap().as_str(), id.to_string());
    assert_eq!((moved.expiration(), moved.user_id()), (&None, &None));
    assert_eq!(*moved.delivery_mode(), Some(2));
    assert_eq!(*moved.timestamp(), Some(5));
    for value in [moved.correlation_id(), moved.reply_to(), moved.app_id(), moved.kind()] {
        assert!(value.is_some());
    }
    let copied = |properties: &BasicProperties| {
        !decode(&names(), "mail".into(), properties, Vec::new()).is_movable
    };
    assert!(copied(&headers([("CC", long("elsewhere"))])), "the broker would move it there, too");
    assert!(!copied(&moved));
}

#[test]
fn a_failed_job_says_why_and_is_retried_as_if_new() {
    let message = encode(&names(), job(), &Routing::Now(None)).unwrap();
    let changes =
        Changes::failed(FailedReason::Exhausted, "no route to host", 4, Clock::system().now());
    let properties = again(&message.properties, (&who(job().id), &job()), changes);
    assert!(is_failed(&properties) && !is_failed(&message.properties));
    let failed = decode_failed(&names(), "mail".into(), &properties, message.payload);
    assert_eq!((failed.id(), failed.attempts(), failed.queue()), (job().id, 4, "mail"));
    assert_eq!((failed.reason(), failed.error()), (FailedReason::Exhausted, "no route to host"));
    assert!(failed.failed_at() > UNIX_EPOCH);
    let back = fresh(&properties, (&who(job().id), &job()), None);
    assert_eq!(keys(&back), ["jobq-attempts", "jobq-enqueued-at", "jobq-expires-at", "jobq-topic"]);
    let never = decode(&names(), "mail".into(), &back, Vec::new()).envelope.expires_at;
    assert!(never > Some(UNIX_EPOCH + Duration::from_secs(100_000_000_000)), "an event does not");
    let no_event =
        encode(&names(), Envelope { topic: None, ..job() }, &Routing::Now(None)).unwrap();
    let back = fresh(&no_event.properties, (&who(job().id), &job()), None);
    assert_eq!(keys(&back), ["jobq-attempts", "jobq-enqueued-at"]);
    assert_eq!(return_lane(&properties, "mail").as_str(), "mail");
    let low = headers([(PRIORITY, long("low"))]);
    assert_eq!(return_lane(&low, "mail").as_str(), "mail@low");
    let odd = headers([(PRIORITY, AMQPValue::LongInt(9))]);
    assert_eq!(return_lane(&odd, "mail").as_str(), "mail");
}

#[test]
fn a_single_attempt_is_named_until_the_next_retry() {
    let table = [
        (None, "once", None),
        (Some(long("zip")), "zip once", Some("zip")),
        (Some(long("once zip")), "zip once", Some("zip")),
        (Some(AMQPValue::LongInt(7)), "(unreadable) once", Some("(unreadable)")),
    ];
    for (needs, with, without) in table {
        let original = headers(needs.map(|needs| ("jobq-needs", needs)));
        let read = |properties: &BasicProperties| {
            decode(&names(), "mail".into(), properties, Vec::new()).envelope.headers
        };
        let mut back = original;
        for operation in ["first", "second"] {
            back = fresh(&back, (&who(job().id), &job()), Some(By { operation, once: true }));
            let found = read(&back);
            assert_eq!(
                (found.get("jobq-once"), found.get("jobq-needs")),
                (Some(operation), Some(with))
            );
        }
        assert_eq!(read(&back).get("jobq-operations"), Some("first second"));
        let retried = again(&back, (&who(job().id), &job()), Changes::next(1));
        assert_eq!(read(&retried).get("jobq-operations"), Some("first second"));
        let all = By { operation: "third", once: false };
        for (by, operations) in [(Some(all), Some("first second third")), (None, None)] {
            let plain = read(&fresh(&back, (&who(job().id), &job()), by));
            assert_eq!((plain.get("jobq-once"), plain.get("jobq-needs")), (None, without));
            assert_eq!(plain.get("jobq-operations"), operations);
        }
    }
}

#[test]
fn headers_of_programs_and_of_later_versions_are_read() {
    let properties = headers([
        ("tenant", long("7")),
        ("traceparent", AMQPValue::ShortString(fits("00-1"))),
        ("X-Request-Id", long("no name that a program may set")),
        ("number", AMQPValue::LongInt(7)),
        ("jobq-needs", AMQPValue::LongInt(7)),
        ("jobq-once", long("canary")),
        ("jobq-due", long("1700000000123")),
        ("jobq-later", long("of no version so far")),
        ("x-delivery-count", AMQPValue::LongInt(1)),
    ]);
    let read = decode(&names(), "mail".into(), &properties, Vec::new());
    let due = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let found: Vec<_> = read.envelope.headers.iter().collect();
    let expected = [
        ("jobq-due", "1700000000123"),
        ("jobq-needs", "(unreadable)"),
        ("jobq-once", "canary"),
        ("tenant", "7"),
        ("traceparent", "00-1"),
    ];
    assert_eq!(found, expected);
    assert!(read.envelope.once().is_some() && read.envelope.lacking().is_some());
    assert_eq!((read.envelope.due(), first_due(&properties, &read)), (due, Some(due)));
    let retried = again(&properties, (&who(JobId::new()), &job()), Changes::next(0));
    let read = decode(&names(), "mail".into(), &retried, Vec::new());
    assert_eq!(first_due(&retried, &read), None, "it was snoozed, or retried after it failed");
    for kept in [&retried, &fresh(&properties, (&who(JobId::new()), &job()), None)] {
        let later = kept.headers().as_ref().unwrap().inner().get("jobq-later");
        assert_eq!(later, Some(&long("of no version so far")));
    }
}

#[test]
fn a_job_without_a_delay_is_due_when_its_id_was_made() {
    let second = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let of = |millis: u64, version: u8| {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        id[6] = version << 4;
        Some(JobId::from_bytes(id))
    };
    let table = [
        (of(1_700_000_000_123, 7), Duration::from_millis(123)),
        (of(1_700_000_000_000, 7), Duration::ZERO),
        (of(1_700_000_000_999, 7), Duration::from_millis(999)),
        // Made before or after, or without a time.
        (of(1_699_999_999_999, 7), Duration::ZERO),
        (of(1_700_000_001_000, 7), Duration::ZERO),
        (of(u64::MAX, 7), Duration::ZERO),
        (of(1_700_000_000_123, 4), Duration::ZERO),
        (None, Duration::ZERO),
    ];
    for (id, after) in table {
        let properties = BasicProperties::default().with_timestamp(1_700_000_000);
        let properties = match id {
            Some(id) => properties.with_message_id(id.to_string().into()),
            None => properties,
        };
        let read = decode(&names(), "mail".into(), &properties, Vec::new());
        assert_eq!(first_due(&properties, &read), Some(second + after), "{id:?}");
    }
}

#[test]
fn an_unroutable_message_keeps_its_routing_key() {
    let changes = Changes::failed(FailedReason::Unroutable, "", 0, Clock::system().now())
        .sent_to("no such queue!");
    let properties = again(&BasicProperties::default(), (&who(JobId::new()), &job()), changes);
    assert_eq!(return_lane(&properties, "orphan").as_str(), "no such queue!");
    let failed = decode_failed(&names(), "orphan".into(), &properties, Vec::new());
    assert_eq!(failed.queue(), "no such queue!");
    let high = headers([(QUEUE, long("mail")), (PRIORITY, long("high"))]);
    assert_eq!(return_lane(&high, "orphan").as_str(), "mail@high");
    let hostile = headers([(QUEUE, long("k".repeat(300)))]);
    assert_eq!(return_lane(&hostile, "orphan").as_str(), "orphan");
}

#[test]
fn foreign_headers_that_are_too_long_are_dropped_largest_first() {
    let original = headers([
        ("large", long("x".repeat(60_000))),
        ("middle", long("x".repeat(50_000))),
        ("small", long("kept")),
        ("jobq-topic", long("kept")),
    ]);
    let moved = again(&original, (&who(JobId::new()), &job()), Changes::next(1));
    assert_eq!(
        keys(&moved),
        ["jobq-attempts", "jobq-enqueued-at", "jobq-topic", "middle", "small"]
    );
    // The trace goes before what the user set, and what the job needs stays.
    let traced = headers([
        ("traceparent", long("short")),
        ("tracestate", long("x".repeat(10_000))),
        ("tenant", long("x".repeat(20_000))),
        ("cipher", long("x".repeat(45_000))),
        ("jobq-needs", long("zip cipher")),
    ]);
    let moved = again(&traced, (&who(JobId::new()), &job()), Changes::next(1));
    let expected =
        ["cipher", "jobq-attempts", "jobq-enqueued-at", "jobq-needs", "tenant", "traceparent"];
    assert_eq!(keys(&moved), expected);
    let hostile = headers([("jobq-topic", long("x".repeat(90_000)))]);
    let moved = again(&hostile, (&who(JobId::new()), &job()), Changes::next(1));
    assert_eq!(keys(&moved), ["jobq-attempts", "jobq-enqueued-at"]);
}
