//! One queue of a pool: takes its jobs and runs as many at once as it may.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Shared, likeness};
use super::attempts::{Attempts, Finished};
use super::gate::{Gate, Passed};
use super::health::Post;
use super::prefetch::Prefetch;
use crate::engine::{Consumer, Delivery, Settlement, closed};
use crate::error::{ErrorKind, Result};
use crate::job::JobId;
use crate::telemetry;

/// How long a pool whose grace period is over still waits for the engine to record the
/// outcomes that there are.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Between two tries to consume again.
const AGAIN: Duration = Duration::from_secs(1);

/// How many outcomes are kept that could not be recorded.
const MOST_UNRECORDED: usize = 10_000;
/// And for how long: a job that comes later may be one that was put back.
const REMEMBERED: Duration = Duration::from_secs(600);

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
        match queue.run(&mut consumer, &stop, &shared.gate).await {
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
        if error.kind() == ErrorKind::Closed {
            // What runs was handed back already, and nothing can be recorded any more.
            shared.halt.cancel();
        }
    }
    // What runs may end while the engine takes its time to stop.
    tokio::join!(consumer.stop(), queue.finish(&shared.halt));
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
        match shared.client.engine().consume(name, prefetch).await {
            Err(error) if error.may_pass() => {
                post.tries(&error);
                tracing::warn!(queue = name, %error, "not consuming yet");
                tokio::time::sleep(AGAIN).await;
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

struct Queue {
    concurrency: usize,
    attempts: Attempts,
    /// Deliveries that were held and are now to be run.
    due: VecDeque<Delivery>,
    /// The outcomes of runs that could not be recorded, since their delivery was not this
    /// pool's any more. The broker gives the job again, maybe after the run, and it has run.
    unrecorded: HashMap<(JobId, u64), (Settlement, Instant)>,
    prefetch: Prefetch,
}

impl Queue {
    fn new(shared: &Arc<Shared>, name: &'static str) -> Self {
        let concurrency = shared.plan.queues[name].concurrency;
        Self {
            concurrency: concurrency.into(),
            attempts: Attempts::new(Arc::clone(shared), name),
            due: VecDeque::new(),
            unrecorded: HashMap::new(),
            prefetch: Prefetch::new(concurrency),
        }
    }

    async fn run(
        &mut self,
        consumer: &mut Consumer,
        stop: &CancellationToken,
        gate: &Gate,
    ) -> Result<End> {
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut closing = std::pin::pin!(gate.closing());
        loop {
            while self.has_free_slot()
                && let Some(delivery) = self.due.pop_front()
            {
                self.take(delivery);
            }
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(End::Stop),
                () = &mut closing => return Ok(End::Rest),
                finished = self.attempts.next() => {
                    let mut prefetch = None;
                    // All that are over by now, so that one wake-up is for many.
                    let mut finished = finished.or_else(|| self.attempts.ready());
                    while let Some(one) = finished {
                        prefetch = self.finished(one).or(prefetch);
                        finished = self.attempts.ready();
                    }
                    if let Some(prefetch) = prefetch {
                        consumer.set_prefetch(prefetch).await;
                    }
                }
                item = consumer.next(), if self.has_free_slot() => {
                    self.take(item.ok_or_else(closed)??);
                    while self.has_free_slot()
                        && let Some(item) = consumer.ready()
                    {
                        self.take(item?);
                    }
                }
            }
        }
    }

    fn has_free_slot(&self) -> bool {
        self.attempts.busy() < self.concurrency
    }

    /// Takes nothing more, hands back what does not run yet, and lets the rest end.
    async fn rest(&mut self, consumer: &mut Consumer) {
        // What runs may end while the engine takes its time to stop.
        let mut stopping = std::pin::pin!(consumer.stop());
        let mut stopped = false;
        loop {
            for delivery in self.due.drain(..) {
                // Stale means that it is handed back already.
                let _ = delivery.settle(Settlement::Release).await;
            }
            tokio::select! {
                () = &mut stopping, if !stopped => stopped = true,
                finished = self.attempts.next(), if !self.attempts.is_empty() => {
                    if let Some(finished) = finished {
                        self.finished(finished);
                    }
                }
                else => return,
            }
        }
    }

    /// Runs a delivery in a free slot, or holds it while the same job runs, or settles it
    /// if it has run.
    fn take(&mut self, delivery: Delivery) {
        let Some(delivery) = self.attempts.hold(delivery) else {
            return;
        };
        match self.recorded(&delivery) {
            Some(settlement) => self.attempts.settle_again(delivery, settlement),
            None => self.attempts.start(delivery),
        }
    }

    /// Does what the end of an attempt asks for, and gives the new prefetch where it
    /// should change.
    fn finished(&mut self, finished: Finished) -> Option<u16> {
        match (finished.held, finished.stale) {
            (Some(again), Some(_)) => self.attempts.settle_again(again, finished.settlement),
            // The run was settled, so this is another job after all.
            (Some(another), None) => self.due.push_back(another),
            (None, Some(likeness)) => {
                self.remember(finished.id, likeness, finished.settlement);
            }
            (None, None) => {}
        }
        finished.took.and_then(|took| self.prefetch.measured(took))
    }

    /// Keeps the outcome of a run for when its job comes again: while every slot is taken,
    /// none is looked at. Another pool may get it, so not all are asked for.
    fn remember(&mut self, id: JobId, likeness: u64, settlement: Settlement) {
        // Of any other outcome the job's next life may be alike, and is to be run: one that
        // was snoozed, or that failed and was put back.
        if !matches!(settlement, Settlement::Complete | Settlement::Retry(_)) {
            return;
        }
        if self.unrecorded.len() >= MOST_UNRECORDED {
            self.unrecorded.clear();
        }
        self.unrecorded.insert((id, likeness), (settlement, Instant::now()));
    }

    /// The outcome of the run that this job had, if that could not be recorded.
    fn recorded(&mut self, delivery: &Delivery) -> Option<Settlement> {
        if self.unrecorded.is_empty() {
            return None;
        }
        let (settlement, since) =
            self.unrecorded.remove(&(delivery.envelope().id, likeness(delivery)))?;
        (since.elapsed() < REMEMBERED).then_some(settlement)
    }

    /// Waits for what runs, for as long as the grace period lasts.
    async fn finish(mut self, halt: &CancellationToken) {
        for delivery in self.due.drain(..).chain(self.attempts.take_held()) {
            // Stale means that it is handed back already.
            let _ = delivery.settle(Settlement::Release).await;
        }
        let too_late = async {
            halt.cancelled().await;
            tokio::time::sleep(LAST_WORD).await;
        };
        let all = async {
            while !self.attempts.is_empty() {
                self.attempts.next().await;
            }
        };
        tokio::select! {
            () = all => {}
            // What is dropped unsettled is handed back.
            () = too_late => {}
        }
    }
}
