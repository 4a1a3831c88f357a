//! Histograms that begin with their first value.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use ::metrics::{Histogram, Key};

use super::METADATA;

/// A histogram that the recorder learns of at its first value. One without a value would be a dozen
/// lines of each scrape.
pub(super) struct LazyHistogram {
    key: Key,
    registered: OnceLock<Histogram>,
}

impl LazyHistogram {
    pub(super) fn new(key: Key) -> Self {
        Self { key, registered: OnceLock::new() }
    }

    pub(super) fn record(&self, value: Duration) {
        let register = || {
            ::metrics::with_recorder(|recorder| recorder.register_histogram(&self.key, &METADATA))
        };
        self.registered.get_or_init(register).record(value);
    }
}

impl fmt::Debug for LazyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyHistogram").field(&self.key.name()).finish()
    }
}
