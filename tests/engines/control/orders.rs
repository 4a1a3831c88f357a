//! Pools that are given orders, from another client of the same store.

use std::sync::Arc;
use std::time::Duration;

use jobq::admin::{Activity, Cancel, Order, PoolQueue, Queues};
use jobq::{BoxError, Cancellation, FailedReason, JobContext, PoolControl, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Step, Store, TestStore, soon, until};
use tokio::sync::{Semaphore, mpsc};

use super::{queue_where, reports};

both_engines!(
    a_quiet_pool_finishes_and_goes_on_answering,
    a_quiet_pool_ends_with_its_client,
    a_pool_is_told_to_stop,
    a_running_job_is_cancelled,
    a_cancelled_job_that_completes_in_time_is_completed,
    a_function_that_blocks_keeps_its_slot_when_it_is_cancelled,
    a_pool_may_take_no_orders,
    the_slots_of_a_queue_change_while_its_pool_runs,
);

async fn a_quiet_pool_finishes_and_goes_on_answering(store: Store) {
    let mut test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let running = test.pool().concurrency(1).spawn().await.unwrap();
    let first = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, first);
    test.enqueue([Step::Succeed]).await;
    let pool = reports(&operator, 1).await[0].pool;
    operator.admin().tell(pool, Order::Quiet).await.unwrap();
    let (report, queue) =
        queue_where(&operator, "scripted", |queue| queue.state == Activity::Quiet).await;
    assert_eq!((report.pool, queue.running.len()), (pool, 1), "an attempt goes on");
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0 && paused.stopped == [pool], "{paused:?}");
    operator.admin().resume("scripted").await.unwrap();
    test.go();
    assert_eq!(test.end().await, first);
    queue_where(&operator, "scripted", |queue| queue.in_flight == 0).await;
    assert!(test.client.counts("scripted").await.unwrap().ready == 1 && !test.has_run());
    running.shutdown().await.unwrap();
    let error = operator.admin().tell(pool, Order::Quiet).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(&pool.to_string()), "{error}");
}

async fn a_quiet_pool_ends_with_its_client(store: Store) {
    let test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let running = test.pool().spawn().await.unwrap();
    let pool = reports(&operator, 1).await[0].pool;
    operator.admin().tell(pool, Order::Quiet).await.unwrap();
    queue_where(&operator, "scripted", |queue| queue.state == Activity::Quiet).await;
    test.client.close().await;
    let error = soon("the pool to end", running.wait()).await.unwrap_err();
    assert!(error.is_closed(), "{error}");
}

async fn a_pool_is_told_to_stop(store: Store) {
    let test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let (stays, ends) = (test.pool().spawn().await.unwrap(), test.pool().spawn().await.unwrap());
    let [first, second] = &reports(&operator, 2).await[..] else { panic!("two pools") };
    assert!(first.pool < second.pool, "sorted by their start");
    operator.admin().tell(second.pool, Order::Stop).await.unwrap();
    soon("the second pool to end", ends.wait()).await.unwrap();
    assert_eq!(reports(&operator, 1).await[0].pool, first.pool);
    stays.shutdown().await.unwrap();
}

/// Takes a permit of the test.
#[job(queue = "slots", timeout = "1h")]
async fn holds(gate: State<Arc<Semaphore>>) -> Result<(), BoxError> {
    gate.acquire().await?.forget();
    Ok(())
}

