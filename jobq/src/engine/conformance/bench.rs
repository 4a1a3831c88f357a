use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::{EngineExt as _, Store};
use crate::engine::{Administer, Consumer, Counts, Delivery, Engine, QueueSpec, Settlement};
use crate::error::Result;
use crate::guard::lock;
use crate::job::{Envelope, EventEnvelope, FailedReason, Headers, JobId};

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

    /// The administration of the first engine.
    pub(super) fn admin(&self) -> &dyn Administer {
        self.engine().admin()
    }

    /// The time of the engine's clock.
    pub(super) fn now(&self) -> SystemTime {
        self.engine.clock().now()
    }

    /// One more engine on the same store.
    pub async fn another(&self) -> Arc<dyn Engine> {
        let engine = soon("a further engine", self.store.open()).await.expect("an engine opens");
        let mut others = lock(&self.others);
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
    pub(super) async fn consume(&self, queue: &str, waits: &[Duration], prefetch: u16) -> Consumer {
        self.declare(queue, waits).await;
        self.consumer(queue, prefetch).await
    }

    /// Consumes a declared queue.
    pub(super) async fn consumer(&self, queue: &str, prefetch: u16) -> Consumer {
        consume(self.engine(), queue, prefetch).await
    }

    pub(super) async fn declare(&self, queue: &str, waits: &[Duration]) {
        self.declare_as(QueueSpec::new(queue).waits(waits.iter().copied())).await;
    }

    pub(super) async fn declare_as(&self, queue: QueueSpec) {
        soon("a queue to be declared", self.engine().declare(&[queue])).await.expect("declares");
    }

    pub(super) async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64> {
        soon("a queue to be deleted", self.admin().delete(queue, force)).await
    }

    /// Makes ready what delays up to this one need.
    pub(super) async fn declare_delays(&self, longest: Duration) {
        let declaring = self.engine().declare_delays(longest);
        soon("delays to be declared", declaring).await.expect("declares");
    }

    /// Pushes jobs, which must all be accepted, and returns their ids.
    pub(super) async fn push(&self, jobs: Vec<Envelope>) -> Vec<JobId> {
        push(self.engine(), jobs).await
    }

    /// Pushes `count` jobs and returns their ids.
    pub(super) async fn push_jobs(&self, queue: &str, count: usize) -> Vec<JobId> {
        self.push((0..count).map(|_| job(queue)).collect()).await
    }

    /// Pushes a copy of a job, and takes it.
    pub(super) async fn pass(&self, consumer: &mut Consumer, job: &Envelope) -> Delivery {
        self.push(vec![job.clone()]).await;
        consumer.take_attempt(job.id, job.attempts + 1).await
    }

    /// Declares and consumes the queue `mail`, pushes `count` jobs, and returns their ids.
    pub(super) async fn consume_jobs(
        &self,
        waits: &[Duration],
        prefetch: u16,
        count: usize,
    ) -> (Consumer, Vec<JobId>) {
        let consumer = self.consume("mail", waits, prefetch).await;
        (consumer, self.push_jobs("mail", count).await)
    }

    /// A job with many fields, which expires in an hour.
    pub(super) fn full_job(&self) -> Envelope {
        Envelope {
            expires_at: Some(self.now() + Duration::from_secs(3_600)),
            topic: Some("user.created".to_owned()),
            enqueued_by: Some("shop-web".into()),
            headers: headers(),
            content_encoding: Some("gzip".into()),
            ..job("mail")
        }
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

/// Pushes one job by itself, and several at once.
pub(super) async fn push(engine: &dyn Engine, mut jobs: Vec<Envelope>) -> Vec<JobId> {
    let ids = jobs.iter().map(|job| job.id).collect();
    if jobs.len() == 1 {
        soon("a job to be accepted", engine.push(jobs.remove(0))).await.expect("accepted");
        return ids;
    }
    let not_pushed = soon("jobs to be accepted", engine.push_all(&mut jobs.into_iter())).await;
    assert!(not_pushed.is_empty(), "{not_pushed:?}");
    ids
}

pub(super) async fn consume(engine: &dyn Engine, queue: &str, prefetch: u16) -> Consumer {
    soon("a consumer", engine.consume_from(queue, prefetch)).await.expect("consumes")
}

/// Calls of the cases.
impl Consumer {
    /// The next job.
    pub(super) async fn take(&mut self) -> Delivery {
        soon("a job", self.next()).await.expect("consuming goes on").expect("a job")
    }

    /// The next `count` jobs.
    pub(super) async fn take_many(&mut self, count: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::with_capacity(count);
        while deliveries.len() < count {
            deliveries.push(self.take().await);
        }
        deliveries
    }

    /// The next job, which must be this one at this attempt.
    pub(super) async fn take_attempt(&mut self, id: JobId, attempt: u32) -> Delivery {
        let delivery = self.take().await;
        assert_eq!((delivery.envelope().id, delivery.attempt), (id, attempt));
        delivery
    }

    /// Completes the next job, which must be this one.
    pub(super) async fn complete(&mut self, id: JobId) {
        let delivery = self.take().await;
        assert_eq!(delivery.envelope().id, id);
        settle(delivery, Settlement::Complete).await;
    }

    /// Checks that no job comes, for long enough to see one that comes in spite of a reason not to.
    pub(super) async fn gets_nothing(&mut self) {
        let early = tokio::time::timeout(Duration::from_millis(300), self.next()).await;
        assert!(early.is_err(), "{early:?}");
    }

    pub(super) async fn stop_soon(&mut self) {
        soon("a consumer to stop", self.stop()).await;
    }
}

/// The failure of a job for good.
pub(super) fn failure(reason: FailedReason, error: &str, attempts: u32) -> Settlement {
    Settlement::Fail { reason, error: error.to_owned(), attempts }
}

pub(super) async fn settle(delivery: Delivery, settlement: Settlement) {
    soon("a settlement", delivery.settle(settlement)).await.expect("settles");
}

pub(super) async fn settle_all(deliveries: Vec<Delivery>, settlement: Settlement) {
    for delivery in deliveries {
        settle(delivery, settlement.clone()).await;
    }
}

/// The ids of deliveries, in their order.
pub(super) fn ids(deliveries: &[Delivery]) -> Vec<JobId> {
    deliveries.iter().map(|delivery| delivery.envelope().id).collect()
}

/// Checks that these are the first attempts of these jobs, in any order.
#[track_caller]
pub(super) fn are_first_attempts(deliveries: &[Delivery], jobs: Vec<JobId>) {
    assert!(deliveries.iter().all(|delivery| delivery.attempt == 1), "{deliveries:?}");
    assert_eq!(sorted(ids(deliveries)), sorted(jobs));
}

/// The ids in sorted order, to compare multisets.
pub(super) fn sorted(mut ids: Vec<JobId>) -> Vec<JobId> {
    ids.sort_unstable();
    ids
}
