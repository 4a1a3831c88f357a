//! Whatever a foreign client sends to a pool's queue runs, or ends among the failed jobs
//! with its reason, and the jobs around it are untouched.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use jobq::{
    BoxError, Client, FailedJob, FailedReason, JobContext, JobId, MAX_PAYLOAD, State, WorkerPool,
    job,
};
use jobq_tests::raw::{Raw, headers, text};
use jobq_tests::stage::{Store, until};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, FieldArray, FieldTable, LongString};
use tokio::sync::mpsc;

/// A run: the job's number, the attempt, and the most attempts that there will be.
type Runs = mpsc::UnboundedSender<(u32, u32, u32)>;

/// Jobs with smaller numbers fail at their first attempt, so that they are also retried.
const GOOD: u32 = 1_000;
/// This one fails at every attempt.
const FAILS: u32 = 999;

#[job(queue = "mail", retries = 1, delay = "200ms")]
async fn greet(
    number: u32,
    #[serde(default)] padding: String,
    ctx: JobContext,
    runs: State<Runs>,
) -> Result<(), BoxError> {
    runs.send((number, ctx.attempt(), ctx.max_attempts()))?;
    let _ = padding;
    let fails = number == FAILS || number < GOOD && ctx.attempt() == 1;
    if fails { Err("not well".into()) } else { Ok(()) }
}

