//! Figures, times and outcomes as people read them: `jobq` and the dashboard write them so.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use super::{Cancel, Done, End, Figure, Order, PoolRelay, RunningJob, Stop};
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::period;

/// A duration in its two largest units at most.
///
/// ```
/// use std::time::Duration;
///
/// use jobq::admin::text::duration;
///
/// assert_eq!(duration(Duration::from_micros(3_590)), "3.5ms");
/// assert_eq!(duration(Duration::from_secs(12_000)), "3h20m");
/// ```
#[must_use]
pub fn duration(duration: Duration) -> String {
    let two = |large: u64, unit: char, small: u64, part: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    let (seconds, micros) = (duration.as_secs(), duration.subsec_micros());
    match (seconds, micros) {
        (0, 0) => "0s".to_owned(),
        (0, ..1_000) => format!("{micros}µs"),
        (0, ..10_000) => format!("{}.{}ms", micros / 1_000, micros / 100 % 10),
        (0, _) => format!("{}ms", micros / 1_000),
        (1..10, _) => format!("{seconds}.{}s", micros / 100_000),
        (10..60, _) => format!("{seconds}s"),
        (60..600, _) => two(seconds / 60, 'm', seconds % 60, 's'),
        (600..3_600, _) => format!("{}m", seconds / 60),
        (3_600..86_400, _) => two(seconds / 3_600, 'h', seconds / 60 % 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds / 3_600 % 24, 'h'),
    }
}

/// How long an attempt has run, and its timeout if it has one: `1m30s of 2m`.
#[must_use]
pub fn running(job: &RunningJob) -> String {
    let timeout = job.timeout.map(|timeout| format!(" of {}", duration(timeout)));
    duration(job.running) + &timeout.unwrap_or_default()
}

/// The rows that a relay has left: `12 rows wait, the oldest for 3s, 1 refused`. Empty if it does not
/// know.
#[must_use]
pub fn backlog(relay: &PoolRelay) -> String {
    let Some(waiting) = relay.waiting else { return String::new() };
    let mut text = match waiting {
        1 => "1 row waits".to_owned(),
        _ => format!("{waiting} rows wait"),
    };
    if let Some(oldest) = relay.oldest.filter(|_| waiting > 0) {
        let _ = write!(text, ", the oldest for {}", duration(oldest));
    }
    if let Some(refused @ 1..) = relay.refused {
        let _ = write!(text, ", {refused} refused");
    }
    text
}

/// How far a clock is ahead of this machine's, from milliseconds: `clock +1m5s`.
#[must_use]
pub fn clock(ahead: i64) -> String {
    let sign = if ahead > 0 { '+' } else { '-' };
    format!("clock {sign}{}", duration(Duration::from_millis(ahead.unsigned_abs())))
}

/// A time as RFC 3339 text in UTC, to the second: `2030-01-01T08:00:00Z`. One that RFC 3339 cannot
/// express is the nearest that it can.
#[must_use]
pub fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(written(time)).to_string()
}

/// A [`time`] to the millisecond.
#[must_use]
pub fn time_millis(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(written(time)).to_string()
}

/// Times come from messages of any client.
fn written(time: SystemTime) -> SystemTime {
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    time.clamp(SystemTime::UNIX_EPOCH, last)
}

/// A time in UTC as a person writes it, or how long ago it was: `2030-01-01T08:00`, `2h`.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) if it is neither.
pub fn moment(text: &str) -> Result<SystemTime> {
    let full = if text.len() == "2030-01-01T08:00".len() { &*format!("{text}:00") } else { text };
    if let Ok(time) = humantime::parse_rfc3339_weak(full) {
        return Ok(time);
    }
    let ago = period::parse(text).ok().and_then(|ago| SystemTime::now().checked_sub(ago));
    ago.ok_or_else(|| {
        Error::invalid(format!(
            "`{text}` is not a valid time; write a UTC time such as `2030-01-01T08:00:00Z`, or an \
             age such as `2h`"
        ))
    })
}

/// The action of a pool after an order.
#[must_use]
pub fn order(order: Order) -> &'static str {
    match order {
        Order::Quiet => "takes no more jobs",
        Order::Stop => "is shutting down",
    }
}

/// How a pool cancels a job.
#[must_use]
pub fn cancel(cancel: Cancel) -> &'static str {
    match cancel {
        Cancel::Asked => "asked to end; it is dropped in five seconds",
        Cancel::AskedBlocking => "asked to end; a plain `fn` keeps its slot until it does",
        Cancel::NotRunning => "it does not run there any more",
    }
}

