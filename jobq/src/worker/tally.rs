//! Counts of the outcomes of a pool's attempts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Settlement;

/// Counters by outcome.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    completed: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    /// Counts a settlement that ends an attempt; others are ignored.
    pub(crate) fn count(&self, settlement: &Settlement) {
        let counter = match settlement {
            Settlement::Complete => &self.completed,
            Settlement::Retry(_) => &self.retried,
            Settlement::Fail { .. } => &self.failed,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers of completed, retried and failed attempts.
    pub(crate) fn read(&self) -> [u64; 3] {
        [&self.completed, &self.retried, &self.failed]
            .map(|counter| counter.load(Ordering::Relaxed))
    }
}
