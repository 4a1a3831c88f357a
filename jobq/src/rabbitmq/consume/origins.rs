//! The origins of a channel's deliveries, one for each consumer: so the deliveries of each are
//! counted.

use std::sync::{Arc, Weak};

use super::settle::Origin;
use crate::rabbitmq::control::Counted;

/// The origins of a channel's deliveries.
pub(crate) struct Origins {
    counted: Arc<Counted>,
    current: Arc<Origin>,
    /// The number of each consumer, with the origin if it has deliveries; the newest last.
    consumers: Vec<(u32, Weak<Origin>)>,
}

/// How many of the newest consumers are kept although they have no deliveries: some may be late.
const KEPT: usize = 8;

impl Origins {
    pub(crate) fn new(origin: Origin, counted: Arc<Counted>) -> Self {
        Self { counted, current: Arc::new(origin), consumers: Vec::new() }
    }

    /// A consumer has begun, and the one before was cancelled.
    pub(crate) fn begin(&mut self, (id, tag): (u32, &str)) {
        if self.consumers.last().is_some_and(|(last, _)| *last == id) {
            return;
        }
        if !self.consumers.is_empty() {
            let new = Arc::new(Origin::clone(&self.current));
            let cancelled = std::mem::replace(&mut self.current, new);
            self.add_cancelled(&cancelled);
        }
        self.counted.begin(tag);
        let old = self.consumers.len().saturating_sub(KEPT);
        let has_deliveries = |(_, origin): &(u32, Weak<Origin>)| origin.strong_count() > 0;
        self.consumers.extract_if(..old, |consumer| !has_deliveries(consumer)).for_each(drop);
        self.consumers.push((id, Arc::downgrade(&self.current)));
    }

    fn add_cancelled(&self, origin: &Arc<Origin>) {
        let origin = Arc::downgrade(origin);
        let is_unsettled = move || origin.upgrade().is_some_and(|origin| origin.session.is_alive());
        self.counted.add_cancelled(is_unsettled);
    }

    /// The origin of a delivery of this consumer.
    pub(crate) fn of(&mut self, id: u32) -> Arc<Origin> {
        let known = self.consumers.iter().rposition(|(other, _)| *other == id);
        let Some(position) = known else {
            return Arc::clone(&self.current);
        };
        self.consumers[position].1.upgrade().unwrap_or_else(|| {
            // A late delivery of a cancelled consumer.
            let late = Arc::new(Origin::clone(&self.current));
            self.add_cancelled(&late);
            self.consumers[position].1 = Arc::downgrade(&late);
            late
        })
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        self.add_cancelled(&self.current);
        self.counted.cancel();
    }
}