/// The pools and consumers that may still take jobs of a paused queue
/// ([`Paused::still_taking`](super::Paused::still_taking)). `None` if there are certainly none.
#[must_use]
pub fn still_taking(count: &Figure<u32>) -> Option<String> {
    match count {
        Figure::Known(0) => None,
        Figure::Known(count) => {
            Some(format!("pools or consumers that may still take its jobs: {count}"))
        }
        Figure::Unknown(why) => {
            Some(format!("whether pools still take its jobs is unknown: {why}"))
        }
    }
}

/// The reasons why an operation left jobs that matched.
#[must_use]
pub fn remarks(done: &Done) -> Vec<String> {
    let mut remarks = Vec::new();
    match &done.end {
        End::Finished => {}
        End::Cancelled => {
            remarks.push("the operation was cancelled; the remaining jobs stay failed".into());
        }
        End::Lost(error) => {
            remarks.push(format!(
                "the operation could not continue: {error}; run it again for the remaining jobs"
            ));
        }
        End::Stopped(stop) => remarks.push(why(stop)),
    }
    if done.unknown > 0 {
        remarks.push(format!(
            "the outcome of {} jobs is unknown, since the connection was lost: each may be \
             settled, may still be failed, or both",
            done.unknown
        ));
    }
    remarks
}

fn why(stop: &Stop) -> String {
    let list = |jobs: Vec<String>| jobs.join(", ");
    match stop {
        Stop::CanaryFailed(jobs) => {
            let jobs = jobs.iter().map(|(id, reason)| format!("{id} ({reason})"));
            let jobs = list(jobs.collect());
            format!("these canaries failed, and the remaining jobs stay failed: {jobs}")
        }
        Stop::CanaryUnknown(jobs) => {
            let jobs = list(jobs.iter().map(JobId::to_string).collect());
            format!(
                "the outcome of these canaries is unknown, and the remaining jobs stay failed: \
                 {jobs}; check that a pool consumes the queue"
            )
        }
        Stop::FailedAgain(id) => {
            format!("job {id} failed again after its retry; the remaining jobs stay failed")
        }
        Stop::TooMany => {
            "the failed jobs could not all be read in time; more of them may match, or may have \
             failed again"
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FailedReason;

    #[test]
    fn a_duration_has_at_most_two_units() {
        for (micros, expected) in [
            (0, "0s"),
            (999, "999µs"),
            (9_999, "9.9ms"),
            (850_000, "850ms"),
            (1_250_000, "1.2s"),
            (45_900_000, "45s"),
            (60_000_000, "1m"),
            (61_000_000, "1m1s"),
            (723_000_000, "12m"),
            (3_600_000_000, "1h"),
            (12_000_000_000, "3h20m"),
            (187_200_000_000, "2d4h"),
        ] {
            assert_eq!(duration(Duration::from_micros(micros)), expected);
        }
        assert!(!duration(Duration::MAX).is_empty());
        assert_eq!((clock(65_000), clock(-300)), ("clock +1m5s".into(), "clock -300ms".into()));
    }

    #[test]
    fn every_time_is_written() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(43_384_567);
        assert_eq!(time_millis(at), "1970-01-01T12:03:04.567Z");
        assert_eq!(time(at), "1970-01-01T12:03:04Z");
        // A client that sends milliseconds as seconds.
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 45);
        assert_eq!(time(far), "9999-12-31T23:59:59Z");
        assert_eq!(time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_moment_is_a_time_or_a_duration_ago() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_893_484_800);
        for text in ["2030-01-01T08:00:00Z", "2030-01-01 08:00:00", "2030-01-01T08:00"] {
            assert_eq!(moment(text).unwrap(), time, "{text}");
        }
        let ago = moment("2h").unwrap().elapsed().unwrap();
        assert!((7_200..7_260).contains(&ago.as_secs()), "{ago:?}");
        for text in ["yesterday", "99999999d", "größegrößegröße"] {
            assert!(moment(text).unwrap_err().to_string().contains("such as `2h`"), "{text}");
        }
    }

    #[test]
    fn an_attempt_is_told_with_its_timeout() {
        let mut job = RunningJob::new(JobId::new(), "pay", 1, Duration::from_secs(90));
        assert_eq!((running(&job), job.is_overdue()), ("1m30s".into(), false));
        job.timeout = Some(Duration::from_secs(60));
        assert_eq!((running(&job), job.is_overdue()), ("1m30s of 1m".into(), true));
    }

    #[test]
    fn a_stop_names_the_jobs() {
        let id = JobId::new();
        for stop in [
            Stop::CanaryFailed(vec![(id, FailedReason::Exhausted)]),
            Stop::CanaryUnknown(vec![id]),
            Stop::FailedAgain(id),
        ] {
            assert!(why(&stop).contains(&id.to_string()), "{stop:?}");
        }
    }
}
