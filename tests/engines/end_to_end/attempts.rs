//! How attempts run and end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jobq::{BoxError, FailedReason, JobContext, QueueState, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Hasty, Scripted, Step, Store, TestStore, soon, until};
use tokio::sync::{Notify, mpsc};

use super::nothing_is_left;

both_engines!(
    a_job_runs_with_its_payload_its_state_and_its_context,
    a_blocking_function_runs_where_it_may_block,
    a_panic_is_a_failed_attempt,
    a_timeout_is_a_failed_attempt,
    a_blocking_function_that_outlives_its_timeout_keeps_its_slot,
    an_endless_loop_fails_and_costs_its_slot_alone,
    a_late_end_is_that_of_no_other_attempt,
    an_expired_job_does_not_start,
);

/// What [`greet`] was called with.
type Greeting = (String, u32, JobContext, String);

#[job(name = "greetings.greet", queue = "greetings", retries = 7)]
async fn greet(
    who: String,
    ctx: JobContext,
    #[serde(default)] times: u32,
    suffix: State<String>,
    told: State<mpsc::UnboundedSender<Greeting>>,
) -> Result<(), BoxError> {
    Ok(told.send((who, times, ctx, (*suffix).clone()))?)
}

async fn a_job_runs_with_its_payload_its_state_and_its_context(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<Greeting>();
    let pool = WorkerPool::new(&client).state("!".to_owned()).state(tell).register::<Greet>();
    let before = SystemTime::now() - Duration::from_secs(1);
    let id = client.enqueue(Greet { who: "ann".into(), times: 2 }).await.unwrap();
    let running = pool.spawn().await.unwrap();
    let (who, times, ctx, suffix) = soon("the greeting", told.recv()).await.unwrap();
    assert_eq!((who.as_str(), times, suffix.as_str()), ("ann", 2, "!"));
    assert_eq!((ctx.id(), ctx.attempt(), ctx.max_attempts()), (id, 1, 8));
    assert_eq!((ctx.queue(), ctx.topic(), ctx.is_cancelled()), ("greetings", None, false));
    assert!(ctx.enqueued_at() >= before && ctx.enqueued_at() <= SystemTime::now());
    ctx.client().enqueue(Greet { who: "bob".into(), times: 0 }).await.unwrap();
    assert_eq!(soon("the second greeting", told.recv()).await.unwrap().0, "bob");
    running.shutdown().await.unwrap();
    nothing_is_left(&client, "greetings").await;
}

#[job(queue = "blocking")]
fn block(told: State<mpsc::UnboundedSender<String>>) -> Result<(), BoxError> {
    // Neither is allowed on a thread that runs async code.
    let text = tokio::runtime::Handle::current().block_on(async { "blocked".to_owned() });
    Ok(told.send(text)?)
}

async fn a_blocking_function_runs_where_it_may_block(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<String>();
    client.enqueue(Block {}).await.unwrap();
    let running = WorkerPool::new(&client).state(tell).register::<Block>().spawn().await.unwrap();
    assert_eq!(soon("the blocking job", told.recv()).await.unwrap(), "blocked");
    running.shutdown().await.unwrap();
}

async fn a_panic_is_a_failed_attempt(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let id = test.enqueue([Step::Panic("oh no".into()), Step::Succeed]).await;
    assert_eq!(test.run().await.attempt, 1);
    assert_eq!(test.run().await.attempt, 2);
    assert_eq!(test.end().await, id);
    test.enqueue([Step::Panic("oh no".into())]).await;
    assert_eq!(test.failed("scripted").await.error(), "it panicked: oh no");
    running.shutdown().await.unwrap();
}

async fn a_timeout_is_a_failed_attempt(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    test.client.enqueue(Hasty { steps: vec![Step::Hang] }).await.unwrap();
    let job = test.failed("hasty").await;
    assert_eq!(job.error(), "it took longer than its timeout of 100ms");
    assert_eq!((job.reason(), job.attempts()), (FailedReason::Exhausted, 2));
    assert_eq!((test.run().await.attempt, test.run().await.attempt), (1, 2));
    running.shutdown().await.unwrap();
}