async fn the_slots_of_a_queue_change_while_its_pool_runs(store: Store) {
    let (client, operator) = (store.client().await, store.client().await);
    let gate = Arc::new(Semaphore::new(0));
    let pool = WorkerPool::new(&client).register::<Holds>().state(Arc::clone(&gate));
    let running = pool.concurrency(1).spawn().await.unwrap();
    client.enqueue_all((0..9).map(|_| Holds {})).await.unwrap();
    let runs = async |slots, running| {
        let is_it = |queue: &PoolQueue| (queue.slots, queue.running.len()) == (slots, running);
        queue_where(&operator, "slots", is_it).await
    };
    runs(1, 1).await;
    let set = operator.admin().set_concurrency("slots", 3).await.unwrap();
    assert_eq!((set.pools.len(), set.refused.len(), set.unaccounted), (1, 0, 0.into()));
    runs(3, 3).await;

    // Those beyond go on, and the next one starts when enough have ended.
    operator.admin().set_concurrency("slots", 1).await.unwrap();
    runs(1, 3).await;
    for left in [2, 1, 1] {
        gate.add_permits(1);
        let (_, queue) = runs(1, left).await;
        assert!(queue.running.len() <= left);
    }
    until("three jobs that have ended", async || {
        let (_, queue) = queue_where(&operator, "slots", |_| true).await;
        (queue.minute.completed == 3).then_some(())
    })
    .await;
    runs(1, 1).await;
    operator.admin().set_concurrency("slots", 100).await.unwrap();
    runs(100, 6).await;
    operator.admin().set_concurrency("slots", 2).await.unwrap();
    operator.admin().set_concurrency("slots", 7).await.unwrap();
    client.enqueue(Holds {}).await.unwrap();
    runs(7, 7).await;
    gate.add_permits(7);
    running.shutdown().await.unwrap();
    assert!(client.counts("slots").await.unwrap().is_empty());

    let error = operator.admin().set_concurrency("slots", 2).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let error = operator.admin().set_concurrency("slots", 0).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("pause the queue"), "{error}");
}

/// Begins, and tells why it was asked to end.
#[job(queue = "long", retries = 5)]
async fn long(
    completes: bool,
    ctx: JobContext,
    told: State<mpsc::UnboundedSender<Option<Cancellation>>>,
) -> Result<(), BoxError> {
    told.send(None)?;
    ctx.cancelled().await;
    told.send(ctx.cancellation())?;
    if completes {
        return Ok(());
    }
    std::future::pending().await
}

async fn a_running_job_is_cancelled(store: Store) {
    let client = store.client().await;
    let operator = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<Option<Cancellation>>();
    let pool = WorkerPool::new(&client).state(tell).register::<Long>();
    let running = pool.spawn().await.unwrap();
    let id = client.enqueue(Long { completes: false }).await.unwrap();
    assert_eq!(soon("the job", told.recv()).await, Some(None));
    let cancelled = operator.admin().cancel_running(id).await.unwrap();
    assert_eq!((cancelled.len(), cancelled[0].cancel), (1, Cancel::Asked));
    assert_eq!(soon("its end", told.recv()).await, Some(Some(Cancellation::Operator)));
    let failed =
        until("the failed job", async || client.failed("long").list(1).await.ok()?.pop()).await;
    assert_eq!((failed.id(), failed.reason(), failed.attempts()), (id, FailedReason::Cancelled, 1));
    let error = operator.admin().cancel_running(id).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(&id.to_string()), "{error}");
    running.shutdown().await.unwrap();
}

/// The pool waits no longer for the function, and the job must not run elsewhere. On a file, which
/// takes an outcome within the second that a pool has for it.
#[tokio::test]
async fn a_cancelled_job_of_a_pool_that_stops_fails() {
    let store = Store::sqlite().await;
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<Option<Cancellation>>();
    let pool = WorkerPool::new(&client).state(tell).register::<Long>();
    let running = pool.shutdown_timeout(Duration::ZERO).spawn().await.unwrap();
    let id = client.enqueue(Long { completes: false }).await.unwrap();
    assert_eq!(soon("the job", told.recv()).await, Some(None));
    client.admin().cancel_running(id).await.unwrap();
    assert_eq!(soon("its end", told.recv()).await, Some(Some(Cancellation::Operator)));
    running.shutdown().await.unwrap();
    let failed =
        until("the failed job", async || client.failed("long").list(1).await.ok()?.pop()).await;
    assert_eq!((failed.id(), failed.reason()), (id, FailedReason::Cancelled));
    assert_eq!(client.counts("long").await.unwrap().ready, 0);
}

