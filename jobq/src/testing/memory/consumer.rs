//! Consumers of an engine in memory, for worker pools.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use super::Shared;
use super::control::taker_name;
use super::state::Job;
use crate::background;
use crate::engine::{
    Consume, Consumer, Delivery, Intake, Pause, Receipt, Settle, Settlement, Solo,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Envelope;

/// Starts a task that forwards the jobs of a queue to a consumer.
pub(super) fn start(shared: &Arc<Shared>, what: Consume) -> Result<Consumer> {
    let (number, pauses, has_priorities) = shared.change(|state| {
        let queue = what.queue.as_str();
        state.check_queue(queue)?;
        let number = state.number();
        state.control.add_taker(number, queue, what.pool);
        Ok((number, state.control.pauses(queue), state.has_priorities(queue)))
    })?;
    let shared = Arc::clone(shared);
    let (deliveries, received) = mpsc::unbounded_channel();
    let prefetch = watch::Sender::new(Some(usize::from(what.prefetch)));
    let feed = Feed {
        shared: Arc::clone(&shared),
        what,
        number,
        in_flight: Arc::default(),
        prefetch: prefetch.subscribe(),
        deliveries,
    };
    background::handle()?.spawn(feed.run());
    let control = Control { shared, number, prefetch, pauses, has_priorities };
    Ok(Consumer::new(received, Box::new(control)))
}

/// Dropping it stops the task.
#[derive(Debug)]
struct Control {
    shared: Arc<Shared>,
    number: u64,
    prefetch: watch::Sender<Option<usize>>,
    pauses: watch::Receiver<Option<Pause>>,
    has_priorities: bool,
}

impl Control {
    fn leave(&self) {
        self.shared.state().control.remove_taker(self.number);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.leave();
    }
}

#[async_trait]
impl Intake for Control {
    async fn set_prefetch(&self, prefetch: u16) {
        self.prefetch.send_replace(Some(usize::from(prefetch)));
    }

    async fn stop(&self) {
        self.prefetch.send_replace(None);
        // The task ends, and with it its receiver.
        self.prefetch.closed().await;
        self.leave();
    }

    fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.pauses.clone()
    }

    fn names(&self) -> Vec<String> {
        match *self.pauses.borrow() {
            Some(_) => Vec::new(),
            None => vec![taker_name(self.number)],
        }
    }

    fn has_priorities(&self) -> bool {
        self.has_priorities
    }
}

/// The numbers of deliveries of each priority that are in flight.
pub(super) type InFlight = [AtomicUsize; 3];

/// Forwards the jobs of one queue to their consumer.
struct Feed {
    shared: Arc<Shared>,
    what: Consume,
    number: u64,
    in_flight: Arc<InFlight>,
    /// `None` to stop.
    prefetch: watch::Receiver<Option<usize>>,
    deliveries: mpsc::UnboundedSender<Result<Delivery>>,
}

impl Feed {
    async fn run(mut self) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let is_stopped = self.prefetch.borrow_and_update().is_none();
            if is_stopped || self.shared.state().is_closed {
                return;
            }
            let ControlFlow::Continue(next_due) = self.claim() else { return };
            let due = async {
                match next_due {
                    Some(due) => self.shared.clock.reached(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => {}
                kept = self.prefetch.changed() => if kept.is_err() { return },
                () = due => {}
            }
        }
    }

    /// Whether there is room for a job of each priority.
    fn has_room(&self) -> [bool; 3] {
        let prefetch = *self.prefetch.borrow();
        self.in_flight.each_ref().map(|count| Some(count.load(Ordering::SeqCst)) < prefetch)
    }

    /// Claims due jobs up to the prefetch, and returns the next time that is not due yet. Breaks if
    /// the consumer was dropped.
    fn claim(&self) -> ControlFlow<(), Option<SystemTime>> {
        let Consume { queue, solo, only_job, .. } = self.what;
        let is_there = |job: &Envelope| job.queue == queue.as_str();
        // Before the claims: a job that falls due during them is waited for.
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        state.deliver_events();
        loop {
            // One look for a claim: a job that is settled meanwhile must not make room for a later one.
            let has_room = self.has_room();
            if !has_room.contains(&true) {
                break;
            }
            let wanted = |job: &Job| is_there(&job.envelope) && has_room[job.priority.rank()];
            let Some(job) = state.claim(self.number, solo, wanted) else { break };
            if let Some(only_job) = only_job.filter(|_| job.envelope.name.is_none()) {
                Arc::make_mut(&mut job.envelope).name = Some(only_job.into());
            }
            let mut delivery = delivery(&self.shared, job, &self.in_flight);
            delivery.solo =
                job.starts.map(|starts| Solo::new(starts, job.started_by == Some(self.number)));
            drop(state);
            // A delivery that nobody receives is dropped, and handed back.
            if self.deliveries.send(Ok(delivery)).is_err() {
                return ControlFlow::Break(());
            }
            state = self.shared.state();
        }
        ControlFlow::Continue(state.due_times(is_there).filter(|due| *due > now).min())
    }
}

/// The delivery of a claimed job, which is counted as in flight.
pub(super) fn delivery(shared: &Arc<Shared>, job: &Job, in_flight: &Arc<InFlight>) -> Delivery {
    in_flight[job.envelope.priority().rank()].fetch_add(1, Ordering::SeqCst);
    let (shared, in_flight) = (Arc::clone(shared), Arc::clone(in_flight));
    let (number, envelope) = (job.number, Arc::clone(&job.envelope));
    let receipt = MemoryReceipt { shared, number, envelope, in_flight, open: true };
    let attempt = job.envelope.attempts.saturating_add(1);
    Delivery::new(attempt, Box::new(receipt)).due_at(job.due).crashed(job.crashes)
}

/// The settlement handle of one delivery.
#[derive(Debug)]
struct MemoryReceipt {
    shared: Arc<Shared>,
    number: u64,
    envelope: Arc<Envelope>,
    in_flight: Arc<InFlight>,
    open: bool,
}

impl MemoryReceipt {
    fn record(&mut self, settle: Settle) -> Result<()> {
        self.open = false;
        self.in_flight[self.envelope.priority().rank()].fetch_sub(1, Ordering::SeqCst);
        self.shared.change(|state| state.settle(self.number, settle))
    }
}

#[async_trait]
impl Receipt for MemoryReceipt {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    async fn settle(mut self: Box<Self>, settle: Settle) -> Result<()> {
        self.record(settle).map_err(|error| match error.kind() {
            ErrorKind::Closed => Error::new(ErrorKind::Stale, "the engine was closed"),
            _ => error,
        })
    }

    fn is_stale(&self) -> bool {
        self.shared.state().is_closed
    }

    fn epoch(&self) -> u64 {
        1
    }
}

impl Drop for MemoryReceipt {
    fn drop(&mut self) {
        if self.open {
            // A closed engine has no queue to hand it back to.
            let _ = self.record(Settle::new(0, Settlement::Release));
        }
    }
}
