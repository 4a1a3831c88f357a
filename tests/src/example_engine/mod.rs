//! An engine in memory, against the public items of jobq alone: what somebody writes who wants
//! another store. It keeps all that the conformance suite asks for, and dies with its process.

mod consumer;
mod state;
mod topic;

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jobq::engine::{
    Administer, Capabilities, Consume, Consumer, Counts, Engine, NotPushed, Part, Pushed, Pushing,
    QueueSpec, Visit, Visited,
};
use jobq::{Envelope, Error, ErrorKind, EventEnvelope, Result};
use tokio::sync::watch;

use self::state::State;

/// The engine. Clones are the same one.
#[derive(Debug, Clone)]
pub struct ExampleEngine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Counts the changes, for consumers that wait.
    changes: watch::Sender<u64>,
}

impl Shared {
    /// Does something to the jobs, of which those that are due have been handed out, and wakes the
    /// consumers.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Error::new(ErrorKind::Closed, "the engine is closed"));
        }
        state.release_events(Instant::now());
        let changed = change(&mut state);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        changed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ExampleEngine {
    fn default() -> Self {
        let (state, changes) = (Mutex::default(), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { state, changes }) }
    }
}

#[async_trait]
impl Engine for ExampleEngine {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        self.shared.change(|state| {
            for queue in queues {
                state.declare(queue);
            }
            Ok(())
        })
    }

    fn push(&self, job: Envelope) -> Pushing {
        let pushed = self.shared.change(|state| state.push(job, Instant::now()));
        Box::pin(ready(pushed.map(|()| Pushed::new())))
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        let push = |job| self.shared.change(|state| state.push(job, Instant::now()));
        let results = jobs.enumerate().map(|(place, job)| (place, push(job)));
        results.filter_map(|(place, result)| Some((place, result.err()?))).collect()
    }

    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        self.shared.change(|state| state.publish(event, mandatory, Instant::now()))
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        consumer::start(&self.shared, what)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().solo().events()
    }

    fn administer(&self) -> Option<&dyn Administer> {
        Some(self)
    }

    async fn close(&self) {
        self.shared.state().is_closed = true;
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Administer for ExampleEngine {
    async fn counts(&self, queue: &str) -> Result<Counts> {
        self.shared.change(|state| Ok(state.counts(queue, Instant::now())))
    }

    async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        self.shared.change(|state| Ok(state.parts(queue, Instant::now())))
    }

    async fn failed_visit(&self, queue: &str, visit: Visit) -> Result<Visited> {
        let visited = self.shared.change(|state| Ok(state.visit(queue, visit, Instant::now())))?;
        match visited.end {
            Some(error) if visited.settled.is_empty() => Err(error),
            _ => Ok(visited),
        }
    }

    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()> {
        self.shared.change(|state| {
            state.unsubscribe(queue, pattern);
            Ok(())
        })
    }

    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64> {
        self.shared.change(|state| state.delete(&queue.name, force))
    }
}

/// A wait from this moment on, which is never over where it is too long for the clock.
fn after(now: Instant, wait: Duration) -> Option<Instant> {
    now.checked_add(wait)
}
