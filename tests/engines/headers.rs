//! Headers of the program's own, hooks that set them, and what a worker must understand.

use jobq::engine::conformance::EngineExt as _;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use jobq::engine::{Engine, Envelope, QueueSpec};
use jobq::{
    BoxError, Client, Event, FailedJob, FailedReason, FindingKind, Headers, JobContext, JobId,
    Outgoing, State, WorkerPool, job, retry_in, snooze,
};
use jobq_tests::both_engines;
use jobq_tests::jobs::with;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

both_engines!(
    a_header_goes_with_its_job_through_its_retries_and_that_of_a_failed_job,
    headers_that_cannot_be_are_refused_before_anything_is_sent,
    a_hook_is_called_once_for_each_job_and_event,
    a_hook_that_fails_or_panics_refuses_its_job_alone,
    a_job_that_needs_what_a_worker_lacks_waits_for_another,
    a_job_that_runs_once_fails_with_its_first_attempt,
    two_jobs_of_one_id_differ_by_a_nonce,
    a_job_says_when_it_was_due,
);

type Seen = UnboundedSender<String>;

fn seen() -> (Seen, UnboundedReceiver<String>) {
    unbounded_channel()
}

async fn next(seen: &mut UnboundedReceiver<String>) -> String {
    soon("an attempt", seen.recv()).await.unwrap()
}

async fn failed(client: &Client, queue: &str) -> FailedJob {
    let failed = client.failed(queue);
    until("a failed job", async || failed.list(1).await.ok()?.pop()).await
}

fn told(ctx: &JobContext, seen: &Seen) -> Result<(), BoxError> {
    let tenant = ctx.header("tenant").unwrap_or("nobody");
    Ok(seen.send(format!("{} for {tenant}", ctx.attempt()))?)
}

/// Fails as often as it says, each time with another wait.
#[job(retries = 2, delay = "10ms")]
async fn bill(failures: u32, ctx: JobContext, seen: State<Seen>) -> Result<(), BoxError> {
    told(&ctx, &seen)?;
    match ctx.attempt() {
        attempt if attempt > failures => Ok(()),
        2 => Err(retry_in(Duration::from_millis(20), "again").into()),
        _ => Err("no".into()),
    }
}

async fn a_header_goes_with_its_job_through_its_retries_and_that_of_a_failed_job(store: Store) {
    let client = store.client().await;
    let (seen, mut attempts) = seen();
    let pool = WorkerPool::new(&client).state(seen).register::<Bill>();
    let running = pool.spawn().await.unwrap();
    client.enqueue(Bill { failures: 3 }).header("tenant", "7").await.unwrap();
    for attempt in 1..=3 {
        assert_eq!(next(&mut attempts).await, format!("{attempt} for 7"));
    }
    let job = failed(&client, "bill").await;
    assert_eq!((job.header("tenant"), job.header("trace"), job.attempts()), (Some("7"), None, 3));
    client.failed("bill").retry(job.id()).await.unwrap();
    assert_eq!(next(&mut attempts).await, "1 for 7");
    running.shutdown().await.unwrap();
}

async fn headers_that_cannot_be_are_refused_before_anything_is_sent(store: Store) {
    let client = store.client().await;
    for name in ["", "Tenant", "x-death", "jobq-due", "CC"] {
        let error = client.enqueue(Bill { failures: 0 }).header(name, "7").await.unwrap_err();
        assert!(error.is_invalid() && !error.maybe_enqueued(), "{error}");
        let all = client.enqueue_all([Bill { failures: 0 }]).header(name, "7").await;
        assert_eq!(all.unwrap_err().refused().len(), 1);
        let published = client.publish("a.b", &7).header(name, "7").await;
        assert!(published.unwrap_err().is_invalid());
    }
    let long = "x".repeat(9_000);
    let error = client.enqueue(Bill { failures: 0 }).header("a", long).await.unwrap_err();
    assert!(error.to_string().contains("9001 bytes, more than the limit of 8192"), "{error}");
    client.declare::<Bill>().await.unwrap();
    assert_eq!(client.counts("bill").await.unwrap().ready, 0);
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user: u32,
}

#[job(on = "user.*")]
async fn greet(_event: UserCreated, ctx: JobContext, seen: State<Seen>) -> Result<(), BoxError> {
    told(&ctx, &seen)
}

