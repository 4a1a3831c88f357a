//! A move from a file to a broker, or from broker to broker, and the brokers, die, while pools run on both
//! sides.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use jobq::admin::Queues;
use jobq::moving::Move;
use jobq::{BoxError, Client, Event, JobContext, State, WorkerPool, job};
use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;
use jobq_tests::test_store::Store;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{PATIENCE, place, rounds};

/// The most jobs that a move has in its hands.
const BATCH: usize = 500;
/// How long jobs and events wait.
const WAIT: Duration = Duration::from_secs(45);

/// The states of jobs, by the last two digits of their numbers.
const FAILED: u32 = 1;
const WAITING: u32 = 2;
const USED: u32 = 3;
const SUSPECTED: u32 = 77;

/// The attempts of each job that ran, and when it first did.
type Runs = Arc<Mutex<BTreeMap<u32, (Vec<u32>, SystemTime)>>>;

#[job(queue = "parcels", retries = 10_000, delay = "200ms")]
async fn deliver(number: u32, runs: State<Runs>, ctx: JobContext) -> Result<(), BoxError> {
    note(&runs, number, &ctx);
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "parcel.lost")]
struct Lost {
    number: u32,
}

#[job(on = "parcel.*", retries = 10_000, delay = "200ms")]
async fn search(lost: Lost, runs: State<Runs>, ctx: JobContext) -> Result<(), BoxError> {
    note(&runs, lost.number, &ctx);
    Ok(())
}

fn note(runs: &Runs, number: u32, ctx: &JobContext) {
    let mut runs = runs.lock().unwrap();
    let (attempts, _) = runs.entry(number).or_insert((Vec::new(), SystemTime::now()));
    attempts.push(ctx.attempt());
}

/// Fills a file with jobs in all states, and events with the numbers after theirs. Returns the number of
/// all.
async fn fill(client: &Client, path: &str, jobs: u32) -> u32 {
    client.declare::<Search>().await.unwrap();
    client.enqueue_all((0..jobs).map(|number| Deliver { number })).await.unwrap();
    let events = jobs / 100;
    for number in jobs..jobs + events {
        client.publish_event(&Lost { number }).delay(WAIT).await.unwrap();
    }
    let file = Connection::open(path).unwrap();
    file.busy_timeout(Duration::from_secs(30)).unwrap();
    let number = "json_extract(CAST(payload AS TEXT), '$.number')";
    let wait = WAIT.as_millis();
    file.execute_batch(&format!(
        "BEGIN IMMEDIATE;
        INSERT INTO failed (queue, failed_at, attempts, reason, error, job_id, enqueued_at, name, payload)
        SELECT queue, enqueued_at, 6, 'aborted', 'no ' || {number}, job_id, enqueued_at, name, payload
        FROM jobs WHERE {number} % 10 = {FAILED};
        DELETE FROM jobs WHERE {number} % 10 = {FAILED};
        UPDATE jobs SET due = due + {wait} WHERE {number} % 10 = {WAITING};
        UPDATE jobs SET attempts = 3 WHERE {number} % 10 = {USED};
        UPDATE jobs SET solo = 0 WHERE {number} % 100 = {SUSPECTED};
        COMMIT;"
    ))
    .unwrap();
    jobs + events
}

/// A move as a process.
struct Moving(Child);

impl Moving {
    /// From this source, with its management API if it is a broker.
    fn start(source: &str, store: &Store, management: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mover"));
        command.args([source, &store.url, &store.namespace]).args(management);
        Self(command.spawn().unwrap())
    }

