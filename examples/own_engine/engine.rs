//! An engine that keeps jobs in a list. It moves jobs, and has neither events, solo runs nor an
//! administration. `jobq::engine` documents the traits, and `jobq::engine::conformance` has the
//! tests that an engine passes.

use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use jobq::engine::{
    Capabilities, Consume, Consumer, Delivery, Engine, Envelope, EventEnvelope, Intake, NotPushed,
    Pushed, Pushing, QueueSpec, Receipt, Settle, Settlement,
};
use jobq::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, watch};

/// The engine. Clones share their jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct List(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the consumers.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    queues: BTreeSet<String>,
    jobs: Vec<Job>,
    /// The number of the last job or consumer.
    last: u64,
}

#[derive(Debug)]
struct Job {
    number: u64,
    /// `None` if the wait is too long for the clock.
    due: Option<SystemTime>,
    envelope: Arc<Envelope>,
    /// The consumer that has it.
    taken_by: Option<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the jobs and wakes the consumers.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Error::new(ErrorKind::Closed, "the engine is closed"));
        }
        let changed = change(&mut state);
        drop(state);
        self.changes.send_replace(());
        changed
    }

    fn push(&self, mut job: Envelope) -> Result<()> {
        self.change(|state| {
            state.check(&job.queue)?;
            let due = SystemTime::now().checked_add(std::mem::take(&mut job.delay));
            let (number, envelope) = (state.number(), Arc::new(job));
            state.jobs.push(Job { number, due, envelope, taken_by: None });
            Ok(())
        })
    }

    fn settle(&self, number: u64, settlement: &Settlement) -> Result<()> {
        self.change(|state| {
            let place = state.jobs.iter().position(|job| job.number == number);
            let Some(place) = place else { return Ok(()) };
            let job = &mut state.jobs[place];
            let due = |wait: Duration| SystemTime::now().checked_add(wait);
            job.taken_by = None;
            match settlement {
                // Nobody could look at failed jobs.
                Settlement::Complete | Settlement::Fail { .. } => drop(state.jobs.remove(place)),
                Settlement::Retry(wait) => {
                    Arc::make_mut(&mut job.envelope).attempts += 1;
                    job.due = due(*wait);
                }
                Settlement::Snooze(wait) => job.due = due(*wait),
                _ => {}
            }
            Ok(())
        })
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn check(&self, queue: &str) -> Result<()> {
        if self.queues.contains(queue) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, format!("there is no queue `{queue}`")))
    }

    /// The next job of a queue, due or not.
    fn next(&mut self, queue: &str) -> Option<&mut Job> {
        let free = self.jobs.iter_mut().filter(|job| job.taken_by.is_none() && job.due.is_some());
        free.filter(|job| job.envelope.queue == queue).min_by_key(|job| (job.due, job.number))
    }

    fn in_hand_of(&self, consumer: u64) -> usize {
        self.jobs.iter().filter(|job| job.taken_by == Some(consumer)).count()
    }
}

#[async_trait]
impl Engine for List {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        self.0.change(|state| {
            state.queues.extend(queues.iter().map(|queue| queue.name.clone()));
            Ok(())
        })
    }

    fn push(&self, job: Envelope) -> Pushing {
        Box::pin(ready(self.0.push(job).map(|()| Pushed::new())))
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        let pushed = jobs.map(|job| self.0.push(job)).enumerate();
        pushed.filter_map(|(place, pushed)| Some((place, pushed.err()?))).collect()
    }

    async fn publish(&self, _: EventEnvelope, _: bool) -> Result<()> {
        // Not called without `Capabilities::events`.
        Err(Error::new(ErrorKind::Unsupported, "this engine has no events"))
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        let queue = what.queue.as_str();
        let number = self.0.change(|state| state.check(queue).map(|()| state.number()))?;
        let (deliveries, received) = mpsc::unbounded_channel();
        let prefetch = watch::Sender::new(Some(usize::from(what.prefetch)));
        let (engine, taken) = (self.clone(), prefetch.subscribe());
        tokio::spawn(Feed { engine, queue, number, prefetch: taken, deliveries }.run());
        Ok(Consumer::new(received, Box::new(Control(prefetch))))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().largest_payload(1 << 20)
    }

    async fn close(&self) {
        self.0.state().is_closed = true;
        self.0.changes.send_replace(());
    }
}

/// The prefetch of a consumer, `None` to stop. The consumer also stops when it is dropped.
#[derive(Debug)]
struct Control(watch::Sender<Option<usize>>);

#[async_trait]
impl Intake for Control {
    async fn set_prefetch(&self, prefetch: u16) {
        self.0.send_replace(Some(usize::from(prefetch)));
    }

    async fn stop(&self) {
        self.0.send_replace(None);
        // The end of the task.
        self.0.closed().await;
    }
}

/// Brings the jobs of a queue to a consumer.
struct Feed {
    engine: List,
    queue: &'static str,
    number: u64,
    prefetch: watch::Receiver<Option<usize>>,
    deliveries: mpsc::UnboundedSender<Result<Delivery>>,
}

impl Feed {
    async fn run(mut self) {
        let mut changes = self.engine.0.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let is_stopped = self.prefetch.borrow_and_update().is_none();
            let is_over = is_stopped || self.engine.0.state().is_closed;
            if is_over || self.deliveries.is_closed() {
                return;
            }
            let due = self.deliver();
            let due = async {
                match due {
                    Some(due) => {
                        let left = due.duration_since(SystemTime::now());
                        tokio::time::sleep(left.unwrap_or_default()).await;
                    }
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

    /// Delivers jobs up to the prefetch, and returns the time of the next one.
    fn deliver(&self) -> Option<SystemTime> {
        loop {
            let mut state = self.engine.0.state();
            if Some(state.in_hand_of(self.number)) >= *self.prefetch.borrow() {
                return None;
            }
            let job = state.next(self.queue)?;
            if job.due > Some(SystemTime::now()) {
                return job.due;
            }
            job.taken_by = Some(self.number);
            let (engine, envelope) = (self.engine.clone(), Arc::clone(&job.envelope));
            let (number, due, attempt) = (job.number, job.due, envelope.attempts + 1);
            drop(state);
            let receipt = InHand { engine, number, envelope, is_settled: false };
            let delivery = Delivery::new(attempt, Box::new(receipt)).due_at(due);
            // A delivery that nobody receives is dropped, and hands itself back.
            self.deliveries.send(Ok(delivery)).ok()?;
        }
    }
}

/// A job that was delivered.
#[derive(Debug)]
struct InHand {
    engine: List,
    number: u64,
    envelope: Arc<Envelope>,
    is_settled: bool,
}

impl InHand {
    fn record(&mut self, settlement: &Settlement) -> Result<()> {
        self.is_settled = true;
        self.engine.0.settle(self.number, settlement)
    }
}

#[async_trait]
impl Receipt for InHand {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    async fn settle(mut self: Box<Self>, settle: Settle) -> Result<()> {
        self.record(&settle.settlement)
    }

    fn is_stale(&self) -> bool {
        self.engine.0.state().is_closed
    }

    fn epoch(&self) -> u64 {
        1
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        if !self.is_settled {
            // A closed engine has no queue to hand it back to.
            let _ = self.record(&Settlement::Release);
        }
    }
}
