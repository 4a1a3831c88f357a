//! The attempts of a queue: from the book to a slot, and from its end to the settlement.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, AbortRegistration};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Queue, SlotHandle, State};
use crate::background;
use crate::engine::{Delivery, Settlement};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Priority;
use crate::telemetry::Who;
use crate::worker::attempt::Attempt;
use crate::worker::book::{Entry, Next, Running};
use crate::worker::cancellation::Cancellation;
use crate::worker::decision::{self, Called, Decision, Resolved};
use crate::worker::in_flight::Identity;
use crate::worker::observer::{Observer, Started};
use crate::worker::registry::Registered;
use crate::worker::slot::{Invocation, Job, Slot};
use crate::worker::waiting::Ranked;

/// How long a job is snoozed when the system has no thread for it.
const NO_THREAD_WAIT: Duration = Duration::from_secs(1);

impl Ranked for Delivery {
    fn priority(&self) -> Priority {
        self.envelope().priority()
    }
}

impl Entry for Delivery {
    fn identity(&self) -> Identity {
        Identity::of(self)
    }

    fn is_certain(&self) -> bool {
        self.verification().is_none()
    }
}

/// What an attempt is made with.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) who: Who,
    pub(super) delivery: Delivery,
    pub(super) attempt: Attempt,
    pub(super) job: Arc<Registered>,
    pub(super) started: Started,
    pub(super) limit: Option<Duration>,
    /// Who waits for the end of a solo run.
    pub(super) alone: Option<oneshot::Sender<Settled>>,
}

/// A settled delivery.
#[derive(Debug)]
pub(in crate::worker) struct Settled {
    pub(in crate::worker) settlement: Settlement,
    /// Whether the settlement could not be recorded because the delivery was stale.
    pub(in crate::worker) is_stale: bool,
}

/// A delivery that is decided about, for its settlement.
pub(super) struct Decided {
    who: Who,
    delivery: Delivery,
    settlement: Settlement,
    /// How long the function ran, if it was called.
    took: Option<Duration>,
    alone: Option<oneshot::Sender<Settled>>,
}

impl Queue {
    /// Starts slots for the deliveries that wait.
    pub(super) fn start_slots(self: &Arc<Self>) {
        while let Some(slot) = self.open_slot() {
            // A slot that finds nothing ends, and looks once more.
            let Some(job) = self.next(slot.number()) else { return };
            self.state().book.set_starting(!job.call.registered.blocks);
            slot.start(job);
        }
    }

    /// A further slot, if one is to start.
    fn open_slot(self: &Arc<Self>) -> Option<Slot> {
        let mut state = self.state();
        state.book.may_start(|delivery| self.blocks(delivery)).then(|| self.add_slot(&mut state))
    }

    fn add_slot(self: &Arc<Self>, state: &mut State) -> Slot {
        state.book.add_slot();
        Slot::new(Arc::clone(self), state.slots.insert(SlotHandle::default()))
    }

    /// What lets the task that a slot is from now on be ended from outside.
    pub(in crate::worker) fn new_abort(&self, slot: usize) -> AbortRegistration {
        let (abort, registration) = AbortHandle::new_pair();
        self.state().slots[slot].abort = Some(abort);
        registration
    }

    /// A slot has begun.
    pub(in crate::worker) fn slot_began(self: &Arc<Self>) {
        let may_start = {
            let book = &mut self.state().book;
            book.set_starting(false);
            book.may_start(|delivery| self.blocks(delivery))
        };
        if may_start {
            // Not from here: what a task of a runtime spawns, its thread keeps for itself, and the
            // function of this slot may block it.
            let queue = Arc::clone(self);
            self.tasks.spawn(async move { queue.start_slots() });
        }
    }

    /// A slot has ended. A job that it still runs is released: the program's runtime has ended.
    pub(in crate::worker) fn slot_ended(self: &Arc<Self>, number: usize) {
        let (handle, left) = {
            let mut state = self.state();
            state.book.remove_slot();
            let handle = state.slots.remove(number);
            let left = handle.key.and_then(|key| Some((key, state.book.end(key, number)?)));
            // It may have ended before it began.
            state.book.set_starting(false);
            self.want(&mut state.book);
            (handle, left)
        };
        if let Some(outlived) = handle.outlived {
            let _ = outlived.send(());
        }
        match left {
            // Its settlement has others start. Here a runtime that has ended would end each at once.
            Some((key, run)) => self.release(key, run),
            None => self.start_slots(),
        }
    }

