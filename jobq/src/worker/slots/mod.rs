//! The slots of one queue. What is decided of them is in [`state`], pure; what runs in one is in
//! [`slot`].
//!
//! A slot is a task in the program's runtime, or a thread where plain functions run, for as long
//! as there are deliveries: when a function has ended, its slot goes on with the next delivery
//! that waits, without asking anybody. The task of the queue, in jobq's runtime, brings
//! deliveries, and learns only of what takes longer than a moment or of what no slot can do.

mod parts;
mod slot;
mod state;
mod timeouts;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

pub(crate) use self::parts::{Abandoned, Finished, Running, Unsettled};
use self::parts::{Held, Place};
pub(crate) use self::slot::occupy;
pub(crate) use self::state::State;
use crate::engine::{Delivery, Settlement};
use crate::telemetry::Who;
use crate::worker::attempt::{Shared, likeness};

/// The slots of one queue of a pool.
pub(crate) struct Slots {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: &'static str,
    /// Whether plain `fn`s run in it.
    blocks: bool,
    state: Mutex<State>,
    /// For the one who waits for news.
    told: Notify,
}

impl Slots {
    /// So many slots at most.
    pub(crate) fn new(shared: Arc<Shared>, queue: &'static str, most: usize) -> Arc<Self> {
        let plan = &shared.plan.queues[queue];
        let (blocks, state) = (plan.blocks, Mutex::new(State::new(most, plan.concurrency)));
        Arc::new(Self { shared, queue, blocks, state, told: Notify::new() })
    }

    /// Changes the state, and tells whoever waits if there are news now.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let tells = state.tells_news();
        drop(state);
        if tells {
            self.told.notify_one();
        }
        result
    }

    /// Has the task of the queue settle an attempt that is over.
    pub(crate) fn settle(&self, who: Who, delivery: Delivery, settlement: Settlement, held: Held) {
        let likeness = likeness(&delivery);
        self.change(|state| state.settle(Some(who), delivery, settlement, likeness, held));
    }

    /// A function has not ended when it should: its slot is lost, until it does.
    pub(crate) fn overdue(&self, place: Place, who: &Who) {
        let lost = self.change(|state| {
            // Counted in one step with that, since the function may end in the next moment.
            state.overdue(place, who).then(|| self.shared.lost.lose(self.queue))
        });
        if let Some(lost) = lost {
            who.lost_slot(lost, self.shared.plan.queues[self.queue].concurrency);
        }
    }

    /// Returns when there are news.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }
}
