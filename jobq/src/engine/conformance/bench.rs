use crate::engine::conformance::EngineExt as _;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::Store;
use crate::engine::{Consumer, Counts, Delivery, Engine, QueueSpec, Settlement};
use crate::job::{Envelope, EventEnvelope, Headers, JobId};

/// How long a case waits for an event that must come, before it fails.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Waits for an event; panics if it does not happen within the [`DEADLINE`].
pub async fn soon<F: Future>(what: &str, event: F) -> F::Output {
    tokio::time::timeout(DEADLINE, event)
        .await
        .unwrap_or_else(|_| panic!("after {} s still waiting for {what}", DEADLINE.as_secs()))
}

/// Polls until the answer is the expected one; panics if it is not within the [`DEADLINE`].
pub async fn eventually<T, F>(what: &str, expected: T, mut ask: impl FnMut() -> F)
where
    T: PartialEq + fmt::Debug,
    F: Future<Output = T>,
{
    let start = tokio::time::Instant::now();
    loop {
        let found = ask().await;
        if found == expected {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: expected {expected:?}, still found {found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The fixture of a case: engines on a store of its own.
pub struct Bench {
    store: Box<dyn Store>,
    engine: Arc<dyn Engine>,
    others: Mutex<Vec<Arc<dyn Engine>>>,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Bench {
    /// Opens the first engine of the store.
    pub async fn new(store: impl Store) -> Self {
        let engine = soon("an engine to open", store.open()).await.expect("an engine opens");
        Self { store: Box::new(store), engine, others: Mutex::default() }
    }

    /// The first engine.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The time of the engine's clock.
    pub(super) fn now(&self) -> SystemTime {
        self.engine.clock().now()
    }

    /// One more engine on the same store.
    pub async fn another(&self) -> Arc<dyn Engine> {
        let engine = soon("a further engine", self.store.open()).await.expect("an engine opens");
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push(Arc::clone(&engine));
        engine
    }

    /// Closes the engines and removes the store.
    pub async fn finish(self) {
        let others = self.others.into_inner().unwrap_or_else(PoisonError::into_inner);
        for engine in others.iter().chain([&self.engine]) {
            soon("an engine to close", engine.close()).await;
        }
        drop((others, self.engine));
        soon("the store to be removed", self.store.remove()).await;
    }

    /// Declares a queue and starts to consume it.
    pub(super) async fn consume(
        &self,
        queue: &'static str,
        waits: &[Duration],
        prefetch: u16,
    ) -> Consumer {
        self.declare(queue, waits).await;
        consume(self.engine(), queue, prefetch).await
    }

    pub(super) async fn declare(&self, queue: &str, waits: &[Duration]) {
        let spec = QueueSpec::new(queue).waits(waits.iter().copied());
        soon("a queue to be declared", self.engine().declare(&[spec])).await.expect("declares");
    }

    /// Makes ready what delays up to this one need.
    pub(super) async fn declare_delays(&self, longest: Duration) {
        let declaring = self.engine().declare_delays(longest);
        soon("delays to be declared", declaring).await.expect("declares");
    }

    /// Pushes jobs, which must all be accepted.
    pub(super) async fn push(&self, jobs: Vec<Envelope>) {
        push(self.engine(), jobs).await;
    }

    /// Pushes `count` jobs and returns their ids.
    pub(super) async fn push_jobs(&self, queue: &str, count: usize) -> Vec<JobId> {
        let jobs: Vec<_> = (0..count).map(|_| job(queue)).collect();
        let ids = jobs.iter().map(|job| job.id).collect();
        self.push(jobs).await;
        ids
    }

    /// Waits until a queue has these numbers of ready, waiting and failed jobs, if the engine counts.
    pub(super) async fn counts(&self, queue: &str, ready: u64, waiting: u64, failed: u64) {
        let Some(admin) = self.engine().administer() else { return };
        let expected = Counts::new(ready, waiting, failed);
        eventually("(ready, waiting, failed)", expected, || async {
            soon("counts", admin.counts(queue)).await.expect("counts")
        })
        .await;
    }
}

/// A minimal job.
pub(super) fn job(queue: &str) -> Envelope {
    Envelope {
        name: Some("greet".into()),
        ..Envelope::new(queue.to_owned(), br#"{"to":"ann"}"#.to_vec())
    }
}

/// Headers of a job: those of the program and those of jobq.
pub(super) fn headers() -> Headers {
    let mut headers = Headers::new();
    headers.set("tenant", "7, \"ä\"").expect("a header");
    headers.put("jobq-needs", "once zip");
    headers.set_nonce();
    headers
}

/// A minimal event.
pub(super) fn event(topic: &str) -> EventEnvelope {
    EventEnvelope::new(topic, br#"{"user":7}"#.to_vec())
}

pub(super) async fn push(engine: &dyn Engine, jobs: Vec<Envelope>) {
    let mut jobs = jobs.into_iter();
    if jobs.len() == 1
        && let Some(job) = jobs.next()
    {
        soon("a job to be accepted", engine.push(job)).await.expect("accepted");
        return;
    }
    let not_pushed = soon("jobs to be accepted", engine.push_all(&mut jobs)).await;
    assert!(not_pushed.is_empty(), "{not_pushed:?}");
}

pub(super) async fn consume(engine: &dyn Engine, queue: &'static str, prefetch: u16) -> Consumer {
    soon("a consumer", engine.consume_from(queue, prefetch)).await.expect("consumes")
}

/// The next job.
pub(super) async fn take(consumer: &mut Consumer) -> Delivery {
    soon("a job", consumer.next()).await.expect("consuming goes on").expect("a job")
}

/// The next `count` jobs.
pub(super) async fn take_many(consumer: &mut Consumer, count: usize) -> Vec<Delivery> {
    let mut deliveries = Vec::with_capacity(count);
    while deliveries.len() < count {
        deliveries.push(take(consumer).await);
    }
    deliveries
}

pub(super) async fn settle(delivery: Delivery, settlement: Settlement) {
    soon("a settlement", delivery.settle(settlement)).await.expect("settles");
}

/// The ids of deliveries, in their order.
pub(super) fn ids(deliveries: &[Delivery]) -> Vec<JobId> {
    deliveries.iter().map(|delivery| delivery.envelope().id).collect()
}

/// The ids in sorted order, to compare multisets.
pub(super) fn sorted(mut ids: Vec<JobId>) -> Vec<JobId> {
    ids.sort_unstable();
    ids
}
