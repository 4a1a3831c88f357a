//! Events: publish once, and every subscriber works for itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobq::{BoxError, Client, FailedReason, JobContext, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::nothing_is_left;

both_engines!(
    one_subscriber_fails_and_the_other_runs_once,
    pools_of_one_subscriber_compete,
    events_wait_for_workers_that_are_down,
    a_subscriber_can_be_enqueued_for_alone,
    an_event_of_another_shape_is_unreadable_for_its_subscriber_alone,
    old_and_new_patterns_hold_until_one_is_ended,
    a_deleted_subscriber_gets_nothing_more,
    events_expire_as_their_publisher_or_their_subscriber_wants,
    a_delayed_event_comes_when_it_is_due,
    wrong_calls_are_refused,
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct UserCreated {
    user_id: u64,
}

/// What the subscribers saw: who, the user, the topic, the attempt.
type Seen = (&'static str, Value, String, u32);

#[derive(Clone)]
struct Log {
    seen: mpsc::UnboundedSender<Seen>,
    broken: Arc<AtomicBool>,
}

impl Log {
    fn new() -> (Self, mpsc::UnboundedReceiver<Seen>) {
        let (seen, log) = mpsc::unbounded_channel();
        (Self { seen, broken: Arc::default() }, log)
    }

    fn see(&self, who: &'static str, event: impl Serialize, ctx: &JobContext) {
        let topic = ctx.topic().unwrap_or("none").to_owned();
        let event = serde_json::to_value(event).unwrap();
        let _ = self.seen.send((who, event, topic, ctx.attempt()));
    }
}

#[job(on = "user.created", retries = 1, delay = "100ms")]
async fn welcome(event: UserCreated, ctx: JobContext, log: State<Log>) -> Result<(), BoxError> {
    log.see("welcome", &event, &ctx);
    if log.broken.load(Ordering::Relaxed) {
        return Err("the mail server is down".into());
    }
    Ok(())
}

/// Its own retries go another way than those of `welcome`: through the levels.
#[job(on = "#", retries = 1, delay = exponential("100ms"))]
async fn audit(event: Value, ctx: JobContext, log: State<Log>) -> Result<(), BoxError> {
    log.see("audit", &event, &ctx);
    Ok(())
}

async fn next(log: &mut mpsc::UnboundedReceiver<Seen>) -> Seen {
    soon("a subscriber to run", log.recv()).await.unwrap()
}

fn pool(client: &Client, log: &Log) -> WorkerPool {
    WorkerPool::new(client).state(log.clone())
}

async fn one_subscriber_fails_and_the_other_runs_once(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    log.broken.store(true, Ordering::Relaxed);
    let running = pool(&client, &log).register::<Welcome>().register::<Audit>();
    let running = running.spawn().await.unwrap();
    let event = UserCreated { user_id: 7 };
    let id = client.publish("user.created", &event).await.unwrap();
    let failed = client.failed("welcome");
    let job = until("the failed job", || async { failed.list(1).await.ok()?.pop() }).await;
    assert_eq!((job.id(), job.queue(), job.attempts()), (id, "welcome", 2));
    assert_eq!(job.reason(), FailedReason::Exhausted);
    assert_eq!((job.topic(), job.payload()), (Some("user.created"), json!({ "user_id": 7 })));
    log.broken.store(false, Ordering::Relaxed);
    failed.retry(id).await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(next(&mut seen).await);
    }
    running.shutdown().await.unwrap();
    assert!(seen.try_recv().is_err(), "nobody ran once more");
    runs.sort_by_key(|(who, ..)| *who);
    let run = |who, attempt| (who, json!(event), "user.created".to_owned(), attempt);
    let expected = [run("audit", 1), run("welcome", 1), run("welcome", 2), run("welcome", 1)];
    assert_eq!(runs, expected);
    nothing_is_left(&client, "welcome").await;
    nothing_is_left(&client, "audit").await;
}

async fn pools_of_one_subscriber_compete(store: Store) {
    const EVENTS: u64 = 200;
    let publisher = store.client().await;
    let (log, mut seen) = Log::new();
    let mut pools = Vec::new();
    for _ in 0..2 {
        let client = if store.is_file() { store.client().await } else { publisher.clone() };
        pools.push(pool(&client, &log).register::<Welcome>().spawn().await.unwrap());
    }
    for user_id in 0..EVENTS {
        publisher.publish("user.created", &UserCreated { user_id }).await.unwrap();
    }
    let mut users = Vec::new();
    for _ in 0..EVENTS {
        users.push(next(&mut seen).await.1["user_id"].as_u64().unwrap());
    }
    for pool in pools {
        pool.shutdown().await.unwrap();
    }
    assert!(seen.try_recv().is_err(), "each ran once");
    users.sort_unstable();
    assert_eq!(users, (0..EVENTS).collect::<Vec<_>>());
}

async fn events_wait_for_workers_that_are_down(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    pool(&client, &log).register::<Welcome>().spawn().await.unwrap().shutdown().await.unwrap();
    for user_id in 0..3 {
        client.publish("user.created", &UserCreated { user_id }).await.unwrap();
    }
    assert!(seen.try_recv().is_err());
    let running = pool(&client, &log).concurrency(1).register::<Welcome>().spawn().await.unwrap();
    for user_id in 0..3 {
        assert_eq!(next(&mut seen).await.1, json!({ "user_id": user_id }));
    }
    running.shutdown().await.unwrap();
}

async fn a_subscriber_can_be_enqueued_for_alone(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    let running = pool(&client, &log).register::<Welcome>().register::<Audit>();
    let running = running.spawn().await.unwrap();
    let event = UserCreated { user_id: 7 };
    client.enqueue(Welcome { event: event.clone() }).await.unwrap();
    assert_eq!(next(&mut seen).await, ("welcome", json!(event), "none".to_owned(), 1));
    running.shutdown().await.unwrap();
    assert!(seen.try_recv().is_err(), "the other subscriber is not meant");
}

async fn an_event_of_another_shape_is_unreadable_for_its_subscriber_alone(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    let running = pool(&client, &log).register::<Welcome>().register::<Audit>();
    let running = running.spawn().await.unwrap();
    let id = client.publish("user.created", &"ann").await.unwrap();
    assert_eq!(next(&mut seen).await, ("audit", json!("ann"), "user.created".to_owned(), 1));
    let failed = client.failed("welcome");
    let job = until("the failed job", || async { failed.list(1).await.ok()?.pop() }).await;
    assert_eq!((job.id(), job.reason()), (id, FailedReason::UnreadablePayload));
    running.shutdown().await.unwrap();
}

/// Two versions of one program: the pattern was changed in between.
mod before {
    use super::{BoxError, JobContext, Log, State, Value, job};

    #[job(name = "report", on = "order.paid")]
    pub(super) async fn report(
        event: Value,
        ctx: JobContext,
        log: State<Log>,
    ) -> Result<(), BoxError> {
        log.see("before", event, &ctx);
        Ok(())
    }
}

mod after {
    use super::{BoxError, JobContext, Log, State, Value, job};

    #[job(name = "report", on = ["order.settled", "order.refunded"])]
    pub(super) async fn report(
        event: Value,
        ctx: JobContext,
        log: State<Log>,
    ) -> Result<(), BoxError> {
        log.see("after", event, &ctx);
        Ok(())
    }
}

async fn old_and_new_patterns_hold_until_one_is_ended(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    let old = pool(&client, &log).register::<before::Report>().spawn().await.unwrap();
    let topics = ["order.paid", "order.settled", "order.refunded"];
    let publish = async || {
        for topic in topics {
            client.publish(topic, &json!({})).await.unwrap();
        }
    };
    publish().await;
    assert_eq!(next(&mut seen).await.2, "order.paid");
    // The deploy.
    let new = pool(&client, &log).concurrency(1).register::<after::Report>();
    let new = new.spawn().await.unwrap();
    publish().await;
    let mut found: Vec<_> = [next(&mut seen).await, next(&mut seen).await, next(&mut seen).await]
        .map(|(_, _, topic, _)| topic)
        .into();
    found.sort_unstable();
    assert_eq!(found, ["order.paid", "order.refunded", "order.settled"]);
    old.shutdown().await.unwrap();
    client.unsubscribe::<after::Report>("order.paid").await.unwrap();
    publish().await;
    assert_eq!(next(&mut seen).await.2, "order.settled");
    assert_eq!(next(&mut seen).await.2, "order.refunded");
    new.shutdown().await.unwrap();
    assert!(seen.try_recv().is_err());
    nothing_is_left(&client, "report").await;
}

async fn a_deleted_subscriber_gets_nothing_more(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    client.declare::<Welcome>().await.unwrap();
    client.declare::<Audit>().await.unwrap();
    client.publish("user.created", &UserCreated { user_id: 1 }).await.unwrap();
    let refused = client.delete_subscriber::<Welcome>().await.unwrap_err();
    assert_eq!(refused.kind(), jobq::ErrorKind::Refused);
    assert!(refused.to_string().contains("1 jobs ready"), "{refused}");
    assert_eq!(client.delete_subscriber::<Welcome>().force().await.unwrap(), 1);
    client.publish("user.created", &UserCreated { user_id: 2 }).await.unwrap();
    // What was never there is deleted, too, and both can come back.
    assert_eq!(client.delete_subscriber::<before::Report>().await.unwrap(), 0);
    let running = pool(&client, &log).register::<Welcome>().register::<Audit>();
    let running = running.spawn().await.unwrap();
    client.publish("user.created", &UserCreated { user_id: 3 }).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..4 {
        let (who, event, ..) = next(&mut seen).await;
        found.push((who, event["user_id"].as_u64().unwrap()));
    }
    found.sort_unstable();
    assert_eq!(found, [("audit", 1), ("audit", 2), ("audit", 3), ("welcome", 3)]);
    running.shutdown().await.unwrap();
}

#[job(on = "user.created", expires = "1h", retries = 0)]
async fn hurry(event: Value, ctx: JobContext, log: State<Log>) -> Result<(), BoxError> {
    log.see("hurry", event, &ctx);
    Ok(())
}

async fn events_expire_as_their_publisher_or_their_subscriber_wants(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    client.declare::<Hurry>().await.unwrap();
    client.declare::<Audit>().await.unwrap();
    let publish = |limit| client.publish("user.created", &1).expires_in(limit);
    publish(Duration::ZERO).await.unwrap();
    // The publisher's word is for all, and against that of a subscriber.
    for queue in ["hurry", "audit"] {
        until("the event", || async {
            (client.counts(queue).await.ok()?.ready == 1).then_some(())
        })
        .await;
    }
    let running = pool(&client, &log).register::<Hurry>().register::<Audit>();
    let running = running.spawn().await.unwrap();
    for queue in ["hurry", "audit"] {
        let failed = client.failed(queue);
        let job = until("the failed job", || async { failed.list(1).await.ok()?.pop() }).await;
        assert_eq!((job.reason(), job.attempts()), (FailedReason::Expired, 0), "{queue}");
        // A person who retries it wants it to run.
        failed.retry(job.id()).await.unwrap();
        next(&mut seen).await;
    }
    publish(Duration::from_secs(600)).await.unwrap();
    let mut found = [next(&mut seen).await.0, next(&mut seen).await.0];
    found.sort_unstable();
    assert_eq!(found, ["audit", "hurry"]);
    running.shutdown().await.unwrap();
}

async fn a_delayed_event_comes_when_it_is_due(store: Store) {
    let client = store.client().await;
    let (log, mut seen) = Log::new();
    let running = pool(&client, &log).register::<Audit>().spawn().await.unwrap();
    let last = Duration::from_secs(5);
    let start = std::time::SystemTime::now();
    client.publish("latest", &1).delay(last).await.unwrap();
    let soon = std::time::SystemTime::now() + Duration::from_millis(700);
    client.publish("late", &2).at(soon).await.unwrap();
    client.publish("at.once", &3).await.unwrap();
    let topics = [next(&mut seen).await.2, next(&mut seen).await.2, next(&mut seen).await.2];
    assert_eq!(topics, ["at.once", "late", "latest"]);
    assert!(start.elapsed().unwrap() >= last);
    running.shutdown().await.unwrap();
}

#[job(on = "user.created", queue = "audit")]
async fn intruder(event: Value) -> Result<(), BoxError> {
    drop(event);
    Ok(())
}

async fn wrong_calls_are_refused(store: Store) {
    let client = store.client().await;
    for topic in ["", "user created", "user.*", "#", ".user", &"t".repeat(201)] {
        let error = client.publish(topic, &1).await.unwrap_err();
        assert!(error.is_invalid() && !error.maybe_enqueued(), "{error}");
    }
    let delay = Duration::from_secs(1);
    let error = client.publish("user.created", &1).mandatory().delay(delay).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("mandatory"), "{error}");
    let unheard = client.publish("user.created", &1).mandatory().await.unwrap_err();
    assert!(unheard.is_not_found(), "{unheard}");
    assert!(client.unsubscribe::<Audit>("user*").await.unwrap_err().is_invalid());
    let (log, _seen) = Log::new();
    let shared = pool(&client, &log).register::<Audit>().register::<Intruder>().spawn().await;
    let error = shared.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("a queue of its own"), "{error}");
    let large = Mutex::new("x".repeat(jobq::MAX_PAYLOAD));
    let error = client.publish("user.created", &large).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("`user.created`"), "{error}");
}
