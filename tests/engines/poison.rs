//! Jobs that take their worker down are told from their neighbours.

use jobq::engine::conformance::EngineExt as _;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobq::engine::conformance::soon;
use jobq::engine::{QueueSpec, Settlement};
use jobq::{BoxError, FailedJob, FailedReason, JobContext, JobId, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::files::Directory;
use jobq_tests::jobs::ends_worker::{End, EndsWorker};
use jobq_tests::test_store::{Store, until};
use tokio::process::Command;
use tokio::sync::mpsc;

both_engines!(
    three_jobs_that_kill_are_found_among_five_hundred_good_ones,
    a_job_that_ended_well_is_not_blamed_for_the_next_one,
    a_solo_run_that_outlives_its_timeout_keeps_a_slot,
    restarts_of_a_busy_pool_fail_no_job,
);

const GOOD: u32 = 500;

/// Starts a worker process again and again, and says how often it died.
async fn supervise(store: &Store, ledger: &Path, deaths: &AtomicU32) {
    loop {
        let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["ends_worker", &store.url, &store.namespace])
            .arg(ledger)
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let status = worker.wait().await.unwrap();
        assert!(status.code().is_none(), "it ended by itself: {status}");
        deaths.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the next jobs of a queue run alone.
async fn isolate(store: &Store, queue: &'static str, count: u16) {
    let engine = jobq::engine::conformance::open(&store.url, &store.namespace).await.unwrap();
    engine.declare(&[QueueSpec::new(queue).solo()]).await.unwrap();
    let mut consumer = engine.consume_from(queue, count).await.unwrap();
    for _ in 0..count {
        let delivery = soon("a job", consumer.next()).await.unwrap().unwrap();
        delivery.settle(Settlement::Isolate).await.unwrap();
    }
    consumer.stop().await;
    engine.close().await;
}

fn completed(ledger: &Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string(ledger).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn ids_of(jobs: &[FailedJob]) -> BTreeSet<JobId> {
    jobs.iter().map(FailedJob::id).collect()
}

async fn three_jobs_that_kill_are_found_among_five_hundred_good_ones(store: Store) {
    let client = store.client().await;
    let folder = Directory::new();
    let ledger = folder.path().join("ledger");
    let mut jobs: Vec<_> =
        (0..GOOD).map(|number| EndsWorker { number, end: End::Complete }).collect();
    for (place, end) in [(20, End::Abort), (150, End::Overflow), (300, End::Kill)] {
        jobs.insert(place, EndsWorker { number: GOOD, end });
    }
    let ids = client.enqueue_all(jobs).await.unwrap();
    let bad: BTreeSet<_> = [20, 150, 300].map(|place| ids[place]).into();
    let deaths = AtomicU32::new(0);
    let failed = client.failed("ends_worker");
    let done = async {
        // Each death of a worker of a file costs a lease, so this takes a while.
        while ids_of(&failed.list(10).await.unwrap()).len() < 3 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        until("all good jobs", || async { (completed(&ledger).len() == 500).then_some(()) }).await;
    };
    tokio::select! {
        () = supervise(&store, &ledger, &deaths) => {}
        done = tokio::time::timeout(Duration::from_secs(300), done) => done.unwrap(),
    }
    let failed = failed.list(10).await.unwrap();
    // One that was on its way when another one killed may have two lives.
    assert_eq!(ids_of(&failed), bad, "the bad ones and no other");
    for job in failed {
        assert_eq!((job.reason(), job.attempts()), (FailedReason::Poison, 1));
        assert!(job.error().contains("3 times"), "{}", job.error());
    }
    assert_eq!(completed(&ledger), (0..GOOD).collect());
    let deaths = deaths.into_inner();
    // Three starts alone of each, and three to suspect the first.
    assert!(deaths >= 12, "{deaths}");
    println!("the worker died {deaths} times");
}

async fn a_job_that_ended_well_is_not_blamed_for_the_next_one(store: Store) {
    let client = store.client().await;
    let folder = Directory::new();
    let ledger = folder.path().join("ledger");
    // The third is in hand when the second kills, before it and after it in turn.
    let jobs = [End::Complete, End::Abort, End::Abort].map(|end| EndsWorker { number: 0, end });
    let ids = client.enqueue_all(jobs).await.unwrap();
    isolate(&store, "ends_worker", 3).await;
    let (failed, deaths) = (client.failed("ends_worker"), AtomicU32::new(0));
    let both = until("two failed jobs", || async {
        Some(failed.list(10).await.unwrap()).filter(|jobs| jobs.len() >= 2)
    });
    let both = tokio::select! {
        () = supervise(&store, &ledger, &deaths) => unreachable!(),
        both = both => both,
    };
    assert_eq!(ids_of(&both), ids[1..].iter().copied().collect());
    let runs = std::fs::read_to_string(&ledger).unwrap();
    assert_eq!(runs.lines().count(), 1, "the good one ran once");
}

/// The first one blocks until the test lets it go.
#[job(retries = 0, concurrency = 1, timeout = "100ms")]
fn blocked(
    number: u32,
    ran: State<Ran>,
    go: State<Mutex<mpsc::Receiver<()>>>,
) -> Result<(), BoxError> {
    ran.0.send(number)?;
    if number == 0 {
        go.lock().unwrap().blocking_recv();
    }
    Ok(())
}

async fn a_solo_run_that_outlives_its_timeout_keeps_a_slot(store: Store) {
    let client = store.client().await;
    client.enqueue(Blocked { number: 0 }).await.unwrap();
    isolate(&store, "blocked", 1).await;
    let (ran, mut runs) = mpsc::unbounded_channel();
    let (go, going) = mpsc::channel(1);
    let pool = WorkerPool::new(&client).state(Ran(ran)).state(Mutex::new(going));
    let running = pool.register::<Blocked>().spawn().await.unwrap();
    assert_eq!(soon("the job", runs.recv()).await, Some(0));
    let lost = async |count| {
        until("a slot to be lost, or free again", || async {
            (running.health().queues[0].lost_slots == count).then_some(())
        })
        .await;
    };
    lost(1).await;
    client.enqueue(Blocked { number: 1 }).await.unwrap();
    let failed = client.failed("blocked");
    let job = until("the failed job", || async { failed.list(10).await.unwrap().pop() }).await;
    assert_eq!(job.error(), "it took longer than its timeout of 100ms");
    assert!(runs.try_recv().is_err(), "there is no slot");
    go.send(()).await.unwrap();
    assert_eq!(soon("the next job", runs.recv()).await, Some(1));
    lost(0).await;
    running.shutdown().await.unwrap();
}

#[job(retries = 0, concurrency = 20)]
async fn slow(number: u32, ctx: JobContext, ran: State<Ran>) -> Result<(), BoxError> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(ctx.attempt(), 1);
    ran.0.send(number)?;
    Ok(())
}

struct Ran(mpsc::UnboundedSender<u32>);

async fn restarts_of_a_busy_pool_fail_no_job(store: Store) {
    const JOBS: u32 = 1_500;
    let client = store.client().await;
    let (ran, mut runs) = mpsc::unbounded_channel();
    client.enqueue_all((0..JOBS).map(|number| Slow { number })).await.unwrap();
    let ran = Arc::new(ran);
    let pool = || {
        let state = Ran(ran.as_ref().clone());
        WorkerPool::new(&client).state(state).register::<Slow>().shutdown_timeout(Duration::ZERO)
    };
    let mut numbers = BTreeSet::new();
    for _ in 0..30 {
        let running = pool().spawn().await.unwrap();
        numbers.insert(runs.recv().await.unwrap());
        running.shutdown().await.unwrap();
    }
    let running = pool().spawn().await.unwrap();
    while numbers.len() < JOBS as usize {
        let next = tokio::time::timeout(Duration::from_secs(60), runs.recv()).await;
        numbers.insert(next.unwrap().unwrap());
    }
    running.shutdown().await.unwrap();
    assert_eq!(client.failed("slow").list(10).await.unwrap().len(), 0);
}
