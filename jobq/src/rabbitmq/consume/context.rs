//! The context in which the deliveries of a subscription are settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

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
    freed: Notify,
}

impl InFlightCount {
    pub(crate) fn new(limit: u16) -> Self {
        let (count, freed) = (AtomicUsize::new(0), Notify::new());
        Self { count, limit: AtomicU16::new(limit), freed }
    }

    pub(crate) fn limit(&self) -> u16 {
        self.limit.load(Ordering::SeqCst)
    }

    /// Takes effect at the next [`is_full`](Self::is_full).
    pub(crate) fn set_limit(&self, limit: u16) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count.load(Ordering::SeqCst) >= usize::from(self.limit())
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one delivery less, and wakes the waiting caller if the limit was reached.
    pub(crate) fn remove(&self) {
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        if before >= usize::from(self.limit()) {
            self.freed.notify_one();
        }
    }

    /// Returns once there is room after the limit was reached; for one caller.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}
