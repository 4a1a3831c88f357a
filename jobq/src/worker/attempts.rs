//! The attempts of one queue, seen from its task: what comes is given to the slots, and what
//! they cannot do by themselves is done here.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::attempt::{Shared, Verdict, settle};
use super::slots::{Abandoned, Finished, Running, Slots, State, Unsettled, occupy};
use crate::engine::{Delivery, Settlement};
use crate::job::Outcome;
use crate::period;
use crate::telemetry::Who;

/// How long after its timeout a function may take to end. An `async fn` ends at its next
/// `.await`.
const ENDING: Duration = Duration::from_secs(1);

type Settling = Pin<Box<dyn Future<Output = (usize, Settlement, bool)> + Send>>;

pub(crate) struct Attempts {
    slots: Arc<Slots>,
    /// What cannot be settled in a moment.
    settling: FuturesUnordered<Settling>,
    /// The prefetch that the slots ask for.
    prefetch: Option<u16>,
    timeouts: Option<Pin<Box<Sleep>>>,
    halted: bool,
}

impl Attempts {
    /// Attempts of this queue, so many at once.
    pub(crate) fn new(shared: Arc<Shared>, queue: &'static str, most: usize) -> Self {
        Self {
            slots: Slots::new(shared, queue, most),
            settling: FuturesUnordered::new(),
            prefetch: None,
            timeouts: None,
            halted: false,
        }
    }

    /// Whether none is in hand. Functions that outlived their timeout may still run.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.change(|state| state.is_idle())
    }

    /// Lets deliveries start, or has them wait.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.slots.change(|state| state.set_open(is_open));
    }

    /// The prefetch as it was last asked for.
    pub(crate) fn prefetch(&self) -> u16 {
        self.slots.change(|state| state.prefetch())
    }

    /// The prefetch, if another one is asked for; once.
    pub(crate) fn new_prefetch(&mut self) -> Option<u16> {
        self.prefetch.take()
    }

    /// Runs a delivery, as soon as there is a free slot.
    pub(crate) fn start(&self, delivery: Delivery) {
        let placed = self.slots.change(|state| {
            state.add(delivery);
            state.place()
        });
        if let Some((place, delivery)) = placed {
            occupy(&self.slots, place, delivery);
        }
    }

    /// Does what the end of an attempt asks for.
    pub(crate) fn conclude(&self, finished: Finished) {
        self.slots.change(|state| state.conclude(finished));
        self.start_waiting();
    }

    /// Takes out what waits for a slot.
    pub(crate) fn take_waiting(&self) -> VecDeque<Delivery> {
        self.slots.change(State::take_waiting)
    }

    /// Takes out what is held until an attempt is over.
    pub(crate) fn take_held(&self) -> Vec<Delivery> {
        self.slots.change(State::take_held)
    }

    /// Waits until something becomes of an attempt. Gives one that was settled here, or could
    /// not be.
    pub(crate) async fn next(&mut self) -> Option<Finished> {
        let timeouts = async {
            match &mut self.timeouts {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.slots.told() => self.attend(),
            Some((place, settlement, stale)) = self.settling.next() => {
                return Some(self.slots.change(|state| state.settled(place, settlement, stale)));
            }
            () = timeouts => self.time_out(),
            () = self.slots.shared.halt.cancelled(), if !self.halted => self.halt(),
        }
        None
    }

    /// Does what the slots ask for.
    fn attend(&mut self) {
        let (news, alarm) = self.slots.change(State::take_news);
        for Unsettled { place, who, delivery, settlement } in news.unsettled {
            let who = who.unwrap_or_else(|| {
                let name = delivery.envelope().name.clone().unwrap_or_default();
                Who::of(&delivery, name, self.slots.queue)
            });
            self.settling.push(Box::pin(async move {
                let was_stale = settle(&who, delivery, settlement.clone()).await;
                (place, settlement, was_stale)
            }));
        }
        if self.halted {
            // One may have begun since.
            self.abandon();
        }
        self.prefetch = news.prefetch.or(self.prefetch);
        self.set_alarm(alarm);
        self.start_waiting();
    }

    fn start_waiting(&self) {
        while let Some((place, delivery)) = self.slots.change(State::place) {
            occupy(&self.slots, place, delivery);
        }
    }

    fn set_alarm(&mut self, alarm: Option<Instant>) {
        let Some(alarm) = alarm else {
            self.timeouts = None;
            return;
        };
        match &mut self.timeouts {
            Some(sleep) if sleep.deadline() == alarm => {}
            Some(sleep) => sleep.as_mut().reset(alarm),
            none => *none = Some(Box::pin(sleep_until(alarm))),
        }
    }

    /// Goes on without functions that have not ended in time.
    fn time_out(&mut self) {
        let (expired, alarm) = self.slots.change(|state| state.expire(Instant::now()));
        self.set_alarm(alarm);
        for Abandoned { running, place, task, settling } in expired {
            let took = running.cancel(task);
            // One that runs alone has no slot of its queue.
            if running.delivery.solo.is_none() {
                let (slots, who) = (Arc::clone(&self.slots), running.who.clone());
                tokio::spawn(async move {
                    sleep(ENDING).await;
                    slots.overdue(place, &who);
                });
            }
            let limit = running.limit.map(period::format).unwrap_or_default();
            let outcome = Outcome::failed(format!("it took longer than its timeout of {limit}"));
            let attempt = running.delivery.attempt;
            let Verdict { settlement, error } = Verdict::after(&running.job, attempt, outcome);
            self.slots.shared.decided(&running.who, &settlement, &error, took);
            self.settle(settling, running, settlement);
        }
    }

    /// Cancels all functions, also those that begin later, and hands their jobs back.
    fn halt(&mut self) {
        self.halted = true;
        self.abandon();
    }

    fn abandon(&self) {
        for Abandoned { running, task, settling, .. } in self.slots.change(State::abandon_all) {
            let took = running.cancel(task);
            self.slots.shared.decided(&running.who, &Settlement::Release, "", took);
            self.settle(settling, running, Settlement::Release);
        }
    }

    fn settle(&self, place: usize, running: Running, settlement: Settlement) {
        let Running { who, delivery, .. } = running;
        let who = Some(who);
        self.slots.change(|state| state.tell(Unsettled { place, delivery, settlement, who }));
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        // What is dropped unsettled is handed back.
        self.slots.change(|state| state.set_open(false));
        drop((self.take_waiting(), self.take_held()));
        for Abandoned { running, task, .. } in self.slots.change(State::abandon_all) {
            running.cancel(task);
        }
        drop(self.slots.change(State::take_news));
    }
}