    /// The next job of a slot, or `None` for its end.
    pub(in crate::worker) fn next(self: &Arc<Self>, slot: usize) -> Option<Job> {
        loop {
            let next = self.state().book.next(Instant::now());
            let (key, delivery) = match next {
                Next::Run(key, delivery) => (key, delivery),
                Next::Again(key, delivery, outcome) => {
                    self.settle_again(key, delivery, outcome);
                    continue;
                }
                Next::Verify => {
                    self.verify();
                    return None;
                }
                Next::Nothing => return None,
            };
            let Resolved { who, job } = decision::resolve(&self.pool, self.name, &delivery);
            match job {
                Ok(job) => return Some(self.start(slot, key, (who, delivery, job), None)),
                Err(decision) => {
                    self.observer.decided(&who, &decision, None);
                    let settlement = decision.settlement;
                    self.settle(
                        key,
                        Decided { who, delivery, settlement, took: None, alone: None },
                    );
                }
            }
        }
    }

    /// An attempt starts in a slot.
    fn start(
        &self,
        slot: usize,
        key: usize,
        (who, delivery, job): (Who, Delivery, Arc<Registered>),
        alone: Option<oneshot::Sender<Settled>>,
    ) -> Job {
        let attempt = decision::attempt_of(&self.pool, &job, &delivery);
        let started = self.observer.started(&who, &delivery);
        let limit = decision::limit(&job, &delivery);
        let (registered, span) = (Arc::clone(&job), started.span().clone());
        let call = Invocation { attempt: attempt.clone(), registered, span };
        // An attempt that has no end then has none.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let run = Run { who, delivery, attempt, job, started, limit, alone };
        let mut state = self.state();
        state.book.start(key, Running { slot, deadline, run });
        state.slots[slot].key = Some(key);
        if let Some(deadline) = deadline
            && state.wakes_at.is_none_or(|wakes_at| deadline < wakes_at)
        {
            self.sooner.notify_one();
        }
        Job { key, call }
    }

    /// The function of a job has ended. Returns the next job of its slot, or `None` for its end.
    pub(in crate::worker) fn ended(
        self: &Arc<Self>,
        slot: usize,
        key: usize,
        called: Called,
    ) -> Option<Job> {
        let Some(run) = self.state().book.end(key, slot) else {
            // It was decided about: its time was over.
            return None;
        };
        if let Ok(outcome) = &called {
            Observer::ended(&run.who, outcome, run.attempt.function_outcome());
        }
        let decision = decision::ended(&self.pool, &run.job, &run.delivery, called);
        // An order of an operator ends the job, unless it has just succeeded.
        let decision = match decision.settlement {
            Settlement::Complete => decision,
            _ if run.attempt.is_cancel_ordered() => decision::cancelled(&run.delivery),
            _ => decision,
        };
        self.decided(key, run, decision);
        self.next(slot)
    }

    /// The system has no thread for a job that a slot has started.
    pub(in crate::worker) fn no_thread(self: &Arc<Self>, slot: usize, key: usize) {
        let Some(run) = self.state().book.end(key, slot) else { return };
        Observer::has_no_thread(&run.who, NO_THREAD_WAIT);
        self.decided(key, run, Decision::plain(Settlement::Snooze(NO_THREAD_WAIT)));
    }

    /// Runs a job outside of the slots of the queue, which rest, and returns how it was settled.
    pub(in crate::worker) async fn run_alone(self: &Arc<Self>, delivery: Delivery) -> Settled {
        let key = self.state().book.insert(&delivery);
        let (tell, told) = oneshot::channel();
        let Resolved { who, job } = decision::resolve(&self.pool, self.name, &delivery);
        match job {
            Ok(job) => {
                let slot = self.add_slot(&mut self.state());
                let job = self.start(slot.number(), key, (who, delivery, job), Some(tell));
                slot.start(job);
            }
            Err(decision) => {
                self.observer.decided(&who, &decision, None);
                let (settlement, alone) = (decision.settlement, Some(tell));
                self.settle(key, Decided { who, delivery, settlement, took: None, alone });
            }
        }
        told.await.unwrap_or(Settled { settlement: Settlement::Release, is_stale: false })
    }

    /// Settles a job that does not run.
    pub(in crate::worker) async fn settle_unrun(
        &self,
        delivery: Delivery,
        settlement: Settlement,
    ) -> Settled {
        self.settle_decided(delivery, decision::unrun(settlement)).await
    }