async fn a_hook_is_called_once_for_each_job_and_event(store: Store) {
    let (called, mut calls) = seen();
    let builder = Client::builder(&store.url).namespace(&store.namespace);
    let builder = builder.on_enqueue(|job: &mut Outgoing| job.header("tenant", "7"));
    let client = builder
        .on_enqueue(move |job| {
            let (name, queue, topic) = (job.name(), job.queue(), job.topic());
            called.send(format!("{name:?} {queue:?} {topic:?} {:?}", job.headers()))?;
            // Hooks run in the program's runtime.
            tokio::spawn(std::future::ready(()));
            Ok(())
        })
        .connect()
        .await
        .unwrap();
    let (seen, mut attempts) = seen();
    let pool = WorkerPool::new(&client).state(seen).register::<Bill>().register::<Greet>();
    let running = pool.spawn().await.unwrap();
    client.enqueue(Bill { failures: 1 }).header("tenant", "8").header("a", "b").await.unwrap();
    assert_eq!(
        next(&mut calls).await,
        r#"Some("bill") Some("bill") None {"a": "b", "tenant": "7"}"#
    );
    assert_eq!(next(&mut attempts).await, "1 for 7");
    assert_eq!(next(&mut attempts).await, "2 for 7");
    client.enqueue_all([Bill { failures: 0 }, Bill { failures: 0 }]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(next(&mut attempts).await, "1 for 7");
        assert_eq!(next(&mut calls).await, r#"Some("bill") Some("bill") None {"tenant": "7"}"#);
    }
    client.publish_event(&UserCreated { user: 1 }).await.unwrap();
    assert_eq!(next(&mut attempts).await, "1 for 7");
    assert_eq!(next(&mut calls).await, r#"None None Some("user.created") {"tenant": "7"}"#);
    running.shutdown().await.unwrap();
    assert!(calls.try_recv().is_err(), "a retry is no enqueue");
}

async fn a_hook_that_fails_or_panics_refuses_its_job_alone(store: Store) {
    let builder = Client::builder(&store.url).namespace(&store.namespace);
    let client = builder
        .on_enqueue(|job: &mut Outgoing| match job.headers().get("how") {
            Some("fails") => Err("not on sundays".into()),
            Some("panics") => panic!("not at all"),
            _ => Ok(()),
        })
        .connect()
        .await
        .unwrap();
    for (how, said) in [("fails", "not on sundays"), ("panics", "it panicked: not at all")] {
        let error = client.enqueue(Bill { failures: 0 }).header("how", how).await.unwrap_err();
        assert!(error.is_invalid() && !error.maybe_enqueued(), "{error}");
        assert!(
            error.to_string().contains(said) && error.to_string().contains("`bill`"),
            "{error}"
        );
        let all = client.enqueue_all([Bill { failures: 0 }]).header("how", how).await.unwrap_err();
        assert_eq!((all.refused().len(), all.accepted().len()), (1, 0));
        let error = client.publish("user.created", &7).header("how", how).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("`user.created`"), "{error}");
    }
    client.enqueue(Bill { failures: 0 }).await.unwrap();
    until("one job", async || (client.counts("bill").await.ok()?.ready == 1).then_some(())).await;
}

/// Pushes a job of this version's future, or of another client.
async fn push(store: &Store, change: impl FnOnce(&mut Envelope)) -> JobId {
    let engine: Arc<dyn Engine> =
        jobq::engine::conformance::open(&store.url, &store.namespace).await.unwrap();
    engine.declare(&[QueueSpec::new("bill")]).await.unwrap();
    let new = Envelope::new("bill", br#"{"failures": 1}"#.to_vec());
    let job = with(new, |job| job.name = Some("bill".into()));
    let job = with(job, change);
    let id = job.id;
    engine.push(job).await.unwrap();
    engine.close().await;
    id
}

fn stored(headers: &[(&str, &str)]) -> Headers {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn a_job_that_needs_what_a_worker_lacks_waits_for_another(store: Store) {
    let client = store.client().await;
    client.declare::<Bill>().await.unwrap();
    let (seen, mut attempts) = seen();
    let pool = WorkerPool::new(&client).state(seen).register::<Bill>();
    let running = pool.spawn().await.unwrap();
    // Whatever else is the matter with it, this worker does not decide about it.
    let needs = |job: &mut Envelope| job.headers = stored(&[("jobq-needs", "encryption once")]);
    push(&store, needs).await;
    for change in [
        |job: &mut Envelope| job.attempts = 20,
        |job: &mut Envelope| job.name = Some("nobody's".into()),
        |job: &mut Envelope| job.expires_at = Some(UNIX_EPOCH),
    ] {
        push(&store, |job| {
            needs(job);
            change(job);
        })
        .await;
    }
    until("they wait", async || (client.counts("bill").await.ok()?.waiting == 4).then_some(()))
        .await;
    let report = client.doctor().await.unwrap();
    let found = report.findings().iter().find(|found| found.kind() == FindingKind::Needs);
    assert!(found.unwrap().what().contains("`encryption`"), "{report}");
    // What cannot be read is none of a later version.
    for (needs, encoding, said) in
        [("(unreadable)", "", "(unreadable)"), ("", "gzip", "the content encoding `gzip`")]
    {
        let id = push(&store, |job| {
            job.headers = stored(&[("jobq-needs", needs)]);
            job.content_encoding = Some(encoding.to_owned().into());
            job.attempts = 20;
        });
        let id = id.await;
        let job = failed(&client, "bill").await;
        assert_eq!((job.id(), job.reason(), job.attempts()), (id, FailedReason::UnknownJob, 21));
        assert!(job.error().contains(said), "{}", job.error());
        client.failed("bill").discard(id).await.unwrap();
    }
    // What names the encoding of its text is plain.
    push(&store, |job| job.content_encoding = Some("UTF-8".into())).await;
    assert_eq!(next(&mut attempts).await, "1 for nobody");
    running.shutdown().await.unwrap();
}

#[job(name = "once", queue = "bill", retries = 5, delay = "10ms")]
async fn once(how: String, ctx: JobContext, seen: State<Seen>) -> Result<(), BoxError> {
    told(&ctx, &seen)?;
    match &*how {
        "snoozes" if seen.is_closed() => Ok(()),
        "snoozes" => Err(snooze(Duration::from_millis(10)).into()),
        "asks" => Err(retry_in(Duration::from_millis(10), "again").into()),
        "panics" => panic!("no"),
        _ => Err("no".into()),
    }
}

async fn a_job_that_runs_once_fails_with_its_first_attempt(store: Store) {
    let client = store.client().await;
    client.declare::<Once>().await.unwrap();
    let (seen, mut attempts) = seen();
    let pool = WorkerPool::new(&client).state(seen).register::<Once>().register::<Bill>();
    let running = pool.spawn().await.unwrap();
    for how in ["fails", "asks", "panics"] {
        let id = push(&store, |job| {
            job.name = Some("once".into());
            job.payload = format!(r#"{{"how": "{how}"}}"#).into_bytes();
            job.headers =
                stored(&[("jobq-needs", "once"), ("jobq-once", "canary"), ("tenant", "7")]);
        });
        let id = id.await;
        assert_eq!(next(&mut attempts).await, "1 for 7", "{how}");
        let job = failed(&client, "bill").await;
        assert_eq!((job.id(), job.reason(), job.attempts()), (id, FailedReason::Exhausted, 1));
        // Once retried, it has all its attempts.
        client.failed("bill").retry(id).await.unwrap();
        for attempt in 1..=6 {
            assert_eq!(next(&mut attempts).await, format!("{attempt} for 7"), "{how}");
        }
        let job = failed(&client, "bill").await;
        assert_eq!((job.id(), job.attempts()), (id, 6));
        client.failed("bill").discard(id).await.unwrap();
    }
    push(&store, |job| {
        job.name = Some("once".into());
        job.payload = br#"{"how": "snoozes"}"#.to_vec();
        job.headers = stored(&[("jobq-needs", "once"), ("jobq-once", "canary")]);
    })
    .await;
    for _ in 0..3 {
        assert_eq!(next(&mut attempts).await, "1 for nobody", "a snooze is no attempt");
    }
    drop(attempts);
    running.shutdown().await.unwrap();
}

async fn two_jobs_of_one_id_differ_by_a_nonce(store: Store) {
    let client = store.client().await;
    let id = JobId::of_key("order-7");
    for _ in 0..2 {
        client.enqueue(Bill { failures: 1 }).id(id).await.unwrap();
    }
    let engine: Arc<dyn Engine> =
        jobq::engine::conformance::open(&store.url, &store.namespace).await.unwrap();
    let mut consumer = engine.consume_from("bill", 2).await.unwrap();
    let mut nonces = Vec::new();
    for _ in 0..2 {
        let delivery = soon("a job", consumer.next()).await.unwrap().unwrap();
        let envelope = delivery.envelope();
        assert_eq!(envelope.id, id);
        nonces.push(envelope.headers.get("jobq-nonce").unwrap().to_owned());
    }
    assert_ne!(nonces[0], nonces[1]);
    engine.close().await;
}

#[job]
async fn remind(ctx: JobContext, seen: State<Seen>) -> Result<(), BoxError> {
    let due = ctx.due().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(seen.send(format!("{due} {}", ctx.enqueued_at() <= ctx.due()))?)
}

async fn a_job_says_when_it_was_due(store: Store) {
    let client = store.client().await;
    let (seen, mut attempts) = seen();
    let running = WorkerPool::new(&client).state(seen).register::<Remind>().spawn().await.unwrap();
    let due = std::time::SystemTime::now() + Duration::from_secs(1);
    client.enqueue(Remind {}).at(due).await.unwrap();
    let said = next(&mut attempts).await;
    let (millis, is_later) = said.split_once(' ').unwrap();
    let due = due.duration_since(UNIX_EPOCH).unwrap().as_millis();
    assert!(millis.parse::<u128>().unwrap().abs_diff(due) <= 1, "{said} and {due}");
    assert_eq!(is_later, "true");
    running.shutdown().await.unwrap();
}
