//! jobq through its public API alone, on both engines.
#![allow(missing_docs)]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jobq::{BoxError, Client, FailedReason, Job, JobContext, JobId, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::stage::{Hasty, Run, Scripted, Stage, Step, Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

both_engines!(
    a_job_runs_with_its_payload_its_state_and_its_context,
    a_blocking_function_runs_where_it_may_block,
    a_failure_is_retried_after_its_delay,
    a_job_without_attempts_left_is_kept_and_can_be_put_back,
    failed_jobs_are_shown_discarded_and_purged,
    a_panic_is_a_failed_attempt,
    a_timeout_is_a_failed_attempt,
    a_blocking_function_that_outlives_its_timeout_keeps_its_slot,
    controls_keep_their_meaning_however_they_are_wrapped,
    a_snooze_uses_no_attempt,
    retry_in_sets_the_wait,
    unreadable_payloads_fail_and_the_pool_goes_on,
    unknown_jobs_fail_after_their_retries,
    a_message_without_a_name_is_the_only_job_of_its_queue,
    an_expired_job_does_not_start,
    competing_pools_run_each_job_once,
    concurrency_holds_for_a_queue,
    a_shutdown_finishes_what_runs_and_hands_back_the_rest,
    the_end_of_the_grace_period_cancels_and_costs_no_attempt,
    a_pool_that_cannot_run_does_not_start,
    a_closed_client_ends_its_pools,
    delays_before_the_first_attempt,
    many_jobs_are_enqueued_at_once,
    one_id_twice_is_two_jobs,
    names_are_checked,
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
    let pool = WorkerPool::new(&client)
        .state("!".to_owned())
        .state(tell)
        .register::<Greet>();
    let before = SystemTime::now() - Duration::from_secs(1);
    let id = client
        .enqueue(Greet {
            who: "ann".into(),
            times: 2,
        })
        .await
        .unwrap();
    let running = pool.spawn().await.unwrap();
    let (who, times, ctx, suffix) = soon("the greeting", told.recv()).await.unwrap();
    assert_eq!((who.as_str(), times, suffix.as_str()), ("ann", 2, "!"));
    assert_eq!((ctx.id(), ctx.attempt(), ctx.max_attempts()), (id, 1, 8));
    assert_eq!(
        (ctx.queue(), ctx.topic(), ctx.is_cancelled()),
        ("greetings", None, false)
    );
    assert!(ctx.enqueued_at() >= before && ctx.enqueued_at() <= SystemTime::now());
    ctx.client()
        .enqueue(Greet {
            who: "bob".into(),
            times: 0,
        })
        .await
        .unwrap();
    assert_eq!(
        soon("the second greeting", told.recv()).await.unwrap().0,
        "bob"
    );
    running.shutdown().await.unwrap();
    nothing_is_left(&client, "greetings").await;
}

async fn nothing_is_left(client: &Client, queue: &str) {
    until("an empty queue", || async {
        let counts = client.counts(queue).await.unwrap();
        (counts.ready + counts.waiting + counts.failed == 0).then_some(())
    })
    .await;
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
    let running = WorkerPool::new(&client)
        .state(tell)
        .register::<Block>()
        .spawn()
        .await
        .unwrap();
    assert_eq!(
        soon("the blocking job", told.recv()).await.unwrap(),
        "blocked"
    );
    running.shutdown().await.unwrap();
}

async fn a_failure_is_retried_after_its_delay(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    let fail = || Step::Fail("busy".into());
    let id = stage.enqueue([fail(), fail(), Step::Succeed]).await;
    let mut before: Option<Run> = None;
    for attempt in 1..=3 {
        let run = stage.run().await;
        assert_eq!((run.id, run.attempt), (id, attempt));
        if let Some(before) = before {
            assert!(
                run.at - before.at >= Duration::from_millis(200),
                "it was not early"
            );
        }
        before = Some(run);
    }
    assert_eq!(stage.end().await, id);
    running.shutdown().await.unwrap();
    nothing_is_left(&stage.client, "scripted").await;
}

