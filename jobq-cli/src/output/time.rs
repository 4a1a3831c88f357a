//! Times for people.

use std::time::{Duration, SystemTime};

use jobq::admin::text;

/// The time of day in UTC.
pub(crate) fn time_of_day(time: SystemTime) -> String {
    text::time(time).chars().skip("1970-01-01T".len()).take("00:00:00".len()).collect()
}

/// The time since then; nothing if it is in the future.
pub(crate) fn since(time: SystemTime, now: SystemTime) -> String {
    text::duration(now.duration_since(time).unwrap_or_default())
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
