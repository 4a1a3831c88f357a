//! Pools that are asked, given orders and paused, from another client of the same store.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use jobq::admin::{Activity, Cancel, Order, PoolQueue, PoolReport, Queues, Read, State as QueueIs};
use jobq::{
    BoxError, Cancellation, Client, FailedReason, JobContext, PoolControl, QueueState, State,
    WorkerPool, job,
};
use jobq_tests::both_engines;
use jobq_tests::stage::{DEADLINE, Scripted, Stage, Step, Store, soon, until};
use tokio::sync::mpsc;

both_engines!(
    a_pool_reports_what_it_does,
    an_operator_sees_the_queues,
    a_paused_queue_starts_no_job,
    a_pause_may_be_ended_while_pools_are_asked,
    a_pool_that_starts_at_a_paused_queue_waits,
    ten_pauses_make_no_job_a_suspect,
    a_quiet_pool_finishes_and_goes_on_answering,
    a_pool_is_told_to_stop,
    a_running_job_is_cancelled,
    a_cancelled_job_that_completes_in_time_is_completed,
    a_function_that_blocks_keeps_its_slot_when_it_is_cancelled,
    a_pool_may_take_no_orders,
);

/// The reports of the pools, as soon as there are this many.
async fn reports(client: &Client, count: usize) -> Vec<PoolReport> {
    until("the reports of the pools", async || {
        let pools = client.admin().pools(Queues::All, DEADLINE).await.unwrap();
        (pools.unaccounted == 0 && pools.pools.len() == count).then_some(pools.pools)
    })
    .await
}

/// What the only pool says about a queue, once it holds.
async fn queue_where(
    client: &Client,
    queue: &str,
    holds: impl Fn(&PoolQueue) -> bool,
) -> (PoolReport, PoolQueue) {
    until("the report of the pool", async || {
        let report = reports(client, 1).await.remove(0);
        let queue = report.queue(queue).unwrap().clone();
        holds(&queue).then_some((report, queue))
    })
    .await
}

async fn a_pool_reports_what_it_does(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let running = stage.pool().concurrency(2).spawn().await.unwrap();
    let enqueued = Instant::now();
    let waits = stage.enqueue([Step::Wait]).await;
    stage.run().await;
    let began = Instant::now();
    let completes = stage.enqueue([Step::Succeed]).await;
    assert_eq!(stage.run().await.id, completes);
    let fails = stage.enqueue([Step::Fail("no".into()), Step::Abort("no".into())]).await;
    for _ in 0..2 {
        assert_eq!(stage.run().await.id, fails);
    }
    let (report, queue) = queue_where(&operator, "scripted", |queue| {
        (queue.minute.failed, queue.in_flight) == (1, 1)
    })
    .await;
    assert_eq!((report.pid, report.version.as_str()), (std::process::id(), "0.1.0"));
    assert!(!report.host.is_empty());
    assert_eq!((queue.state, queue.slots, queue.lost_slots), (Activity::Consuming, 2, 0));
    let [job] = &queue.running[..] else { panic!("one runs: {queue:?}") };
    assert_eq!((job.id, job.job.as_str(), job.attempt, job.timeout), (waits, "scripted", 1, None));
    assert_eq!((queue.minute.completed, queue.minute.retried), (1, 1));
    assert!(queue.minute.waited.is_some());
    assert_eq!(queue.minute.durations.count(), 3, "without the one that runs: {queue:?}");
    let hasty = report.queue("hasty").unwrap();
    assert_eq!((hasty.running.len(), hasty.minute.waited), (0, None));
    assert_eq!(hasty.minute.durations.percentile(50), None);
    let ran = began.elapsed();
    stage.go();
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.minute.completed == 2).await;
    assert_eq!((queue.minute.durations.count(), queue.running.len()), (4, 0), "{queue:?}");
    let longest = queue.minute.durations.percentile(100).unwrap();
    // A sixteenth is what a percentile is off by.
    let bounds = ran * 15 / 16..=enqueued.elapsed() * 17 / 16;
    assert!(bounds.contains(&longest), "{longest:?} is not in {bounds:?}");
    running.shutdown().await.unwrap();
    assert_eq!(reports(&operator, 0).await, []);
}