async fn a_cancelled_job_that_completes_in_time_is_completed(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<Option<Cancellation>>();
    let pool = WorkerPool::new(&client).state(tell).register::<Long>();
    let running = pool.spawn().await.unwrap();
    let id = client.enqueue(Long { completes: true }).await.unwrap();
    assert_eq!(soon("the job", told.recv()).await, Some(None));
    client.admin().cancel_running(id).await.unwrap();
    assert_eq!(soon("its end", told.recv()).await, Some(Some(Cancellation::Operator)));
    let (_, queue) = queue_where(&client, "long", |queue| queue.running.is_empty()).await;
    assert_eq!((queue.minute.completed, queue.minute.failed), (1, 0));
    running.shutdown().await.unwrap();
}

/// Blocks until the test lets it go, whatever it is told.
#[job(queue = "stubborn", concurrency = 1)]
fn stubborn(
    told: State<mpsc::UnboundedSender<()>>,
    go: State<std::sync::Mutex<std::sync::mpsc::Receiver<()>>>,
) -> Result<(), BoxError> {
    told.send(())?;
    let _ = go.lock().unwrap().recv();
    Ok(())
}

async fn a_function_that_blocks_keeps_its_slot_when_it_is_cancelled(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<()>();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let pool = WorkerPool::new(&client).state(tell).state(std::sync::Mutex::new(gone));
    let running = pool.register::<Stubborn>().spawn().await.unwrap();
    let id = client.enqueue(Stubborn {}).await.unwrap();
    soon("the job", told.recv()).await.unwrap();
    let cancelled = client.admin().cancel_running(id).await.unwrap();
    assert_eq!((cancelled.len(), cancelled[0].cancel), (1, Cancel::AskedBlocking));
    let failed =
        until("the failed job", async || client.failed("stubborn").list(1).await.ok()?.pop()).await;
    assert_eq!((failed.id(), failed.reason()), (id, FailedReason::Cancelled));
    let (_, reported) = queue_where(&client, "stubborn", |queue| queue.lost_slots == 1).await;
    let holds: Vec<_> = reported.lost.iter().map(|job| (job.id, &*job.job, job.attempt)).collect();
    assert_eq!(holds, [(id, "stubborn", 1)]);
    assert_eq!(reported.running, []);
    // It takes no jobs, and says so.
    let (pool, _) =
        queue_where(&client, "stubborn", |queue| queue.state == Activity::Interrupted).await;
    let paused = client.admin().pause("stubborn", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0 && paused.stopped == [pool.pool], "{paused:?}");
    client.admin().resume("stubborn").await.unwrap();
    go.send(()).unwrap();
    let (_, reported) = queue_where(&client, "stubborn", |queue| queue.lost_slots == 0).await;
    assert_eq!(reported.lost, []);
    running.shutdown().await.unwrap();
}

async fn a_pool_may_take_no_orders(store: Store) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().control(PoolControl::Look).spawn().await.unwrap();
    let id = test.enqueue([Step::Wait]).await;
    test.run().await;
    let report = reports(&test.client, 1).await.remove(0);
    let admin = test.client.admin();
    for error in [
        admin.tell(report.pool, Order::Stop).await.unwrap_err(),
        admin.cancel_running(id).await.unwrap_err(),
    ] {
        assert!(error.is_refused() && error.to_string().contains("accepts no orders"), "{error}");
    }
    assert!(admin.pause("scripted", "it is told of pauses").await.unwrap().still_taking == 0);
    admin.resume("scripted").await.unwrap();
    test.go();
    pool.shutdown().await.unwrap();
    let pool = test.pool().control(PoolControl::Off).spawn().await.unwrap();
    let unasked = until("its consumers to be counted", async || {
        let pools = admin.pools(Queues::one("scripted"), Duration::from_millis(100)).await.unwrap();
        (pools.unaccounted > 0).then_some(pools)
    })
    .await;
    assert!(unasked.pools.is_empty(), "{unasked:?}");
    pool.shutdown().await.unwrap();
}
