//! What runs in a slot: one delivery after the other, each function so that neither its panic
//! nor its endless loop is the pool's.

use std::cell::OnceCell;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::Slots;
use super::parts::{Finished, Gone, Place, Running};
use super::state::State;
use crate::background;
use crate::engine::{Delivery, Settlement};
use crate::guard::{self, Guarded, guarded};
use crate::job::{Ending, Outcome};
use crate::retry;
use crate::telemetry::Who;
use crate::worker::attempt::{Verdict, find, is_stale, likeness, look_up};
use crate::worker::run::{Awaiting, Call, Function, Kind, Scope};

/// How long a job waits for a thread, where the system gives none.
const NO_THREAD: Duration = Duration::from_secs(1);

/// Runs the delivery in its slot, and those that wait after it.
pub(crate) fn occupy(slots: &Arc<Slots>, place: Place, first: Delivery) {
    Slot { slots: Arc::clone(slots), place, is_taken: true, tasks: 0 }.work_on(first);
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
    /// Goes on with this delivery in another task, where its function belongs.
    fn work_on(mut self, first: Delivery) {
        let (slots, place) = (Arc::clone(&self.slots), self.place);
        let mut next = Some(first);
        while let Some(delivery) = next {
            self.tasks += 1;
            let number = self.tasks;
            let task = if self.blocks(&delivery) {
                let work = |(slot, delivery): (Self, Delivery)| slot.work_blocking(delivery);
                match background::spawn_blocking((self, delivery), work) {
                    Ok(task) => task,
                    Err((slot, delivery)) => {
                        self = slot;
                        next = self.put_off(delivery);
                        continue;
                    }
                }
            } else {
                slots.shared.runtime.spawn(self.work(delivery))
            };
            if let Some(task) = slots.change(|state| state.launched(place, number, task)) {
                task.abort();
            }
            return;
        }
    }

    /// Whether the delivery is for a plain `fn`.
    fn blocks(&self, delivery: &Delivery) -> bool {
        let Slots { shared, queue, blocks, .. } = &*self.slots;
        *blocks && find(shared, queue, delivery).1.is_some_and(|job| job.blocks)
    }

    /// In the program's runtime.
    async fn work(mut self, first: Delivery) {
        let mut next = Some(first);
        while let Some(delivery) = next {
            if self.blocks(&delivery) {
                return self.work_on(delivery);
            }
            next = match self.start(delivery) {
                Ok((Call(Kind::Future(future)), span)) => self.ended(finish(future, span).await),
                Ok((Call(Kind::Blocking(function)), span)) => self.ended(run(function, &span)),
                Err(next) => next,
            };
            // Functions that await nothing would leave no turn to others.
            consume_budget().await;
        }
    }

    /// On a thread that others need not wait for.
    fn work_blocking(mut self, first: Delivery) {
        let runtime = self.slots.shared.runtime.clone();
        let _entered = runtime.enter();
        let mut next = Some(first);
        while let Some(delivery) = next {
            if !self.blocks(&delivery) {
                return self.work_on(delivery);
            }
            next = match self.start(delivery) {
                Ok((Call(Kind::Future(future)), span)) => {
                    self.ended(runtime.block_on(finish(future, span)))
                }
                Ok((Call(Kind::Blocking(function)), span)) => self.ended(run(function, &span)),
                Err(next) => next,
            };
        }
    }

    /// There is no thread for the function of this job, which waits for one. That is no attempt.
    fn put_off(&mut self, delivery: Delivery) -> Option<Delivery> {
        let (who, _) = look_up(&self.slots.shared, self.slots.queue, &delivery);
        who.no_thread(NO_THREAD);
        self.settle(who, delivery, Settlement::Snooze(NO_THREAD))
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
                self.slots.shared.decided(&who, &settlement, &error, Duration::ZERO);
                Err(self.settle(who, delivery, settlement))
            }
        }
    }

    /// Settles what is settled in a moment, and gives the delivery to go on with.
    fn ended(&mut self, ended: thread::Result<Outcome>) -> Option<Delivery> {
        let outcome = ended.unwrap_or_else(|panic| Outcome::failed(guard::text(panic)));
        if outcome.ending != Ending::Completed && self.slots.shared.has_runtime_ended() {
            // It failed for that, maybe, and is handed back when the slot is dropped.
            return None;
        }
        // Where the attempt is over, so is this slot.
        let (running, took) = self.slots.change(|state| state.ended(self.place))?;
        let Running { who, job, mut delivery, .. } = running;
        let Verdict { settlement, error } = Verdict::after(&job, delivery.attempt, outcome);
        self.slots.shared.decided(&who, &settlement, &error, took);
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

/// Lets an `async fn` run to its end.
async fn finish(mut future: Guarded<Awaiting>, span: Span) -> thread::Result<Outcome> {
    let running = AssertUnwindSafe(future.get_mut().as_mut()).catch_unwind();
    let ended = running.instrument(span).await;
    // What it holds to its end is the user's, too.
    match guarded(|| drop(future.into_inner())) {
        Ok(()) => ended,
        Err(panic) => {
            guard::dispose(ended);
            Err(panic)
        }
    }
}

/// Runs a plain `fn`.
fn run(function: Guarded<Function>, span: &Span) -> thread::Result<Outcome> {
    span.in_scope(|| guarded(function.into_inner()))
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
            // The function was dropped with the runtime, or failed with it.
            Gone::Running(Running { who, delivery, started, held, .. }) => {
                shared.decided(&who, &Settlement::Release, "", started.elapsed());
                self.slots.settle(who, delivery, Settlement::Release, held);
            }
        }
    }
}