async fn a_job_without_attempts_left_is_kept_and_can_be_put_back(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    let fail = || Step::Fail("the bank is busy".into());
    let steps = [fail(), fail(), fail(), fail(), fail(), Step::Succeed];
    let before = SystemTime::now() - Duration::from_secs(1);
    let id = stage.enqueue(steps.clone()).await;
    let job = stage.failed("scripted").await;
    assert_eq!(
        (job.id(), job.name(), job.queue()),
        (id, "scripted", "scripted")
    );
    assert_eq!((job.attempts(), job.reason()), (4, FailedReason::Exhausted));
    assert_eq!(job.error(), "the bank is busy");
    assert_eq!(job.payload(), serde_json::json!({ "steps": steps }));
    assert!(job.failed_at() >= before && job.failed_at() <= SystemTime::now());
    for attempt in 1..=4 {
        assert_eq!(stage.run().await.attempt, attempt);
    }
    stage.client.failed("scripted").retry(id).await.unwrap();
    for attempt in 1..=2 {
        let run = stage.run().await;
        assert_eq!(
            (run.id, run.attempt),
            (id, attempt),
            "it has fresh attempts"
        );
    }
    assert_eq!(stage.end().await, id);
    running.shutdown().await.unwrap();
    nothing_is_left(&stage.client, "scripted").await;
}

async fn failed_jobs_are_shown_discarded_and_purged(store: Store) {
    let stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(
            stage
                .enqueue([Step::Abort(format!("number {number}"))])
                .await,
        );
    }
    let failed = stage.client.failed("scripted");
    until("all to fail", || async {
        (failed.list(9).await.ok()?.len() == 4).then_some(())
    })
    .await;
    assert_eq!(failed.show(ids[2]).await.unwrap().error(), "number 2");
    failed.discard(ids[2]).await.unwrap();
    assert!(failed.show(ids[2]).await.unwrap_err().is_not_found());
    assert!(failed.discard(ids[2]).await.unwrap_err().is_not_found());
    assert!(failed.retry(ids[2]).await.unwrap_err().is_not_found());
    assert_eq!(failed.list(2).await.unwrap().len(), 2);
    assert_eq!(failed.purge().await.unwrap(), 3);
    assert_eq!(failed.list(9).await.unwrap().len(), 0);
    assert_eq!(failed.retry_all().await.unwrap(), 0);
    running.shutdown().await.unwrap();
}

async fn a_panic_is_a_failed_attempt(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    let id = stage
        .enqueue([Step::Panic("oh no".into()), Step::Succeed])
        .await;
    assert_eq!(stage.run().await.attempt, 1);
    assert_eq!(stage.run().await.attempt, 2);
    assert_eq!(stage.end().await, id);
    stage.enqueue([Step::Panic("oh no".into())]).await;
    assert_eq!(stage.failed("scripted").await.error(), "it panicked: oh no");
    running.shutdown().await.unwrap();
}

