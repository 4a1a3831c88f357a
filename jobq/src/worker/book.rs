//! The jobs of a queue in a pool: those that wait for a slot, those in flight, and those that run.
//! Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::in_flight::{Admitted, Freed, Held, Identity, InFlight};
use super::prefetch::Prefetch;
use super::waiting::{Ranked, Waiting};
use crate::engine::Settlement;

/// A delivery, as far as it matters here.
pub(super) trait Entry: Held + Ranked {
    /// The identity that its redeliveries share.
    fn identity(&self) -> Identity;

    /// Whether it is certain that it is still this pool's.
    fn is_certain(&self) -> bool;
}

/// The jobs of one queue of a pool. `D` is a delivery, and `R` what the attempt of one is made with.
#[derive(Debug)]
pub(super) struct Book<D, R> {
    /// How many attempts run at once.
    concurrency: usize,
    /// Whether deliveries may start.
    is_open: bool,
    /// Whether it is being asked if the deliveries are still this pool's.
    is_verifying: bool,
    /// Whether a slot was started that has not begun.
    is_starting: bool,
    /// The number of slots.
    slots: usize,
    waiting: Waiting<D>,
    /// How many deliveries had arrived at the last [look](Self::look_if_stuck).
    arrived_before: u64,
    in_flight: InFlight<D>,
    /// Those in flight that run, by their key.
    running: Vec<Option<Running<R>>>,
    prefetch: Prefetch,
    /// The prefetch that the consumer has.
    consumed_with: u16,
}

/// An attempt that runs.
#[derive(Debug)]
pub(super) struct Running<R> {
    /// The number of its slot.
    pub(super) slot: usize,
    /// When it is to be looked at, if it has a limit.
    pub(super) deadline: Option<Instant>,
    pub(super) run: R,
}

/// The next step of a slot.
#[derive(Debug, PartialEq)]
pub(super) enum Next<D> {
    /// Run this delivery, with its key.
    Run(usize, D),
    /// Settle this delivery, with its key: its job has run already.
    Again(usize, D, Settlement),
    /// Ask whether this delivery is still the pool's. It still waits.
    Verify,
    /// End.
    Nothing,
}

impl<D: Entry, R> Book<D, R> {
    /// `is_strict` says whether jobs of a lower priority never start before others.
    pub(super) fn new(concurrency: u16, is_strict: bool) -> Self {
        let prefetch = Prefetch::new(concurrency);
        Self {
            concurrency: usize::from(concurrency),
            is_open: false,
            is_verifying: false,
            is_starting: false,
            slots: 0,
            waiting: Waiting::new(is_strict),
            arrived_before: 0,
            in_flight: InFlight::default(),
            running: Vec::new(),
            consumed_with: prefetch.current(),
            prefetch,
        }
    }

    /// Runs so many attempts at once from now on. Slots beyond that end with their attempts, and until
    /// then nothing is taken.
    pub(super) fn set_concurrency(&mut self, concurrency: u16) {
        self.concurrency = usize::from(concurrency);
        self.prefetch.set_concurrency(concurrency);
        if self.slots > self.concurrency {
            self.prefetch.hand_back();
        }
        self.take_again();
    }

    /// Has jobs taken again, if none were and there is a slot for one.
    fn take_again(&mut self) {
        if self.slots < self.concurrency {
            self.prefetch.slot_ended();
        }
    }

    /// The queue has jobs with priorities.
    pub(super) fn set_priorities(&mut self) {
        self.prefetch.set_priorities();
    }

    /// Lets deliveries start, or no longer.
    pub(super) fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// The prefetch that the consumer has at first.
    pub(super) fn prefetch(&mut self) -> u16 {
        self.consumed_with = self.prefetch.current();
        self.consumed_with
    }

    /// The wanted prefetch, if it has changed since the last call.
    pub(super) fn new_prefetch(&mut self) -> Option<u16> {
        let wanted = self.prefetch.current();
        (std::mem::replace(&mut self.consumed_with, wanted) != wanted).then_some(wanted)
    }

    /// How many deliveries wait for a slot.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many deliveries are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Adds a delivery with a payload of this size.
    pub(super) fn arrive(&mut self, delivery: D, bytes: usize) {
        // Deliveries of past epochs would add up while all slots are taken.
        self.waiting.drop_front(Held::is_stale);
        self.prefetch.arrived(bytes);
        self.waiting.push(delivery);
    }

    /// Looks whether a delivery waits for a slot that waited at the last look already.
    pub(super) fn look_if_stuck(&mut self) -> bool {
        let before = std::mem::replace(&mut self.arrived_before, self.waiting.arrived());
        self.is_full() && self.waiting.has_one_of_the_first(before)
    }

    /// Whether deliveries wait and all slots are taken.
    fn is_full(&self) -> bool {
        self.is_open && self.slots >= self.concurrency && !self.waiting.is_empty()
    }

    /// Has what waits handed back, if all slots are taken: nothing more is to be taken until one
    /// ends. Returns how many those are.
    pub(super) fn hand_back(&mut self) -> usize {
        if !self.is_full() {
            return 0;
        }
        self.prefetch.hand_back();
        self.waiting.len()
    }

    /// Removes the deliveries that wait.
    pub(super) fn take_waiting(&mut self) -> VecDeque<D> {
        self.waiting.take()
    }

