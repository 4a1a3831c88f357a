//! What runs in a slot: one delivery after the other, each function so that neither its panic
//! nor its endless loop is the pool's.

use std::cell::OnceCell;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::Slots;
use super::parts::{Finished, Gone, Place, Running};
use super::state::State;
use crate::engine::{Delivery, Settlement};
use crate::guard::{self, Guarded, guarded};
use crate::job::Outcome;
use crate::retry;
use crate::telemetry::Who;
use crate::worker::attempt::{Verdict, is_stale, likeness, look_up};
use crate::worker::run::{Awaiting, Call, Function, Kind, Scope};

/// Runs the delivery in its slot, and those that wait after it.
pub(crate) fn occupy(slots: &Arc<Slots>, place: Place, first: Delivery) {
    let mut slot = Slot { slots: Arc::clone(slots), place, is_taken: true, tasks: 0 };
    if !slots.blocks {
        slot.spawn(|slot, runtime| runtime.spawn(slot.work(first)));
    } else if let Some(called) = slot.call(Some(first)) {
        // A plain `fn` goes on while others block all threads that are for what awaits.
        slot.launch(called);
    }
}

/// A job function that is ready to run.
type Called = (Call, Span);

/// The right to a slot. It is free when this is dropped, whatever became of its task.
struct Slot {
    slots: Arc<Slots>,
    place: Place,
    is_taken: bool,
    /// How many tasks it has had, one after the other.
    tasks: u32,
}

impl Slot {
    /// Goes on in another task of the program's runtime.
    fn spawn(mut self, start: impl FnOnce(Self, &Handle) -> JoinHandle<()>) {
        let (slots, place) = (Arc::clone(&self.slots), self.place);
        self.tasks += 1;
        let number = self.tasks;
        let task = start(self, &slots.shared.runtime);
        if let Some(task) = slots.change(|state| state.launched(place, number, task)) {
            task.abort();
        }
    }

    /// Runs the function where it belongs.
    fn launch(self, (Call(kind), span): Called) {
        self.spawn(|slot, runtime| match kind {
            Kind::Future(future) => runtime.spawn(slot.run(future, span)),
            Kind::Blocking(function) => {
                runtime.spawn_blocking(move || slot.run_blocking(function, span))
            }
        });
    }

    async fn work(mut self, first: Delivery) {
        match self.call(Some(first)) {
            Some((Call(Kind::Future(future)), span)) => self.run(future, span).await,
            Some(blocking) => self.launch(blocking),
            None => {}
        }
    }

    async fn run(mut self, mut future: Guarded<Awaiting>, mut span: Span) {
        loop {
            let running = AssertUnwindSafe(future.get_mut().as_mut()).catch_unwind();
            let ended = running.instrument(span).await;
            // What it holds to its end is the user's, too.
            let ended = match guarded(|| drop(future.into_inner())) {
                Ok(()) => ended,
                Err(panic) => {
                    guard::dispose(ended);
                    Err(panic)
                }
            };
            let next = self.ended(ended);
            (future, span) = match self.call(next) {
                Some((Call(Kind::Future(future)), span)) => (future, span),
                Some(blocking) => return self.launch(blocking),
                None => return,
            };
            // Functions that await nothing would leave no turn to others.
            consume_budget().await;
        }
    }

    fn run_blocking(mut self, mut function: Guarded<Function>, mut span: Span) {
        loop {
            let ended = span.in_scope(|| guarded(function.into_inner()));
            let next = self.ended(ended);
            (function, span) = match self.call(next) {
                Some((Call(Kind::Blocking(function)), span)) => (function, span),
                Some(awaiting) => return self.launch(awaiting),
                None => return,
            };
        }
    }

    /// Calls the function of the first delivery that is to be run, this one or one that waits.
    fn call(&mut self, mut next: Option<Delivery>) -> Option<Called> {
        while let Some(delivery) = next {
            match self.start(delivery) {
                Ok(called) => return Some(called),
                Err(after) => next = after,
            }
        }
        None
    }

