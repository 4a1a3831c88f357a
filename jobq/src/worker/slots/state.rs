//! Which deliveries have a slot, which wait for one, and which are being settled. Pure, but for
//! the clock.

use std::collections::VecDeque;
use std::time::Duration;

use slab::Slab;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::parts::{
    Abandoned, Finished, Gone, Held, News, Place, Running, Settling, Slot, Stage, Unsettled,
};
use super::timeouts::Timeouts;
use crate::engine::{Delivery, Settlement};
use crate::telemetry::Who;
use crate::worker::attempt::likeness;
use crate::worker::lives::Lives;
use crate::worker::prefetch::Prefetch;
use crate::worker::unrecorded::Unrecorded;

pub(crate) struct State {
    /// How many slots there may be.
    most: usize,
    /// Whether what waits may start.
    is_open: bool,
    waiting: VecDeque<Delivery>,
    slots: Slab<Slot>,
    /// How many slots have not begun.
    to_begin: usize,
    /// How many slots have a function whose attempt is over.
    abandoned: usize,
    /// How many slots there were.
    count: u64,
    timeouts: Timeouts,
    settling: Slab<Settling>,
    lives: Lives,
    unrecorded: Unrecorded,
    prefetch: Prefetch,
    news: News,
    /// Whether there are news, and whether that was told.
    is_new: bool,
    is_told: bool,
}

impl State {
    pub(super) fn new(most: usize, concurrency: u16) -> Self {
        Self {
            most,
            is_open: true,
            waiting: VecDeque::new(),
            slots: Slab::new(),
            to_begin: 0,
            abandoned: 0,
            count: 0,
            timeouts: Timeouts::default(),
            settling: Slab::new(),
            lives: Lives::default(),
            unrecorded: Unrecorded::default(),
            prefetch: Prefetch::new(concurrency),
            news: News::default(),
            is_new: false,
            is_told: false,
        }
    }

    /// Whether there are news that nobody was told of; once.
    pub(super) fn tells_news(&mut self) -> bool {
        let tells = self.is_new && !self.is_told;
        self.is_told |= tells;
        tells
    }

    /// The news, and when timeouts are to be looked at.
    pub(crate) fn take_news(&mut self) -> (News, Option<Instant>) {
        (self.is_new, self.is_told) = (false, false);
        (std::mem::take(&mut self.news), self.timeouts.alarm())
    }

