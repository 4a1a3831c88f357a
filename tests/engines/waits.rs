//! Waits of all kinds and lengths.

use std::time::{Duration, Instant};

use jobq::engine::conformance::soon;
use jobq::{BoxError, JobContext, JobId, State, job};
use jobq_tests::both_engines;
use jobq_tests::jobs::reports_runs::{ONCE, enqueue, millis, next, reporting_pool};
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, until};
use tokio::sync::mpsc;

both_engines!(no_kind_of_wait_ends_early, a_wait_may_be_a_text);

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
    let mut test = TestStore::on(store).await;
    let (times, mut runs) = mpsc::unbounded_channel::<Instant>();
    let pool = test.pool().state(times).register::<Growing>();
    let running = pool.spawn().await.unwrap();
    test.client.declare_delays().await.unwrap();

    // Snoozes before a failure and behind one, waits of the job's own, and those of the policy.
    let (fail, snooze) = (Step::Fail("no".into()), Step::Snooze(250));
    let steps = [snooze.clone(), Step::RetryIn(450), fail.clone(), Step::Snooze(650), snooze, fail];
    let id = test.enqueue([&steps[..], &[Step::Succeed]].concat()).await;
    let waits = [(1, 250), (2, 450), (3, 200), (3, 650), (3, 250), (4, 200)];
    runs_after(&mut test, id, &waits).await;
    assert_eq!(test.end().await, id);
    // Shorter than the wait of the policy, equal to it, and longer; the last failure is the end.
    let id = test.enqueue([50, 200, 700].map(Step::RetryIn)).await;
    runs_after(&mut test, id, &[(2, 50), (3, 200), (4, 700)]).await;
    let failed = test.failed("scripted").await;
    assert_eq!((failed.id(), failed.error()), (id, "not now"));

    test.client.enqueue(Growing {}).await.unwrap();
    let mut before = soon("a run", runs.recv()).await.unwrap();
    for longest in [300, 600, 1_200] {
        let run = soon("a run", runs.recv()).await.unwrap();
        let waited: Duration = run - before;
        assert!(waited >= millis(longest / 2), "{waited:?} for {longest}");
        before = run;
    }
    running.shutdown().await.unwrap();
    until("no job to be left", async || {
        (test.client.counts("scripted").await.ok()?.open() == 0).then_some(())
    })
    .await;
}

/// Waits for the next runs of a job: the first one, and those with these numbers of their attempt,
/// each not before its wait is over.
async fn runs_after(test: &mut TestStore, id: JobId, waits: &[(u32, u64)]) {
    let mut before = test.run().await;
    assert_eq!((before.id, before.attempt), (id, 1));
    for (attempt, wait) in waits {
        let run = test.run().await;
        assert_eq!((run.id, run.attempt), (id, *attempt));
        let waited = run.at - before.at;
        assert!(waited >= millis(*wait), "{waited:?} for {wait}");
        before = run;
    }
}

async fn a_wait_may_be_a_text(store: Store) {
    let mut test = TestStore::on(store).await;
    let client = test.client.clone();
    client.declare_delays().await.unwrap();
    let running = test.pool().spawn().await.unwrap();
    let job = || Scripted { steps: vec![Step::Succeed] };
    let enqueued = Instant::now();
    client.enqueue(job()).delay("1s 200ms").expires_in("1h").await.unwrap();
    client.enqueue_all([job()]).delay("1s 200ms").expires_in("1h").await.unwrap();
    client.publish("nobody.listens", &()).delay("10ms").expires_in("1h").await.unwrap();
    for _ in 0..2 {
        assert!(test.run().await.at - enqueued >= millis(1_200));
    }

    let problems = [
        client.enqueue(job()).delay("1.5s").await.unwrap_err(),
        client.enqueue(job()).expires_in("1.5s").delay("1s").await.unwrap_err(),
        client.enqueue_all([job()]).delay("1.5s").await.unwrap_err().into(),
        client.publish("nobody.listens", &()).delay("1.5s").await.unwrap_err(),
    ];
    for problem in problems {
        assert!(problem.is_invalid() && !problem.maybe_enqueued(), "{problem:?}");
        assert!(problem.to_string().contains("`1.5s` is not a valid duration"), "{problem}");
    }
    running.shutdown().await.unwrap();
    assert_eq!(client.counts("scripted").await.unwrap().ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_wait_is_too_long_for_the_broker_but_one_that_no_attribute_could_say() {
    let store = Store::rabbitmq().await;
    let client = store.client().await;
    let (running, mut runs) = reporting_pool(&client).await;
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    for long in [days(1), days(49), days(50), days(366), days(1_243), days(3_650)] {
        enqueue(&client, ONCE, long).await;
    }
    let error = client.enqueue(ONCE).delay(days(3_651)).await.unwrap_err();
    assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
    assert!(error.to_string().contains("3650d"), "{error}");
    let (id, due) = enqueue(&client, ONCE, millis(900)).await;
    let run = next(&mut runs).await;
    assert!(run.id == id && run.at >= due);
    // Nothing of it came out anywhere.
    for queue in ["reports_run", "orphan"] {
        assert_eq!(client.counts(queue).await.unwrap(), jobq::engine::Counts::new(0, 0, 0));
    }
    running.shutdown().await.unwrap();
}