async fn an_operator_sees_the_queues(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let overview = async || {
        let named = Queues::Named(vec!["scripted".into(), "nothing".into()]);
        let mut queues = operator.admin().overview(named).await.unwrap().queues;
        assert_eq!(queues[0].queue, "nothing");
        (queues.remove(1), queues.remove(0))
    };
    stage.enqueue([Step::Fail("no".into()), Step::Abort("no".into())]).await;
    let (queue, nothing) = overview().await;
    assert!(queue.ready == 1 && queue.failed == 0 && queue.pools == 0, "{queue:?}");
    assert_eq!((queue.state, nothing.state), (QueueIs::Unattended, QueueIs::Missing));
    assert!(nothing.ready == 0 && nothing.paused == None, "{nothing:?}");
    assert!(queue.durations == None, "nothing ended: {queue:?}");
    let running = stage.pool().spawn().await.unwrap();
    for _ in 0..2 {
        stage.run().await;
    }
    let queue = until("the failed job", async || {
        let (queue, _) = overview().await;
        (queue.failed == 1 && queue.in_flight == 0).then_some(queue)
    })
    .await;
    assert!(queue.pools == 1 && queue.ready == 0, "{queue:?}");
    assert_eq!(queue.state, QueueIs::Consumed);
    assert!(queue.waited.known().is_some_and(Option::is_some), "{queue:?}");
    let took = queue.durations.known().copied().flatten().unwrap();
    assert!(Duration::ZERO < took.p50 && took.p50 <= took.p95 && took.p95 < DEADLINE, "{took:?}");
    operator.admin().by("ann").pause("scripted", "a deploy").await.unwrap();
    let (queue, _) = overview().await;
    assert_eq!(queue.state, QueueIs::Paused);
    let pause = queue.paused.known().cloned().flatten().unwrap();
    assert_eq!((pause.by.as_deref(), pause.why.as_deref()), (Some("ann"), Some("a deploy")));
    let all = operator.admin().overview(Queues::All).await.unwrap();
    assert!(all.queues.iter().any(|queue| queue.queue == "hasty"), "{all:?}");
    running.shutdown().await.unwrap();
}

async fn a_paused_queue_starts_no_job(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let running = stage.pool().concurrency(1).spawn().await.unwrap();
    let first = stage.enqueue([Step::Wait]).await;
    assert_eq!(stage.run().await.id, first);
    // These fill the prefetch buffer.
    let jobs: Vec<_> = (0..5).map(|_| Scripted { steps: vec![Step::Succeed] }).collect();
    let ids: HashSet<_> = stage.client.enqueue_all(jobs).await.unwrap().into_iter().collect();
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0, "{paused:?}");
    assert_eq!(paused.stopped.len(), 1);
    let health = running.health().queues.into_iter().find(|queue| queue.queue == "scripted");
    assert!(
        matches!(health.unwrap().state, QueueState::Paused { why: Some(why), .. } if why == "a deploy")
    );
    assert!(running.health().is_consuming(), "a pause is healthy");
    stage.go();
    assert_eq!(stage.end().await, first, "what runs ends");
    until("the others to be handed back", async || {
        (stage.client.counts("scripted").await.unwrap().ready == 5).then_some(())
    })
    .await;
    let later = stage.enqueue([Step::Succeed]).await;
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.in_flight == 0).await;
    assert_eq!((queue.state, queue.consumers), (Activity::Paused, vec![]));
    assert!(!stage.has_run());
    let resumed = operator.admin().resume("scripted").await.unwrap();
    assert!(resumed.was_paused);
    let mut ran = HashSet::new();
    for _ in 0..6 {
        let run = stage.run().await;
        assert_eq!(run.attempt, 1, "a pause uses no attempt");
        ran.insert(run.id);
    }
    assert!(ran.is_superset(&ids) && ran.contains(&later));
    assert!(!operator.admin().resume("scripted").await.unwrap().was_paused);
    running.shutdown().await.unwrap();
}

async fn a_pause_may_be_ended_while_pools_are_asked(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let running = stage.pool().spawn().await.unwrap();
    let admin = operator.admin();
    let pausing = admin.pause("scripted", "a deploy");
    let resuming = async {
        let is_paused = async || {
            let queues = Queues::Named(vec!["scripted".into()]);
            let overview = stage.client.admin().overview(queues).await.unwrap();
            matches!(overview.queues[0].paused, Read::Known(Some(_))).then_some(())
        };
        until("the pause", is_paused).await;
        assert!(stage.client.admin().resume("scripted").await.unwrap().was_paused);
    };
    let (paused, ()) = tokio::join!(pausing, resuming);
    if let Err(error) = paused {
        assert!(error.is_conflict(), "{error}");
    }
    assert!(!admin.resume("scripted").await.unwrap().was_paused, "it was resumed");
    let id = stage.enqueue([Step::Succeed]).await;
    assert_eq!(stage.end().await, id);
    running.shutdown().await.unwrap();
}

async fn a_pool_that_starts_at_a_paused_queue_waits(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    stage.enqueue([Step::Succeed]).await;
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0 && paused.stopped.is_empty(), "{paused:?}");
    let running = stage.pool().spawn().await.unwrap();
    let (report, queue) =
        queue_where(&operator, "scripted", |queue| queue.state == Activity::Paused).await;
    assert_eq!(report.queue("hasty").unwrap().state, Activity::Consuming);
    assert!(queue.since.is_some() && !stage.has_run());
    operator.admin().resume("scripted").await.unwrap();
    stage.run().await;
    stage.end().await;
    running.shutdown().await.unwrap();
}

