//! Whatever a foreign client sends to a pool's queue runs, or ends among the failed jobs
//! with its reason, and the jobs around it are untouched.

pub(crate) mod rows;

use std::collections::{BTreeMap, BTreeSet};

use jobq::{
    BoxError, Client, FailedJob, FailedReason, JobContext, MAX_PAYLOAD, State, WorkerPool, job,
};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Store, until};
use lapin::types::AMQPValue;
use tokio::sync::mpsc;

use self::rows::{End, OF_NO_QUEUE, plain, rows, with};

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
        (counts.open() == 0).then_some(())
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
