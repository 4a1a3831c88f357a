//! The messages, each with what is to become of it.

use std::collections::BTreeMap;

use jobq::{FailedReason, JobId};
use jobq_tests::raw::{headers, text};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, FieldArray, FieldTable, LongString};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// After attempts 1 and 2, as the policy of the registered job says.
    Completes,
    /// At once, or after an attempt beyond the last; the error has this text.
    Fails(FailedReason, &'static str),
}

pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) end: End,
}

pub(crate) fn plain() -> BasicProperties {
    // The queue has two jobs, so the message has to say which.
    BasicProperties::default().with_type("greet".into())
}

pub(crate) fn with<'k>(entries: impl IntoIterator<Item = (&'k str, AMQPValue)>) -> BasicProperties {
    plain().with_headers(headers(entries))
}

fn with_id(properties: BasicProperties) -> BasicProperties {
    properties.with_message_id(JobId::new().to_string().as_str().into())
}

fn list(values: Vec<AMQPValue>) -> AMQPValue {
    AMQPValue::FieldArray(FieldArray::from(values))
}

fn table<'k>(entries: impl IntoIterator<Item = (&'k str, AMQPValue)>) -> AMQPValue {
    AMQPValue::FieldTable(headers(entries))
}

fn raw_text(bytes: &[u8]) -> AMQPValue {
    AMQPValue::LongString(LongString::from(bytes))
}

#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    fn add(&mut self, what: impl Into<String>, properties: BasicProperties, end: End) {
        self.0.push(Row { what: what.into(), key: "mail".to_owned(), properties, body: None, end });
    }

    /// A sound job by this key.
    fn by_key(&mut self, key: String, properties: BasicProperties) {
        let what = format!("key {key:?} {properties:?}");
        self.0.push(Row { what, key, properties, body: None, end: End::Completes });
    }

    fn body(&mut self, what: &str, body: impl Into<Vec<u8>>, end: End) {
        let body = Some(body.into());
        let (what, key) = (what.to_owned(), "mail".to_owned());
        self.0.push(Row { what, key, properties: plain(), body, end });
    }
}

/// Routing keys that belong to no queue: a path, and tiers that are none.
pub(crate) const OF_NO_QUEUE: [&str; 14] = [
    "../../etc/passwd",
    "mail@",
    "mail@-1",
    "mail@+200",
    "mail@ 200",
    "mail@0200",
    "mail@1e3",
    "mail@0x10",
    "mail@٣٠",
    "mail@soon",
    "mail@200.0",
    "mail@99999999999999999999",
    "mail@../..",
    "mail@9\u{0}",
];

/// Every header that jobq reads, but for the one that the broker reads to move a message.
const READ: [&str; 11] = [
    "jobq-attempts",
    "jobq-expires-at",
    "jobq-topic",
    "jobq-solo",
    "jobq-solo-start",
    "jobq-failed-reason",
    "jobq-failed-at",
    "jobq-error",
    "jobq-queue",
    "jobq-stray",
    "x-delivery-count",
];

fn of_wrong_types(rows: &mut Rows) {
    rows.add("no headers", plain(), End::Completes);
    let values = [
        AMQPValue::Boolean(true),
        AMQPValue::Double(0.5),
        AMQPValue::Void,
        AMQPValue::Timestamp(1),
        AMQPValue::FieldTable(FieldTable::default()),
        list(vec![]),
        list(vec![AMQPValue::Void, table([("count", text("x"))])]),
        AMQPValue::ByteArray(ByteArray::from(vec![0, 0xff])),
        raw_text(b"\xff\xfe"),
        raw_text(b"../../etc/passwd\0\n"),
    ];
    for value in values {
        let all = READ.map(|key| (key, value.clone()));
        rows.add(format!("all headers {value:?}"), with(all.clone()), End::Completes);
        rows.add(format!("and an id, {value:?}"), with_id(with(all)), End::Completes);
    }
    let long = "x".repeat(255);
    let full = with_id(plain())
        .with_correlation_id(long.as_str().into())
        .with_reply_to(long.as_str().into())
        .with_content_type(long.as_str().into())
        .with_app_id("\u{0}\r\n".into())
        .with_timestamp(u64::MAX);
    rows.add("properties of 255 bytes", full, End::Completes);
}

fn of_huge_tables(rows: &mut Rows) {
    let keys: Vec<_> = (0..4_000).map(|number| format!("key-{number}")).collect();
    let many = keys.iter().map(|key| (key.as_str(), AMQPValue::LongInt(1)));
    rows.add("4,000 headers", with(many), End::Completes);
    let inner = table([("text", text(&"x".repeat(1_000))), ("list", list(vec![AMQPValue::Void]))]);
    let tables = keys.iter().take(60).map(|key| (key.as_str(), list(vec![inner.clone()])));
    rows.add("60 tables", with(tables), End::Completes);
    rows.add("a header of 110 KB", with([("large", text(&"x".repeat(110_000)))]), End::Completes);
    for key in READ.into_iter().filter(|key| key.starts_with("jobq-")) {
        let huge = with([(key, text(&"9".repeat(100_000)))]);
        rows.add(format!("{key} of 100 KB"), huge, End::Completes);
    }
}

