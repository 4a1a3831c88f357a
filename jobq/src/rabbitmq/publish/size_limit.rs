//! The largest message that the broker accepts (`max_message_size`), as far as is known.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::guard::lock;

/// How long a limit is trusted: it may be raised.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// The size that every broker is assumed to accept. Smaller messages are never tried alone.
const SMALL: usize = 128 * 1024;

/// The known message sizes that the broker accepts and refuses.
#[derive(Debug)]
pub(crate) struct SizeLimit {
    /// The largest payload that was accepted.
    taken: AtomicUsize,
    refused: Mutex<Option<Refused>>,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    /// The broker refuses messages above this many bytes.
    limit: usize,
    /// When a larger message is tried again.
    again: Instant,
}

impl Default for SizeLimit {
    fn default() -> Self {
        Self { taken: AtomicUsize::new(SMALL), refused: Mutex::default() }
    }
}

/// How to publish a message of some size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// With the others: the broker accepts it.
    Fits,
    /// Alone, since the size is untested: the broker ends the channel on which it refuses a
    /// message, and all that is in flight on it.
    Try,
    /// Not at all: the broker refuses messages above this many bytes.
    TooLarge(usize),
}

impl SizeLimit {
    /// Records that the broker refused a message for being larger than this.
    pub(crate) fn learn(&self, limit: usize) {
        *lock(&self.refused) = Some(Refused { limit, again: Instant::now() + KNOWN_FOR });
        self.taken.fetch_min(limit, Ordering::Relaxed);
    }

    /// Records that the broker accepted a message of this size.
    pub(crate) fn took(&self, size: usize) {
        self.taken.fetch_max(size, Ordering::Relaxed);
        lock(&self.refused).take_if(|refused| size > refused.limit);
    }

    /// Forgets the limits.
    pub(crate) fn forget(&self) {
        *lock(&self.refused) = None;
        self.taken.store(SMALL, Ordering::Relaxed);
    }

    /// Whether the broker certainly accepts a payload of this size.
    pub(crate) fn is_taken(&self, size: usize) -> bool {
        size <= self.taken.load(Ordering::Relaxed)
    }

    /// How to publish a payload of this size.
    pub(crate) fn fit(&self, size: usize) -> Fit {
        if self.is_taken(size) { Fit::Fits } else { self.above(size, Instant::now()) }
    }

    fn above(&self, size: usize, now: Instant) -> Fit {
        match &mut *lock(&self.refused) {
            Some(Refused { limit, again }) if size > *limit => {
                if now < *again {
                    return Fit::TooLarge(*limit);
                }
                // One message at a time tries.
                *again = now + KNOWN_FOR;
                Fit::Try
            }
            _ => Fit::Try,
        }
    }

    /// The broker's known limit, if this size exceeds it.
    pub(crate) fn exceeded_by(&self, size: usize) -> Option<usize> {
        lock(&self.refused).filter(|refused| size > refused.limit).map(|refused| refused.limit)
    }

    /// Returns when the limit is to be tried again.
    pub(crate) async fn may_have_changed(&self) {
        let again = lock(&self.refused).map(|refused| refused.again);
        tokio::time::sleep_until(again.unwrap_or_else(Instant::now)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_sizes_are_accepted_again() {
        let size_limit = SizeLimit::default();
        assert_eq!((size_limit.fit(SMALL), size_limit.fit(SMALL + 1)), (Fit::Fits, Fit::Try));
        size_limit.took(200_000);
        assert_eq!((size_limit.fit(200_000), size_limit.fit(200_001)), (Fit::Fits, Fit::Try));
        size_limit.took(100_000);
        assert_eq!(size_limit.fit(200_000), Fit::Fits);
    }

    #[test]
    fn a_limit_is_tried_again_by_one_after_a_while() {
        let size_limit = SizeLimit::default();
        size_limit.took(500_000);
        size_limit.learn(100_000);
        assert_eq!(size_limit.fit(100_000), Fit::Fits);
        assert_eq!(size_limit.fit(100_001), Fit::TooLarge(100_000));
        assert_eq!(size_limit.exceeded_by(100_001), Some(100_000));
        assert_eq!(size_limit.exceeded_by(100_000), None);
        let later = Instant::now() + KNOWN_FOR;
        assert_eq!(size_limit.above(100_001, later), Fit::Try);
        assert_eq!(size_limit.above(100_001, later), Fit::TooLarge(100_000));
        size_limit.took(100_001);
        assert_eq!((size_limit.fit(100_001), size_limit.fit(100_002)), (Fit::Fits, Fit::Try));
        assert_eq!(size_limit.exceeded_by(500_000), None);
    }

    #[test]
    fn a_limit_below_the_least_is_learned_too() {
        let size_limit = SizeLimit::default();
        size_limit.learn(100);
        assert_eq!((size_limit.fit(100), size_limit.fit(101)), (Fit::Fits, Fit::TooLarge(100)));
    }
}
