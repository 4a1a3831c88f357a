//! The end of attempts that take too long: timeouts, orders of operators, and the end of the shutdown
//! timeout. A task of jobq's runtime sees to it, so that no function can hold it up.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::Queue;
use super::attempts::Run;
use crate::background;
use crate::engine::Cancel;
use crate::job::JobId;
use crate::telemetry::Who;
use crate::worker::attempt::Attempt;
use crate::worker::book::Running;
use crate::worker::cancellation::Cancellation;
use crate::worker::decision;
use crate::worker::registry::Slots;

/// How long a function may take to end after an operator cancelled its job.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// How long a function may take to end after its timeout.
const END_LIMIT: Duration = Duration::from_secs(1);

impl Queue {
    /// Ends attempts whose time is over, until the pool halts. Then it releases all, but for jobs
    /// that an operator cancels.
    pub(in crate::worker) async fn watch_time(self: Arc<Self>) {
        let mut halt = pin!(self.pool.halt.cancelled());
        loop {
            let mut sooner = pin!(self.sooner.notified());
            // Before the deadlines are read, so that no earlier one is missed.
            sooner.as_mut().enable();
            let next = self.end_overdue();
            let wake = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut halt => break,
                () = sooner => {}
                () = wake => {}
            }
        }
        self.close();
        let left = self.state().book.take_running();
        for (key, Running { slot, run, .. }) in left {
            self.abort(slot);
            if run.attempt.is_cancel_ordered() {
                let decision = decision::cancelled(&run.delivery);
                self.decided(key, run, decision);
            } else {
                self.release(key, run);
            }
        }
    }

    /// Ends attempts whose time is over, and returns when the next one is.
    fn end_overdue(self: &Arc<Self>) -> Option<Instant> {
        let (overdue, next) = {
            let mut state = self.state();
            let (overdue, next) = state.book.overdue(Instant::now(), later);
            state.wakes_at = next;
            (overdue, next)
        };
        for (key, running) in overdue {
            self.time_out(key, running);
        }
        next
    }

    fn time_out(self: &Arc<Self>, key: usize, running: Running<Run>) {
        let Running { slot, run, .. } = running;
        let (why, decision) = if run.attempt.is_cancel_ordered() {
            (Cancellation::Operator, decision::cancelled(&run.delivery))
        } else {
            let decision = decision::timed_out(&run.job, &run.delivery, run.limit);
            (Cancellation::Timeout, decision)
        };
        run.attempt.cancelled().cancel(why);
        let (who, attempt) = (run.who.clone(), (run.attempt.clone(), run.job.options.timeout));
        if let Some(ended) = self.abort(slot) {
            background::spawn(Arc::clone(self).outlived(who, attempt, ended));
        }
        self.decided(key, run, decision);
    }

    /// Ends the function of a slot at its next `.await` point. Returns what is told of the end of the
    /// slot, unless it has ended.
    fn abort(&self, slot: usize) -> Option<oneshot::Receiver<()>> {
        let mut state = self.state();
        let handle = state.slots.get_mut(slot)?;
        let (tell, ended) = oneshot::channel();
        handle.outlived = Some(tell);
        if let Some(abort) = &handle.abort {
            abort.abort();
        }
        Some(ended)
    }

    /// Waits for the end of a function that goes on after its attempt. After a second its slot
    /// counts as lost until then.
    async fn outlived(
        self: Arc<Self>,
        who: Who,
        (attempt, timeout_of_job): (Attempt, Option<Duration>),
        mut ended: oneshot::Receiver<()>,
    ) {
        if timeout(END_LIMIT, &mut ended).await.is_ok() {
            return;
        }
        let lost = self.observer.slot_lost(attempt, timeout_of_job);
        let slots = changed(&self.plan().slots, |slots| slots.lost += 1);
        who.lost_slot(slots.lost, slots.count);
        let _ = ended.await;
        drop(lost);
        let slots = changed(&self.plan().slots, |slots| slots.lost -= 1);
        who.regained_slot(slots.lost, slots.count);
    }

    /// Cancels all attempts of a job.
    pub(in crate::worker) fn cancel(&self, id: JobId) -> Cancel {
        let (mut cancel, mut asked) = (Cancel::NotRunning, Vec::new());
        let end = Instant::now() + CANCEL_LIMIT;
        for running in self.state().book.running_mut() {
            let run = &running.run;
            if run.attempt.id() == id {
                run.attempt.order_cancel();
                cancel = if run.job.blocks { Cancel::AskedBlocking } else { Cancel::Asked };
                asked.push(run.attempt.clone());
                running.deadline = Some(end);
            }
        }
        for attempt in asked {
            attempt.cancelled().cancel(Cancellation::Operator);
        }
        self.sooner.notify_one();
        cancel
    }
}

/// When the time of an attempt is over, if that is later than was thought: its function has started
/// later, or not yet.
fn later(run: &Run) -> Option<Instant> {
    let limit = run.limit.filter(|_| !run.attempt.is_cancel_ordered())?;
    run.attempt.started().unwrap_or_else(Instant::now).checked_add(limit)
}

/// Changes the slots, and returns the new ones.
fn changed(slots: &watch::Sender<Slots>, change: impl FnOnce(&mut Slots)) -> Slots {
    let mut new = Slots::default();
    slots.send_modify(|slots| {
        change(slots);
        new = *slots;
    });
    new
}