/// Blocks until the test drops its end of the channel.
#[job(queue = "stubborn", retries = 0, timeout = "100ms", concurrency = 1)]
fn stubborn(
    number: u32,
    ctx: JobContext,
    told: State<mpsc::UnboundedSender<(u32, JobContext)>>,
    unblock: State<Mutex<std::sync::mpsc::Receiver<()>>>,
) -> Result<(), BoxError> {
    told.send((number, ctx))?;
    if number == 1 {
        unblock.lock().unwrap().recv().unwrap_err();
    }
    Ok(())
}

async fn a_blocking_function_that_outlives_its_timeout_keeps_its_slot(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<(u32, JobContext)>();
    let (end, unblock) = std::sync::mpsc::channel::<()>();
    let pool = WorkerPool::new(&client).state(tell).state(Mutex::new(unblock));
    let running = pool.register::<Stubborn>().spawn().await.unwrap();
    client.enqueue(Stubborn { number: 1 }).await.unwrap();
    client.enqueue(Stubborn { number: 2 }).await.unwrap();
    let (number, ctx) = soon("the first job", told.recv()).await.unwrap();
    assert_eq!(number, 1);
    // It failed, and is told so, but its thread still runs.
    until("it to fail", || async { client.failed("stubborn").list(1).await.ok()?.pop() }).await;
    assert!(ctx.is_cancelled());
    assert!(told.try_recv().is_err(), "the slot is taken");
    drop(end);
    assert_eq!(soon("the second job", told.recv()).await.unwrap().0, 2);
    running.shutdown().await.unwrap();
}

/// Loops until the test says otherwise, and never awaits anything.
#[job(retries = 0, timeout = "100ms", concurrency = 1)]
async fn endless(number: u32, turns: State<Turns>) -> Result<(), BoxError> {
    turns.begun.send(number)?;
    while number == 1 && !turns.end.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

struct Turns {
    begun: mpsc::UnboundedSender<u32>,
    end: Arc<AtomicBool>,
}

async fn an_endless_loop_fails_and_costs_its_slot_alone(store: Store) {
    let mut test = TestStore::on(store).await;
    let (begun, mut begins) = mpsc::unbounded_channel();
    let end = Arc::new(AtomicBool::new(false));
    let pool = test.pool().state(Turns { begun, end: Arc::clone(&end) });
    let running = pool.register::<Endless>().spawn().await.unwrap();
    let lost = async |count| {
        until("its slot to be lost, or free again", || async {
            let health = running.health();
            let queue = health.queues.iter().find(|queue| queue.queue == "endless").unwrap();
            let is_consuming = matches!(queue.state, QueueState::Consuming);
            (queue.lost_slots == count && is_consuming == (count == 0)).then(|| queue.clone())
        })
        .await
    };
    lost(0).await;
    test.client.enqueue(Endless { number: 1 }).await.unwrap();
    let job = test.failed("endless").await;
    assert_eq!((job.reason(), job.attempts()), (FailedReason::Exhausted, 1));
    assert_eq!(job.error(), "it took longer than its timeout of 100ms");
    assert_eq!(soon("the first job", begins.recv()).await, Some(1));
    let QueueState::Interrupted { error, .. } = lost(1).await.state else {
        panic!("it takes no more jobs");
    };
    assert!(error.to_string().contains("hold all 1 slots of queue `endless`"), "{error}");
    assert!(!running.health().is_consuming());
    // This queue has no slot left. The other ones go on.
    test.client.enqueue(Endless { number: 2 }).await.unwrap();
    let other = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, other);
    assert!(begins.try_recv().is_err(), "the slot is taken");
    // It holds no jobs that others could run.
    let (begun, mut begins_elsewhere) = mpsc::unbounded_channel();
    let turns = Turns { begun, end: Arc::clone(&end) };
    let elsewhere = test.pool().state(turns).register::<Endless>().spawn().await.unwrap();
    assert_eq!(soon("the second job", begins_elsewhere.recv()).await, Some(2));
    elsewhere.shutdown().await.unwrap();
    test.client.enqueue(Endless { number: 3 }).await.unwrap();
    assert!(begins.try_recv().is_err(), "the slot is taken");
    end.store(true, Ordering::Relaxed);
    assert_eq!(soon("the third job", begins.recv()).await, Some(3));
    lost(0).await;
    running.shutdown().await.unwrap();
}

