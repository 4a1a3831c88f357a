//! The time of day.

use std::time::SystemTime;

use crate::job::{from_millis, to_millis};

/// The time now, cut to whole milliseconds, so that it is the same after a round trip
/// through an engine that keeps milliseconds.
pub(crate) fn now() -> SystemTime {
    from_millis(to_millis(SystemTime::now()))
}
