//! The consumers that the broker counts: the current one of a channel, and those that were cancelled
//! and have unsettled deliveries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::settle::Origin;

/// Consumers of a feed, with the names that the broker shows.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Vec<(String, Weak<Origin>)>>);

impl Counted {
    fn consumers(&self) -> MutexGuard<'_, Vec<(String, Weak<Origin>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a consumer. It counts while anybody has the origin of its deliveries.
    fn add(&self, name: String, origin: &Arc<Origin>) {
        let mut consumers = self.consumers();
        consumers.retain(|(_, origin)| is_counted(origin));
        consumers.push((name, Arc::downgrade(origin)));
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut consumers = self.consumers();
        consumers.retain(|(_, origin)| is_counted(origin));
        consumers.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn is_counted(origin: &Weak<Origin>) -> bool {
    origin.upgrade().is_some_and(|origin| origin.session.is_alive())
}

/// The origins of a channel's deliveries, one for each consumer.
pub(crate) struct Origins {
    counted: Arc<Counted>,
    current: Arc<Origin>,
    /// The number and the name of each consumer, with the origin if it has deliveries.
    consumers: Vec<(u32, String, Weak<Origin>)>,
}

impl Origins {
    pub(crate) fn new(origin: Origin, counted: Arc<Counted>) -> Self {
        Self { counted, current: Arc::new(origin), consumers: Vec::new() }
    }

    /// A consumer has begun, and the one before was cancelled.
    pub(crate) fn begin(&mut self, (id, name): (u32, &str)) {
        if self.consumers.last().is_some_and(|(last, ..)| *last == id) {
            return;
        }
        if !self.consumers.is_empty() {
            self.current = Arc::new(Origin::clone(&self.current));
        }
        self.counted.add(name.to_owned(), &self.current);
        self.consumers.push((id, name.to_owned(), Arc::downgrade(&self.current)));
    }

    /// The origin of a delivery of this consumer.
    pub(crate) fn of(&mut self, id: u32) -> Arc<Origin> {
        match self.consumers.iter_mut().rev().find(|(other, ..)| *other == id) {
            None => Arc::clone(&self.current),
            Some((_, name, origin)) => origin.upgrade().unwrap_or_else(|| {
                // A late delivery of a cancelled consumer.
                let late = Arc::new(Origin::clone(&self.current));
                self.counted.add(name.clone(), &late);
                *origin = Arc::downgrade(&late);
                late
            }),
        }
    }
}