async fn a_timeout_is_a_failed_attempt(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    stage
        .client
        .enqueue(Hasty {
            steps: vec![Step::Hang],
        })
        .await
        .unwrap();
    let job = stage.failed("hasty").await;
    assert_eq!(job.error(), "it took longer than its timeout of 100ms");
    assert_eq!((job.reason(), job.attempts()), (FailedReason::Exhausted, 2));
    assert_eq!(
        (stage.run().await.attempt, stage.run().await.attempt),
        (1, 2)
    );
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
    let pool = WorkerPool::new(&client)
        .state(tell)
        .state(Mutex::new(unblock));
    let running = pool.register::<Stubborn>().spawn().await.unwrap();
    client.enqueue(Stubborn { number: 1 }).await.unwrap();
    client.enqueue(Stubborn { number: 2 }).await.unwrap();
    let (number, ctx) = soon("the first job", told.recv()).await.unwrap();
    assert_eq!(number, 1);
    // It failed, and is told so, but its thread still runs.
    until("it to fail", || async {
        client.failed("stubborn").list(1).await.ok()?.pop()
    })
    .await;
    assert!(ctx.is_cancelled());
    assert!(told.try_recv().is_err(), "the slot is taken");
    drop(end);
    assert_eq!(soon("the second job", told.recv()).await.unwrap().0, 2);
    running.shutdown().await.unwrap();
}

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("no such address")]
    NoAddress,
    #[error(transparent)]
    Control(#[from] jobq::Control),
    #[error("while sending")]
    Sending(#[source] jobq::Control),
}

fn control(how: &str) -> jobq::Control {
    match how {
        "abort" => jobq::abort("give up"),
        "retry" => jobq::retry_in(Duration::ZERO, "again"),
        _ => jobq::snooze(Duration::ZERO),
    }
}

macro_rules! wrapped {
    ($function:ident, $type:ident, $result:ty, $how:ident => $body:expr) => {
        #[job(queue = "wrapped", retries = 1)]
        async fn $function(
            $how: String,
            ctx: JobContext,
            told: State<mpsc::UnboundedSender<(JobId, u32)>>,
        ) -> $result {
            let _ = told.send((ctx.id(), ctx.attempt()));
            $body
        }
    };
}

wrapped!(bare, Bare, Result<(), jobq::Control>, how => Err(control(&how)));
wrapped!(boxed, Boxed, Result<(), BoxError>, how => Err(control(&how))?);
wrapped!(from, From, Result<(), MailError>, how => {
    if how.is_empty() { return Err(MailError::NoAddress) }
    Err(control(&how))?
});
wrapped!(source, Source, Result<(), MailError>, how => Err(MailError::Sending(control(&how))));
wrapped!(any, Any, anyhow::Result<()>, how => {
    use anyhow::Context as _;
    Err::<(), _>(control(&how)).context("sending").context("welcoming")
});

async fn controls_keep_their_meaning_however_they_are_wrapped(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<(JobId, u32)>();
    let pool = WorkerPool::new(&client).state(tell);
    let pool = pool
        .register::<Bare>()
        .register::<Boxed>()
        .register::<From>();
    let running = pool
        .register::<Source>()
        .register::<Any>()
        .spawn()
        .await
        .unwrap();
    let failed = client.failed("wrapped");
    for (how, expected) in [
        ("abort", Some((1, FailedReason::Aborted))),
        ("retry", Some((2, FailedReason::Exhausted))),
        ("snooze", None),
    ] {
        let how = || how.to_owned();
        let ids: HashSet<JobId> = [
            client.enqueue(Bare { how: how() }).await.unwrap(),
            client.enqueue(Boxed { how: how() }).await.unwrap(),
            client.enqueue(From { how: how() }).await.unwrap(),
            client.enqueue(Source { how: how() }).await.unwrap(),
            client.enqueue(Any { how: how() }).await.unwrap(),
        ]
        .into();
        let Some(expected) = expected else {
            // Each runs again and again, always as its first attempt.
            let mut runs = HashMap::<JobId, u32>::new();
            while runs.len() < ids.len() || runs.values().any(|runs| *runs < 3) {
                let (id, attempt) = soon("the next run", told.recv()).await.unwrap();
                if ids.contains(&id) {
                    assert_eq!(attempt, 1);
                    *runs.entry(id).or_default() += 1;
                }
            }
            break;
        };
        let jobs = until("all to fail", || async {
            failed
                .list(10)
                .await
                .ok()
                .filter(|jobs| jobs.len() == ids.len())
        })
        .await;
        for job in jobs {
            assert!(ids.contains(&job.id()));
            assert_eq!((job.attempts(), job.reason()), expected, "{}", job.name());
        }
        failed.purge().await.unwrap();
    }
    running.shutdown().await.unwrap();
}

async fn a_snooze_uses_no_attempt(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    let fail = || Step::Fail("busy".into());
    let snooze = || Step::Snooze(200);
    let steps = [
        snooze(),
        fail(),
        snooze(),
        snooze(),
        fail(),
        snooze(),
        Step::Succeed,
    ];
    let id = stage.enqueue(steps).await;
    let mut last: Option<Run> = None;
    for attempt in [1, 1, 2, 2, 2, 3, 3] {
        let run = stage.run().await;
        assert_eq!((run.id, run.attempt), (id, attempt));
        let early = last.is_some_and(|last| run.at - last.at < Duration::from_millis(200));
        assert!(!early);
        last = Some(run);
    }
    assert_eq!(stage.end().await, id);
    running.shutdown().await.unwrap();
}

async fn retry_in_sets_the_wait(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    // Shorter than the delay of the job, equal to it, longer, and none at all.
    let waits = [50, 200, 700];
    let steps: Vec<_> = waits.iter().map(|wait| Step::RetryIn(*wait)).collect();
    let id = stage.enqueue(steps).await;
    let mut last = stage.run().await;
    for (wait, attempt) in waits.into_iter().zip(2..) {
        let run = stage.run().await;
        assert_eq!((run.id, run.attempt), (id, attempt));
        assert!(run.at - last.at >= Duration::from_millis(wait), "{wait} ms");
        last = run;
    }
    assert_eq!(stage.failed("scripted").await.error(), "not now");
    running.shutdown().await.unwrap();
}

/// What an older version of a program sent.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "scripted")]
struct OldScripted {
    instructions: String,
}

async fn unreadable_payloads_fail_and_the_pool_goes_on(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().concurrency(1).spawn().await.unwrap();
    let old = OldScripted {
        instructions: "succeed".into(),
    };
    let id = stage.client.enqueue(old).await.unwrap();
    let good = stage.enqueue([Step::Succeed]).await;
    assert_eq!(stage.end().await, good);
    let job = stage.failed("scripted").await;
    assert_eq!(
        (job.id(), job.reason()),
        (id, FailedReason::UnreadablePayload)
    );
    assert!(
        job.error().contains("missing field `steps`"),
        "{}",
        job.error()
    );
    assert_eq!(
        job.payload(),
        serde_json::json!({ "instructions": "succeed" })
    );
    running.shutdown().await.unwrap();
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "not.deployed.yet", queue = "scripted", delay = "0s")]
struct NotDeployed {}

