//! The retry rule: the next step of a job after an attempt.
//!
//! Pure: its inputs are the job's policy, the number and the ending of the attempt, and a random
//! number; the worker carries out the result.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::job::{Delay, Ending, Envelope, Exponential, FailedReason, JobOptions};
use crate::period;

/// The wait before a job of an unknown name is retried: a rolling deployment may add the job.
pub(crate) const UNKNOWN_JOB_WAIT: Duration = Duration::from_secs(30);
/// How long a job waits that needs what this version lacks.
const UNMET_NEED_WAIT: Duration = Duration::from_secs(30);
/// How often a job whose name is unknown is retried before it fails.
pub(crate) const UNKNOWN_JOB_RETRIES: u32 = 20;

/// How many crashes of its workers lead to a solo run of a job. Other jobs of the same worker are
/// counted as well, so this is no proof.
const SUSPECTED: u32 = 3;
/// How many solo starts a job has before it fails.
const MAX_SOLO_STARTS: u32 = 3;
/// The timeout of a solo run of a job that has none: its pool runs nothing else meanwhile.
pub(crate) const SOLO_TIMEOUT: Duration = Duration::from_secs(600);

/// The next step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The job is done.
    Complete,
    /// Run it again after this wait; an attempt is used up.
    Retry(Duration),
    /// Run it again after this wait; no attempt is used up.
    Snooze(Duration),
    /// The job failed for good.
    Fail(FailedReason),
}

/// The next step after attempt number `attempt` (from 1) of a job with this policy and ending. A
/// job that runs `once` has no attempt after a failed one, whatever its policy. No wait is longer
/// than [`period::MAX`]. `random` is uniform in 0 to 1 and sets the jitter.
pub(crate) fn after(
    options: &JobOptions,
    attempt: u32,
    once: bool,
    ending: &Ending,
    random: impl FnOnce() -> f64,
) -> Next {
    let retry = |wait| {
        if !once && attempt < options.max_attempts() {
            Next::Retry(wait)
        } else {
            Next::Fail(FailedReason::Exhausted)
        }
    };
    match ending {
        Ending::Completed => Next::Complete,
        Ending::Failed => retry(wait(&options.delay, attempt, random())),
        Ending::RetryIn(wait) => retry(bounded(*wait)),
        Ending::Snoozed(wait) => Next::Snooze(bounded(*wait)),
        Ending::Aborted => Next::Fail(FailedReason::Aborted),
    }
}

/// The next step of a job that a worker does not know: its name is unknown, or it needs an
/// unsupported feature.
pub(crate) fn after_unknown(attempt: u32) -> Next {
    if attempt <= UNKNOWN_JOB_RETRIES {
        Next::Retry(UNKNOWN_JOB_WAIT)
    } else {
        Next::Fail(FailedReason::UnknownJob)
    }
}

/// The next step of a job that needs what this version of jobq lacks: a worker of another version may
/// have it. Whatever else is the matter with the job, it is not this version that decides about it.
pub(crate) fn after_unmet_need() -> Next {
    Next::Snooze(UNMET_NEED_WAIT)
}

/// Whether a job with this many crashes needs a solo run.
pub(crate) fn is_suspected(crashes: u32) -> bool {
    crashes >= SUSPECTED
}

/// Whether a job with this many solo starts has failed: each time it was the only job of its
/// worker, and the worker crashed.
pub(crate) fn is_poison(starts: u32) -> bool {
    starts >= MAX_SOLO_STARTS
}

/// Whether the job has expired.
///
/// A job has its expiry in its envelope. An event has one only if its publisher set it; otherwise
/// the policy of the subscriber applies, from the arrival of the event, which one with a delay
/// states. Engines keep the arrival to the second, so the expiry counts from the end of that
/// second.
pub(crate) fn is_expired(
    options: &JobOptions,
    job: &Envelope,
    now: impl FnOnce() -> SystemTime,
) -> bool {
    let of_event = || {
        let limit = options.expires.filter(|_| job.topic.is_some())?;
        job.due().checked_add(limit.checked_add(Duration::from_secs(1))?)
    };
    job.expires_at.or_else(of_event).is_some_and(|end| end <= now())
}

/// The wait after failed attempt number `attempt`.
fn wait(delay: &Delay, attempt: u32, random: f64) -> Duration {
    let retry = attempt.max(1) - 1;
    let wait = match delay {
        Delay::Constant(wait) => *wait,
        Delay::List(waits) => {
            let last = waits.len().saturating_sub(1);
            let index = usize::try_from(retry).map_or(last, |retry| retry.min(last));
            waits.get(index).copied().unwrap_or_default()
        }
        Delay::Exponential(growth) => {
            let shortened = share(growth.jitter) * share(random);
            #[allow(clippy::disallowed_methods)] // at most `period::MAX`, and made shorter
            let shorter = grown(growth, retry).mul_f64(1.0 - shortened);
            shorter
        }
    };
    bounded(wait)
}

