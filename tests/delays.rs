//! Waits of any length, on both engines: in the order of their ends, none early, none
//! lost.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobq::engine::{QueueSpec, Settlement};
use jobq::testing::soon;
use jobq::{BoxError, Client, Envelope, JobContext, JobId, RunningPool, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::broker::{self, Broker};
use jobq_tests::raw::{Raw, header};
use jobq_tests::stage::{Scripted, Stage, Step, Store};
use lapin::types::{AMQPValue, generation};
use tokio::sync::mpsc;

both_engines!(
    shorter_waits_end_first,
    hundreds_of_waits_end_in_their_order,
    no_kind_of_wait_ends_early,
);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The policy's wait of a [`timed`] job.
const PAUSE: Duration = millis(700);

/// What the runs of [`timed`] jobs are measured by.
#[derive(Debug, Clone)]
struct Watch {
    /// When each job's next attempt is due, where its first one failed.
    due: Arc<Mutex<HashMap<JobId, Instant>>>,
    runs: mpsc::UnboundedSender<(JobId, Instant, Option<Instant>)>,
}

/// Fails so many times, and says when it ran and, after the first time, when it was due.
#[job(retries = 5, delay = "700ms", concurrency = 1)]
async fn timed(failures: u32, ctx: JobContext, watch: State<Watch>) -> Result<(), BoxError> {
    let mut due = watch.due.lock().unwrap();
    let now = Instant::now();
    watch.runs.send((ctx.id(), now, due.insert(ctx.id(), now + PAUSE)))?;
    if ctx.attempt() <= failures { Err("again".into()) } else { Ok(()) }
}

type Runs = mpsc::UnboundedReceiver<(JobId, Instant, Option<Instant>)>;

async fn timed_pool(client: &Client) -> (RunningPool, Runs) {
    let (runs, received) = mpsc::unbounded_channel();
    let watch = Watch { due: Arc::default(), runs };
    let pool = WorkerPool::new(client).state(watch).register::<Timed>();
    (pool.spawn().await.unwrap(), received)
}

/// Enqueues a job with this wait, and gives the time before which it must not run.
async fn enqueue(client: &Client, failures: u32, wait: Duration) -> (JobId, Instant) {
    let due = Instant::now() + wait;
    let id = client.enqueue(Timed { failures }).delay(wait).await.unwrap();
    (id, due)
}

async fn next(runs: &mut Runs) -> (JobId, Instant, Option<Instant>) {
    soon("the next run", runs.recv()).await.unwrap()
}

/// The first wait of a client may have to be prepared for.
async fn warm_up(client: &Client, runs: &mut Runs) {
    enqueue(client, 0, millis(1)).await;
    next(runs).await;
}

async fn shorter_waits_end_first(store: Store) {
    let client = store.client().await;
    let (running, mut runs) = timed_pool(&client).await;
    warm_up(&client, &mut runs).await;
    let mut due = Vec::new();
    for wait in [3_000, 2_000, 1_000] {
        due.push(enqueue(&client, 0, millis(wait)).await);
    }
    for (id, due) in due.into_iter().rev() {
        let (ran, at, _) = next(&mut runs).await;
        assert_eq!(ran, id);
        assert!(at >= due, "{:?} early", due - at);
    }
    running.shutdown().await.unwrap();
}

async fn hundreds_of_waits_end_in_their_order(store: Store) {
    // Twice what the levels count in.
    const TIE: Duration = millis(200);
    let client = store.client().await;
    let (running, mut runs) = timed_pool(&client).await;
    warm_up(&client, &mut runs).await;
    let mut random = fastrand::Rng::with_seed(7);
    let (mut first_due, mut left) = (HashMap::new(), 0);
    for _ in 0..300 {
        let failures = if random.u8(0..5) == 0 { 2 } else { 0 };
        let wait = millis(random.u64(1_000..10_000));
        let (id, due) = enqueue(&client, failures, wait).await;
        first_due.insert(id, due);
        left += failures + 1;
    }
    let mut latest: Option<Instant> = None;
    let (mut misplaced, mut late) = (Vec::new(), Duration::ZERO);
    for _ in 0..left {
        let (id, at, due) = next(&mut runs).await;
        let due = due.unwrap_or_else(|| first_due[&id]);
        assert!(at >= due, "{:?} early", due - at);
        late = late.max(at - due);
        if let Some(before) = latest.filter(|latest| due + TIE < *latest) {
            misplaced.push(before - due);
        }
        latest = latest.max(Some(due));
    }
    assert!(misplaced.is_empty(), "so long after a later one: {misplaced:?}; latest {late:?}");
    println!("the latest of {left} runs came {late:?} after its time");
    running.shutdown().await.unwrap();
}

/// Grows, at random.
#[job(retries = 3, delay = exponential("300ms", factor = 2, jitter = 0.5))]
async fn growing(
    ctx: JobContext,
    runs: State<mpsc::UnboundedSender<Instant>>,
) -> Result<(), BoxError> {
    runs.send(Instant::now())?;
    if ctx.attempt() == ctx.max_attempts() { Ok(()) } else { Err("again".into()) }
}

async fn no_kind_of_wait_ends_early(store: Store) {
    let mut stage = Stage::on(store).await;
    let (times, mut runs) = mpsc::unbounded_channel::<Instant>();
    let pool = stage.pool().state(times).register::<Growing>();
    let running = pool.spawn().await.unwrap();
    // The levels are made now.
    let wait = stage.client.enqueue(Scripted { steps: vec![] }).delay(millis(1));
    wait.await.unwrap();
    stage.run().await;

    // A wait of the job's own, one of the policy, a snooze, and the policy again.
    let steps = [Step::RetryIn(450), Step::Fail("no".into()), Step::Snooze(650)];
    let id = stage.enqueue([&steps[..], &[Step::Fail("no".into()), Step::Succeed]].concat()).await;
    let mut before = stage.run().await;
    for (attempt, wait) in [(2, 450), (3, 200), (3, 650), (4, 200)] {
        let run = stage.run().await;
        assert_eq!((run.id, run.attempt), (id, attempt));
        let waited = run.at - before.at;
        assert!(waited >= millis(wait), "{waited:?} for {wait}");
        before = run;
    }

    stage.client.enqueue(Growing {}).await.unwrap();
    let mut before = soon("a run", runs.recv()).await.unwrap();
    for longest in [300, 600, 1_200] {
        let run = soon("a run", runs.recv()).await.unwrap();
        let waited: Duration = run - before;
        assert!(waited >= millis(longest / 2), "{waited:?} for {longest}");
        before = run;
    }
    running.shutdown().await.unwrap();
}

/// The bytes of a message's headers.
fn size(properties: &lapin::BasicProperties) -> usize {
    let table = properties.headers().clone().unwrap_or_default();
    generation::gen_field_table(&table)(Vec::new().into()).unwrap().write.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_stay_small_and_attempts_right_however_often_a_job_waits() {
    const TIER: Duration = millis(100);
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::testing::open(&url, &namespace).await.unwrap();
    let spec = QueueSpec { name: "mail".to_owned(), waits: [TIER].into() };
    engine.declare(&[spec]).await.unwrap();
    let mut consumer = engine.consume("mail", 1).await.unwrap();
    let job = Envelope {
        id: JobId::new(),
        queue: "mail".into(),
        name: Some("greet".into()),
        payload: b"{}".to_vec(),
        enqueued_at: std::time::SystemTime::now(),
        delay: millis(150),
        retry_wait: Some(TIER),
        expires_at: None,
        topic: None,
    };
    for answer in engine.push(vec![job]).await {
        answer.unwrap();
    }
    let mut attempt = 1;
    for round in 0..60 {
        let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
        assert_eq!(delivery.attempt, attempt, "round {round}");
        // Each sixth round is the broker's alone, each sixth one uses no attempt.
        let settlement = match round % 6 {
            0 => Settlement::Retry(TIER),
            1 => Settlement::Snooze(millis(50)),
            _ => Settlement::Retry(millis(round * 20)),
        };
        attempt += u32::from(!matches!(settlement, Settlement::Snooze(_)));
        delivery.settle(settlement).await.unwrap();
    }
    let last = soon("a delivery", consumer.next()).await.unwrap().unwrap();
    assert_eq!(last.attempt, 51);
    consumer.stop().await;
    drop(last);
    let raw = Raw::connect(&url).await;
    let properties = loop {
        if let Some(properties) = raw.peek(&format!("{namespace}:mail")).await {
            break properties;
        }
        tokio::time::sleep(millis(20)).await;
    };
    let deaths = header(&properties, "x-death").and_then(AMQPValue::as_array).unwrap();
    let (count, size) = (deaths.as_slice().len(), size(&properties));
    println!("{count} entries in x-death, {size} bytes of headers");
    assert!(count <= 4 && size < 2_048, "{count} entries in x-death, {size} bytes of headers");
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_wait_is_too_long_for_the_broker_but_one_that_no_attribute_could_say() {
    let store = Store::rabbitmq().await;
    let client = store.client().await;
    let (running, mut runs) = timed_pool(&client).await;
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    for long in [days(1), days(49), days(50), days(366), days(1_243), days(3_650)] {
        enqueue(&client, 0, long).await;
    }
    let error = client.enqueue(Timed { failures: 0 }).delay(days(3_651)).await.unwrap_err();
    assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
    assert!(error.to_string().contains("3650d"), "{error}");
    let (id, due) = enqueue(&client, 0, millis(900)).await;
    let (ran, at, _) = next(&mut runs).await;
    assert!(ran == id && at >= due);
    // Nothing of it came out anywhere.
    for queue in ["timed", "orphan"] {
        assert_eq!(client.counts(queue).await.unwrap(), jobq::engine::Counts::default());
    }
    running.shutdown().await.unwrap();
}

/// A broker that has just started may pass a message on to a queue that is not up yet. It
/// then waits for the answer for three minutes (`dead_letter_worker_publisher_confirm_timeout`)
/// before it passes it on again.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn waits_go_on_while_there_is_no_broker() {
    let Some(node) = Broker::to_kill("waits_go_on_while_there_is_no_broker").await else {
        return;
    };
    let client = Store::on_broker(node.url()).client().await;
    let (running, mut runs) = timed_pool(&client).await;
    warm_up(&client, &mut runs).await;
    // A quorum queue whose broker is killed in the first moments of its life may not come
    // back, and nothing tells when they are over.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut due = HashMap::new();
    for wait in 0..60 {
        let (id, time) = enqueue(&client, 0, millis(1_500 + wait * 150)).await;
        due.insert(id, time);
    }
    let mut seen = HashSet::new();
    while seen.len() < 5 {
        seen.insert(next(&mut runs).await.0);
    }
    node.kill();
    node.restart().await;
    while seen.len() < due.len() {
        let run = tokio::time::timeout(CONFIRM_TIMEOUT, runs.recv()).await;
        let (id, at, _) = run.expect("none is lost").unwrap();
        assert!(at >= due[&id], "{:?} early", due[&id] - at);
        seen.insert(id);
    }
    running.shutdown().await.unwrap();
}
