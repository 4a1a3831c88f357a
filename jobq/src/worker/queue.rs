//! One queue of a pool: takes its jobs and runs them up to its concurrency.
//!
//! The task of the queue receives deliveries, and slots run them. A slot is a task of jobq's
//! runtime that makes one attempt after the other. A new one starts when a delivery finds no idle
//! slot.

mod consume;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub(super) use self::consume::consume;
use super::execution::{self, Lingering, Settled};
use super::health::Status;
use super::in_flight::{Admitted, Freed, Identity, InFlight};
use super::prefetch::Prefetch;
use super::registry::QueuePlan;
use super::shared::Shared;
use super::slot::Slot;
use super::tasks::Tasks;
use crate::engine::{Consumer, Delivery, Pause, Settlement, closed};
use crate::error::Result;
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

/// Why a queue takes no more jobs.
enum End {
    /// The pool is shut down.
    Stop,
    /// The pool was told to take no more.
    Quiet,
    /// The solo lock was requested.
    Rest,
    /// Functions past their timeout hold all slots.
    SlotsLost,
}

/// What a slot does next.
enum Next {
    /// Run this delivery, with its key in `in_flight`.
    Run(usize, Delivery),
    /// Wait until it is known whether the deliveries are still this pool's.
    Verify(BoxFuture<'static, ()>),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) pool: Arc<Shared>,
    pub(super) name: &'static str,
    state: Mutex<State>,
    /// Wakes slots that are idle.
    wake: Notify,
    /// Wakes slots that wait for a verification, when no delivery may start any more.
    closed: Notify,
    /// The wanted prefetch of the consumer.
    prefetch: watch::Sender<u16>,
    tasks: Tasks,
}

#[derive(Debug)]
struct State {
    /// Whether waiting deliveries may start.
    is_open: bool,
    waiting: VecDeque<Delivery>,
    in_flight: InFlight<Delivery>,
    /// The number of slots, idle ones included.
    slots: u32,
    idle: u16,
    prefetch: Prefetch,
}

impl Queue {
    pub(super) fn new(pool: &Arc<Shared>, name: &'static str) -> Arc<Self> {
        let prefetch = Prefetch::new(pool.plan.queues[name].concurrency);
        let (most, _) = watch::channel(prefetch.current());
        Arc::new(Self {
            pool: Arc::clone(pool),
            name,
            state: Mutex::new(State {
                is_open: false,
                waiting: VecDeque::new(),
                in_flight: InFlight::default(),
                slots: 0,
                idle: 0,
                prefetch,
            }),
            wake: Notify::new(),
            closed: Notify::new(),
            prefetch: most,
            tasks: Tasks::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn plan(&self) -> &QueuePlan {
        &self.pool.plan.queues[self.name]
    }

    pub(super) fn now(&self) -> SystemTime {
        self.pool.clock().now()
    }

    /// How many deliveries wait for a slot, and how many wait or run.
    pub(super) fn taken(&self) -> (usize, usize) {
        let state = self.state();
        (state.waiting.len(), state.waiting.len() + state.in_flight.len())
    }

    /// Takes jobs and passes them to slots.
    async fn run(self: &Arc<Self>, consumer: &mut Consumer, status: &Status) -> Result<End> {
        let mut enough = pin!(self.pool.enough.cancelled());
        let mut closing = pin!(self.pool.solo_lock.requested());
        let mut slots_lost = pin!(self.plan().slots_lost());
        let mut prefetch = self.prefetch.subscribe();
        let mut pauses = consumer.pauses();
        pauses.mark_changed();
        // Kept, since a new one costs more.
        let mut turned = pin!(next_pause(pauses));
        let mut is_paused = false;
        loop {
            tokio::select! {
                biased;
                () = &mut enough => {
                    let is_stopped = self.pool.stop.is_cancelled();
                    return Ok(if is_stopped { End::Stop } else { End::Quiet });
                }
                (pause, pauses) = turned.as_mut() => {
                    turned.set(next_pause(pauses));
                    is_paused = pause.is_some();
                    if let Some(pause) = pause {
                        self.pause(&pause, status).await;
                    } else {
                        self.open();
                        status.set_consuming(consumer);
                    }
                }
                () = &mut closing => return Ok(End::Rest),
                () = &mut slots_lost => return Ok(End::SlotsLost),
                Ok(()) = prefetch.changed() => {
                    let most = *prefetch.borrow_and_update();
                    consumer.set_prefetch(most).await;
                }
                item = consumer.next() => {
                    self.add(item.ok_or_else(closed)??);
                    while let Some(item) = consumer.ready() {
                        self.add(item?);
                    }
                    if is_paused {
                        self.release_waiting().await;
                    }
                }
            }
        }
    }

    /// Lets waiting deliveries start.
    fn open(self: &Arc<Self>) {
        let waiting = {
            let mut state = self.state();
            state.is_open = true;
            state.waiting.len()
        };
        for _ in 0..waiting {
            self.wake_slot(self.state());
        }
    }

    /// Lets no delivery start any more.
    fn close(&self) {
        let mut state = self.state();
        (state.is_open, state.idle) = (false, 0);
        self.wake.notify_waiters();
        self.closed.notify_waiters();
    }

    /// Releases waiting deliveries, and lets no other start.
    async fn pause(&self, pause: &Pause, status: &Status) {
        self.close();
        status.set_paused(pause);
        telemetry::queue_paused(self.name, pause);
        self.release_waiting().await;
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
        tokio::join!(stopping, self.tasks.ended());
        // Redeliveries that were held until the end of an attempt.
        self.release_waiting().await;
    }

    async fn release_waiting(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        // A stale delivery is released already.
        join_all(waiting.into_iter().map(|delivery| delivery.settle(Settlement::Release))).await;
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

    /// Ends all tasks at once. Deliveries dropped unsettled are released.
    async fn abandon(&self) {
        self.tasks.abort().await;
        drop(std::mem::take(&mut self.state().in_flight));
    }

    /// Queues a delivery for a slot.
    fn add(self: &Arc<Self>, delivery: Delivery) {
        let mut state = self.state();
        // Deliveries of past epochs would add up while all slots are taken.
        while state.waiting.front().is_some_and(Delivery::is_stale) {
            state.waiting.pop_front();
        }
        if let Some(prefetch) = state.prefetch.arrived(delivery.envelope().payload.len()) {
            self.prefetch.send_replace(prefetch);
        }
        state.waiting.push_back(delivery);
        self.wake_slot(state);
    }

    /// Wakes an idle slot, or starts one if the concurrency allows.
    fn wake_slot(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.idle > 0 {
            state.idle -= 1;
            // Under the lock, so that it waits for no slot that becomes idle later.
            self.wake.notify_one();
        } else if state.is_open && state.slots < u32::from(self.plan().concurrency) {
            self.spawn(self.take_slot(state).run());
        }
    }

    fn take_slot(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> Slot {
        state.slots += 1;
        Slot::new(Arc::clone(self))
    }

    /// Lets a function that goes on after a solo run keep a slot until it ends.
    pub(super) fn lose_slot(self: &Arc<Self>, function: Lingering) {
        self.take_slot(self.state()).keep(function);
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits for the next delivery to run, and returns it with its key in `in_flight`. `None` if
    /// the queue rests.
    pub(super) async fn next(self: &Arc<Self>) -> Option<(usize, Delivery)> {
        loop {
            let mut woken = pin!(self.wake.notified());
            let verification = {
                let mut state = self.state();
                if !state.is_open {
                    return None;
                }
                match self.admit_next(&mut state) {
                    Next::Run(key, delivery) => return Some((key, delivery)),
                    Next::Verify(verification) => Some(verification),
                    Next::Nothing => {
                        state.idle += 1;
                        // Registered before the lock is dropped, so no wake-up is missed.
                        woken.as_mut().enable();
                        None
                    }
                }
            };
            match verification {
                Some(verification) => self.verify(verification).await,
                None => woken.await,
            }
        }
    }

    /// Waits until it is known whether deliveries are still this pool's, or until none may start any
    /// more.
    async fn verify(&self, verification: BoxFuture<'static, ()>) {
        let closed = pin!(self.closed.notified());
        // The queue may have closed before this waits for it.
        if self.state().is_open {
            tokio::select! {
                () = verification => {}
                () = closed => {}
            }
        }
    }

    fn admit_next(self: &Arc<Self>, state: &mut State) -> Next {
        while let Some(delivery) = state.waiting.pop_front() {
            if delivery.is_stale() {
                // Running it would run the job twice.
                continue;
            }
            if let Some(verification) = delivery.verification() {
                state.waiting.push_front(delivery);
                return Next::Verify(verification);
            }
            let identity = Identity::of(&delivery);
            match state.in_flight.admit(identity, delivery, Instant::now()) {
                Some(Admitted { key, delivery, outcome: None }) => return Next::Run(key, delivery),
                Some(Admitted { key, delivery, outcome: Some(outcome) }) => {
                    self.settle_again(key, delivery, outcome);
                }
                None => {}
            }
        }
        Next::Nothing
    }

    /// Settles the redelivery of a job whose outcome could not be recorded.
    fn settle_again(self: &Arc<Self>, key: usize, delivery: Delivery, outcome: Settlement) {
        let queue = Arc::clone(self);
        self.spawn(async move {
            let settled = execution::settle_again(&queue.pool, queue.name, delivery, outcome).await;
            queue.conclude(key, settled);
        });
    }

    /// A slot has ended.
    pub(super) fn free_slot(self: &Arc<Self>) {
        let mut state = self.state();
        state.slots -= 1;
        if !state.waiting.is_empty() {
            self.wake_slot(state);
        }
    }

    /// Removes a finished attempt from those in flight, and queues or settles a held redelivery.
    pub(super) fn conclude(self: &Arc<Self>, key: usize, settled: Settled) {
        let Settled { settlement, is_stale, took } = settled;
        let mut state = self.state();
        if let Some(prefetch) = took.and_then(|took| state.prefetch.measured(took)) {
            self.prefetch.send_replace(prefetch);
        }
        let Freed { again, waiting } =
            state.in_flight.finish(key, settlement, is_stale, Instant::now());
        if let Some((held, outcome)) = again {
            let key = state.in_flight.insert(Identity::of(&held));
            self.settle_again(key, held, outcome);
        }
        for delivery in waiting {
            state.waiting.push_back(delivery);
            self.wake_slot(state);
            state = self.state();
        }
    }
}
