//! One queue of a pool: takes its jobs and runs them up to its concurrency.
//!
//! The task of the queue takes deliveries into the [book](super::book), from which
//! [`attempts`](self::attempts) go to slots. [`overdue`] ends those that take too long.

mod attempts;
mod consume;
mod overdue;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use futures_util::future::{AbortHandle, join_all};
use slab::Slab;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use self::attempts::Run;
pub(super) use self::attempts::Settled;
pub(super) use self::consume::consume;
use super::book::Book;
use super::flow::{Flow, Holds, Rest};
use super::health::Status;
use super::observer::Observer;
use super::registry::QueuePlan;
use super::shared::Shared;
use super::tasks::Tasks;
use crate::engine::{Consumer, Delivery, LastMinute, Pause, RunningJob, Settlement, closed};
use crate::error::Result;
use crate::guard::lock;
use crate::telemetry;

/// The next pause of a queue, or `None` when it goes on; with the source of the one after that.
async fn next_pause(
    mut pauses: watch::Receiver<Option<Pause>>,
) -> (Option<Pause>, watch::Receiver<Option<Pause>>) {
    if pauses.changed().await.is_err() {
        // There are no more.
        std::future::pending::<()>().await;
    }
    let pause = pauses.borrow_and_update().clone();
    (pause, pauses)
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) pool: Arc<Shared>,
    pub(super) name: &'static str,
    pub(super) observer: Observer,
    state: Mutex<State>,
    /// Wakes who waits until no job is in flight.
    emptied: Notify,
    /// Wakes who looks after timeouts, when one comes before all others.
    sooner: Notify,
    /// The wanted prefetch of the consumer.
    prefetch: watch::Sender<u16>,
    /// The settlements that take time.
    tasks: Tasks,
}

#[derive(Debug)]
struct State {
    book: Book<Delivery, Run>,
    slots: Slab<SlotHandle>,
    /// When who looks after timeouts wakes by itself.
    wakes_at: Option<Instant>,
}

/// What can be done to a slot from outside.
#[derive(Debug, Default)]
struct SlotHandle {
    /// The job that it runs.
    key: Option<usize>,
    /// Ends its function at the next `.await` point. `None` for a thread.
    abort: Option<AbortHandle>,
    /// Told when the slot ends, if its function outlives its attempt.
    outlived: Option<oneshot::Sender<()>>,
}

