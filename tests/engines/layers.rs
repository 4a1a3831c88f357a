//! Layers around attempts, and arguments of the user's own.

use std::time::{Duration, SystemTime};

use jobq::{
    Attempt, BoxError, Client, FailedJob, FailedReason, FromAttempt, Job, Next, Outcome, Requires,
    State, WorkerPool, abort, job,
};
use jobq_tests::both_engines;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

both_engines!(
    layers_run_in_their_order_around_the_arguments,
    a_layer_maps_the_outcome,
    a_panic_is_an_outcome_to_the_layers_outside,
    a_timeout_covers_the_layers,
    a_layer_sees_no_job_that_cannot_run,
    a_layer_of_a_plain_function_awaits_and_the_function_blocks,
    an_argument_that_cannot_be_made_ends_the_attempt,
    a_pool_without_a_state_that_an_argument_requires_does_not_start,
);

type Words = UnboundedSender<String>;

fn words() -> (Words, UnboundedReceiver<String>) {
    unbounded_channel()
}

async fn next(words: &mut UnboundedReceiver<String>) -> String {
    soon("a word", words.recv()).await.unwrap()
}

async fn failed(client: &Client, queue: &str) -> FailedJob {
    let failed = client.failed(queue);
    until("a failed job", async || failed.list(1).await.ok()?.pop()).await
}

/// Left by a layer.
#[derive(Clone)]
struct Tenant(String);

impl FromAttempt for Tenant {
    type Error = BoxError;

    fn requires(requires: &mut Requires) {
        requires.state::<Words>();
    }

    fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error> {
        let words = attempt.state::<Words>().unwrap();
        let tenant = attempt.extensions().get::<Self>();
        let tenant = tenant.ok_or_else(|| abort("no layer says which tenant the job is for"))?;
        words.send(format!("an argument for {} of {}", attempt.job(), tenant.0))?;
        Ok(tenant)
    }
}

/// Ends as `how` says.
#[job(retries = 1, delay = "0s", timeout = "3s")]
async fn rent(#[context] tenant: Tenant, how: String, words: State<Words>) -> Result<(), BoxError> {
    words.send(format!("the function for {}", tenant.0))?;
    match &*how {
        "fail" => Err("the function failed".into()),
        "panic" => panic!("the function panics"),
        "hang" => std::future::pending().await,
        _ => Ok(()),
    }
}

fn rented(how: &str) -> Rent {
    Rent { how: how.to_owned() }
}

/// A layer that says when it begins and ends, and leaves the name of the tenant.
fn telling(words: &Words, name: &'static str) -> impl Fn(Attempt, Next) -> Telling + use<> {
    let words = words.clone();
    move |attempt, next| {
        let words = words.clone();
        Box::pin(async move {
            let (job, number) = (attempt.job().to_owned(), attempt.number());
            words.send(format!("{name} begins attempt {number} of {job}")).unwrap();
            attempt.extensions().insert(Tenant(name.to_owned()));
            let outcome = next.run().await;
            let ended = outcome.error().unwrap_or("no error").to_owned();
            words.send(format!("{name} ends with {ended}")).unwrap();
            outcome
        })
    }
}

type Telling = std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>;

async fn layers_run_in_their_order_around_the_arguments(store: Store) {
    let (client, (words, mut said)) = (store.client().await, words());
    let pool = WorkerPool::new(&client).register::<Rent>().state(words.clone());
    let pool = pool.around(telling(&words, "outer")).around(telling(&words, "inner"));
    let running = pool.spawn().await.unwrap();
    client.enqueue(rented("fail")).await.unwrap();
    for attempt in [1, 2] {
        for expected in [
            format!("outer begins attempt {attempt} of rent"),
            format!("inner begins attempt {attempt} of rent"),
            "an argument for rent of inner".to_owned(),
            "the function for inner".to_owned(),
            "inner ends with the function failed".to_owned(),
            "outer ends with the function failed".to_owned(),
        ] {
            assert_eq!(next(&mut said).await, expected);
        }
    }
    assert_eq!(failed(&client, "rent").await.error(), "the function failed");
    running.shutdown().await.unwrap();
}

async fn a_layer_maps_the_outcome(store: Store) {
    let log = LogCapture::log();
    let (client, (words, mut said)) = (store.client().await, words());
    let pool = WorkerPool::new(&client).register::<Rent>().state(words.clone());
    let mapping = |_: Attempt, next: Next| async move {
        let outcome = next.run().await;
        if outcome.is_failed() { Outcome::completed() } else { Outcome::failed(abort("overruled")) }
    };
    let running = pool.around(mapping).around(telling(&words, "inner")).spawn().await.unwrap();
    client.enqueue(rented("fail")).await.unwrap();
    while next(&mut said).await != "inner ends with the function failed" {}
    let line = until("a line", async || log.lines(&["a layer completed its job"]).pop()).await;
    for part in [" WARN ", "job=rent", "error=\"the function failed\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    client.enqueue(rented("succeed")).await.unwrap();
    let job = failed(&client, "rent").await;
    assert_eq!((job.reason(), job.error()), (FailedReason::Aborted, "overruled"));
    running.shutdown().await.unwrap();
    assert_eq!(client.counts("rent").await.unwrap().failed, 1, "the other one completed");
}

async fn a_panic_is_an_outcome_to_the_layers_outside(store: Store) {
    let (client, (words, mut said)) = (store.client().await, words());
    let pool = WorkerPool::new(&client).register::<Rent>().state(words.clone());
    let pool = pool.around(telling(&words, "outer"));
    let panicking = |attempt: Attempt, next: Next| async move {
        assert!(attempt.number() > 1, "the layer panics");
        next.run().await
    };
    let running = pool.around(panicking).spawn().await.unwrap();
    client.enqueue(rented("panic")).await.unwrap();
    for expected in [
        "outer begins attempt 1 of rent",
        "outer ends with it panicked: the layer panics",
        "outer begins attempt 2 of rent",
        "an argument for rent of outer",
        "the function for outer",
        "outer ends with it panicked: the function panics",
    ] {
        assert_eq!(next(&mut said).await, expected);
    }
    assert_eq!(failed(&client, "rent").await.error(), "it panicked: the function panics");
    running.shutdown().await.unwrap();
}

/// A plain function, whose layer hangs.
#[job(retries = 0, timeout = "500ms")]
fn carry(words: State<Words>) -> Result<(), BoxError> {
    // A function on a thread of its own may wait for the program's runtime.
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    words.send("the plain function".to_owned())?;
    Ok(())
}

/// Says that it was dropped.
struct Dropped(Words);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send("a layer was dropped".to_owned()).unwrap();
    }
}