async fn unknown_jobs_fail_after_their_retries(store: Store) {
    let mut stage = Stage::on(store).await;
    let id = stage.client.enqueue(NotDeployed {}).await.unwrap();
    // Twenty workers tried already.
    let engine = jobq::testing::open(&stage.store.url, &stage.store.namespace)
        .await
        .unwrap();
    let mut consumer = engine.consume("scripted", 1).await.unwrap();
    for _ in 0..20 {
        let delivery = soon("the job", consumer.next()).await.unwrap().unwrap();
        let retry = jobq::engine::Settlement::Retry(Duration::ZERO);
        delivery.settle(retry).await.unwrap();
    }
    consumer.stop().await;
    engine.close().await;
    let running = stage.pool().spawn().await.unwrap();
    let good = stage.enqueue([Step::Succeed]).await;
    assert_eq!(stage.end().await, good);
    let job = stage.failed("scripted").await;
    assert_eq!((job.id(), job.reason()), (id, FailedReason::UnknownJob));
    assert!(
        job.error().contains("`not.deployed.yet`"),
        "{}",
        job.error()
    );
    // One that is met for the first time waits for a deploy.
    stage.client.failed("scripted").purge().await.unwrap();
    stage.client.enqueue(NotDeployed {}).await.unwrap();
    until("the job to wait", || async {
        (stage.client.counts("scripted").await.unwrap().waiting == 1).then_some(())
    })
    .await;
    assert_eq!(
        stage.client.failed("scripted").list(1).await.unwrap().len(),
        0
    );
    running.shutdown().await.unwrap();
}

