//! One queue of a pool: takes its jobs and runs as many at once as it may.

use std::collections::hash_map::DefaultHasher;
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
use crate::error::{ErrorKind, Result};
use crate::job::JobId;
use crate::telemetry::{self, Who};

/// How long a pool whose grace period is over still waits for the engine to record the
/// outcomes that there are.
const LAST_WORD: Duration = Duration::from_secs(5);

type InHand = FuturesUnordered<Pin<Box<dyn Future<Output = (Run, Finished)> + Send>>>;

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
        if error.kind() == ErrorKind::Closed {
            // What runs was handed back already, and nothing can be recorded any more.
            queue.shared.halt.cancel();
        }
    }
    // What runs may end while the engine takes its time to stop.
    tokio::join!(consumer.stop(), queue.finish());
    ended
}

struct Queue {
    shared: Arc<Shared>,
    name: &'static str,
    slots: Arc<Semaphore>,
    in_hand: InHand,
    /// The attempts that run now, by the ids of their jobs. An id is a label, so several
    /// jobs may have it.
    running: HashMap<JobId, Vec<Running>>,
    /// Deliveries that were held and are now to be run.
    due: VecDeque<Delivery>,
    prefetch: Prefetch,
    /// How many attempts there were.
    count: u64,
}

/// One attempt: its job and its number in this queue.
#[derive(Debug, Clone, Copy)]
struct Run {
    id: JobId,
    number: u64,
}

struct Running {
    number: u64,
    /// The life of the connection or the lease that it was delivered in.
    life: u64,
    likeness: u64,
    /// The same job, delivered again in another life. It is not run beside itself.
    held: Option<Delivery>,
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
            count: 0,
        }
    }

    async fn run(&mut self, consumer: &mut Consumer, stop: &CancellationToken) -> Result<()> {
        let mut free: Option<Slot> = None;
        loop {
            if free.is_some()
                && let Some(delivery) = self.due.pop_front()
            {
                self.take(delivery, &mut free);
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some((run, finished)) = self.in_hand.next() => {
                    if let Some(prefetch) = self.finished(run, finished) {
                        consumer.set_prefetch(prefetch).await;
                    }
                }
                slot = Arc::clone(&self.slots).acquire_owned(), if free.is_none() => {
                    // The semaphore is never closed.
                    free = slot.ok().map(Arc::new);
                }
                item = consumer.next(), if free.is_some() => match item {
                    Some(delivery) => self.take(delivery?, &mut free),
                    None => return Err(closed()),
                },
            }
        }
    }

    /// Runs a delivery in the free slot, or holds it while the same job runs.
    fn take(&mut self, delivery: Delivery, free: &mut Option<Slot>) {
        let (id, life, likeness) = (delivery.envelope.id, delivery.life(), likeness(&delivery));
        let running = self.running.entry(id).or_default();
        let itself = |run: &&mut Running| run.life != life && run.likeness == likeness;
        if let Some(run) = running.iter_mut().find(itself) {
            // One that was held before is stale by now: there is but one delivery of a job.
            run.held = Some(delivery);
            return;
        }
        let Some(slot) = free.take() else {
            return self.due.push_front(delivery);
        };
        self.count += 1;
        let run = Run { id, number: self.count };
        running.push(Running { number: run.number, life, likeness, held: None });
        let attempt = attempt(Arc::clone(&self.shared), self.name, delivery, slot);
        self.in_hand.push(Box::pin(async move { (run, attempt.await) }));
    }

    /// Does what the end of an attempt asks for, and gives the new prefetch where it
    /// should change.
    fn finished(&mut self, run: Run, finished: Finished) -> Option<u16> {
        let held = self.remove(run).and_then(|running| running.held);
        match held {
            Some(again) if finished.stale => {
                // The run could not be settled any more. Its outcome settles the job that
                // came again; running that would be a duplicate.
                let (life, likeness) = (again.life(), likeness(&again));
                let running = Running { number: run.number, life, likeness, held: None };
                self.running.entry(run.id).or_default().push(running);
                let name = again.envelope.name.clone().unwrap_or_default();
                let who = Who::of(&again, name, self.name);
                let settlement = finished.settlement;
                self.in_hand.push(Box::pin(async move {
                    let stale = settle(&who, again, settlement.clone()).await;
                    (run, Finished { settlement, stale, took: None })
                }));
            }
            // The run was settled, so this is another job after all.
            Some(another) => self.due.push_back(another),
            None => {}
        }
        finished.took.and_then(|took| self.prefetch.measured(took))
    }

    fn remove(&mut self, run: Run) -> Option<Running> {
        let running = self.running.get_mut(&run.id)?;
        let place = running.iter().position(|running| running.number == run.number)?;
        let removed = running.swap_remove(place);
        if running.is_empty() {
            self.running.remove(&run.id);
        }
        Some(removed)
    }

    /// Waits for what runs, for as long as the grace period lasts.
    async fn finish(mut self) {
        let held = self.running.values_mut().flatten().filter_map(|running| running.held.take());
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