async fn a_timeout_covers_the_layers(store: Store) {
    let (client, (words, mut said)) = (store.client().await, words());
    let pool = WorkerPool::new(&client).register::<Rent>().register::<Carry>();
    let hanging = {
        let words = words.clone();
        move |_: Attempt, _: Next| {
            let dropped = Dropped(words.clone());
            async move {
                std::future::pending::<()>().await;
                drop(dropped);
                Outcome::completed()
            }
        }
    };
    let running = pool.state(words).around(hanging).spawn().await.unwrap();
    client.enqueue(rented("succeed")).await.unwrap();
    assert!(failed(&client, "rent").await.error().contains("its timeout of 3s"));
    client.enqueue(Carry {}).await.unwrap();
    assert!(failed(&client, "carry").await.error().contains("its timeout of 500ms"));
    for _ in 0..3 {
        assert_eq!(next(&mut said).await, "a layer was dropped", "so that its slot is free");
    }
    running.shutdown().await.unwrap();
}

/// A payload that [`Rent`] cannot read.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "rent")]
struct Unreadable {
    how: u64,
}

async fn a_layer_sees_no_job_that_cannot_run(store: Store) {
    let (client, (words, mut said)) = (store.client().await, words());
    client.declare::<Rent>().await.unwrap();
    client.enqueue(Unreadable { how: 7 }).await.unwrap();
    let expired = client.enqueue(rented("fail")).expires_in(Duration::from_millis(1));
    let expired = expired.await.unwrap();
    let end = SystemTime::now() + Duration::from_millis(2);
    until("it to expire", async || (SystemTime::now() > end).then_some(())).await;
    let pool = WorkerPool::new(&client).register::<Rent>().state(words.clone());
    let running = pool.around(telling(&words, "layer")).spawn().await.unwrap();
    let failed = client.failed("rent");
    let both =
        until("both to fail", async || failed.list(2).await.ok().filter(|jobs| jobs.len() == 2));
    for job in both.await {
        let is_expired = job.id() == expired;
        let reason =
            if is_expired { FailedReason::Expired } else { FailedReason::UnreadablePayload };
        assert_eq!(job.reason(), reason);
    }
    client.enqueue(rented("succeed")).await.unwrap();
    assert_eq!(next(&mut said).await, "layer begins attempt 1 of rent", "the first of all");
    running.shutdown().await.unwrap();
}

async fn a_layer_of_a_plain_function_awaits_and_the_function_blocks(store: Store) {
    let (client, (words, mut said)) = (store.client().await, words());
    let pool = WorkerPool::new(&client).register::<Carry>().state(words.clone());
    let waiting = |_: Attempt, next: Next| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let outcome = next.run().await;
        tokio::spawn(async {}).await.unwrap();
        outcome
    };
    let pool = pool.around(telling(&words, "outer")).around(waiting);
    let running = pool.spawn().await.unwrap();
    client.enqueue(Carry {}).await.unwrap();
    for expected in
        ["outer begins attempt 1 of carry", "the plain function", "outer ends with no error"]
    {
        assert_eq!(next(&mut said).await, expected);
    }
    running.shutdown().await.unwrap();
    assert_eq!(client.counts("carry").await.unwrap().failed, 0);
}

async fn an_argument_that_cannot_be_made_ends_the_attempt(store: Store) {
    let (client, (words, mut said)) = (store.client().await, words());
    let pool = WorkerPool::new(&client).register::<Rent>().state(words);
    let running = pool.spawn().await.unwrap();
    client.enqueue(rented("succeed")).await.unwrap();
    let job = failed(&client, "rent").await;
    assert_eq!(job.error(), "no layer says which tenant the job is for");
    assert_eq!((job.reason(), job.attempts()), (FailedReason::Aborted, 1), "as it asked for");
    running.shutdown().await.unwrap();
    assert!(said.try_recv().is_err(), "the function did not run");
}

async fn a_pool_without_a_state_that_an_argument_requires_does_not_start(store: Store) {
    async fn own(_: Unreadable, _: Tenant) -> Result<(), BoxError> {
        Ok(())
    }
    let client = store.client().await;
    let error = WorkerPool::new(&client).handle(own).spawn().await.unwrap_err();
    for part in ["`rent`", "needs a state", "Sender"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}
