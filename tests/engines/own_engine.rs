//! Programs on an engine that is not jobq's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jobq::engine::{Capabilities, Consume, Consumer, Engine, NotPushed, Pushing, QueueSpec};
use jobq::{
    Attempt, BoxError, Client, Envelope, Event, EventEnvelope, FailedReason, JobContext, Next,
    Outcome, Result, State, WorkerPool, job,
};
use jobq_tests::example_engine::ExampleEngine;
use jobq_tests::stage::{soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

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
    let client = Client::on_engine(Arc::new(ExampleEngine::default()), "test");
    let (seen, mut attempts) = unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(seen).register::<Greet>().register::<Welcome>();
    let pool = pool.around(|attempt: Attempt, next: Next| async move {
        let outcome = next.run().await;
        match attempt.number() {
            3 => Outcome::failed("the layer's"),
            _ => outcome,
        }
    });
    let running = pool.spawn().await.unwrap();
    client.enqueue(Greet { text: String::new() }).delay(Duration::from_millis(20)).await.unwrap();
    assert_eq!(soon("an attempt", attempts.recv()).await, Some(1));
    client.publish_event(&UserCreated {}).await.unwrap();
    assert_eq!(soon("an attempt", attempts.recv()).await, Some(0));
    let id = client.enqueue(Greet { text: "no".into() }).await.unwrap();
    for attempt in 1..=3 {
        assert_eq!(soon("an attempt", attempts.recv()).await, Some(attempt));
    }
    let failed = client.failed("greet");
    let job = until("a failed job", async || failed.list(1).await.ok()?.pop()).await;
    assert_eq!((job.id(), job.reason()), (id, FailedReason::Exhausted));
    assert_eq!(job.error(), "the layer's");
    assert!(running.health().is_consuming());
    running.shutdown().await.unwrap();
    assert_eq!(client.counts("greet").await.unwrap().failed, 1);
}

/// Moves jobs, and can do nothing else.
#[derive(Debug, Default)]
struct Plain(ExampleEngine);

#[async_trait]
impl Engine for Plain {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        assert!(queues.iter().all(|queue| !queue.solo), "it cannot have jobs run alone");
        self.0.declare(queues).await
    }

    fn push(&self, job: Envelope) -> Pushing {
        self.0.push(job)
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        self.0.push_all(jobs).await
    }

    async fn publish(&self, _: EventEnvelope, _: bool) -> Result<()> {
        unreachable!("it has no events")
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        assert!(!what.solo, "it cannot have jobs run alone");
        self.0.consume(what).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().largest_payload(100)
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_cannot_do_is_a_clear_error() {
    let client = Client::on_engine(Arc::new(Plain::default()), "test");
    let (seen, mut attempts) = unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(seen.clone()).register::<Greet>();
    let running = pool.spawn().await.unwrap();
    client.enqueue(Greet { text: String::new() }).await.unwrap();
    assert_eq!(soon("an attempt", attempts.recv()).await, Some(1));

    let events = client.publish_event(&UserCreated {}).await.unwrap_err();
    let subscriber = WorkerPool::new(&client).state(seen).register::<Welcome>();
    let refused = subscriber.spawn().await.unwrap_err();
    for error in [events, refused] {
        assert!(error.is_unsupported() && error.to_string().contains("no events"), "{error}");
    }
    let failed = client.failed("greet").list(1).await.unwrap_err();
    let counts = client.counts("greet").await.unwrap_err();
    for error in [failed, counts] {
        assert!(error.is_unsupported() && error.to_string().contains("Administer"), "{error}");
    }
    let large = client.enqueue(Greet { text: "x".repeat(100) }).await.unwrap_err();
    assert!(large.is_invalid() && large.to_string().contains("takes 100"), "{large}");
    let all = client.enqueue_all([Greet { text: "x".repeat(100) }]).await.unwrap_err();
    assert_eq!(all.refused().len(), 1);
    let report = client.doctor().await.unwrap();
    assert!(report.to_string().contains("examine"), "{report}");
    running.shutdown().await.unwrap();
}
