//! A suspended pool does not know that its jobs were given to others.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jobq::admin::{Activity, PoolReport, Queues};
use jobq::{Client, JobId};
use jobq_tests::both_engines;
use jobq_tests::files::Directory;
use jobq_tests::jobs::soak_job::{Failure, Plan, SoakJob};
use jobq_tests::proxy::{Proxy, Toward};
use jobq_tests::test_store::{Store, until};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until};

both_engines!(
    a_resumed_pool_starts_no_job_that_others_were_given,
    after_a_short_suspension_each_job_runs_once,
);

/// The slots of a pool of soak jobs.
const SLOTS: usize = 20;
/// Fewer than a pool takes ahead of short jobs, also on a busy machine.
const AHEAD: usize = 15;

/// In seconds. After 7.5 s a suspension is noticed, and after the heartbeat a question is given up. So
/// long that `lapin`, which gives a connection up after twice that, is not what ends it.
const HEARTBEAT: u16 = 16;
/// Longer than that, and than half a lease.
const SUSPENSION: Duration = Duration::from_secs(9);

/// A worker process.
struct Worker {
    process: Child,
    ledger: PathBuf,
}

impl Worker {
    /// One on this URL of a store. The lease of a file's jobs is two seconds.
    fn start(url: &str, store: &Store, ledger: &Path, name: &str) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["soak_jobs", url, &store.namespace])
            .arg(ledger)
            .args([name, "2000", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { process, ledger: ledger.to_owned() }
    }

    async fn signal(&self, signal: &str) {
        let pid = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status().await;
        assert!(sent.unwrap().success());
    }

    /// The lines of the ledger with this first word.
    fn lines(&self, word: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        text.lines().filter(|line| line.split(' ').next() == Some(word)).map(Into::into).collect()
    }

    async fn written(&self, word: &str, count: usize) {
        until(&format!("{count} lines with `{word}`"), async || {
            (self.lines(word).len() >= count).then_some(())
        })
        .await;
    }
}

/// Enqueues jobs that take so long.
async fn enqueue(client: &Client, count: usize, takes: Duration) -> Vec<JobId> {
    let takes = u64::try_from(takes.as_millis()).unwrap();
    let plan = Plan { failures: 0, failure: Failure::Error, takes };
    client.enqueue_all((0..count).map(|_| SoakJob { plan })).await.unwrap()
}

/// The reports of so many pools, once they are like this.
async fn reported(client: &Client, count: usize, is_so: impl Fn(&PoolReport) -> bool) {
    until("the reports of the pools", async || {
        let pools =
            client.admin().pools(Queues::one("soak_job"), Duration::from_secs(1)).await.ok()?;
        (pools.pools.len() == count && pools.pools.iter().all(&is_so)).then_some(())
    })
    .await;
}

/// A worker on this URL whose slots are all taken for so long, and that has taken [`AHEAD`] more
/// jobs; with the number of jobs so far.
async fn ahead(
    (url, store, client): (&str, &Store, &Client),
    ledger: &Path,
    takes: Duration,
) -> (Worker, usize) {
    let worker = Worker::start(url, store, ledger, "suspended");
    reported(client, 1, |_| true).await;
    // Short ones, so that it takes many ahead.
    enqueue(client, AHEAD, Duration::ZERO).await;
    worker.written("ends", AHEAD).await;
    enqueue(client, SLOTS, takes).await;
    enqueue(client, AHEAD, Duration::ZERO).await;
    reported(client, 1, |pool| {
        let queue = pool.queue("soak_job").unwrap();
        queue.running.len() == SLOTS && usize::try_from(queue.in_flight).unwrap() == SLOTS + AHEAD
    })
    .await;
    (worker, AHEAD + SLOTS + AHEAD)
}

/// Holds the file's write lock until it is dropped.
fn lock(store: &Store) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(store.url.strip_prefix("sqlite://").unwrap()).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    file
}

/// The engine gives the jobs of a suspended process to another one, and nothing tells the process
/// when it goes on: the broker has closed the connection, whose end does not arrive, and the writer
/// of a file waits for the lock.
async fn a_resumed_pool_starts_no_job_that_others_were_given(store: Store) {
    const TAKES: Duration = Duration::from_secs(8);
    let client = store.client().await;
    let folder = Directory::new();
    let ledger = folder.path().join("ledger");
    let proxy = if store.is_file() { None } else { Some(Proxy::to(&store.url).await) };
    let url = proxy.as_ref().map_or_else(|| store.url.clone(), Proxy::url);
    let url = if store.is_file() { url } else { format!("{url}?heartbeat={HEARTBEAT}") };
    let (worker, jobs) = ahead((&url, &store, &client), &ledger, TAKES).await;
    worker.signal("STOP").await;
    let resumable = Instant::now() + SUSPENSION.max(TAKES);
    if let Some(proxy) = &proxy {
        proxy.freeze(Toward::Client);
        proxy.half_close(Toward::Broker);
    }
    let _other = Worker::start(&store.url, &store, &ledger, "other");
    worker.written("ends", jobs).await;
    if !store.is_file() {
        until("a pause that holds", async || {
            let paused = client.admin().pause("soak_job", "a deploy").await.unwrap();
            (paused.still_taking == 0).then_some(())
        })
        .await;
    }
    // Its functions are over then, so that its slots are free.
    sleep_until(resumable).await;
    let (begun, ended) = (worker.lines("begins").len(), worker.lines("ends").len());
    let lock = store.is_file().then(|| lock(&store));
    worker.signal("CONT").await;
    worker.written("ends", ended + SLOTS).await;
    drop(lock);
    if let Some(proxy) = &proxy {
        proxy.thaw();
    }
    let state = if store.is_file() { Activity::Consuming } else { Activity::Paused };
    reported(&client, 2, |pool| {
        let queue = pool.queue("soak_job").unwrap();
        queue.state == state && queue.in_flight == 0
    })
    .await;
    assert_eq!(worker.lines("begins").split_off(begun), [""; 0]);

    client.admin().resume("soak_job").await.unwrap();
    enqueue(&client, 1, Duration::ZERO).await;
    worker.written("ends", ended + SLOTS + 1).await;
}

/// The engine has not given the jobs to others, and says so.
async fn after_a_short_suspension_each_job_runs_once(store: Store) {
    let client = store.client().await;
    let folder = Directory::new();
    let ledger = folder.path().join("ledger");
    let heartbeat = if store.is_file() { String::new() } else { format!("?heartbeat={HEARTBEAT}") };
    let url = format!("{}{heartbeat}", store.url);
    let (worker, jobs) = ahead((&url, &store, &client), &ledger, Duration::from_secs(8)).await;
    worker.signal("STOP").await;
    // The broker gives a connection up after twice its heartbeat, and no other process takes over
    // what a lease has.
    sleep(SUSPENSION).await;
    worker.signal("CONT").await;
    worker.written("ends", jobs).await;
    let begun = worker.lines("begins");
    let is_first = |line: &String| line.ends_with(" 1 suspended");
    assert!(begun.len() == jobs && begun.iter().all(is_first), "{begun:#?}");
    let overview = client.admin().overview(Queues::one("soak_job")).await.unwrap();
    let queue = &overview.queues[0];
    assert!(queue.ready == 0 && queue.failed == 0, "{queue:?}");
}