#[job(queue = "mail")]
async fn neighbour() -> Result<(), BoxError> {
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// After attempts 1 and 2, as the policy of the registered job says.
    Completes,
    /// At once, or after an attempt beyond the last; the error has this text.
    Fails(FailedReason, &'static str),
}

struct Row {
    what: String,
    key: String,
    properties: BasicProperties,
    body: Option<Vec<u8>>,
    end: End,
}

fn plain() -> BasicProperties {
    // The queue has two jobs, so the message has to say which.
    BasicProperties::default().with_type("greet".into())
}

fn with<'k>(entries: impl IntoIterator<Item = (&'k str, AMQPValue)>) -> BasicProperties {
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
const OF_NO_QUEUE: [&str; 14] = [
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

/// Every header that jobq or the broker reads.
const READ: [&str; 12] = [
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
    "x-death",
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
    rows.body("an empty body", "", unreadable("EOF"));
    rows.body("no object", "null", unreadable("expected struct"));
    rows.body("another object", "{\"name\":1}", unreadable("missing field `number`"));
    rows.body("a number too large", "{\"number\":1e99}", unreadable("expected u32"));
    rows.body("no UTF-8", *b"{\"number\":1,\"padding\":\"\xff\xfe\"}", unreadable("unicode"));
    rows.body("bytes", *b"\x00\xff\xfe\x80", unreadable("expected value"));
    rows.body("lists in lists", "[".repeat(100_000), unreadable("invalid type: sequence"));
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
        ("0", End::Fails(FailedReason::Expired, "time ran out")),
        ("1", End::Fails(FailedReason::Expired, "time ran out")),
        ("-1", End::Completes),
        ("1e3", End::Completes),
        ("18446744073709551615", End::Completes),
        ("99999999999999999999", End::Completes),
    ] {
        let properties = with([("jobq-expires-at", text(expires))]);
        rows.add(format!("jobq-expires-at {expires}"), properties, end);
    }
    // With an id and a wait that has a tier, the broker itself moves it, and reads these.
    let death = |count: Option<AMQPValue>, queue: &str, reason: AMQPValue| {
        let count = count.into_iter().map(|count| ("count", count));
        table(count.chain([("queue", text(queue)), ("reason", reason)]))
    };
    let deaths = [
        text("often"),
        list(vec![text("often"), AMQPValue::Void]),
        list(vec![table([])]),
        list(vec![death(None, work, text("rejected"))]),
        list(vec![death(Some(text("many")), work, text("rejected"))]),
        list(vec![death(Some(AMQPValue::LongLongInt(-7)), "other", text("rejected"))]),
        list(vec![death(Some(AMQPValue::LongLongInt(3)), work, AMQPValue::Void)]),
        list(vec![death(Some(AMQPValue::LongLongInt(3)), work, text("expired"))]),
    ];
    for deaths in deaths {
        rows.by_key("mail@200".to_owned(), with_id(with([("x-death", deaths)])));
    }
}

fn rows(work: &str) -> Vec<Row> {
    let mut rows = Rows::default();
    of_wrong_types(&mut rows);
    of_huge_tables(&mut rows);
    of_bodies(&mut rows);
    of_names(&mut rows);
    of_hostile_headers(&mut rows, work);
    rows.0
}

/// The runs of each job: its attempts.
async fn collect(
    runs: &mut mpsc::UnboundedReceiver<(u32, u32, u32)>,
    mut left: usize,
) -> BTreeMap<u32, Vec<u32>> {
    let mut found = BTreeMap::<u32, Vec<u32>>::new();
    while left > 0 {
        let next = tokio::time::timeout(std::time::Duration::from_secs(180), runs.recv()).await;
        let Ok(Some((number, attempt, most))) = next else {
            break;
        };
        assert_eq!(most, 2, "the policy of the registered job");
        found.entry(number).or_default().push(attempt);
        left -= 1;
    }
    found
}

async fn is_empty(client: &Client, queue: &str) {
    until("an empty queue", || async {
        let counts = client.counts(queue).await.ok()?;
        (counts.ready + counts.waiting == 0).then_some(())
    })
    .await;
}

fn pool(client: &Client, runs: Runs) -> WorkerPool {
    WorkerPool::new(client).state(runs).register::<Greet>().register::<Neighbour>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bad_message_runs_or_fails_with_its_reason_among_good_jobs() {
    let store = Store::rabbitmq().await;
    let client = store.client().await;
    let (runs, mut seen) = mpsc::unbounded_channel();
    let running = pool(&client, runs).spawn().await.unwrap();
    let raw = Raw::connect(&store.url).await;

    let rows = rows(&format!("{}:mail", store.namespace));
    let mut bodies = BTreeMap::new();
    for (number, row) in (0..).zip(&rows) {
        let body = row.body.clone().unwrap_or_else(|| format!("{{\"number\":{number}}}").into());
        raw.publish(&store.namespace, &row.key, row.properties.clone(), &body).await;
        let good = Greet { number: GOOD + number, padding: String::new() };
        client.enqueue(good).await.unwrap();
        bodies.insert(number, body);
    }
    for key in OF_NO_QUEUE {
        raw.publish(&store.namespace, key, plain(), b"{}").await;
    }

    let completing = rows.iter().filter(|row| row.end == End::Completes).count();
    let found = collect(&mut seen, completing * 2 + rows.len()).await;
    let mut failing = BTreeSet::new();
    for (number, row) in (0..).zip(&rows) {
        let attempts = found.get(&number).map(Vec::as_slice).unwrap_or_default();
        match row.end {
            End::Completes => assert_eq!(attempts, [1, 2], "{}", row.what),
            End::Fails(..) => {
                assert!(attempts.is_empty(), "{}: {attempts:?}", row.what);
                failing.insert(number);
            }
        }
        assert_eq!(found[&(GOOD + number)], [1], "the good job after: {}", row.what);
    }
    is_empty(&client, "mail").await;
    let failed = until("all failed jobs", || async {
        let failed = client.failed("mail").list(500).await.ok()?;
        (failed.len() >= failing.len()).then_some(failed)
    })
    .await;
    assert_eq!(failed.len(), failing.len());
    for number in failing {
        let row = &rows[number as usize];
        let End::Fails(reason, said) = row.end else { unreachable!("only those") };
        // Where several have one body, any of them.
        let job = failed
            .iter()
            .find(|job| job.payload_bytes() == bodies[&number] && job.reason() == reason);
        let job = job.unwrap_or_else(|| panic!("{} is not there", row.what));
        assert!(job.error().contains(said), "{}: {}", row.what, job.error());
    }
    let strays = until("the strays", || async {
        let strays = client.failed("orphan").list(50).await.ok()?;
        (strays.len() == OF_NO_QUEUE.len()).then_some(strays)
    })
    .await;
    assert!(strays.iter().all(|stray| stray.reason() == FailedReason::Unroutable), "{strays:?}");
    let keys: BTreeSet<_> = strays.iter().map(FailedJob::queue).collect();
    assert_eq!(keys, BTreeSet::from(OF_NO_QUEUE));
    running.shutdown().await.unwrap();
}

/// An attempt that is due runs, however many others there were; and none comes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_beyond_all_limits_are_the_last() {
    let store = Store::rabbitmq().await;
    let client = store.client().await;
    let (runs, mut seen) = mpsc::unbounded_channel();
    let running = pool(&client, runs).spawn().await.unwrap();
    let raw = Raw::connect(&store.url).await;
    let most = 0x8000_0000;
    let table = [(1, 2), (i64::from(i32::MAX), most), (1 << 40, most), (i64::MAX, most)];
    for (used, attempt) in table {
        let properties = with([("jobq-attempts", AMQPValue::LongLongInt(used))]);
        raw.publish(&store.namespace, "mail", properties, b"{\"number\":999}").await;
        let found = collect(&mut seen, 1).await;
        assert_eq!(found, BTreeMap::from([(FAILS, vec![attempt])]), "{used}");
    }
    is_empty(&client, "mail").await;
    let failed = until("all of them", || async {
        let failed = client.failed("mail").list(9).await.ok()?;
        (failed.len() == table.len()).then_some(failed)
    })
    .await;
    assert!(failed.iter().all(|job| job.reason() == FailedReason::Exhausted), "{failed:?}");
    running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_up_to_the_limit_run_and_larger_ones_are_refused_before_they_are_sent() {
    let store = Store::rabbitmq().await;
    let client = store.client().await;
    let (runs, mut seen) = mpsc::unbounded_channel();
    let running = pool(&client, runs).spawn().await.unwrap();
    let greet = |length| Greet { number: 7, padding: "x".repeat(length) };
    let around = serde_json::to_vec(&greet(0)).unwrap().len();
    let raw = Raw::connect(&store.url).await;
    // Nobody must see it: the alternate of jobq's exchange takes what has no queue.
    let tap = raw.tap(&store.namespace, "mail@200").await;

    let large = greet(MAX_PAYLOAD - around + 1);
    let error = client.enqueue(large.clone()).await.unwrap_err();
    assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
    for part in ["`greet`", "16777217", "16777216", "store the data elsewhere"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = client.publish("user.created", &large).await.unwrap_err();
    assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
    assert_eq!(raw.take(&tap).await, None, "nothing was sent");

    // The largest runs, fails, is published again and completes, beside one from elsewhere.
    let body = serde_json::to_vec(&greet(MAX_PAYLOAD - around)).unwrap();
    assert_eq!(body.len(), MAX_PAYLOAD);
    client.enqueue(greet(MAX_PAYLOAD - around)).await.unwrap();
    raw.publish(&store.namespace, "mail", plain(), &body).await;
    let found = collect(&mut seen, 4).await;
    let mut attempts = found[&7].clone();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 1, 2, 2]);
    is_empty(&client, "mail").await;
    assert!(client.failed("mail").list(1).await.unwrap().is_empty());
    running.shutdown().await.unwrap();
}