    /// Calls the job's function. If the delivery is not to be run, it is settled or held, and
    /// the next one goes on.
    fn start(&mut self, delivery: Delivery) -> Result<Called, Option<Delivery>> {
        let shared = &self.slots.shared;
        let (who, found) = look_up(shared, self.slots.queue, &delivery);
        let called = found.and_then(|job| {
            let envelope = delivery.envelope();
            let scope = Scope {
                envelope,
                attempt: delivery.attempt,
                max_attempts: job.options.max_attempts(),
                client: &shared.client,
                states: &shared.plan.states,
                cancelled: OnceCell::new(),
            };
            // Reading the payload and making the call run the user's code, too.
            match guarded(|| job.start.get()(&envelope.payload, &scope)) {
                Ok(Ok(call)) => Ok((call, scope.cancelled.into_inner(), job)),
                Ok(Err(problem)) => Err(Verdict::unreadable(&job, delivery.attempt, &problem)),
                Err(panic) => {
                    let outcome = Outcome::failed(guard::text(panic));
                    Err(Verdict::after(&job, delivery.attempt, outcome))
                }
            }
        });
        match called {
            Ok((call, cancelled, job)) => {
                let (span, started) = (who.span(), Instant::now());
                let limit = job.options.timeout.or(delivery.solo.map(|_| retry::ALONE));
                let held = None;
                let running = Running { who, job, delivery, started, limit, cancelled, held };
                if self.slots.change(|state| state.run(self.place, running)) {
                    Ok((call, span))
                } else {
                    Err(self.go_on(|_, _| ()))
                }
            }
            Err(Verdict { settlement, error }) => {
                who.decided(&settlement, &error, Duration::ZERO);
                Err(self.settle(who, delivery, settlement))
            }
        }
    }

    /// Settles what is settled in a moment, and gives the delivery to go on with.
    fn ended(&mut self, ended: thread::Result<Outcome>) -> Option<Delivery> {
        // Where the attempt is over, so is this slot.
        let (running, took) = self.slots.change(|state| state.ended(self.place))?;
        let Running { who, job, mut delivery, .. } = running;
        let outcome = ended.unwrap_or_else(|panic| Outcome::failed(guard::text(panic)));
        let Verdict { settlement, error } = Verdict::after(&job, delivery.attempt, outcome);
        who.decided(&settlement, &error, took);
        if settlement != Settlement::Complete || delivery.solo.is_some() {
            return self.settle(who, delivery, settlement);
        }
        let stale = is_stale(&who, delivery.complete()).then(|| likeness(&delivery));
        self.go_on(|state, place| {
            let held = state.leave(place);
            state.conclude(Finished { id: who.id, settlement, stale, held });
        })
    }

    /// Has the attempt settled by the task of the queue, and goes on.
    fn settle(&mut self, who: Who, delivery: Delivery, settlement: Settlement) -> Option<Delivery> {
        let like = likeness(&delivery);
        self.go_on(|state, place| {
            let held = state.leave(place);
            state.settle(Some(who), delivery, settlement, like, held);
        })
    }

    /// Changes the state, and only then chooses the delivery to go on with, which may be the same
    /// job again. If there is none, the slot is free.
    fn go_on(&mut self, change: impl FnOnce(&mut State, Place)) -> Option<Delivery> {
        let next = self.slots.change(|state| {
            change(state, self.place);
            state.go_on(self.place)
        });
        self.is_taken = next.is_some();
        next
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_taken {
            return;
        }
        let Slots { shared, queue, .. } = &*self.slots;
        let (gone, lost) = self.slots.change(|state| {
            let gone = state.gone(self.place);
            let lost = matches!(gone, Gone::Lost(_)).then(|| shared.lost.regain(queue));
            (gone, lost.unwrap_or_default())
        });
        match gone {
            Gone::Over => {}
            Gone::Lost(who) => who.regained_slot(lost, shared.plan.queues[*queue].concurrency),
            // The function was dropped, with the runtime.
            Gone::Running(Running { who, delivery, started, held, .. }) => {
                who.decided(&Settlement::Release, "", started.elapsed());
                self.slots.settle(who, delivery, Settlement::Release, held);
            }
        }
    }
}