async fn ten_pauses_make_no_job_a_suspect(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let running = stage.pool().concurrency(1).spawn().await.unwrap();
    // After a short job the pool takes others ahead.
    stage.enqueue([Step::Succeed]).await;
    stage.run().await;
    let blocker = stage.enqueue([Step::Wait]).await;
    assert_eq!(stage.run().await.id, blocker);
    let jobs = (0..40).map(|_| Scripted { steps: vec![Step::Succeed] });
    stage.client.enqueue_all(jobs).await.unwrap();
    for _ in 0..10 {
        queue_where(&operator, "scripted", |queue| queue.in_flight > 1).await;
        let paused = operator.admin().pause("scripted", "again").await.unwrap();
        assert!(paused.still_taking == 0, "{paused:?}");
        queue_where(&operator, "scripted", |queue| queue.in_flight == 1).await;
        operator.admin().resume("scripted").await.unwrap();
    }
    stage.go();
    for _ in 0..40 {
        assert_eq!(stage.run().await.attempt, 1);
    }
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.minute.completed == 42).await;
    // A job that is suspected runs alone, and its queue rests meanwhile.
    assert_eq!(queue.state, Activity::Consuming);
    running.shutdown().await.unwrap();
}

async fn a_quiet_pool_finishes_and_goes_on_answering(store: Store) {
    let mut stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let running = stage.pool().concurrency(1).spawn().await.unwrap();
    let first = stage.enqueue([Step::Wait]).await;
    assert_eq!(stage.run().await.id, first);
    stage.enqueue([Step::Succeed]).await;
    let pool = reports(&operator, 1).await[0].pool;
    operator.admin().tell(pool, Order::Quiet).await.unwrap();
    let (report, queue) =
        queue_where(&operator, "scripted", |queue| queue.state == Activity::Quiet).await;
    assert_eq!((report.pool, queue.running.len()), (pool, 1), "an attempt goes on");
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0 && paused.stopped == [pool], "{paused:?}");
    operator.admin().resume("scripted").await.unwrap();
    stage.go();
    assert_eq!(stage.end().await, first);
    queue_where(&operator, "scripted", |queue| queue.in_flight == 0).await;
    assert!(stage.client.counts("scripted").await.unwrap().ready == 1 && !stage.has_run());
    running.shutdown().await.unwrap();
    let error = operator.admin().tell(pool, Order::Quiet).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(&pool.to_string()), "{error}");
}

async fn a_pool_is_told_to_stop(store: Store) {
    let stage = Stage::on(store).await;
    let operator = stage.store.client().await;
    let (stays, ends) = (stage.pool().spawn().await.unwrap(), stage.pool().spawn().await.unwrap());
    let [first, second] = &reports(&operator, 2).await[..] else { panic!("two pools") };
    assert!(first.pool < second.pool, "sorted by their start");
    operator.admin().tell(second.pool, Order::Stop).await.unwrap();
    soon("the second pool to end", ends.wait()).await.unwrap();
    assert_eq!(reports(&operator, 1).await[0].pool, first.pool);
    stays.shutdown().await.unwrap();
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
    go.send(()).unwrap();
    let (_, reported) = queue_where(&client, "stubborn", |queue| queue.lost_slots == 0).await;
    assert_eq!(reported.lost, []);
    running.shutdown().await.unwrap();
}

async fn a_pool_may_take_no_orders(store: Store) {
    let mut stage = Stage::on(store).await;
    let pool = stage.pool().control(PoolControl::Look).spawn().await.unwrap();
    let id = stage.enqueue([Step::Wait]).await;
    stage.run().await;
    let report = reports(&stage.client, 1).await.remove(0);
    let admin = stage.client.admin();
    for error in [
        admin.tell(report.pool, Order::Stop).await.unwrap_err(),
        admin.cancel_running(id).await.unwrap_err(),
    ] {
        assert!(error.is_refused() && error.to_string().contains("takes no orders"), "{error}");
    }
    assert!(admin.pause("scripted", "it is told of pauses").await.unwrap().still_taking == 0);
    admin.resume("scripted").await.unwrap();
    stage.go();
    pool.shutdown().await.unwrap();
    let pool = stage.pool().control(PoolControl::Off).spawn().await.unwrap();
    let unasked = until("its consumers to be counted", async || {
        let pools = admin.pools(Queues::one("scripted"), Duration::from_millis(100)).await.unwrap();
        (pools.unaccounted > 0).then_some(pools)
    })
    .await;
    assert!(unasked.pools.is_empty(), "{unasked:?}");
    pool.shutdown().await.unwrap();
}