async fn a_message_without_a_name_is_the_only_job_of_its_queue(store: Store) {
    let mut stage = Stage::on(store).await;
    stage.client.declare::<Scripted>().await.unwrap();
    let engine = jobq::testing::open(&stage.store.url, &stage.store.namespace)
        .await
        .unwrap();
    let id = JobId::new();
    let envelope = jobq::Envelope {
        id,
        queue: "scripted".into(),
        name: None,
        payload: br#"{"steps": ["Succeed"]}"#.to_vec(),
        enqueued_at: SystemTime::now(),
        delay: Duration::ZERO,
        retry_wait: None,
        expires_at: None,
        topic: None,
    };
    engine
        .declare(&[jobq::engine::QueueSpec {
            name: "scripted".into(),
            waits: [].into(),
        }])
        .await
        .unwrap();
    engine.push(vec![envelope]).await.pop().unwrap().unwrap();
    engine.close().await;
    let running = stage.pool().spawn().await.unwrap();
    assert_eq!(stage.end().await, id);
    running.shutdown().await.unwrap();
}

async fn an_expired_job_does_not_start(store: Store) {
    let mut stage = Stage::on(store).await;
    let late = Scripted {
        steps: vec![Step::Succeed],
    };
    let late = stage
        .client
        .enqueue(late)
        .expires_in(Duration::ZERO)
        .await
        .unwrap();
    let snooze = Scripted {
        steps: vec![Step::Snooze(400)],
    };
    let snooze = stage
        .client
        .enqueue(snooze)
        .expires_in(Duration::from_millis(300))
        .await
        .unwrap();
    let good = Scripted {
        steps: vec![Step::Succeed],
    };
    let good = stage
        .client
        .enqueue(good)
        .expires_in(Duration::from_secs(600))
        .await
        .unwrap();
    let running = stage.pool().spawn().await.unwrap();
    assert_eq!(stage.end().await, good);
    let failed = stage.client.failed("scripted");
    let jobs = until("two to expire", || async {
        failed.list(9).await.ok().filter(|jobs| jobs.len() == 2)
    })
    .await;
    assert_eq!(
        jobs.iter().map(jobq::FailedJob::id).collect::<HashSet<_>>(),
        [late, snooze].into()
    );
    assert!(
        jobs.iter()
            .all(|job| job.reason() == FailedReason::Expired && job.attempts() == 0)
    );
    // Put back, it has no limit any more.
    failed.retry(late).await.unwrap();
    assert_eq!(stage.end().await, late);
    running.shutdown().await.unwrap();
}

async fn competing_pools_run_each_job_once(store: Store) {
    let mut stage = Stage::on(store).await;
    let other = stage.store.client().await;
    let pools = [
        stage.pool().spawn().await.unwrap(),
        stage.pool().spawn().await.unwrap(),
        stage.pool_of(&other).spawn().await.unwrap(),
    ];
    let jobs = (0..600).map(|_| Scripted {
        steps: vec![Step::Succeed],
    });
    let ids = stage.client.enqueue_all(jobs).await.unwrap();
    let mut ended = HashSet::new();
    for _ in &ids {
        assert!(ended.insert(stage.end().await), "none ends twice");
    }
    assert_eq!(ended, ids.into_iter().collect());
    for pool in pools {
        pool.shutdown().await.unwrap();
    }
    nothing_is_left(&stage.client, "scripted").await;
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
    client
        .enqueue_all((0..200).map(|_| Counted {}))
        .await
        .unwrap();
    let pool = WorkerPool::new(&client)
        .state(Arc::new(AtomicUsize::new(0)))
        .state(tell);
    let running = pool
        .concurrency(50)
        .register::<Counted>()
        .spawn()
        .await
        .unwrap();
    let mut most = 0;
    for _ in 0..200 {
        most = most.max(soon("the next job", told.recv()).await.unwrap());
    }
    assert!((1..=3).contains(&most), "{most} ran at once");
    running.shutdown().await.unwrap();
}