    /// Settles a job that does not run by this decision.
    pub(in crate::worker) async fn settle_decided(
        &self,
        delivery: Delivery,
        decision: Decision,
    ) -> Settled {
        self.observer.decided(&self.who(&delivery), &decision, None);
        self.settle_outside(delivery, decision.settlement).await
    }

    /// Settles a delivery that is not in the book.
    pub(in crate::worker) async fn settle_outside(
        &self,
        delivery: Delivery,
        settlement: Settlement,
    ) -> Settled {
        let who = self.who(&delivery);
        let settling = Observer::settling(&delivery, &settlement);
        let recorded = self.until_overdue(delivery.settle(settlement.clone())).await;
        self.observer.settled(&who, &settlement, settling, &recorded);
        Settled { settlement, is_stale: recorded.is_err_and(|error| error.is_stale()) }
    }

    fn who(&self, delivery: &Delivery) -> Who {
        decision::identify(&self.pool, self.name, delivery).0
    }

    /// Settles the redelivery of a job in flight whose outcome could not be recorded.
    fn settle_again(self: &Arc<Self>, key: usize, delivery: Delivery, settlement: Settlement) {
        let who = self.who(&delivery);
        self.settle(key, Decided { who, delivery, settlement, took: None, alone: None });
    }

    /// Releases a job whose attempt was ended.
    pub(super) fn release(self: &Arc<Self>, key: usize, run: Run) {
        run.attempt.cancelled().cancel(Cancellation::Shutdown);
        self.decided(key, run, Decision::plain(Settlement::Release));
    }

    /// An attempt is over.
    pub(super) fn decided(self: &Arc<Self>, key: usize, run: Run, decision: Decision) {
        let Run { who, delivery, attempt, started, alone, .. } = run;
        let took = attempt.took();
        self.observer.decided(&who, &decision, Some(&(started, took)));
        let settlement = decision.settlement;
        self.settle(key, Decided { who, delivery, settlement, took: Some(took), alone });
    }

    /// Settles a delivery in flight.
    fn settle(self: &Arc<Self>, key: usize, decided: Decided) {
        let Decided { who, delivery, settlement, took, alone } = decided;
        let settling = Observer::settling(&delivery, &settlement);
        let mut recording = delivery.settle_boxed(settlement.clone());
        // Most engines only note that a job is done, so that it needs no task.
        let at_once = match settlement {
            Settlement::Complete => background::entered(|| (&mut recording).now_or_never()),
            _ => None,
        };
        let end = move |queue: &Arc<Self>, recorded: Result<()>| {
            queue.observer.settled(&who, &settlement, settling, &recorded);
            let is_stale = recorded.is_err_and(|error| error.is_stale());
            if let Some(alone) = alone {
                let _ = alone.send(Settled { settlement: settlement.clone(), is_stale });
            }
            queue.settled(key, Settled { settlement, is_stale }, took);
        };
        if let Some(recorded) = at_once {
            return end(self, recorded);
        }
        let queue = Arc::clone(self);
        self.tasks.spawn(async move {
            let recorded = queue.until_overdue(recording).await;
            end(&queue, recorded);
            // What was held until then may wait.
            queue.start_slots();
        });
    }

    /// Waits for a record, as long as the pool waits for any.
    async fn until_overdue(&self, recording: impl Future<Output = Result<()>>) -> Result<()> {
        tokio::select! {
            biased;
            recorded = recording => recorded,
            // Dropping the settlement releases the job, unless the engine has begun to record it.
            () = self.pool.outcome_is_overdue() => Err(overdue()),
        }
    }

    /// A delivery in flight was settled.
    fn settled(self: &Arc<Self>, key: usize, settled: Settled, took: Option<Duration>) {
        let Settled { settlement, is_stale } = settled;
        let (again, is_empty) = {
            let book = &mut self.state().book;
            let again = book.settled(key, (settlement, is_stale), took, Instant::now());
            self.want(book);
            (again, book.in_flight() == 0)
        };
        if let Some((key, delivery, outcome)) = again {
            self.settle_again(key, delivery, outcome);
        }
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// Finds out whether the deliveries that wait are still this pool's.
    fn verify(self: &Arc<Self>) {
        let asked = self.state().book.first().and_then(Delivery::verification);
        let queue = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Some(verification) = asked {
                verification.await;
            }
            queue.state().book.verified();
            queue.start_slots();
        });
    }
}

/// The error of an outcome that was not recorded before the pool had to end.
fn overdue() -> Error {
    let text = "the engine did not record the outcome within the pool's shutdown timeout";
    Error::new(ErrorKind::Timeout, text)
}
