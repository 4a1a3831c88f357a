//! One queue of a pool: takes its jobs and runs as many at once as it may.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, PollSemaphore};

use super::execution::{self, Settled, Slot};
use super::gate::Passed;
use super::health::Post;
use super::in_flight::{Admitted, Identity, InFlight};
use super::prefetch::Prefetch;
use super::shared::Shared;
use crate::engine::{Consumer, Delivery, Settlement, closed};
use crate::error::Result;
use crate::telemetry;

/// How long a pool whose shutdown timeout is over still waits for the engine to record the
/// outcomes that there are.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Between two tries to consume again.
const AGAIN: Duration = Duration::from_secs(1);

/// Consumes a queue until `stop` is cancelled, or the engine says that it cannot.
pub(crate) async fn consume(
    shared: Arc<Shared>,
    name: &'static str,
    mut consumer: Consumer,
    mut passed: Passed,
    post: Post,
    stop: CancellationToken,
) -> Result<()> {
    let mut queue = Queue::new(&shared, name);
    let ended = loop {
        match queue.run(&mut consumer, &stop).await {
            Ok(End::Rest) => {}
            Ok(End::Stop) => break Ok(()),
            Err(error) => break Err(error),
        }
        post.rests();
        queue.rest(&mut consumer).await;
        drop(passed);
        let prefetch = queue.prefetch.current();
        let again = async {
            let passed = shared.gate.pass().await;
            consume_again(&shared, name, prefetch, &post).await.map(|consumer| (passed, consumer))
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break Ok(()),
            again = again => match again {
                Ok(again) => {
                    (passed, consumer) = again;
                    post.consumes(&consumer);
                }
                Err(error) => break Err(error),
            },
        }
    };
    post.ended(&ended);
    if let Err(error) = &ended {
        telemetry::queue_stopped(name, error);
        if error.is_closed() {
            // What runs was handed back already, and nothing can be recorded any more.
            shared.halt.cancel();
        }
    }
    let too_late = async {
        shared.halt.cancelled().await;
        sleep(LAST_WORD).await;
    };
    tokio::select! {
        () = queue.rest(&mut consumer) => {}
        // What is dropped unsettled is handed back.
        () = too_late => {}
    }
    drop(queue);
    // The program may end when the pool does.
    let _ = tokio::time::timeout(LAST_WORD, consumer.settled()).await;
    ended
}

/// Takes jobs again, as soon as the engine lets it.
async fn consume_again(
    shared: &Shared,
    name: &'static str,
    prefetch: u16,
    post: &Post,
) -> Result<Consumer> {
    loop {
        match shared.resources.client.engine().consume(name, prefetch).await {
            Err(error) if error.may_pass() => {
                post.tries(&error);
                tracing::warn!(queue = name, %error, "not consuming yet");
                sleep(AGAIN).await;
            }
            consumed => return consumed,
        }
    }
}

/// Why a queue takes no more jobs.
enum End {
    /// The pool is shut down.
    Stop,
    /// A job is to be run alone.
    Rest,
}

/// An attempt, with its key among those in flight.
type Attempting = Pin<Box<dyn Future<Output = (usize, Settled)> + Send>>;

struct Queue {
    pool: Arc<Shared>,
    name: &'static str,
    /// What waits for a slot.
    waiting: VecDeque<Delivery>,
    slots: PollSemaphore,
    in_flight: InFlight<Delivery>,
    attempts: FuturesUnordered<Attempting>,
    prefetch: Prefetch,
}

impl Queue {
    fn new(pool: &Arc<Shared>, name: &'static str) -> Self {
        let concurrency = pool.plan.queues[name].concurrency;
        Self {
            pool: Arc::clone(pool),
            name,
            waiting: VecDeque::new(),
            slots: PollSemaphore::new(Arc::new(Semaphore::new(concurrency.into()))),
            in_flight: InFlight::default(),
            attempts: FuturesUnordered::new(),
            prefetch: Prefetch::new(concurrency),
        }
    }

    /// Takes jobs and runs them.
    async fn run(&mut self, consumer: &mut Consumer, stop: &CancellationToken) -> Result<End> {
        let pool = Arc::clone(&self.pool);
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut closing = std::pin::pin!(pool.gate.closing());
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(End::Stop),
                () = &mut closing => return Ok(End::Rest),
                Some(slot) = poll_fn(|cx| self.slots.poll_acquire(cx)), if !self.waiting.is_empty() => {
                    self.start_next(slot);
                }
                Some((key, settled)) = self.attempts.next() => {
                    let prefetch = settled.took.and_then(|took| self.prefetch.measured(took));
                    self.conclude(key, settled);
                    if let Some(prefetch) = prefetch {
                        consumer.set_prefetch(prefetch).await;
                    }
                }
                item = consumer.next() => {
                    let mut next = Some(item.ok_or_else(closed)?);
                    while let Some(item) = next {
                        if let Some(prefetch) = self.take(item?) {
                            consumer.set_prefetch(prefetch).await;
                        }
                        next = consumer.ready();
                    }
                }
            }
        }
    }

    /// Takes nothing more, hands back what does not run yet, and lets the rest end.
    async fn rest(&mut self, consumer: &mut Consumer) {
        let ending = async {
            loop {
                for delivery in self.waiting.drain(..) {
                    // Stale means that it is handed back already.
                    let _ = delivery.settle(Settlement::Release).await;
                }
                let Some((key, settled)) = self.attempts.next().await else { return };
                self.conclude(key, settled);
            }
        };
        // What runs may end while the engine takes its time to stop.
        tokio::join!(consumer.stop(), ending);
    }

    /// Has a delivery wait for a slot. Gives the new prefetch where it should change.
    fn take(&mut self, delivery: Delivery) -> Option<u16> {
        // Those of an epoch that has ended would add up while all slots are taken.
        while self.waiting.front().is_some_and(Delivery::is_stale) {
            self.waiting.pop_front();
        }
        let prefetch = self.prefetch.arrived(delivery.envelope().payload.len());
        self.waiting.push_back(delivery);
        prefetch
    }

    /// Starts the next delivery that is to run.
    fn start_next(&mut self, slot: Slot) {
        while let Some(delivery) = self.waiting.pop_front() {
            if delivery.is_stale() {
                // Running it would run the job twice.
                continue;
            }
            let identity = Identity::of(&delivery);
            match self.in_flight.admit(identity, delivery, Instant::now()) {
                Some(Admitted { key, delivery, outcome: None }) => {
                    let pool = Arc::clone(&self.pool);
                    let attempt = execution::attempt(pool, self.name, delivery, Some(slot));
                    self.attempts.push(Box::pin(async move { (key, attempt.await) }));
                    return;
                }
                Some(Admitted { key, delivery, outcome: Some(outcome) }) => {
                    self.settle_again(key, delivery, outcome);
                }
                None => {}
            }
        }
    }

    /// Settles the redelivery of a job whose outcome could not be recorded.
    fn settle_again(&self, key: usize, delivery: Delivery, outcome: Settlement) {
        let settling = execution::settle_again(self.name, delivery, outcome);
        self.attempts.push(Box::pin(async move { (key, settling.await) }));
    }

    /// Does what the end of an attempt asks for.
    fn conclude(&mut self, key: usize, settled: Settled) {
        let Settled { settlement, is_stale, .. } = settled;
        match self.in_flight.finish(key, settlement, is_stale, Instant::now()) {
            Some((held, Some(outcome))) => {
                let key = self.in_flight.insert(Identity::of(&held));
                self.settle_again(key, held, outcome);
            }
            Some((held, None)) => self.waiting.push_back(held),
            None => {}
        }
    }
}
