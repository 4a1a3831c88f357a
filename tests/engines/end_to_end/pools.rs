//! Pools: competing, limited, shut down.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobq::{BoxError, JobContext, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, soon, until};
use tokio::sync::mpsc;

use super::nothing_is_left;

both_engines!(
    competing_pools_run_each_job_once,
    concurrency_holds_for_a_queue,
    a_shutdown_finishes_what_runs_and_hands_back_the_rest,
    the_end_of_the_shutdown_timeout_cancels_and_costs_no_attempt,
    a_job_is_told_when_a_shutdown_begins,
    a_pool_that_cannot_run_does_not_start,
    a_closed_client_ends_its_pools,
);

async fn competing_pools_run_each_job_once(store: Store) {
    let mut test = TestStore::on(store).await;
    let other = test.store.client().await;
    let pools = [
        test.pool().spawn().await.unwrap(),
        test.pool().spawn().await.unwrap(),
        test.pool_of(&other).spawn().await.unwrap(),
    ];
    let jobs = (0..600).map(|_| Scripted { steps: vec![Step::Succeed] });
    let ids = test.client.enqueue_all(jobs).await.unwrap();
    let mut ended = HashSet::new();
    for _ in &ids {
        assert!(ended.insert(test.end().await), "none ends twice");
    }
    assert_eq!(ended, ids.into_iter().collect());
    for pool in pools {
        pool.shutdown().await.unwrap();
    }
    nothing_is_left(&test.client, "scripted").await;
}

#[job(queue = "few", concurrency = 3)]
async fn counted(
    now: State<Arc<AtomicUsize>>,
    told: State<mpsc::UnboundedSender<usize>>,
) -> Result<(), BoxError> {
    let running = now.fetch_add(1, Ordering::SeqCst) + 1;
    // Gives the others every chance to run beside it.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    now.fetch_sub(1, Ordering::SeqCst);
    Ok(told.send(running)?)
}

async fn concurrency_holds_for_a_queue(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<usize>();
    client.enqueue_all((0..200).map(|_| Counted {})).await.unwrap();
    let pool = WorkerPool::new(&client).state(Arc::new(AtomicUsize::new(0))).state(tell);
    let running = pool.concurrency(50).register::<Counted>().spawn().await.unwrap();
    let mut most = 0;
    for _ in 0..200 {
        most = most.max(soon("the next job", told.recv()).await.unwrap());
    }
    assert!((1..=3).contains(&most), "{most} ran at once");
    running.shutdown().await.unwrap();
}

async fn a_shutdown_finishes_what_runs_and_hands_back_the_rest(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().concurrency(2).spawn().await.unwrap();
    let ids: Vec<_> = {
        let jobs = (0..20).map(|_| Scripted { steps: vec![Step::Wait, Step::Succeed] });
        test.client.enqueue_all(jobs).await.unwrap()
    };
    let first = [test.run().await.id, test.run().await.id];
    // Nothing is taken from here on. A pool that holds no more than it runs has the others ready
    // before it knows of the shutdown.
    running.stop();
    let shutdown = tokio::spawn(running.shutdown());
    // What was not started is handed back while the two still run.
    until("the others to be ready", || async {
        (test.client.counts("scripted").await.unwrap().ready == 18).then_some(())
    })
    .await;
    assert!(!test.has_run());
    test.go();
    let ended: HashSet<_> = [test.end().await, test.end().await].into();
    assert_eq!(ended, first.into());
    soon("the shutdown", shutdown).await.unwrap().unwrap();
    let running = test.pool().spawn().await.unwrap();
    let mut rest = HashSet::new();
    for _ in 0..18 {
        let run = test.run().await;
        assert_eq!(run.attempt, 1, "a shutdown uses no attempt");
        rest.insert(run.id);
    }
    assert_eq!(rest.union(&ended).count(), ids.len());
    running.shutdown().await.unwrap();
    nothing_is_left(&test.client, "scripted").await;
}

#[job(queue = "endless")]
async fn endless(
    ctx: JobContext,
    told: State<mpsc::UnboundedSender<(u32, &'static str)>>,
) -> Result<(), BoxError> {
    told.send((ctx.attempt(), "began"))?;
    let (tell, attempt) = ((*told).clone(), ctx.attempt());
    tokio::spawn(async move {
        ctx.cancelled().await;
        let _ = tell.send((attempt, "cancelled"));
    });
    std::future::pending().await
}

async fn the_end_of_the_shutdown_timeout_cancels_and_costs_no_attempt(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<(u32, &'static str)>();
    client.enqueue(Endless {}).await.unwrap();
    for _ in 0..3 {
        let pool = WorkerPool::new(&client).state(tell.clone()).register::<Endless>();
        let running = pool.shutdown_timeout(Duration::ZERO).spawn().await.unwrap();
        assert_eq!(soon("the job", told.recv()).await, Some((1, "began")));
        soon("the shutdown", running.shutdown()).await.unwrap();
        assert_eq!(soon("the job to be told", told.recv()).await, Some((1, "cancelled")));
        until("the job to be handed back", || async {
            (client.counts("endless").await.unwrap().ready == 1).then_some(())
        })
        .await;
    }
}

#[job(queue = "saved")]
async fn saves(
    ctx: JobContext,
    told: State<mpsc::UnboundedSender<&'static str>>,
) -> Result<(), BoxError> {
    assert!(!ctx.is_shutting_down(), "nobody has stopped the pool");
    told.send("began")?;
    ctx.shutting_down().await;
    assert!(ctx.is_shutting_down() && !ctx.is_cancelled(), "there is time left");
    told.send("saved")?;
    Ok(())
}

async fn a_job_is_told_when_a_shutdown_begins(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<&'static str>();
    client.enqueue(Saves {}).await.unwrap();
    let pool = WorkerPool::new(&client).state(tell).register::<Saves>();
    let running = pool.shutdown_timeout(DEADLINE).spawn().await.unwrap();
    assert_eq!(soon("the job", told.recv()).await, Some("began"));
    soon("the shutdown", running.shutdown()).await.unwrap();
    assert_eq!(soon("the job", told.recv()).await, Some("saved"));
    nothing_is_left(&client, "saved").await;
}

async fn a_pool_that_cannot_run_does_not_start(store: Store) {
    let client = store.client().await;
    let error = WorkerPool::new(&client).spawn().await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("has no jobs"), "{error}");
    let error = WorkerPool::new(&client).register::<Scripted>().spawn().await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    for part in ["`scripted`", "Script`", ".state(value)"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

async fn a_closed_client_ends_its_pools(store: Store) {
    let test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    test.client.close().await;
    let error = soon("the pool to end", running.wait()).await.unwrap_err();
    assert_eq!(error.kind(), jobq::ErrorKind::Closed);
    let error = test.client.enqueue(Scripted { steps: vec![] }).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_enqueued()), (jobq::ErrorKind::Closed, false));
}
