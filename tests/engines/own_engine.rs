//! Programs on an engine that is not jobq's.

use std::sync::Arc;
use std::time::Duration;

use jobq::{Attempt, BoxError, Client, Event, JobContext, Next, State, WorkerPool, job};
use jobq_tests::test_store::soon;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::engine::List;

/// The one that the example has.
#[path = "../../examples/own_engine/engine.rs"]
pub(crate) mod engine;

type Seen = UnboundedSender<u32>;

#[job(retries = 2, delay = "20ms")]
async fn greet(text: String, ctx: JobContext, seen: State<Seen>) -> Result<(), BoxError> {
    seen.send(ctx.attempt())?;
    if text.is_empty() { Ok(()) } else { Err(text.into()) }
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {}

#[job(on = "user.*")]
async fn welcome(_event: UserCreated, seen: State<Seen>) -> Result<(), BoxError> {
    Ok(seen.send(0)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_on_an_engine_of_its_own() {
    let client = Client::with_engine(Arc::new(List::default()), "test");
    let (seen, mut attempts) = unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(seen).register::<Greet>();
    let (ended, mut ends) = unbounded_channel();
    let pool = pool.around(move |attempt: Attempt, next: Next| {
        let ended = ended.clone();
        async move {
            let outcome = next.run().await;
            let _ = ended.send(attempt.number());
            outcome
        }
    });
    let running = pool.spawn().await.unwrap();
    client.enqueue(Greet { text: String::new() }).delay(Duration::from_millis(20)).await.unwrap();
    assert_eq!(soon("an attempt", attempts.recv()).await, Some(1));
    client.enqueue(Greet { text: "no".into() }).await.unwrap();
    for attempt in 1..=3 {
        assert_eq!(soon("an attempt", attempts.recv()).await, Some(attempt));
    }
    for attempt in [1, 1, 2, 3] {
        assert_eq!(soon("an end", ends.recv()).await, Some(attempt));
    }
    assert!(running.health().is_consuming());
    running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_cannot_do_is_a_clear_error() {
    let client = Client::with_engine(Arc::new(List::default()), "test");
    let (seen, mut attempts) = unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(seen.clone()).register::<Greet>();
    let running = pool.spawn().await.unwrap();
    client.enqueue(Greet { text: String::new() }).await.unwrap();
    assert_eq!(soon("an attempt", attempts.recv()).await, Some(1));

    let events = client.publish_event(&UserCreated {}).await.unwrap_err();
    let subscriber = WorkerPool::new(&client).state(seen).register::<Welcome>();
    let refused = subscriber.spawn().await.unwrap_err();
    for error in [events, refused] {
        assert!(
            error.is_unsupported() && error.to_string().contains("does not support events"),
            "{error}"
        );
    }
    let failed = client.failed("greet").list(1).await.unwrap_err();
    let counts = client.counts("greet").await.unwrap_err();
    for error in [failed, counts] {
        assert!(error.is_unsupported() && error.to_string().contains("Administer"), "{error}");
    }
    let large = client.enqueue(Greet { text: "x".repeat(1 << 20) }).await.unwrap_err();
    assert!(large.is_invalid() && large.to_string().contains("limit of 1048576"), "{large}");
    let all = client.enqueue_all([Greet { text: "x".repeat(1 << 20) }]).await.unwrap_err();
    assert_eq!(all.refused().len(), 1);
    let report = client.doctor().await.unwrap();
    assert!(report.to_string().contains("does not support diagnosis"), "{report}");
    running.shutdown().await.unwrap();
}
