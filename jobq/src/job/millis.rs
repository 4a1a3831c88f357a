//! Times in whole milliseconds since 1970, for headers and files.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serializer;

/// Milliseconds since 1970; 0 for a time before it.
pub(crate) fn to_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time this many milliseconds after 1970, at most the year 10,000.
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    const YEAR_10_000: u64 = 253_402_300_800_000;
    UNIX_EPOCH + Duration::from_millis(millis.min(YEAR_10_000))
}

/// Serializes a time as milliseconds since 1970.
pub(crate) fn serialize<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(to_millis(*time))
}
