//! No duration of a user is too long or too short for jobq: it counts as no limit, or is refused.

use std::time::{Duration, SystemTime};

use jobq::{
    BoxError, Client, Delay, ErrorKind, Exponential, FailedReason, Job, JobContext, JobOptions,
    State, WorkerPool,
};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

both_engines!(
    the_longest_durations_are_no_limit,
    waits_end_at_once_or_not_for_years,
    a_delay_that_cannot_be_waited_is_refused_or_kept,
    a_timeout_is_a_duration_or_its_text,
);

const THIRTY_DAYS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The name of the job that runs, and the attempt.
type Runs = mpsc::UnboundedSender<(&'static str, u32)>;

macro_rules! job {
    ($type:ident, $name:literal, $options:expr) => {
        #[derive(Debug, Serialize, Deserialize)]
        struct $type {
            ending: Ending,
        }

        impl Job for $type {
            const NAME: &'static str = $name;
            const OPTIONS: JobOptions = $options;
        }

        impl Acts for $type {
            fn ending(&self) -> Ending {
                self.ending
            }
        }
    };
}

trait Acts: Job {
    fn ending(&self) -> Ending;
}

/// The end of the first attempt; all later ones succeed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Ending {
    Succeed,
    Fail,
    RetryIn(Duration),
    Snooze(Duration),
}

const LONGEST: Delay =
    Delay::Exponential(Exponential::new(Duration::MAX).max(Duration::MAX).factor(9.0).jitter(1.0));

job!(Unlimited, "unlimited", JobOptions::new().timeout(Duration::MAX).expires(Duration::MAX));
job!(Patient, "patient", JobOptions::new().delay(Delay::constant(Duration::MAX)));
job!(Growing, "growing", JobOptions::new().delay(LONGEST).retries(1));
job!(Hasty, "hasty", JobOptions::new().delay(Delay::constant(Duration::ZERO)));

async fn act<J: Acts>(job: J, ctx: JobContext, runs: State<Runs>) -> Result<(), BoxError> {
    runs.send((J::NAME, ctx.attempt()))?;
    match job.ending() {
        Ending::Fail if ctx.attempt() == 1 => Err("not yet".into()),
        Ending::RetryIn(wait) if ctx.attempt() == 1 => Err(jobq::retry_in(wait, "not yet"))?,
        // A snooze uses no attempt, so that zero would go on for ever.
        Ending::Snooze(wait) if !wait.is_zero() => Err(jobq::snooze(wait))?,
        _ => Ok(()),
    }
}

fn pool(client: &Client, runs: Runs) -> WorkerPool {
    WorkerPool::new(client)
        .state(runs)
        .handle(act::<Unlimited>)
        .handle(act::<Patient>)
        .handle(act::<Growing>)
        .handle(act::<Hasty>)
        .shutdown_timeout(Duration::MAX)
}

async fn the_longest_durations_are_no_limit(store: Store) {
    for timeout in [THIRTY_DAYS, Duration::MAX] {
        let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(timeout);
        let client = builder.connect().await.unwrap();
        let (runs, mut heard) = mpsc::unbounded_channel();
        let running = pool(&client, runs).spawn().await.unwrap();
        let job = || Unlimited { ending: Ending::Succeed };
        client.enqueue(job()).expires_in(Duration::MAX).await.unwrap();
        client.enqueue_all([job(), job()]).await.unwrap();
        for _ in 0..3 {
            assert_eq!(soon("a run", heard.recv()).await, Some(("unlimited", 1)));
        }
        client.publish("nobody.subscribes", &()).await.unwrap();
        assert_eq!(client.failed("unlimited").list(1).await.unwrap().len(), 0);
        // It waits for its jobs as long as they take, and no longer.
        soon("the pool's end", running.shutdown()).await.unwrap();
    }
    let builder = Client::builder(&store.url).timeout(Duration::ZERO);
    assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Invalid);
    for timeout in [Duration::ZERO, Duration::MAX] {
        let client = store.client().await;
        let running =
            pool(&client, mpsc::unbounded_channel().0).shutdown_timeout(timeout).spawn().await;
        soon("the pool's end", running.unwrap().shutdown()).await.unwrap();
    }
}

