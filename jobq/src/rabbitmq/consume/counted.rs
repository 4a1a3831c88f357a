//! The consumers of a subscription that the broker counts. It counts one that was cancelled until
//! its deliveries are settled (3.10, 4.0 and 4.3).

use std::fmt;
use std::sync::Mutex;

use crate::guard::lock;

/// The consumers of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Consumers>);

#[derive(Default)]
struct Consumers {
    /// The tag of the one that is not cancelled.
    current: Option<String>,
    /// Whether each of the others has unsettled deliveries.
    cancelled: Vec<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Consumers {
    fn forget_settled(&mut self) {
        self.cancelled.retain(|is_unsettled| is_unsettled());
    }
}

impl fmt::Debug for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumers").field("current", &self.current).finish_non_exhaustive()
    }
}

impl Counted {
    /// A consumer with this tag has begun.
    pub(crate) fn begin(&self, tag: &str) {
        lock(&self.0).current = Some(tag.to_owned());
    }

    /// The current consumer was cancelled.
    pub(crate) fn cancel(&self) {
        lock(&self.0).current = None;
    }

    /// A consumer that was cancelled has unsettled deliveries while this holds.
    pub(crate) fn add_cancelled(&self, is_unsettled: impl Fn() -> bool + Send + Sync + 'static) {
        let mut consumers = lock(&self.0);
        consumers.forget_settled();
        consumers.cancelled.push(Box::new(is_unsettled));
    }

    /// The tag of the consumer that is not cancelled.
    pub(crate) fn current(&self) -> Option<String> {
        lock(&self.0).current.clone()
    }

    /// The numbers of consumers that are not cancelled, and of the others that are counted.
    pub(crate) fn count(&self) -> (u32, u32) {
        let mut consumers = lock(&self.0);
        consumers.forget_settled();
        let cancelled = u32::try_from(consumers.cancelled.len()).unwrap_or(u32::MAX);
        (consumers.current.is_some().into(), cancelled)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_cancelled_consumer_counts_while_it_has_deliveries() {
        let counted = Counted::default();
        assert_eq!(counted.count(), (0, 0));
        counted.begin("a");
        let unsettled = Arc::new(AtomicBool::new(true));
        let has_deliveries = Arc::clone(&unsettled);
        counted.cancel();
        counted.add_cancelled(move || has_deliveries.load(Ordering::Relaxed));
        assert_eq!((counted.count(), counted.current()), ((0, 1), None));
        counted.begin("b");
        assert_eq!((counted.count(), counted.current()), ((1, 1), Some("b".to_owned())));
        unsettled.store(false, Ordering::Relaxed);
        assert_eq!(counted.count(), (1, 0));
    }

    #[test]
    fn consumers_without_deliveries_are_forgotten_though_nobody_counts() {
        let counted = Counted::default();
        (0..100).for_each(|_| counted.add_cancelled(|| false));
        assert_eq!(lock(&counted.0).cancelled.len(), 1);
    }
}
