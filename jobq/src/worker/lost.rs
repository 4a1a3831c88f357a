//! The slots of functions that do not end at their timeout.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How many slots of each queue are kept by functions that should have ended.
#[derive(Debug, Default)]
pub(crate) struct LostSlots(Mutex<HashMap<&'static str, usize>>);

impl LostSlots {
    /// One more is lost; gives how many of this queue are.
    pub(crate) fn lose(&self, queue: &'static str) -> usize {
        self.change(queue, |lost| lost.saturating_add(1))
    }

    /// One is free again; gives how many of this queue are still lost.
    pub(crate) fn regain(&self, queue: &'static str) -> usize {
        self.change(queue, |lost| lost.saturating_sub(1))
    }

    /// How many are lost in a queue.
    pub(crate) fn of(&self, queue: &str) -> usize {
        let lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get(queue).copied().unwrap_or(0)
    }

    fn change(&self, queue: &'static str, change: impl FnOnce(usize) -> usize) -> usize {
        let mut lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = lost.entry(queue).or_default();
        *count = change(*count);
        *count
    }
}