    /// Removes all that is in flight.
    pub(super) fn abandon(&mut self) -> impl Sized + use<D, R> {
        (std::mem::take(&mut self.in_flight), std::mem::take(&mut self.running))
    }

    /// Whether a further slot is to start. One at a time: it looks for more when it begins. `blocks`
    /// says whether a delivery's function is a plain `fn`, whose slot waits for no other.
    pub(super) fn may_start(&self, blocks: impl FnOnce(&D) -> bool) -> bool {
        self.is_open
            && !self.is_verifying
            && self.slots < self.concurrency
            && self.waiting.first().is_some_and(|next| !self.is_starting || blocks(next))
    }

    /// A slot was made.
    pub(super) fn add_slot(&mut self) {
        self.slots += 1;
    }

    /// A slot has ended.
    pub(super) fn remove_slot(&mut self) {
        self.slots -= 1;
        self.take_again();
    }

    /// A slot is started, or has begun.
    pub(super) fn set_starting(&mut self, is_starting: bool) {
        self.is_starting = is_starting;
    }

    /// It is known whether the deliveries are this pool's.
    pub(super) fn verified(&mut self) {
        self.is_verifying = false;
    }

    /// The delivery that waits first, to ask whether it is still the pool's.
    pub(super) fn first(&self) -> Option<&D> {
        self.waiting.first()
    }

    /// Admits the next delivery.
    pub(super) fn next(&mut self, now: Instant) -> Next<D> {
        while self.is_open && !self.is_verifying && self.slots <= self.concurrency {
            match self.waiting.first() {
                None => break,
                // Running it would run the job twice.
                Some(delivery) if delivery.is_stale() => {}
                Some(delivery) if !delivery.is_certain() => {
                    self.is_verifying = true;
                    return Next::Verify;
                }
                Some(_) => {}
            }
            let Some(delivery) = self.waiting.pop().filter(|next| !next.is_stale()) else {
                continue;
            };
            match self.in_flight.admit(delivery.identity(), delivery, now) {
                Some(Admitted { key, delivery, outcome: None }) => return Next::Run(key, delivery),
                Some(Admitted { key, delivery, outcome: Some(outcome) }) => {
                    return Next::Again(key, delivery, outcome);
                }
                None => {}
            }
        }
        Next::Nothing
    }

    /// Adds a delivery in flight that did not wait, and returns its key.
    pub(super) fn insert(&mut self, delivery: &D) -> usize {
        self.in_flight.insert(delivery.identity())
    }

    /// The attempt of a delivery in flight runs.
    pub(super) fn start(&mut self, key: usize, running: Running<R>) {
        if self.running.len() <= key {
            self.running.resize_with(key + 1, || None);
        }
        self.running[key] = Some(running);
    }

    /// Takes an attempt that ran in this slot, unless it was decided about already.
    pub(super) fn end(&mut self, key: usize, slot: usize) -> Option<R> {
        let running = self.running.get_mut(key)?.take_if(|running| running.slot == slot)?;
        Some(running.run)
    }

    /// The attempts that run.
    pub(super) fn running(&self) -> impl Iterator<Item = &Running<R>> {
        self.running.iter().flatten()
    }

    /// The attempts that run, to be changed.
    pub(super) fn running_mut(&mut self) -> impl Iterator<Item = &mut Running<R>> {
        self.running.iter_mut().flatten()
    }

    /// Takes the attempts whose deadline is over, with their keys, and returns the next deadline.
    /// `extend` may move a deadline that is over.
    pub(super) fn overdue(
        &mut self,
        now: Instant,
        extend: impl Fn(&R) -> Option<Instant>,
    ) -> (Vec<(usize, Running<R>)>, Option<Instant>) {
        let (mut overdue, mut next) = (Vec::new(), None::<Instant>);
        for (key, place) in self.running.iter_mut().enumerate() {
            let Some(running) = place else { continue };
            let Some(mut deadline) = running.deadline else { continue };
            if deadline <= now {
                deadline = extend(&running.run).unwrap_or(deadline);
                running.deadline = Some(deadline);
            }
            if deadline <= now {
                overdue.extend(place.take().map(|running| (key, running)));
            } else {
                next = Some(next.map_or(deadline, |next| next.min(deadline)));
            }
        }
        (overdue, next)
    }

    /// Takes all attempts that run, with their keys.
    pub(super) fn take_running(&mut self) -> Vec<(usize, Running<R>)> {
        let running = std::mem::take(&mut self.running).into_iter().enumerate();
        running.filter_map(|(key, running)| Some((key, running?))).collect()
    }

    /// An attempt is over, and settled. Its settlement was not recorded if its delivery was stale.
    /// Returns a redelivery to settle with the outcome, with its key.
    pub(super) fn settled(
        &mut self,
        key: usize,
        (settlement, is_stale): (Settlement, bool),
        took: Option<Duration>,
        now: Instant,
    ) -> Option<(usize, D, Settlement)> {
        if let Some(took) = took {
            self.prefetch.measured(took);
        }
        let Freed { again, waiting } = self.in_flight.finish(key, settlement, is_stale, now);
        for delivery in waiting {
            self.waiting.push(delivery);
        }
        again.map(|(delivery, outcome)| (self.insert(&delivery), delivery, outcome))
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
