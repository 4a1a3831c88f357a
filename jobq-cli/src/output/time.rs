//! Times and durations for people.

use std::time::{Duration, SystemTime};

/// A duration in its two largest units at most: `850ms`, `1.2s`, `45s`, `12m`, `3h20m`, `2d4h`.
pub(crate) fn short(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let two = |large: u64, unit: char, small: u64, part: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        0 => format!("{millis}ms"),
        1..10 => format!("{seconds}.{}s", millis / 100),
        10..60 => format!("{seconds}s"),
        60..600 => two(seconds / 60, 'm', seconds % 60, 's'),
        600..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds / 60 % 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds / 3_600 % 24, 'h'),
    }
}

/// [`short`] for what may take less than a millisecond: `35µs`, `3.5ms`, `12ms`.
pub(crate) fn fine(duration: Duration) -> String {
    match duration.as_micros() {
        micros @ ..1_000 => format!("{micros}µs"),
        micros @ 1_000..10_000 => format!("{}.{}ms", micros / 1_000, micros / 100 % 10),
        _ => short(duration),
    }
}

/// A time as RFC 3339 text in UTC, with milliseconds.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(written(time)).to_string()
}

/// A time as RFC 3339 text in UTC, to the second.
pub(crate) fn stamp(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(written(time)).to_string()
}

/// The time of day in UTC.
pub(crate) fn time_of_day(time: SystemTime) -> String {
    stamp(time).chars().skip("1970-01-01T".len()).take("00:00:00".len()).collect()
}

/// The nearest time that RFC 3339 can express.
fn written(time: SystemTime) -> SystemTime {
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    time.clamp(SystemTime::UNIX_EPOCH, last)
}

/// The time since then; nothing if it is in the future.
pub(crate) fn since(time: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(time).unwrap_or_default()
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_at_most_two_units() {
        for (millis, expected) in [
            (0, "0ms"),
            (850, "850ms"),
            (1_250, "1.2s"),
            (9_999, "9.9s"),
            (45_900, "45s"),
            (60_000, "1m"),
            (61_000, "1m1s"),
            (723_000, "12m"),
            (3_600_000, "1h"),
            (12_000_000, "3h20m"),
            (187_200_000, "2d4h"),
            (864_000_000, "10d"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), expected);
        }
        short(Duration::MAX);
    }

    #[test]
    fn less_than_a_millisecond_is_shown() {
        for (micros, expected) in [
            (0, "0µs"),
            (999, "999µs"),
            (1_000, "1.0ms"),
            (9_999, "9.9ms"),
            (10_000, "10ms"),
            (1_250_000, "1.2s"),
        ] {
            assert_eq!(fine(Duration::from_micros(micros)), expected);
        }
    }

    #[test]
    fn every_time_is_written() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(43_384_567);
        assert_eq!(rfc3339(time), "1970-01-01T12:03:04.567Z");
        assert_eq!(stamp(time), "1970-01-01T12:03:04Z");
        assert_eq!(time_of_day(time), "12:03:04");
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 45);
        assert_eq!(stamp(far), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_time_in_the_future_is_now() {
        let now = SystemTime::now();
        assert_eq!(since(now + Duration::from_secs(9), now), Duration::ZERO);
    }
}