/// This wait, at most the bounded one that every engine supports.
fn bounded(wait: Duration) -> Duration {
    wait.min(period::MAX)
}

/// The number, clamped to 0 to 1.
fn share(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number.clamp(0.0, 1.0) }
}

/// The wait before retry number `retry` (from 0), without its jitter.
fn grown(growth: &Exponential, retry: u32) -> Duration {
    // `max` replaces a factor of NaN.
    let factor = growth.factor.max(1.0).powf(f64::from(retry));
    let seconds = growth.first.as_secs_f64() * factor;
    let max = bounded(growth.max);
    Duration::try_from_secs_f64(seconds).map_or(max, |wait| wait.min(max))
}

/// The wait after a first failed attempt, without jitter.
pub(crate) fn first_wait(options: &JobOptions) -> Duration {
    wait(&options.delay, 1, 0.0)
}

/// The fixed waits of the policy. A growing delay has none, since it has many or, with jitter,
/// arbitrary waits.
pub(crate) fn waits(options: &JobOptions) -> BTreeSet<Duration> {
    let retries = usize::try_from(options.max_attempts() - 1).unwrap_or(usize::MAX);
    match &options.delay {
        Delay::Constant(wait) => std::iter::once(bounded(*wait)).take(retries).collect(),
        Delay::List(waits) => waits.iter().copied().map(bounded).take(retries).collect(),
        Delay::Exponential(_) => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const LIST: &[Duration] = &[secs(10), secs(60), secs(600)];

    #[test]
    fn a_failure_is_retried_until_the_attempts_are_used_up() {
        let constant = JobOptions::new().delay(Delay::constant(secs(5)));
        let list = JobOptions::new().delay(Delay::list(LIST)).retries(5);
        let once = JobOptions::new().retries(0);
        let growing = JobOptions::new()
            .delay(Delay::Exponential(Exponential::new(secs(10)).max(secs(60)).factor(3.0)))
            .retries(4);
        let exhausted = Next::Fail(FailedReason::Exhausted);
        let table = [
            (constant, vec![Next::Retry(secs(5)); 3], exhausted),
            (list, [10, 60, 600, 600, 600].map(|s| Next::Retry(secs(s))).to_vec(), exhausted),
            (once, vec![], exhausted),
            (growing, [10, 30, 60, 60].map(|s| Next::Retry(secs(s))).to_vec(), exhausted),
        ];
        for (options, retries, last) in table {
            for (attempt, expected) in (1..).zip(retries.iter().chain([&last, &last])) {
                let next = after(&options, attempt, false, &Ending::Failed, || 0.0);
                assert_eq!(next, *expected, "attempt {attempt} of {options:?}");
            }
        }
    }

    #[test]
    fn an_attempt_may_choose_the_next_step() {
        let options = JobOptions::new().retries(1);
        let exhausted = Next::Fail(FailedReason::Exhausted);
        let table = [
            (1, Ending::Completed, Next::Complete),
            (9, Ending::Completed, Next::Complete),
            (1, Ending::Aborted, Next::Fail(FailedReason::Aborted)),
            (1, Ending::RetryIn(secs(7)), Next::Retry(secs(7))),
            (2, Ending::RetryIn(secs(7)), exhausted),
            (1, Ending::Snoozed(secs(7)), Next::Snooze(secs(7))),
            (2, Ending::Snoozed(secs(7)), Next::Snooze(secs(7))),
            (9, Ending::Failed, exhausted),
        ];
        for (attempt, ending, expected) in table {
            assert_eq!(
                after(&options, attempt, false, &ending, || 0.5),
                expected,
                "{attempt} {ending:?}"
            );
        }
    }

    #[test]
    fn an_unknown_job_is_given_time_for_a_deploy() {
        assert_eq!(after_unknown(1), Next::Retry(secs(30)));
        assert_eq!(after_unknown(20), Next::Retry(secs(30)));
        assert_eq!(after_unknown(21), Next::Fail(FailedReason::UnknownJob));
    }

    #[test]
    fn jitter_only_shortens() {
        let delay = Delay::Exponential(Exponential::new(secs(100)).jitter(0.1));
        assert_eq!(wait(&delay, 1, 0.0), secs(100));
        assert_eq!(wait(&delay, 1, 1.0), secs(90));
        assert_eq!(wait(&delay, 2, 0.5), secs(190));
    }

    #[test]
    fn invalid_numbers_give_a_bounded_wait() {
        for (first, factor, jitter) in
            [(secs(1), f64::NAN, f64::NAN), (Duration::MAX, 1e300, 7.0), (secs(1), -3.0, -1.0)]
        {
            let growth = Exponential::new(first).factor(factor).jitter(jitter).max(secs(50));
            let wait = wait(&Delay::Exponential(growth), u32::MAX, 1.0);
            assert!(wait <= secs(50), "{growth:?} gave {wait:?}");
        }
        assert_eq!(wait(&Delay::list(&[]), 3, 0.0), Duration::ZERO);
    }

    #[test]
    fn no_wait_exceeds_the_maximum() {
        let growing = |first| {
            let growth = Exponential::new(first).max(Duration::MAX).factor(f64::MAX);
            JobOptions::new().delay(Delay::Exponential(growth))
        };
        let constant = JobOptions::new().delay(Delay::constant(Duration::MAX));
        let list = JobOptions::new().delay(Delay::list(&[Duration::MAX, Duration::ZERO]));
        for options in [constant, list, growing(Duration::MAX), growing(secs(1))] {
            for attempt in [1, 3, u32::MAX - 1] {
                let Next::Retry(wait) =
                    after(&options.retries(u32::MAX), attempt, false, &Ending::Failed, || 0.3)
                else {
                    panic!("{options:?} has attempts left");
                };
                assert!(wait <= period::MAX, "{options:?} waits {wait:?}");
            }
            assert!(waits(&options).iter().all(|wait| *wait <= period::MAX));
            assert!(first_wait(&options) <= period::MAX);
        }
        for ending in [Ending::RetryIn(Duration::MAX), Ending::Snoozed(Duration::MAX)] {
            let next = after(&JobOptions::new(), 1, false, &ending, || 0.0);
            assert!(matches!(next, Next::Retry(period::MAX) | Next::Snooze(period::MAX)));
        }
    }

    #[test]
    fn a_job_that_crashes_workers_runs_alone_before_it_fails() {
        assert_eq!([0, 2, 3, 30].map(is_suspected), [false, false, true, true]);
        assert_eq!([0, 2, 3, 30].map(is_poison), [false, false, true, true]);
    }

    #[test]
    fn an_event_expires_by_the_policy_of_its_subscriber() {
        let start = SystemTime::UNIX_EPOCH + secs(1_000);
        let job = |topic: Option<&str>, expires: Option<u64>| Envelope {
            enqueued_at: start,
            expires_at: expires.map(|seconds| start + secs(seconds)),
            topic: topic.map(str::to_owned),
            ..Envelope::new("mail", Vec::new())
        };
        let (policy, none) = (JobOptions::new().expires(secs(60)), JobOptions::new());
        let event = Some("user.created");
        let mut delayed = job(event, None);
        delayed.set_due(start + secs(100));
        let table = [
            // A broker may have replaced the time when it was published.
            (policy, delayed.clone(), 160, false),
            (policy, delayed, 161, true),
            (policy, job(event, None), 60, false),
            (policy, job(event, None), 61, true),
            (policy, job(event, Some(70)), 69, false),
            (policy, job(event, Some(5)), 5, true),
            (none, job(event, None), 1_000_000, false),
            (none, job(event, Some(5)), 5, true),
            (policy, job(None, None), 1_000_000, false),
            (policy, job(None, Some(5)), 5, true),
            (policy, job(None, Some(5)), 4, false),
        ];
        for (options, job, seconds, expected) in table {
            assert_eq!(is_expired(&options, &job, || start + secs(seconds)), expected, "{job:?}");
        }
    }

    #[test]
    fn a_policy_names_its_waits() {
        let growth = Exponential::new(secs(10)).max(secs(60));
        let table = [
            (JobOptions::new(), vec![30]),
            (JobOptions::new().retries(0), vec![]),
            (JobOptions::new().delay(Delay::list(LIST)), vec![10, 60, 600]),
            (JobOptions::new().delay(Delay::list(LIST)).retries(2), vec![10, 60]),
            (JobOptions::new().delay(Delay::list(LIST)).retries(u32::MAX), vec![10, 60, 600]),
            (JobOptions::new().delay(Delay::Exponential(growth)), vec![]),
        ];
        for (options, seconds) in table {
            let expected: BTreeSet<_> = seconds.into_iter().map(secs).collect();
            assert_eq!(waits(&options), expected, "{options:?}");
        }
    }
}