    /// Lets what waits start, or not.
    pub(crate) fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Whether no attempt is in hand. Functions that outlived theirs may still run.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.len() == self.abandoned && self.settling.is_empty()
    }

    /// The prefetch as it was last changed.
    pub(crate) fn prefetch(&self) -> u16 {
        self.prefetch.current()
    }

    /// One more delivery that is to run.
    pub(crate) fn add(&mut self, delivery: Delivery) {
        // Those of a life that has ended would add up while all slots are taken.
        while self.waiting.front().is_some_and(Delivery::is_stale) {
            self.waiting.pop_front();
        }
        if let Some(prefetch) = self.prefetch.arrived(delivery.envelope().payload.len()) {
            (self.news.prefetch, self.is_new) = (Some(prefetch), true);
        }
        self.waiting.push_back(delivery);
    }

    /// The next delivery, and the free slot that it has from now on. There are no more slots
    /// that have not begun than others: those may be through with all that waits before.
    pub(crate) fn place(&mut self) -> Option<(Place, Delivery)> {
        let begun = self.slots.len() - self.to_begin;
        if self.slots.len() >= self.most || self.to_begin >= begun.max(1) {
            return None;
        }
        let delivery = self.next()?;
        self.count += 1;
        self.to_begin += 1;
        let (number, has_begun, task) = (self.count, false, None);
        let slot = Slot { number, has_begun, task, stage: Stage::Between };
        Some((Place { index: self.slots.insert(slot), number: self.count }, delivery))
    }

    /// A slot has got this task, which may be over. Gives it back if it is to be aborted.
    pub(crate) fn launched(
        &mut self,
        place: Place,
        number: u32,
        task: JoinHandle<()>,
    ) -> Option<JoinHandle<()>> {
        let slot = self.slot(place)?;
        if slot.task.as_ref().is_none_or(|(newest, _)| *newest < number) {
            if slot.is_abandoned() {
                return Some(task);
            }
            slot.task = Some((number, task));
        }
        None
    }

    /// A function is about to run in this slot. False if it is not to: the same job runs, and
    /// its delivery is held until that ends.
    pub(crate) fn run(&mut self, place: Place, running: Running) -> bool {
        self.begin(place);
        let end = running.end();
        let Running { delivery, .. } = running;
        let Some(delivery) = self.hold(delivery) else {
            return false;
        };
        self.lives.begin(delivery.epoch());
        // Whoever halts the attempts may have done so before.
        self.is_new |= !self.is_open;
        if let Some(end) = end {
            self.is_new |= self.timeouts.add(end, place.index);
        }
        self.slots[place.index].stage = Stage::Runs(Running { delivery, ..running });
        true
    }

    /// A function has ended; gives its attempt, if that is not over, and the time that it took.
    pub(crate) fn ended(&mut self, place: Place) -> Option<(Running, Duration)> {
        let mut running = self.take_running(place.index)?;
        let (id, life, held) = (running.who.id, running.delivery.epoch(), running.held.take());
        self.slots[place.index].stage = Stage::Ends { id, life, held };
        self.lives.begin(life);
        let took = running.started.elapsed();
        if let Some(prefetch) = self.prefetch.measured(took) {
            (self.news.prefetch, self.is_new) = (Some(prefetch), true);
        }
        Some((running, took))
    }

    /// The delivery of an attempt that has ended is settled, or not any more this slot's to
    /// settle. Gives what was held.
    pub(crate) fn leave(&mut self, place: Place) -> Held {
        match std::mem::replace(&mut self.slots[place.index].stage, Stage::Between) {
            Stage::Ends { life, held, .. } => {
                self.lives.end(life);
                held
            }
            _ => None,
        }
    }

    /// The delivery with which a slot goes on. If there is none, it is free.
    pub(crate) fn go_on(&mut self, place: Place) -> Option<Delivery> {
        self.begin(place);
        let next = self.next();
        if next.is_none() {
            self.slots.remove(place.index);
            self.is_new |= !self.is_open;
        }
        next
    }

    /// The task of a slot is gone, whatever it did.
    pub(crate) fn gone(&mut self, place: Place) -> Gone {
        self.begin(place);
        let running = self.take_running(place.index);
        let gone = match (running, &self.slots[place.index].stage) {
            (Some(running), _) => Gone::Running(running),
            (None, Stage::Lost(who)) => Gone::Lost(who.clone()),
            (None, _) => Gone::Over,
        };
        if self.slots[place.index].is_abandoned() {
            self.abandoned -= 1;
        }
        self.leave(place);
        self.slots.remove(place.index);
        self.is_new |= !self.is_open || !self.waiting.is_empty();
        gone
    }

    /// A function has not ended when it should. Whether its slot is lost, until it does.
    pub(crate) fn overdue(&mut self, place: Place, who: &Who) -> bool {
        let Some(slot) = self.slot(place) else {
            return false;
        };
        slot.stage = Stage::Lost(who.clone());
        true
    }

    /// An attempt is over and is to be settled by the task of the queue. None of whom if that
    /// was tried before.
    pub(crate) fn settle(
        &mut self,
        who: Option<Who>,
        delivery: Delivery,
        settlement: Settlement,
        likeness: u64,
        held: Held,
    ) {
        let place = self.begin_settling(&delivery, likeness, held);
        self.tell(Unsettled { place, delivery, settlement, who });
    }

    /// The task of the queue is to settle what is counted as being settled already.
    pub(crate) fn tell(&mut self, unsettled: Unsettled) {
        self.news.unsettled.push(unsettled);
        self.is_new = true;
    }

    /// An attempt was settled, or could not be.
    pub(crate) fn settled(
        &mut self,
        place: usize,
        settlement: Settlement,
        stale: bool,
    ) -> Finished {
        let Settling { id, life, likeness, held } = self.settling.remove(place);
        self.lives.end(life);
        Finished { id, settlement, stale: stale.then_some(likeness), held }
    }

    /// Does what the end of an attempt asks for.
    pub(crate) fn conclude(&mut self, finished: Finished) {
        let Finished { id, settlement, stale, held } = finished;
        match (held, stale) {
            (Some(again), Some(own)) if likeness(&again) == own => {
                self.settle(None, *again, settlement, own, None);
            }
            (held, stale) => {
                if let Some(likeness) = stale {
                    self.unrecorded.remember(id, likeness, settlement, Instant::now());
                }
                // The run was settled, or is not its own, so this is another job after all.
                if let Some(another) = held {
                    self.add(*another);
                }
            }
        }
    }

    /// Takes out the attempts that have reached their timeout, and says when to look again.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Abandoned>, Option<Instant>) {
        let mut expired = Vec::new();
        while let Some(index) = self.timeouts.up(now) {
            expired.extend(self.abandon(index));
        }
        (expired, self.timeouts.alarm())
    }

    /// Takes out all attempts whose functions run.
    pub(crate) fn abandon_all(&mut self) -> Vec<Abandoned> {
        let all: Vec<_> = self.slots.iter().map(|(index, _)| index).collect();
        all.into_iter().filter_map(|index| self.abandon(index)).collect()
    }

    /// Takes out what waits.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Delivery> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes out what is held.
    pub(crate) fn take_held(&mut self) -> Vec<Delivery> {
        let running = self.slots.iter_mut().filter_map(|(_, slot)| match &mut slot.stage {
            Stage::Runs(Running { held, .. }) | Stage::Ends { held, .. } => held.take(),
            _ => None,
        });
        let settling = self.settling.iter_mut().filter_map(|(_, settling)| settling.held.take());
        running.chain(settling).map(|held| *held).collect()
    }

    fn slot(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(place.index).filter(|slot| slot.number == place.number)
    }

    /// Takes out the attempt whose function runs in a slot.
    fn take_running(&mut self, index: usize) -> Option<Running> {
        let stage = &mut self.slots[index].stage;
        let running = match std::mem::replace(stage, Stage::Between) {
            Stage::Runs(running) => running,
            other => {
                *stage = other;
                return None;
            }
        };
        self.lives.end(running.delivery.epoch());
        if let Some(end) = running.end() {
            self.timeouts.remove(end, index);
        }
        Some(running)
    }

    /// A slot has begun. Others may have to, since this one has a delivery.
    fn begin(&mut self, place: Place) {
        if !std::mem::replace(&mut self.slots[place.index].has_begun, true) {
            self.to_begin -= 1;
            self.is_new |= !self.waiting.is_empty() && self.slots.len() < self.most;
        }
    }

    fn begin_settling(&mut self, delivery: &Delivery, likeness: u64, held: Held) -> usize {
        let (id, life) = (delivery.envelope().id, delivery.epoch());
        self.lives.begin(life);
        self.settling.insert(Settling { id, life, likeness, held })
    }

    fn abandon(&mut self, index: usize) -> Option<Abandoned> {
        let mut running = self.take_running(index)?;
        let held = running.held.take();
        let settling = self.begin_settling(&running.delivery, likeness(&running.delivery), held);
        let slot = &mut self.slots[index];
        slot.stage = Stage::Abandoned;
        self.abandoned += 1;
        let place = Place { index, number: slot.number };
        let task = slot.task.take().map(|(_, task)| task);
        Some(Abandoned { running, place, task, settling })
    }

    /// The next delivery that is to run.
    fn next(&mut self) -> Option<Delivery> {
        while self.is_open {
            let delivery = self.waiting.pop_front()?;
            // Running a stale one would run the job twice.
            if !delivery.is_stale()
                && let Some(delivery) = self.hold(delivery)
                && let Some(delivery) = self.settle_again(delivery)
            {
                return Some(delivery);
            }
        }
        None
    }

    /// Keeps a delivery until the end of the attempt whose job it is, if there is one: the
    /// same job, delivered again in another life, is not run beside itself. An id is a
    /// label, so several jobs may have it.
    fn hold(&mut self, delivery: Delivery) -> Option<Delivery> {
        let (id, life) = (delivery.envelope().id, delivery.epoch());
        if !self.lives.has_other(life) {
            return Some(delivery);
        }
        let this = (id, life, likeness(&delivery));
        let running = self.slots.iter_mut().filter_map(|(_, slot)| slot.held_for(this));
        let settling = self.settling.iter_mut().filter_map(|(_, one)| one.held_for(this));
        match running.chain(settling).next() {
            Some(held) => {
                // One that was held before is stale by now: there is but one delivery of a job.
                *held = Some(Box::new(delivery));
                None
            }
            None => Some(delivery),
        }
    }

    /// Settles a delivery by the outcome of the run that its job had, if that could not be
    /// recorded: running it would be a duplicate.
    fn settle_again(&mut self, delivery: Delivery) -> Option<Delivery> {
        if self.unrecorded.is_empty() {
            return Some(delivery);
        }
        let likeness = likeness(&delivery);
        match self.unrecorded.take(delivery.envelope().id, likeness, Instant::now()) {
            Some(settlement) => {
                self.settle(None, delivery, settlement, likeness, None);
                None
            }
            None => Some(delivery),
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
