//! The context in which the deliveries of a subscription are settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::names::Names;

/// The parts of the engine with which the deliveries of a subscription are settled. They share it,
/// since each reference count is a word of memory that several processors write.
#[derive(Debug)]
pub(crate) struct SettleContext {
    pub(crate) declarer: Arc<Declarer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) queue: &'static str,
    pub(crate) clock: Clock,
    pub(crate) in_flight: InFlightCount,
    /// Jobs that are requeued as new messages.
    pub(crate) tasks: TaskTracker,
}

impl SettleContext {
    pub(crate) fn names(&self) -> &Names {
        self.declarer.known().names()
    }
}

/// The number of deliveries of one consumer that are in flight, and its limit.
#[derive(Debug)]
pub(crate) struct InFlightCount {
    count: AtomicUsize,
    limit: AtomicU16,
    /// Whether the caller is woken by each delivery less.
    is_watched: AtomicBool,
    freed: Notify,
}

impl InFlightCount {
    pub(crate) fn new(limit: u16) -> Self {
        let (count, freed) = (AtomicUsize::new(0), Notify::new());
        let (limit, is_watched) = (AtomicU16::new(limit), AtomicBool::new(false));
        Self { count, limit, is_watched, freed }
    }

    pub(crate) fn limit(&self) -> u16 {
        self.limit.load(Ordering::SeqCst)
    }

    /// Takes effect at the next [`is_full`](Self::is_full).
    pub(crate) fn set_limit(&self, limit: u16) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count() >= usize::from(self.limit())
    }

    /// Has the waiting caller woken by each delivery less, or only at the limit.
    pub(crate) fn watch(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::SeqCst);
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one delivery less, and wakes the waiting caller if the limit was reached or it
    /// watches.
    pub(crate) fn remove(&self) {
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        if before >= usize::from(self.limit()) || self.is_watched.load(Ordering::SeqCst) {
            self.freed.notify_one();
        }
    }

    /// Returns once there is a delivery less after the limit was reached, or while the caller
    /// watches; for one caller.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}
