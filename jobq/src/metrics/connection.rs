//! The metrics of an engine's connections.

use ::metrics::Counter;

use super::{FAILED, RECONNECTS, UNKNOWN};
use crate::job::FailedReason;

/// The handles for the connections of an engine.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    reconnects: Counter,
    unroutable: Counter,
}

impl ConnectionMetrics {
    pub(crate) fn new() -> Self {
        super::describe();
        let unroutable = [UNKNOWN, UNKNOWN, FailedReason::Unroutable.as_str()];
        Self { reconnects: RECONNECTS.counter([]), unroutable: FAILED.counter(unroutable) }
    }

    /// A lost connection was established again.
    pub(crate) fn reconnected(&self) {
        self.reconnects.increment(1);
    }

    /// A job failed since its queue does not exist. The message alone names that queue and the job.
    pub(crate) fn unroutable(&self) {
        self.unroutable.increment(1);
    }
}
