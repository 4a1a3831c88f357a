//! An engine in the memory of the process, on a clock that a test can move.
//!
//! The state is behind one mutex, and each call is ready at once.

mod consumer;
mod control;
mod history;
mod seats;
mod state;

use std::future::ready;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use async_trait::async_trait;
use tokio::sync::watch;

use self::state::State;
pub(crate) use self::state::Unclaimed;
use crate::clock::Clock;
use crate::engine::{
    Administer, Answers, Ask, Capabilities, Consume, Consumer, Controlled, Counts, Delivery,
    Engine, Figure, Membership, NotPushed, Part, Pause, Pushed, Pushing, QueueNames, QueueSpec,
    Seats, Visit, Visited, Visiting,
};
use crate::error::Result;
use crate::guard::lock;
use crate::job::{Envelope, EventEnvelope, FailedJob, JobId};
use crate::testing::expect::Record;

/// An [`Engine`] in memory, for tests. Clones share their jobs. It keeps a history of all jobs and
/// events, so it grows for as long as it lives.
///
/// ```
/// use std::sync::Arc;
///
/// use jobq::testing::Memory;
/// use jobq::{Client, Clock};
///
/// let client = Client::with_engine(Arc::new(Memory::new(Clock::system())), "jobq");
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// Counts the changes, for waiting consumers.
    changes: watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the state after the delivery of due events, and wakes the consumers.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        state.check_open()?;
        state.deliver_events();
        let changed = change(&mut state);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        changed
    }
}

/// The owner of jobs that the test kit claims. Consumers have higher numbers.
const TEST_KIT: u64 = 0;

impl Memory {
    /// An engine without jobs on this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let (state, changes) = (Mutex::new(State::new(clock.clone())), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { state, clock, changes }) }
    }

    /// Claims the next due job that is wanted.
    pub(crate) fn claim(&self, wanted: impl Fn(&Envelope) -> bool) -> Option<Delivery> {
        let mut state = self.shared.state();
        state.deliver_events();
        let job = state.claim(TEST_KIT, false, |job| wanted(&job.envelope))?;
        Some(consumer::delivery(&self.shared, job, &Arc::default()))
    }

    /// Claims the oldest job with this id, if it is due.
    pub(crate) fn claim_id(&self, id: JobId) -> Result<Delivery, Unclaimed> {
        let mut state = self.shared.state();
        state.deliver_events();
        let job = state.claim_id(TEST_KIT, id)?;
        Ok(consumer::delivery(&self.shared, job, &Arc::default()))
    }

    /// Hands back a job that was claimed by its id as if its worker had died after the attempt.
    pub(crate) fn crash(&self, delivery: Delivery) {
        let (id, attempt) = (delivery.envelope().id, delivery.attempt);
        drop(delivery);
        self.shared.state().crashed(id, attempt);
    }

    /// The due time of the next free job that is wanted, or of the next event.
    pub(crate) fn next_due(&self, wanted: impl Fn(&Envelope) -> bool) -> Option<SystemTime> {
        self.shared.state().due_times(wanted).min()
    }

    /// Remembers where the job or event with this id is enqueued next.
    pub(crate) fn expect(&self, id: JobId, place: &'static Location<'static>) {
        self.shared.state().history.places.insert(id, place);
    }

    /// All jobs, by these names, and events since the start, in order.
    pub(crate) fn record(&self, name_of: impl Fn(&Envelope) -> &str) -> Record {
        let state = self.shared.state();
        let jobs = state.history.jobs.iter().map(|job| job.entry(name_of(&job.envelope)));
        let events = state.history.events.iter().map(|(_, event)| event.clone());
        Record { now: state.clock.now(), jobs: jobs.collect(), events: events.collect() }
    }

    /// The failed jobs of a queue, the oldest first.
    pub(crate) fn failed(&self, queue: &str) -> Vec<FailedJob> {
        self.shared.state().failed(queue).to_vec()
    }
}

#[async_trait]
impl Engine for Memory {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        self.shared.change(|state| {
            for queue in queues {
                state.declare(queue);
            }
            Ok(())
        })
    }

    fn push(&self, job: Envelope) -> Pushing {
        let pushed = self.shared.change(|state| state.push(job));
        Box::pin(ready(pushed.map(|()| Pushed::new())))
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        let push = |job| self.shared.change(|state| state.push(job));
        let results = jobs.enumerate().map(|(place, job)| (place, push(job)));
        results.filter_map(|(place, result)| Some((place, result.err()?))).collect()
    }

    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        self.shared.change(|state| state.publish(event, mandatory))
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        consumer::start(&self.shared, what)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().solo().events()
    }

    fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    fn administer(&self) -> Option<&dyn Administer> {
        Some(self)
    }

    fn seats(&self) -> Option<&dyn Seats> {
        Some(self)
    }

    async fn close(&self) {
        self.shared.state().is_closed = true;
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Administer for Memory {
    async fn counts(&self, queue: &str) -> Result<Counts> {
        self.shared.change(|state| Ok(state.counts(queue)))
    }

    async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        self.shared.change(|state| Ok(state.parts(queue)))
    }

    async fn failed_visit(&self, queue: &str, visit: Visit) -> Result<Visited> {
        let mut visiting = Visiting::new(visit);
        self.shared.change(|state| {
            state.visit(queue, &mut visiting);
            Ok(())
        })?;
        visiting.result()
    }

    async fn queues(&self) -> Result<QueueNames> {
        self.shared.change(|state| Ok(QueueNames::new(state.names(), vec!["client"], true)))
    }

    async fn pause(&self, queue: &str, pause: &Pause) -> Result<()> {
        self.shared.change(|state| {
            state.control.set_pause(queue, Some(pause.clone()));
            Ok(())
        })
    }

    async fn resume(&self, queue: &str) -> Result<bool> {
        self.shared.change(|state| Ok(state.control.set_pause(queue, None).is_some()))
    }

    async fn paused(&self, queue: &str) -> Result<Figure<Option<Pause>>> {
        self.shared.change(|state| Ok(Figure::Known(state.control.pauses(queue).borrow().clone())))
    }

    async fn join(&self, pool: Arc<dyn Controlled>) -> Result<Membership> {
        control::join(&self.shared, pool)
    }

    async fn ask(&self, ask: Ask) -> Result<Answers> {
        control::ask(&self.shared, ask).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::engine::Settlement;
    use crate::engine::conformance::{EngineExt as _, soon};

    #[tokio::test]
    async fn a_delayed_event_says_when_it_is_due() {
        let engine = Arc::new(Memory::new(Clock::system()));
        engine.declare(&[QueueSpec::new("mail").patterns(["user.*"])]).await.unwrap();
        let mut consumer = engine.consume_from("mail", 1).await.unwrap();
        let client = Client::with_engine(engine, "jobq");
        for (delay, is_stated) in [("0s", false), ("10ms", true)] {
            client.publish("user.created", &7).delay(delay).await.unwrap();
            let delivery = soon("the event", consumer.next()).await.unwrap().unwrap();
            assert_eq!(delivery.envelope().headers.due().is_some(), is_stated, "{delay}");
            delivery.settle(Settlement::Complete).await.unwrap();
        }
    }
}
