//! Solo runs: jobs that may crash their worker run alone, so that they crash no other job and the
//! cause of a crash is known.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::decision;
use super::health::Status;
use super::in_flight::{Identity, REMEMBERED};
use super::queue::{Queue, Settled};
use super::shared::Shared;
use super::solo_lock::Locked;
use crate::engine::{Consumer, Delivery, Settlement, closed};
use crate::error::Result;
use crate::job::FailedReason;
use crate::retry;
use crate::telemetry;

/// How long to wait for another such job before the queues go on.
const NEXT_WAIT: Duration = Duration::from_millis(100);
/// How long to wait for a job whose start was recorded.
const START_WAIT: Duration = Duration::from_secs(10);
/// The most outcomes that are kept for redeliveries: one for each lost connection.
const MAX_UNRECORDED: usize = 16;

/// Runs the solo jobs of a queue until the pool takes no more or the engine fails for good.
pub(crate) async fn consume(
    queue: Arc<Queue>,
    mut consumer: Consumer,
    status: Status,
) -> Result<()> {
    let (shared, name) = (&queue.pool, queue.name);
    let mut runner = SoloRunner { queue: &queue, shared, unrecorded: Vec::new() };
    let run = async {
        let ended = runner.run(&mut consumer, &status).await;
        match &ended {
            Ok(()) if !shared.stop.is_cancelled() => status.set_quiet(),
            _ => status.set_ended(&ended),
        }
        if let Err(error) = &ended {
            telemetry::queue_stopped(name, error);
        }
        consumer.stop().await;
        ended
    };
    let ended = tokio::select! {
        ended = run => ended,
        () = shared.too_late() => {
            status.set_ended(&Ok(()));
            Ok(())
        }
    };
    shared.settled(&consumer, name).await;
    ended
}

struct SoloRunner<'s> {
    queue: &'s Arc<Queue>,
    shared: &'s Arc<Shared>,
    /// The newest outcomes of attempts that could not be recorded because the connection was lost.
    /// The jobs are delivered again, although they have run.
    unrecorded: Vec<(Identity, Settlement, Instant)>,
}

impl SoloRunner<'_> {
    async fn run(&mut self, consumer: &mut Consumer, status: &Status) -> Result<()> {
        let mut pauses = consumer.pauses();
        loop {
            let pause = pauses.borrow_and_update().clone();
            match &pause {
                Some(pause) => status.set_paused(pause),
                None => status.set_consuming(consumer),
            }
            let first = tokio::select! {
                biased;
                () = self.shared.enough.cancelled() => return Ok(()),
                Ok(()) = pauses.changed() => continue,
                item = consumer.next() => item.ok_or_else(closed)??,
            };
            if pause.is_some() {
                self.settle_unrun(first, Settlement::Release).await;
            } else {
                self.run_all(first, consumer).await?;
            }
        }
    }

    /// Runs a job and those that follow closely, while the queues rest.
    async fn run_all(&mut self, first: Delivery, consumer: &mut Consumer) -> Result<()> {
        let pauses = consumer.pauses();
        let mut alone: Option<Locked<'_>> = None;
        let mut waiting = VecDeque::from([first]);
        loop {
            let next = match waiting.pop_front() {
                Some(delivery) => delivery,
                None => match tokio::time::timeout(NEXT_WAIT, consumer.next()).await {
                    Ok(item) => item.ok_or_else(closed)??,
                    Err(_) => return Ok(()),
                },
            };
            self.verify(&next).await;
            if next.is_stale() {
                continue;
            }
            if let Some(outcome) = self.decided(&next) {
                self.queue.settle_outside(next, outcome).await;
                continue;
            }
            if let Some(unmet) = decision::unmet_need(&next) {
                self.queue.settle_decided(next, unmet).await;
                continue;
            }
            if let Some(poison) = poison(&next) {
                self.settle_unrun(next, poison).await;
                continue;
            }
            if alone.is_none() {
                alone = tokio::select! {
                    biased;
                    // Dropping the job releases it.
                    () = self.shared.enough.cancelled() => return Ok(()),
                    closed = self.shared.solo_lock.lock() => Some(closed),
                };
            }
            let Some(delivery) = self.start(next, consumer, &mut waiting).await? else {
                continue;
            };
            self.verify(&delivery).await;
            if delivery.is_stale() {
                continue;
            }
            if self.shared.enough.is_cancelled() || pauses.borrow().is_some() {
                // Released explicitly, which undoes the start.
                self.settle_unrun(delivery, Settlement::Release).await;
                return Ok(());
            }
            self.attempt(delivery).await;
        }
    }

    /// Records the start of a job, and returns its delivery to run. Others that come before it are
    /// queued in `waiting`.
    async fn start(
        &mut self,
        delivery: Delivery,
        consumer: &mut Consumer,
        waiting: &mut VecDeque<Delivery>,
    ) -> Result<Option<Delivery>> {
        if is_started(&delivery) {
            return Ok(Some(delivery));
        }
        if self.settle_unrun(delivery, Settlement::Start).await {
            return Ok(None);
        }
        let deadline = Instant::now() + START_WAIT;
        while let Ok(item) = tokio::time::timeout_at(deadline, consumer.next()).await {
            let delivery = item.ok_or_else(closed)??;
            if is_started(&delivery) {
                return Ok(Some(delivery));
            }
            waiting.push_back(delivery);
        }
        Ok(None)
    }

    /// The outcome of a job that has run already.
    fn decided(&mut self, delivery: &Delivery) -> Option<Settlement> {
        let identity = Identity::of(delivery);
        self.unrecorded.retain(|(_, _, since)| since.elapsed() < REMEMBERED);
        let is_same = |(attempt, ..): &(Identity, _, _)| attempt.is_redelivered_as(&identity);
        let place = self.unrecorded.iter().position(is_same)?;
        Some(self.unrecorded.remove(place).1)
    }

    /// Waits until it is known whether the delivery is still this pool's, or the pool takes no more.
    async fn verify(&self, delivery: &Delivery) {
        if let Some(verification) = delivery.verification() {
            tokio::select! {
                () = verification => {}
                () = self.shared.enough.cancelled() => {}
            }
        }
    }

    /// Settles a delivery without running it; `true` if it was stale.
    async fn settle_unrun(&self, delivery: Delivery, settlement: Settlement) -> bool {
        self.queue.settle_unrun(delivery, settlement).await.is_stale
    }

    async fn attempt(&mut self, delivery: Delivery) {
        let identity = Identity::of(&delivery);
        let Settled { settlement, is_stale } = self.queue.run_alone(delivery).await;
        if is_stale {
            if self.unrecorded.len() == MAX_UNRECORDED {
                self.unrecorded.remove(0);
            }
            self.unrecorded.push((identity, settlement, Instant::now()));
        }
    }
}

/// The settlement of a job that must not run again.
fn poison(delivery: &Delivery) -> Option<Settlement> {
    let starts = delivery.solo?.starts;
    (!is_started(delivery) && retry::is_poison(starts)).then(|| Settlement::Fail {
        reason: FailedReason::Poison,
        error: format!("it ran alone {starts} times, and its worker died each time"),
        attempts: delivery.attempt,
    })
}

fn is_started(delivery: &Delivery) -> bool {
    delivery.solo.is_some_and(|solo| solo.started)
}