impl Queue {
    pub(super) fn new(pool: &Arc<Shared>, name: &'static str) -> Arc<Self> {
        let plan = &pool.plan.queues[name];
        let client = pool.resources.client.clone();
        let observer = Observer::new(client, name, pool.plan.jobs_of(name));
        let mut book = Book::new(plan.concurrency, pool.plan.is_strict);
        if plan.priorities {
            book.set_priorities();
        }
        let prefetch = book.prefetch();
        Arc::new(Self {
            pool: Arc::clone(pool),
            name,
            observer,
            state: Mutex::new(State { book, slots: Slab::new(), wakes_at: None }),
            emptied: Notify::new(),
            sooner: Notify::new(),
            prefetch: watch::channel(prefetch).0,
            tasks: Tasks::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn plan(&self) -> &QueuePlan {
        &self.pool.plan.queues[self.name]
    }

    pub(super) fn now(&self) -> SystemTime {
        self.pool.clock().now()
    }

    /// How many deliveries wait for a slot, and how many wait or are in flight.
    pub(super) fn taken(&self) -> (usize, usize) {
        let state = self.state();
        (state.book.waiting(), state.book.waiting() + state.book.in_flight())
    }

    /// The attempts that run.
    pub(super) fn running(&self) -> Vec<RunningJob> {
        let state = self.state();
        let runs = state.book.running().map(|running| &running.run);
        runs.map(|run| run.attempt.report(run.job.options.timeout)).collect()
    }

    /// The outcomes and waits of the last minute.
    pub(super) fn last_minute(&self) -> LastMinute {
        let waits = {
            let state = self.state();
            state.book.running().filter_map(|running| running.run.started.waited()).collect()
        };
        self.observer.last_minute(waits)
    }

    /// Takes jobs and passes them to slots, until the queue rests.
    async fn run(self: &Arc<Self>, consumer: &mut Consumer, status: &Status) -> Result<Rest> {
        let mut prefetch = self.prefetch.subscribe();
        if consumer.has_priorities() {
            self.set_priorities();
        }
        // It may have changed since the consumer was asked for.
        prefetch.mark_changed();
        let mut enough = pin!(self.pool.enough.cancelled());
        let mut closing = pin!(self.pool.solo_lock.requested());
        let mut slots_lost = pin!(self.plan().slots_lost());
        let mut most = *prefetch.borrow();
        let mut pauses = consumer.pauses();
        pauses.mark_changed();
        // Kept across turns of the loop, since a new one costs more.
        let mut pause_change = pin!(next_pause(pauses));
        let mut holds = Holds::default();
        loop {
            tokio::select! {
                biased;
                () = &mut enough => {
                    let is_stopped = self.pool.stop.is_cancelled();
                    holds.rest(if is_stopped { Rest::Stopped } else { Rest::Quiet });
                }
                (pause, pauses) = pause_change.as_mut() => {
                    pause_change.set(next_pause(pauses));
                    holds.pause = pause;
                }
                () = &mut closing => holds.rest(Rest::Solo),
                () = &mut slots_lost => holds.rest(Rest::SlotsLost),
                Ok(()) = prefetch.changed() => {
                    most = *prefetch.borrow_and_update();
                    consumer.set_prefetch(most).await;
                    self.add_ready(consumer)?;
                    if most == 0 {
                        self.release_waiting().await;
                    }
                    continue;
                }
                item = consumer.next() => {
                    self.add(item.ok_or_else(closed)??);
                    self.add_ready(consumer)?;
                    if holds.pause.is_some() || most == 0 {
                        self.release_waiting().await;
                    }
                    continue;
                }
            }
            match holds.flow() {
                Flow::Open => {
                    self.open();
                    status.set_consuming(consumer);
                }
                Flow::Paused(pause) => self.pause(&pause, status).await,
                Flow::Resting(rest) => return Ok(rest),
            }
        }
    }

    /// Runs so many attempts at once from now on. Attempts beyond that go on. Returns how many it were.
    pub(super) fn set_slots(self: &Arc<Self>, count: u16) -> u16 {
        let mut before = count;
        {
            let book = &mut self.state().book;
            let slots = &self.plan().slots;
            slots.send_modify(|slots| before = std::mem::replace(&mut slots.count, count));
            book.set_concurrency(count);
            self.want(book);
        }
        self.observer.slots_changed(|| self.plan().slots().count);
        self.start_slots();
        before
    }

    /// The engine has found jobs with priorities, which this pool's jobs may not have.
    fn set_priorities(&self) {
        let book = &mut self.state().book;
        book.set_priorities();
        self.want(book);
    }

    /// The wanted prefetch of the consumer.
    pub(super) fn prefetch(&self) -> u16 {
        *self.prefetch.borrow()
    }

    /// Lets waiting deliveries start.
    fn open(self: &Arc<Self>) {
        self.state().book.set_open(true);
        self.start_slots();
    }

    /// Lets no delivery start any more.
    fn close(&self) {
        self.state().book.set_open(false);
    }

    /// Takes the deliveries that have arrived.
    fn add_ready(self: &Arc<Self>, consumer: &mut Consumer) -> Result<()> {
        while let Some(item) = consumer.ready() {
            self.add(item?);
        }
        Ok(())
    }

    /// Takes a delivery.
    fn add(self: &Arc<Self>, delivery: Delivery) {
        let bytes = delivery.envelope().payload.len();
        let may_start = {
            let book = &mut self.state().book;
            book.arrive(delivery, bytes);
            self.want(book);
            book.may_start(|delivery| self.blocks(delivery))
        };
        if may_start {
            self.start_slots();
        }
    }

    /// Has the consumer take as many jobs at once as the book wants. Its caller has the lock, so that the
    /// newest number is the last one that is told.
    fn want(&self, book: &mut Book<Delivery, Run>) {
        if let Some(prefetch) = book.new_prefetch() {
            self.prefetch.send_replace(prefetch);
        }
    }

    /// Looks whether a job waits for a slot that waited at the last look already.
    pub(super) fn look_if_stuck(&self) -> bool {
        self.state().book.look_if_stuck()
    }

    /// Hands back the jobs that wait behind those that run. Returns their number.
    pub(super) fn hand_back(&self) -> usize {
        let book = &mut self.state().book;
        let jobs = book.hand_back();
        self.want(book);
        jobs
    }

    /// Whether the function of a delivery is a plain `fn`.
    fn blocks(&self, delivery: &Delivery) -> bool {
        let name = self.plan().job_of(delivery.envelope());
        self.pool.plan.jobs.get(name).is_some_and(|job| job.blocks)
    }

    /// Releases waiting deliveries, and lets no other start.
    async fn pause(&self, pause: &Pause, status: &Status) {
        self.close();
        status.set_paused(pause);
        telemetry::queue_paused(self.name, pause);
        self.release_waiting().await;
    }

    /// Releases the deliveries that wait, in their order: those of one epoch together, and each epoch
    /// after the one before.
    async fn release_waiting(&self) {
        let mut waiting = self.state().book.take_waiting();
        while let Some(epoch) = waiting.front().map(Delivery::epoch) {
            let next = waiting.iter().position(|delivery| delivery.epoch() != epoch);
            let same = waiting.drain(..next.unwrap_or(waiting.len()));
            // A stale delivery is released already.
            join_all(same.map(|delivery| delivery.settle(Settlement::Release))).await;
        }
    }

    /// Stops consuming, releases waiting deliveries, and waits for running attempts. `stopped` is
    /// called when no more jobs are taken.
    async fn rest(&self, consumer: &mut Consumer, stopped: impl FnOnce()) {
        self.close();
        self.release_waiting().await;
        let stopping = async {
            // A pool whose time is over waits for no engine that does not answer.
            self.pool.halt.run_until_cancelled(consumer.stop()).await;
            stopped();
        };
        // Attempts may end while the engine stops.
        tokio::join!(stopping, self.is_empty());
        // Redeliveries that were held until the end of an attempt.
        self.release_waiting().await;
    }

    /// Returns when no job is in flight.
    async fn is_empty(&self) {
        loop {
            let mut emptied = pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.state().book.in_flight() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Rests, and gives up what the engine has not recorded when it is [too
    /// late](Shared::too_late).
    async fn drain(&self, consumer: &mut Consumer, stopped: impl FnOnce()) {
        if self.tasks.are_aborted() {
            return;
        }
        tokio::select! {
            () = self.rest(consumer, stopped) => {}
            () = self.pool.too_late() => self.abandon().await,
        }
    }

    /// Gives up all that is in flight. Deliveries dropped unsettled are released.
    async fn abandon(&self) {
        self.tasks.abort().await;
        let given_up = self.state().book.abandon();
        drop(given_up);
    }
}