async fn a_shutdown_finishes_what_runs_and_hands_back_the_rest(store: Store) {
    let mut stage = Stage::on(store).await;
    let running = stage.pool().concurrency(2).spawn().await.unwrap();
    let ids: Vec<_> = {
        let jobs = (0..20).map(|_| Scripted {
            steps: vec![Step::Wait, Step::Succeed],
        });
        stage.client.enqueue_all(jobs).await.unwrap()
    };
    let first = [stage.run().await.id, stage.run().await.id];
    let shutdown = tokio::spawn(running.shutdown());
    // What was not started is handed back while the two still run.
    until("the others to be ready", || async {
        (stage.client.counts("scripted").await.unwrap().ready == 18).then_some(())
    })
    .await;
    assert!(!stage.has_run());
    stage.go();
    let ended: HashSet<_> = [stage.end().await, stage.end().await].into();
    assert_eq!(ended, first.into());
    soon("the shutdown", shutdown).await.unwrap().unwrap();
    let running = stage.pool().spawn().await.unwrap();
    let mut rest = HashSet::new();
    for _ in 0..18 {
        let run = stage.run().await;
        assert_eq!(run.attempt, 1, "a shutdown uses no attempt");
        rest.insert(run.id);
    }
    assert_eq!(rest.union(&ended).count(), ids.len());
    running.shutdown().await.unwrap();
    nothing_is_left(&stage.client, "scripted").await;
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

async fn the_end_of_the_grace_period_cancels_and_costs_no_attempt(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<(u32, &'static str)>();
    client.enqueue(Endless {}).await.unwrap();
    for _ in 0..3 {
        let pool = WorkerPool::new(&client)
            .state(tell.clone())
            .register::<Endless>();
        let running = pool.grace(Duration::ZERO).spawn().await.unwrap();
        assert_eq!(soon("the job", told.recv()).await, Some((1, "began")));
        soon("the shutdown", running.shutdown()).await.unwrap();
        assert_eq!(
            soon("the job to be told", told.recv()).await,
            Some((1, "cancelled"))
        );
        until("the job to be handed back", || async {
            (client.counts("endless").await.unwrap().ready == 1).then_some(())
        })
        .await;
    }
}

async fn a_pool_that_cannot_run_does_not_start(store: Store) {
    let client = store.client().await;
    let error = WorkerPool::new(&client).spawn().await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("has no jobs"),
        "{error}"
    );
    let error = WorkerPool::new(&client)
        .register::<Scripted>()
        .spawn()
        .await
        .unwrap_err();
    assert!(error.is_invalid(), "{error}");
    for part in ["`scripted`", "Script`", ".state(value)"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

async fn a_closed_client_ends_its_pools(store: Store) {
    let stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    stage.client.close().await;
    let error = soon("the pool to end", running.wait()).await.unwrap_err();
    assert_eq!(error.kind(), jobq::ErrorKind::Closed);
    let error = stage
        .client
        .enqueue(Scripted { steps: vec![] })
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_enqueued()),
        (jobq::ErrorKind::Closed, false)
    );
}

async fn delays_before_the_first_attempt(store: Store) {
    let mut stage = Stage::on(store).await;
    let job = || Scripted {
        steps: vec![Step::Succeed],
    };
    let begin = std::time::Instant::now();
    let long = stage
        .client
        .enqueue(job())
        .delay(Duration::from_millis(900));
    if !stage.store.is_file() {
        let error = long.await.unwrap_err();
        assert!(error.is_unsupported() && !error.maybe_enqueued(), "{error}");
        let at = stage
            .client
            .enqueue(job())
            .at(SystemTime::now() + Duration::from_secs(9));
        assert!(at.await.unwrap_err().is_unsupported());
        // No wait and a time that has passed are no delay.
        let none = stage
            .client
            .enqueue(job())
            .delay(Duration::ZERO)
            .await
            .unwrap();
        let past = stage
            .client
            .enqueue(job())
            .at(SystemTime::UNIX_EPOCH)
            .await
            .unwrap();
        let running = stage.pool().spawn().await.unwrap();
        let ended: HashSet<_> = [stage.end().await, stage.end().await].into();
        assert_eq!(ended, [none, past].into());
        return running.shutdown().await.unwrap();
    }
    let long = long.await.unwrap();
    let soon = SystemTime::now() + Duration::from_millis(500);
    let middle = stage.client.enqueue(job()).at(soon).await.unwrap();
    let none = stage.client.enqueue(job()).await.unwrap();
    let running = stage.pool().spawn().await.unwrap();
    for (id, wait) in [(none, 0), (middle, 490), (long, 900)] {
        let run = stage.run().await;
        assert_eq!(run.id, id);
        assert!(
            run.at - begin >= Duration::from_millis(wait),
            "it was not early"
        );
    }
    running.shutdown().await.unwrap();
}

async fn many_jobs_are_enqueued_at_once(store: Store) {
    let stage = Stage::on(store).await;
    let jobs = (0..2_000).map(|_| Scripted { steps: vec![] });
    let ids = stage.client.enqueue_all(jobs).await.unwrap();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 2_000);
    assert_eq!(stage.client.counts("scripted").await.unwrap().ready, 2_000);
    let large = "x".repeat(jobq::MAX_PAYLOAD);
    let jobs = ["small", &large, "small"].map(|text| Scripted {
        steps: vec![Step::Fail(text.into())],
    });
    let error = stage.client.enqueue_all(jobs).await.unwrap_err();
    let accepted: Vec<_> = error.accepted().iter().map(|(index, _)| *index).collect();
    let refused: Vec<_> = error.refused().iter().map(|(index, _)| *index).collect();
    assert_eq!(
        (accepted, refused, error.unknown().len()),
        (vec![0, 2], vec![1], 0)
    );
    assert!(error.refused()[0].1.is_invalid());
    assert!(
        stage
            .client
            .enqueue_all(Vec::<Scripted>::new())
            .await
            .unwrap()
            .is_empty()
    );
}

