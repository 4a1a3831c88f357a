//! The time of day.

use std::time::SystemTime;

use crate::job::{from_millis, to_millis};

/// The current time, truncated to whole milliseconds, so that it survives a round trip through an
/// engine that keeps milliseconds.
pub(crate) fn now() -> SystemTime {
    from_millis(to_millis(SystemTime::now()))
}
