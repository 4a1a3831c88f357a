//! Priorities, on both engines.

use std::sync::Arc;

use jobq::admin::{Place, Queues};
use jobq::{BoxError, Client, Error, JobContext, Priority, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

both_engines!(
    jobs_start_by_priority,
    a_job_has_the_priority_of_its_type_or_of_its_enqueue,
    a_retry_keeps_the_priority,
    a_pool_takes_the_jobs_of_all_priorities_that_another_program_has,
    a_priority_that_nobody_would_take_is_refused,
);

/// A run: the number of the job, its priority and its attempt.
type Run = (u32, Priority, u32);

/// The state that the jobs of a test share.
struct Shared {
    runs: UnboundedSender<Run>,
    /// Each run takes a permit.
    gate: Semaphore,
}

impl Shared {
    async fn run(&self, number: u32, ctx: &JobContext) -> Result<(), BoxError> {
        self.runs.send((number, ctx.priority(), ctx.attempt()))?;
        self.gate.acquire().await?.forget();
        Ok(())
    }
}

#[job(queue = "work", priorities, retries = 1, delay = "100ms")]
async fn any(number: u32, ctx: JobContext, shared: State<Arc<Shared>>) -> Result<(), BoxError> {
    shared.run(number, &ctx).await?;
    if number == 7 && ctx.attempt() == 1 { Err("once".into()) } else { Ok(()) }
}

#[job(queue = "work", priority = "high")]
async fn urgent(number: u32, ctx: JobContext, shared: State<Arc<Shared>>) -> Result<(), BoxError> {
    shared.run(number, &ctx).await
}

#[job(queue = "work")]
async fn plain(number: u32, ctx: JobContext, shared: State<Arc<Shared>>) -> Result<(), BoxError> {
    shared.run(number, &ctx).await
}

fn shared(permits: usize) -> (Arc<Shared>, UnboundedReceiver<Run>) {
    let (runs, seen) = unbounded_channel();
    (Arc::new(Shared { runs, gate: Semaphore::new(permits) }), seen)
}

fn pool(client: &Client, shared: &Arc<Shared>) -> WorkerPool {
    WorkerPool::new(client).state(Arc::clone(shared))
}

async fn numbers(runs: &mut UnboundedReceiver<Run>, count: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        numbers.push(soon("a run", runs.recv()).await.unwrap().0);
    }
    numbers
}

/// Waits until no job of this place waits outside of pools.
async fn taken(client: &Client, place: Place) {
    until("jobs that are taken", async || {
        let overview = client.admin().overview(Queues::one("work")).await.unwrap();
        let mut parts = overview.queues.into_iter().flat_map(|queue| queue.parts);
        let part = parts.find(|part| part.place == place)?;
        (part.jobs.known() == Some(&0)).then_some(())
    })
    .await;
}

async fn jobs_start_by_priority(store: Store) {
    let client = store.client().await;
    let (shared, mut runs) = shared(0);
    let jobs = pool(&client, &shared).register::<Any>().register::<Urgent>();
    let running = jobs.concurrency(1).spawn().await.unwrap();
    client.enqueue(Any { number: 1 }).await.unwrap();
    assert_eq!(numbers(&mut runs, 1).await, [1], "it has the only slot");
    let low = (100..150).map(|number| Any { number });
    client.enqueue_all(low).priority(Priority::Low).await.unwrap();
    client.enqueue(Any { number: 2 }).await.unwrap();
    client.enqueue(Urgent { number: 3 }).await.unwrap();
    client.enqueue(Any { number: 4 }).priority(Priority::High).await.unwrap();
    for place in [Place::High, Place::Ready] {
        taken(&client, place).await;
    }
    shared.gate.add_permits(1_000);
    let found = numbers(&mut runs, 53).await;
    assert_eq!(found[..5], [3, 4, 2, 100, 101], "{found:?}");
    running.shutdown().await.unwrap();
}

async fn a_job_has_the_priority_of_its_type_or_of_its_enqueue(store: Store) {
    let client = store.client().await;
    let (shared, mut runs) = shared(1_000);
    client.enqueue(Any { number: 1 }).await.unwrap();
    client.enqueue(Any { number: 2 }).priority(Priority::Low).delay("100ms").await.unwrap();
    client.enqueue(Any { number: 3 }).priority(Priority::Normal).await.unwrap();
    client.enqueue(Urgent { number: 4 }).await.unwrap();
    let both = [5, 6].map(|number| Any { number });
    client.enqueue_all(both).priority(Priority::High).await.unwrap();
    client.enqueue(Plain { number: 8 }).await.unwrap();
    let jobs = pool(&client, &shared).register::<Any>().register::<Urgent>().register::<Plain>();
    let running = jobs.spawn().await.unwrap();
    let mut found = Vec::new();
    for _ in 0..7 {
        found.push(soon("a run", runs.recv()).await.unwrap());
    }
    found.sort_unstable();
    let expected = [
        (1, Priority::Normal, 1),
        (2, Priority::Low, 1),
        (3, Priority::Normal, 1),
        (4, Priority::High, 1),
        (5, Priority::High, 1),
        (6, Priority::High, 1),
        (8, Priority::Normal, 1),
    ];
    assert_eq!(found, expected);
    running.shutdown().await.unwrap();
}

async fn a_retry_keeps_the_priority(store: Store) {
    let client = store.client().await;
    let (shared, mut runs) = shared(1_000);
    let running = pool(&client, &shared).register::<Any>().spawn().await.unwrap();
    client.enqueue(Any { number: 7 }).priority(Priority::Low).await.unwrap();
    for attempt in [1, 2] {
        let run = soon("a run", runs.recv()).await.unwrap();
        assert_eq!(run, (7, Priority::Low, attempt));
    }
    running.shutdown().await.unwrap();
}

async fn a_pool_takes_the_jobs_of_all_priorities_that_another_program_has(store: Store) {
    let (other, client) = (store.client().await, store.client().await);
    other.declare::<Any>().await.unwrap();
    let (shared, mut runs) = shared(1_000);
    let running = pool(&client, &shared).register::<Plain>().spawn().await.unwrap();
    client.enqueue(Plain { number: 1 }).await.unwrap();
    assert_eq!(numbers(&mut runs, 1).await, [1]);
    other.enqueue(Any { number: 2 }).priority(Priority::High).await.unwrap();
    // The pool does not have this job, and puts it back for one that does.
    until("a job that waits for a pool with it", async || {
        let counts = client.counts("work").await.unwrap();
        (counts.ready.known() == Some(&0) && counts.waiting.known() == Some(&1)).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
}

async fn a_priority_that_nobody_would_take_is_refused(store: Store) {
    let client = store.client().await;
    let refused = |error: Error| {
        assert!(error.is_invalid(), "{error}");
        assert!(error.to_string().contains("add the key `priorities`"), "{error}");
    };
    refused(client.enqueue(Plain { number: 1 }).priority(Priority::Low).await.unwrap_err());
    refused(client.enqueue(Urgent { number: 1 }).priority(Priority::Low).await.unwrap_err());
    let all = client.enqueue_all([Plain { number: 1 }]).priority(Priority::High).await.unwrap_err();
    refused(all.into());
    assert!(client.counts("work").await.unwrap().is_empty());
}
