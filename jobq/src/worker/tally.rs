//! How many attempts of a pool ended in which way.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Settlement;

/// How many attempts were decided on so.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    completed: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    /// One more. What is no end of an attempt does not count.
    pub(crate) fn count(&self, settlement: &Settlement) {
        let counter = match settlement {
            Settlement::Complete => &self.completed,
            Settlement::Retry(_) => &self.retried,
            Settlement::Fail { .. } => &self.failed,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How many jobs completed, were to be repeated, and failed for good.
    pub(crate) fn read(&self) -> [u64; 3] {
        [&self.completed, &self.retried, &self.failed]
            .map(|counter| counter.load(Ordering::Relaxed))
    }
}