fn of_bodies(rows: &mut Rows) {
    let unreadable = |text| End::Fails(FailedReason::UnreadablePayload, text);
    rows.body("an empty body", "", unreadable("it is empty; expected an object"));
    rows.body("encoded twice", r#""{\"number\": 1}""#, unreadable("it is a string, perhaps JSON"));
    rows.body("no object", "null", unreadable("expected struct"));
    rows.body("another object", "{\"name\":1}", unreadable("missing field `number`"));
    rows.body("a number too large", "{\"number\":1e99}", unreadable("expected u32"));
    rows.body(
        "no UTF-8",
        *b"{\"number\":1,\"padding\":\"\xff\xfe\"}",
        unreadable("it is not UTF-8"),
    );
    rows.body("bytes", *b"\x00\xff\xfe\x80", unreadable("expected value"));
    let fields = "expected an object with the fields `number`, `padding`";
    rows.body("lists in lists", "[".repeat(100_000), unreadable(fields));
    rows.body("an array", "[1, \"x\"]", unreadable(fields));
    rows.body("a byte order mark", *b"\xef\xbb\xbf{\"number\":1}", unreadable("byte order mark"));
    rows.body("half of it", "{\"number\":", unreadable("EOF"));
}

fn of_names(rows: &mut Rows) {
    let long = "n".repeat(255);
    for name in ["unknown", "../../etc/passwd", "a b", "mail@failed", "#", "\u{0}\n", &long] {
        // As if it had been tried for as long as a deploy may take.
        let properties = with([("jobq-attempts", AMQPValue::LongInt(20))]).with_type(name.into());
        let end = End::Fails(FailedReason::UnknownJob, "");
        rows.add(format!("the name {name:?}"), properties, end);
    }
    let encoded = End::Fails(FailedReason::UnreadablePayload, "one `data` section");
    rows.add("a value of AMQP 1.0", plain().with_type("amqp-1.0".into()), encoded);
    // Two jobs are in the queue, and it does not say which.
    let nameless = BasicProperties::default()
        .with_headers(headers([("jobq-attempts", AMQPValue::LongInt(20))]));
    rows.add("no name", nameless, End::Fails(FailedReason::UnknownJob, ""));
}

fn of_hostile_headers(rows: &mut Rows, work: &str) {
    // There is no such tier.
    for wait in ["0", "199", "18446744073709551615"] {
        rows.by_key(format!("mail@{wait}"), with_id(plain()));
    }
    for attempts in [i64::MIN, -1, 0] {
        let number = AMQPValue::LongLongInt(attempts);
        let properties = with([("jobq-attempts", number)]);
        rows.add(format!("jobq-attempts {attempts}"), properties, End::Completes);
    }
    for (expires, end) in [
        ("0", End::Fails(FailedReason::Expired, "expired at 1970-01-01")),
        ("1", End::Fails(FailedReason::Expired, "expired at 1970-01-01")),
        ("-1", End::Completes),
        ("1e3", End::Completes),
        ("18446744073709551615", End::Completes),
        ("99999999999999999999", End::Completes),
    ] {
        let properties = with([("jobq-expires-at", text(expires))]);
        rows.add(format!("jobq-expires-at {expires}"), properties, end);
    }
    // Other clients send a number.
    let expired = with([("jobq-expires-at", AMQPValue::LongLongInt(1_000))]);
    let end = End::Fails(FailedReason::Expired, "expired at 1970-01-01T00:00:01");
    rows.add("jobq-expires-at as a number", expired, end);
    // With an id and a wait that has a tier, the broker would move it. Each version takes these.
    for deaths in histories_of_no_broker(work) {
        rows.by_key("mail@200".to_owned(), with_id(with([("x-death", deaths)])));
    }
}

/// Histories as no broker writes them. None counts a rejection by this work queue.
pub(crate) fn histories_of_no_broker(work: &str) -> Vec<AMQPValue> {
    let death = |key: &str, value: Option<AMQPValue>| {
        let sound = [
            ("count", AMQPValue::LongLongInt(3)),
            ("exchange", text("elsewhere")),
            ("queue", text("elsewhere")),
            ("reason", text("rejected")),
            ("routing-keys", list(vec![text("mail")])),
            ("time", AMQPValue::Timestamp(1_700_000_000)),
        ];
        let mut entry: BTreeMap<_, _> = sound.into_iter().collect();
        entry.remove(key);
        entry.extend(value.map(|value| (key, value)));
        list(vec![table(entry)])
    };
    let number = AMQPValue::LongLongInt;
    let mut histories = vec![
        death("count", Some(AMQPValue::LongInt(3))),
        death("count", Some(number(-7))),
        death("count", Some(number(1 << 40))),
        death("time", Some(number(17))),
        death("reason", Some(AMQPValue::Boolean(true))),
        list(vec![table([("count", text("x")), ("queue", text(work))])]),
        list(vec![table([])]),
    ];
    let keys = ["count", "exchange", "queue", "reason", "routing-keys", "time"];
    histories.extend(keys.map(|key| death(key, None)));
    histories
}

pub(crate) fn rows(work: &str) -> Vec<Row> {
    let mut rows = Rows::default();
    of_wrong_types(&mut rows);
    of_huge_tables(&mut rows);
    of_bodies(&mut rows);
    of_names(&mut rows);
    of_hostile_headers(&mut rows, work);
    rows.0
}