/// Outlives its timeout until the test says otherwise.
#[job(queue = "late", retries = 0, timeout = "100ms")]
async fn late(turns: State<Turns>) -> Result<(), BoxError> {
    turns.begun.send(1)?;
    while !turns.end.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Fails when it is told to end.
#[job(queue = "late", retries = 0)]
async fn patient(turns: State<Turns>, end: State<Arc<Notify>>) -> Result<(), BoxError> {
    turns.begun.send(2)?;
    end.notified().await;
    Err("it was told to".into())
}

async fn a_late_end_is_that_of_no_other_attempt(store: Store) {
    let client = store.client().await;
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (late, now) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let turns = Turns { begun, end: Arc::clone(&late) };
    let pool = WorkerPool::new(&client).state(turns).state(Arc::clone(&now)).concurrency(2);
    let running = pool.register::<Late>().register::<Patient>().spawn().await.unwrap();
    let failed = async |count| {
        until("jobs to fail", || async {
            client.failed("late").list(9).await.ok().filter(|jobs| jobs.len() == count)
        })
        .await
    };
    client.enqueue(Late {}).await.unwrap();
    failed(1).await;
    client.enqueue(Patient {}).await.unwrap();
    assert_eq!(soon("the first job", begins.recv()).await, Some(1));
    assert_eq!(soon("the second job", begins.recv()).await, Some(2));
    // The first one ends well, now that the second one may have its place.
    late.store(true, Ordering::Relaxed);
    until("its slot to be free", || async {
        running.health().queues.iter().all(|queue| queue.lost_slots == 0).then_some(())
    })
    .await;
    now.notify_one();
    let errors: Vec<_> = failed(2).await.iter().map(|job| job.error().to_owned()).collect();
    assert!(errors.contains(&"it was told to".to_owned()), "{errors:?}");
    running.shutdown().await.unwrap();
}

async fn an_expired_job_does_not_start(store: Store) {
    let mut test = TestStore::on(store).await;
    let late = Scripted { steps: vec![Step::Succeed] };
    let late = test.client.enqueue(late).expires_in(Duration::ZERO).await.unwrap();
    let snooze = Scripted { steps: vec![Step::Snooze(400)] };
    let snooze = test.client.enqueue(snooze).expires_in(Duration::from_millis(300)).await.unwrap();
    let good = Scripted { steps: vec![Step::Succeed] };
    let good = test.client.enqueue(good).expires_in(Duration::from_secs(600)).await.unwrap();
    let running = test.pool().spawn().await.unwrap();
    assert_eq!(test.end().await, good);
    let failed = test.client.failed("scripted");
    let jobs = until("two to expire", || async {
        failed.list(9).await.ok().filter(|jobs| jobs.len() == 2)
    })
    .await;
    assert_eq!(jobs.iter().map(jobq::FailedJob::id).collect::<HashSet<_>>(), [late, snooze].into());
    assert!(jobs.iter().all(|job| job.reason() == FailedReason::Expired && job.attempts() == 0));
    // Once retried, it has no limit any more.
    failed.retry(late).await.unwrap();
    assert_eq!(test.end().await, late);
    running.shutdown().await.unwrap();
}
