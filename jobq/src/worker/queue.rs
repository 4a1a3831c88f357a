//! One queue of a pool: takes its jobs and runs as many at once as it may.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::attempt::{Finished, Shared, Slot, attempt, settle};
use super::prefetch::Prefetch;
use crate::engine::{Consumer, Delivery, Settlement, closed};
use crate::error::Result;
use crate::job::JobId;
use crate::telemetry::{self, Who};

/// How long a pool whose grace period is over still waits for the engine to record the
/// outcomes that there are.
const LAST_WORD: Duration = Duration::from_secs(5);

type InHand = FuturesUnordered<Pin<Box<dyn Future<Output = (JobId, Finished)> + Send>>>;

/// Consumes a queue until `stop` is cancelled, or the engine says that it cannot.
pub(crate) async fn consume(
    shared: Arc<Shared>,
    name: &'static str,
    mut consumer: Consumer,
    stop: CancellationToken,
) -> Result<()> {
    let mut queue = Queue::new(shared, name);
    let ended = queue.run(&mut consumer, &stop).await;
    if let Err(error) = &ended {
        telemetry::queue_stopped(name, error);
    }
    consumer.stop().await;
    queue.finish().await;
    ended
}

struct Queue {
    shared: Arc<Shared>,
    name: &'static str,
    slots: Arc<Semaphore>,
    in_hand: InHand,
    /// The jobs that run now. A second delivery of one of them is not run beside the
    /// first but held until that is over.
    running: HashMap<JobId, Running>,
    /// Deliveries that were held and are now to be run.
    due: VecDeque<Delivery>,
    prefetch: Prefetch,
}

struct Running {
    /// Tells another delivery of the same job from another job with the same id.
    likeness: u64,
    held: VecDeque<Delivery>,
}

impl Queue {
    fn new(shared: Arc<Shared>, name: &'static str) -> Self {
        let concurrency = shared.plan.queues[name].concurrency;
        Self {
            shared,
            name,
            slots: Arc::new(Semaphore::new(concurrency.into())),
            in_hand: FuturesUnordered::new(),
            running: HashMap::new(),
            due: VecDeque::new(),
            prefetch: Prefetch::new(concurrency),
        }
    }

    async fn run(&mut self, consumer: &mut Consumer, stop: &CancellationToken) -> Result<()> {
        let mut free: Option<Slot> = None;
        loop {
            if free.is_some()
                && let Some(delivery) = self.due.pop_front()
            {
                free = self.take(delivery, free);
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some((id, finished)) = self.in_hand.next() => {
                    if let Some(prefetch) = self.finished(id, finished) {
                        consumer.set_prefetch(prefetch).await;
                    }
                }
                slot = Arc::clone(&self.slots).acquire_owned(), if free.is_none() => {
                    // The semaphore is never closed.
                    free = slot.ok().map(Arc::new);
                }
                item = consumer.next(), if free.is_some() => match item {
                    Some(delivery) => free = self.take(delivery?, free),
                    None => return Err(closed()),
                },
            }
        }
    }

    /// Runs a delivery, or holds it back while the same job runs; then the slot is
    /// still free.
    fn take(&mut self, delivery: Delivery, slot: Option<Slot>) -> Option<Slot> {
        let id = delivery.envelope.id;
        match self.running.entry(id) {
            Entry::Occupied(mut running) => {
                running.get_mut().held.push_back(delivery);
                slot
            }
            Entry::Vacant(running) => {
                let Some(slot) = slot else {
                    self.due.push_front(delivery);
                    return None;
                };
                running.insert(Running { likeness: likeness(&delivery), held: VecDeque::new() });
                let attempt = attempt(Arc::clone(&self.shared), self.name, delivery, slot);
                self.in_hand.push(Box::pin(async move { (id, attempt.await) }));
                None
            }
        }
    }

    /// Does what the end of an attempt asks for, and gives the new prefetch where it
    /// should change.
    fn finished(&mut self, id: JobId, finished: Finished) -> Option<u16> {
        let Running { likeness: ran, mut held } = self.running.remove(&id)?;
        if finished.stale {
            // The connection or the lease of the run was lost, so the same job came
            // again. Its outcome settles that delivery; running it would be a duplicate.
            if let Some(place) = held.iter().position(|delivery| likeness(delivery) == ran)
                && let Some(again) = held.remove(place)
            {
                let name = again.envelope.name.clone().unwrap_or_default();
                let who = Who::of(&again, name, self.name);
                let settlement = finished.settlement;
                self.running.insert(id, Running { likeness: ran, held });
                self.in_hand.push(Box::pin(async move {
                    let stale = settle(&who, again, settlement.clone()).await;
                    (id, Finished { settlement, stale, took: None })
                }));
                return None;
            }
        }
        self.due.extend(held);
        finished.took.and_then(|took| self.prefetch.measured(took))
    }

    /// Waits for what runs, for as long as the grace period lasts.
    async fn finish(mut self) {
        let held = self.running.values_mut().flat_map(|running| running.held.drain(..));
        for delivery in self.due.drain(..).chain(held) {
            // Stale means that it is handed back already.
            let _ = delivery.settle(Settlement::Release).await;
        }
        let halt = self.shared.halt.clone();
        let too_late = async {
            halt.cancelled().await;
            tokio::time::sleep(LAST_WORD).await;
        };
        tokio::select! {
            () = async { while self.in_hand.next().await.is_some() {} } => {}
            // What is dropped unsettled is handed back.
            () = too_late => {}
        }
    }
}

/// Equal for two deliveries of one attempt of one job.
fn likeness(delivery: &Delivery) -> u64 {
    let mut hasher = DefaultHasher::new();
    delivery.attempt.hash(&mut hasher);
    delivery.envelope.name.hash(&mut hasher);
    delivery.envelope.payload.hash(&mut hasher);
    delivery.envelope.enqueued_at.hash(&mut hasher);
    hasher.finish()
}
