//! Counts of the outcomes of a pool's attempts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Settlement;

/// Counters by outcome.
#[derive(Debug, Default)]
pub(super) struct Tally {
    completed: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    unrecorded: AtomicU64,
}

impl Tally {
    /// Counts a settlement that ends an attempt, by its outcome if the engine has recorded it; others
    /// are ignored.
    pub(super) fn count(&self, settlement: &Settlement, is_recorded: bool) {
        let counter = match settlement {
            Settlement::Complete | Settlement::Retry(_) | Settlement::Fail { .. }
                if !is_recorded =>
            {
                &self.unrecorded
            }
            Settlement::Complete => &self.completed,
            Settlement::Retry(_) => &self.retried,
            Settlement::Fail { .. } => &self.failed,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers of completed, retried and failed attempts, and of those whose outcomes were not
    /// recorded.
    pub(super) fn read(&self) -> [u64; 4] {
        [&self.completed, &self.retried, &self.failed, &self.unrecorded]
            .map(|counter| counter.load(Ordering::Relaxed))
    }
}