async fn waits_end_at_once_or_not_for_years(store: Store) {
    let client = store.client().await;
    let (runs, mut heard) = mpsc::unbounded_channel();
    let running = pool(&client, runs).spawn().await.unwrap();
    let (zero, long) = (Duration::ZERO, Duration::MAX);
    client.enqueue(Hasty { ending: Ending::Fail }).await.unwrap();
    client.enqueue(Hasty { ending: Ending::RetryIn(zero) }).await.unwrap();
    for _ in 0..4 {
        assert_eq!(soon("a run", heard.recv()).await.unwrap().0, "hasty");
    }
    client.enqueue(Patient { ending: Ending::Fail }).await.unwrap();
    client.enqueue(Growing { ending: Ending::Fail }).await.unwrap();
    for wait in [THIRTY_DAYS, long] {
        client.enqueue(Hasty { ending: Ending::RetryIn(wait) }).await.unwrap();
        client.enqueue(Hasty { ending: Ending::Snooze(wait) }).await.unwrap();
    }
    for _ in 0..6 {
        soon("a run", heard.recv()).await.unwrap();
    }
    // They were settled: what ends here is the pool, and none of them runs again or is failed.
    running.shutdown().await.unwrap();
    until("all to wait", async || {
        let mut ready = 0;
        for queue in ["hasty", "patient", "growing"] {
            let counts = client.counts(queue).await.ok()?;
            assert_eq!(counts.failed, 0, "{queue}");
            ready += counts.ready.known().expect("counted");
        }
        (ready == 0).then_some(())
    })
    .await;
    assert!(heard.try_recv().is_err(), "none runs again");
}

async fn a_delay_that_cannot_be_waited_is_refused_or_kept(store: Store) {
    let client = store.client().await;
    let job = || Unlimited { ending: Ending::Succeed };
    let far = SystemTime::now() + Duration::from_secs(9_000 * 24 * 60 * 60);
    for told in [
        client.enqueue(job()).delay(Duration::MAX).await.map(drop),
        client.enqueue(job()).at(far).await.map(drop),
        client.enqueue_all([job()]).delay(Duration::MAX).await.map(drop).map_err(Into::into),
        client.publish("user.created", &()).delay(Duration::MAX).await.map(drop),
    ] {
        match told {
            Ok(()) => assert!(store.is_file(), "RabbitMQ has no such wait"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}"),
        }
    }
    // Nobody can start it in no time.
    let (runs, mut heard) = mpsc::unbounded_channel();
    client.enqueue(job()).expires_in(Duration::ZERO).await.unwrap();
    let running = pool(&client, runs).spawn().await.unwrap();
    let failed =
        until("the expired job", async || client.failed("unlimited").list(1).await.ok()?.pop());
    assert_eq!(failed.await.reason(), FailedReason::Expired);
    assert!(heard.try_recv().is_err(), "it did not run");
    running.shutdown().await.unwrap();
}

async fn a_timeout_is_a_duration_or_its_text(store: Store) {
    let builder = || Client::builder(&store.url).namespace(&store.namespace);
    let client = builder().timeout("30").timeout("30s").connect().await.unwrap();
    let pool = |timeout: &str| {
        pool(&client, mpsc::unbounded_channel().0).shutdown_timeout(timeout).spawn()
    };
    soon("the pool's end", pool("1m 30s").await.unwrap().shutdown()).await.unwrap();
    let client = builder().timeout("30").connect().await.map(drop);
    let pool = pool("30").await.map(drop);
    for (told, setting) in
        [(client, "the timeout of the client"), (pool, "the shutdown timeout of the pool")]
    {
        let error = told.unwrap_err();
        assert!(error.is_invalid(), "{error:?}");
        let expected = format!("{setting}: `30` is not a valid duration: `30` has no unit");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}
