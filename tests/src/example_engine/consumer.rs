//! Taking jobs and settling them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use jobq::engine::{Consume, Consumer, Delivery, Intake, Receipt, Settle, Settlement, Solo};
use jobq::{Envelope, Error, ErrorKind, Result};
use tokio::sync::{mpsc, watch};

use super::Shared;

/// Starts a task that brings the jobs of a queue to a consumer.
pub(super) fn start(shared: &Arc<Shared>, what: Consume) -> Result<Consumer> {
    let number = shared.change(|state| {
        state.check_queue(what.queue.as_str())?;
        let number = state.number();
        state.consumers.insert(number, what.queue.as_str());
        Ok(number)
    })?;
    let (deliveries, received) = mpsc::unbounded_channel();
    let prefetch = watch::Sender::new(usize::from(what.prefetch.max(1)));
    let feed = Feed {
        shared: Arc::clone(shared),
        what,
        number,
        in_hand: Arc::default(),
        prefetch: prefetch.subscribe(),
        deliveries,
    };
    tokio::spawn(feed.run());
    Ok(Consumer::new(received, Box::new(Control { prefetch })))
}

/// Dropped, it stops the task.
#[derive(Debug)]
struct Control {
    prefetch: watch::Sender<usize>,
}

#[async_trait]
impl Intake for Control {
    async fn set_prefetch(&self, prefetch: u16) {
        self.prefetch.send_replace(usize::from(prefetch));
    }

    async fn stop(&self) {
        self.prefetch.send_replace(0);
        // The task ends, and with it its receiver.
        self.prefetch.closed().await;
    }
}

struct Feed {
    shared: Arc<Shared>,
    what: Consume,
    number: u64,
    in_hand: Arc<AtomicUsize>,
    /// 0 to stop.
    prefetch: watch::Receiver<usize>,
    deliveries: mpsc::UnboundedSender<Result<Delivery>>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.state().consumers.remove(&self.number);
    }
}

impl Feed {
    async fn run(mut self) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let most = *self.prefetch.borrow_and_update();
            if most == 0 || self.shared.state().is_closed {
                return;
            }
            let ControlFlow::Continue(next_due) = self.claim(most) else { return };
            let due = async {
                match next_due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => {}
                kept = self.prefetch.changed() => if kept.is_err() { return },
                () = due => {}
            }
        }
    }

    /// Takes what is due and there is room for, and says when the next one is due. It ends where
    /// the consumer was dropped.
    fn claim(&self, most: usize) -> ControlFlow<(), Option<Instant>> {
        let (queue, now) = (self.what.queue.as_str(), Instant::now());
        let mut state = self.shared.state();
        state.release_events(now);
        while self.in_hand.load(Ordering::SeqCst) < most
            && let Some(job) = state.claim(queue, self.number, self.what.solo, now)
        {
            let started = job.started_by == Some(self.number);
            let receipt = ExampleReceipt {
                shared: Arc::clone(&self.shared),
                in_hand: Arc::clone(&self.in_hand),
                place: (queue, job.number),
                envelope: Arc::new(job.envelope.clone()),
                is_open: true,
            };
            self.in_hand.fetch_add(1, Ordering::SeqCst);
            let attempt = job.envelope.attempts.saturating_add(1);
            let mut delivery = Delivery::new(attempt, Box::new(receipt)).due_at(Some(job.due_at));
            if let Some(starts) = job.starts {
                delivery = delivery.alone(Solo::new(starts, started));
            }
            drop(state);
            // A delivery that nobody receives is dropped, and hands itself back.
            if self.deliveries.send(Ok(delivery)).is_err() {
                return ControlFlow::Break(());
            }
            state = self.shared.state();
        }
        ControlFlow::Continue(state.next_due(queue, now))
    }
}

#[derive(Debug)]
struct ExampleReceipt {
    shared: Arc<Shared>,
    in_hand: Arc<AtomicUsize>,
    place: (&'static str, u64),
    envelope: Arc<Envelope>,
    is_open: bool,
}

impl ExampleReceipt {
    fn record(&mut self, settlement: Settlement) -> Result<()> {
        self.is_open = false;
        self.in_hand.fetch_sub(1, Ordering::SeqCst);
        self.shared.change(|state| state.settle(self.place, settlement, Instant::now()))
    }
}

#[async_trait]
impl Receipt for ExampleReceipt {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    async fn settle(mut self: Box<Self>, settle: Settle) -> Result<()> {
        self.record(settle.settlement).map_err(|error| match error.kind() {
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

impl Drop for ExampleReceipt {
    fn drop(&mut self) {
        if self.is_open {
            // A closed engine has no jobs to hand back to.
            let _ = self.record(Settlement::Release);
        }
    }
}