    /// Whether it moved all.
    fn ends(mut self) -> bool {
        self.0.wait().unwrap().success()
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_job_of_a_file_reaches_the_broker() {
    let Some(node) = Broker::to_kill("every_job_of_a_file_reaches_the_broker").await else {
        return;
    };
    node.set("dead_letter_worker_publisher_confirm_timeout", 500);
    let (store, folder) = (Store::on_broker(node.url()), Directory::new());
    let (url, path) = (folder.url("jobs.db"), folder.file("jobs.db"));
    let jobs = u32::try_from(rounds(10_000, 100_000)).unwrap();
    let source = Client::builder(&url).namespace(&store.namespace).connect().await.unwrap();
    let began = SystemTime::now();
    let all = fill(&source, path.to_str().unwrap(), jobs).await;

    let runs = Runs::default();
    let target = store.client().await;
    let at_target = pool(&target, &runs).spawn().await.unwrap();
    // A queue whose broker is killed in the first moments of its life may not come back.
    sleep(Duration::from_secs(3)).await;
    let at_source = pool(&source, &runs).concurrency(1).spawn().await.unwrap();

    let (kills, start) = (rounds(8, 40), Instant::now());
    let mut killed = [0, 0];
    for round in 0..kills {
        let mut moving = Moving::start(&url, &store, None);
        sleep(Duration::from_millis(fastrand::u64(50..800))).await;
        if round % 4 == 1 {
            killed[1] += 1;
            node.kill();
            // It ends with an error, and the next one goes on.
            moving.0.wait().unwrap();
            node.restart().await;
        } else {
            killed[0] += 1;
        }
    }
    while !Moving::start(&url, &store, None).ends() {
        assert!(start.elapsed() < PATIENCE * 2, "the move does not end");
    }
    let left = "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM failed)
        + (SELECT count(*) FROM events)";
    let left = Connection::open(&path).unwrap().query_row(left, [], |row| row.get::<_, i64>(0));
    assert_eq!(left, Ok(0), "left in the file");
    at_source.shutdown().await.unwrap();

    all_ran(&runs, (0..all).filter(|number| !has_failed(*number, jobs)).collect()).await;
    let report = judge(&runs, &target, (jobs, kills), began).await;
    let [of_moves, of_brokers] = killed;
    println!(
        "a move, {}: {} s; killed were the move {of_moves} times, the broker {of_brokers}: {report}",
        place(&store),
        start.elapsed().as_secs()
    );
    at_target.shutdown().await.unwrap();
}

fn pool(client: &Client, runs: &Runs) -> WorkerPool {
    let pool = WorkerPool::new(client).state(Arc::clone(runs));
    pool.register::<Deliver>().register::<Search>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_job_of_a_broker_reaches_another() {
    let name = "every_job_of_a_broker_reaches_another";
    let Some(node) = Broker::to_kill(name).await else { return };
    let Some((old, management)) = Broker::of_this_machine(name).await else { return };
    for node in [&node, &old] {
        node.set("dead_letter_worker_publisher_confirm_timeout", 500);
    }
    let (store, folder) = (Store::on_broker(node.url()), Directory::new());
    let jobs = u32::try_from(rounds(10_000, 100_000)).unwrap();
    let client = |url: &str| Client::builder(url).namespace(&store.namespace);
    let file = client(&folder.url("jobs.db")).connect().await.unwrap();
    let source = client(&old.url()).management(&management).connect().await.unwrap();
    let began = SystemTime::now();
    let all = fill(&file, folder.file("jobs.db").to_str().unwrap(), jobs).await;
    let moved = Move::new(&file, &source).run_until(pending(), |_| {}).await.unwrap();
    assert!(moved.end.is_none() && moved.refused == 0, "{moved:?}");

    let (runs, target) = (Runs::default(), store.client().await);
    let at_target = pool(&target, &runs).spawn().await.unwrap();
    let at_source = pool(&source, &runs).concurrency(1).spawn().await.unwrap();
    // Queues whose broker is killed in the first moments of their life may not come back.
    sleep(Duration::from_secs(3)).await;
    let (kills, start) = (rounds(8, 40), Instant::now());
    let mut killed = [0, 0, 0];
    for round in 0..kills {
        let mut moving = Moving::start(&old.url(), &store, Some(&management));
        sleep(Duration::from_millis(fastrand::u64(200..1_500))).await;
        let kind = [0, 1, 0, 2][round % 4];
        killed[kind] += 1;
        let Some(broker) = [None, Some(&node), Some(&old)][kind] else { continue };
        broker.kill();
        // It ends with an error, and the next one goes on.
        moving.0.wait().unwrap();
        broker.restart().await;
    }
    at_source.shutdown().await.unwrap();
    let is_empty = async || {
        let levels = source.admin().overview(Queues::All).await.ok()?.in_levels;
        let mut left = levels.known().copied()?;
        for queue in ["parcels", "search"] {
            left += source.counts(queue).await.ok()?.total().known().copied()?;
        }
        (left == 0).then_some(())
    };
    while !Moving::start(&old.url(), &store, Some(&management)).ends() || is_empty().await.is_none()
    {
        assert!(start.elapsed() < PATIENCE * 3, "the move does not end");
    }
    all_ran(&runs, (0..all).filter(|number| !has_failed(*number, jobs)).collect()).await;
    let report = judge(&runs, &target, (jobs, kills), began).await;
    let [of_moves, of_targets, of_sources] = killed;
    println!(
        "a move from broker to broker, {}: {} s; killed were the move {of_moves} times, the target \
         {of_targets}, the source {of_sources}: {report}",
        place(&store),
        start.elapsed().as_secs()
    );
    at_target.shutdown().await.unwrap();
}

fn has_failed(number: u32, jobs: u32) -> bool {
    number < jobs && number % 10 == FAILED
}

/// Waits until all have run, or nothing happens any more.
async fn all_ran(runs: &Runs, expected: BTreeSet<u32>) {
    let mut seen = (0, Instant::now());
    loop {
        let ran = runs.lock().unwrap().len();
        if ran >= expected.len() {
            return;
        }
        if ran > seen.0 {
            seen = (ran, Instant::now());
        }
        if seen.1.elapsed() > PATIENCE {
            let ran: BTreeSet<_> = runs.lock().unwrap().keys().copied().collect();
            panic!("lost: {:?}", expected.difference(&ran).take(20).collect::<Vec<_>>());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Compares what ran and what has failed with what was in the file.
async fn judge(
    runs: &Runs,
    target: &Client,
    (jobs, kills): (u32, usize),
    began: SystemTime,
) -> String {
    let failed = target.failed("parcels").list(jobs as usize).await.unwrap();
    let mut numbers = BTreeSet::new();
    for job in &failed {
        let number = u32::try_from(job.payload()["number"].as_u64().unwrap()).unwrap();
        let expected = (jobq::FailedReason::Aborted, format!("no {number}"), 6);
        assert_eq!((job.reason(), job.error().to_owned(), job.attempts()), expected);
        numbers.insert(number);
    }
    let expected = (0..jobs).filter(|number| has_failed(*number, jobs)).count();
    assert_eq!(numbers.len(), expected, "failed jobs");
    let runs = runs.lock().unwrap();
    for (number, (attempts, first)) in &*runs {
        assert!(!has_failed(*number, jobs), "failed, and ran: {number}");
        let is_used = *number < jobs && number % 10 == USED;
        let least = if is_used { 4 } else { 1 };
        assert!(attempts.iter().all(|attempt| *attempt == least), "{number}: {attempts:?}");
        if number % 10 == WAITING || *number >= jobs {
            assert!(*first >= began + WAIT, "{number} ran before it was due");
        }
    }
    let twice = runs.values().map(|(attempts, _)| attempts.len() - 1).sum::<usize>();
    let twice = twice + failed.len() - expected;
    assert!(twice <= kills * BATCH * 2, "{twice} twice, more than {kills} kills explain");
    format!("{} jobs ran, {expected} failed ones, none lost, {twice} twice", runs.len())
}