async fn one_id_twice_is_two_jobs(store: Store) {
    let mut stage = Stage::on(store).await;
    let id = JobId::new();
    let running = stage.pool().spawn().await.unwrap();
    for _ in 0..2 {
        let job = Scripted {
            steps: vec![Step::Wait],
        };
        assert_eq!(stage.client.enqueue(job).id(id).await.unwrap(), id);
    }
    // The second is held back while the first one runs, and is not lost.
    assert_eq!(stage.run().await.id, id);
    stage.go();
    assert_eq!((stage.end().await, stage.end().await), (id, id));
    running.shutdown().await.unwrap();
    nothing_is_left(&stage.client, "scripted").await;
}

async fn names_are_checked(store: Store) {
    let client = store.client().await;
    for queue in ["", "a b", "a:b", "..", "x/y"] {
        assert!(
            client.failed(queue).list(1).await.unwrap_err().is_invalid(),
            "{queue}"
        );
        assert!(
            client.counts(queue).await.unwrap_err().is_invalid(),
            "{queue}"
        );
    }
    assert!(
        client
            .failed("no.such.queue")
            .list(1)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        client.counts("no.such.queue").await.unwrap(),
        jobq::engine::Counts::default()
    );
    let builder = Client::builder(&store.url).namespace("No Namespace");
    assert!(builder.connect().await.unwrap_err().is_invalid());
}
