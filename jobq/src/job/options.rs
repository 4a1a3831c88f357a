use std::time::Duration;

#[cfg(feature = "schedules")]
use super::periodic::Periodic;
use super::priority::Priority;

/// A job's policy, set by the keys of `#[job(...)]`.
///
/// The macros generate it. Build it by hand only if you implement [`Job`](crate::Job) by hand.
///
/// ```
/// use jobq::{Delay, JobOptions};
/// use std::time::Duration;
///
/// const OPTIONS: JobOptions = JobOptions::new()
///     .retries(5)
///     .delay(Delay::exponential(Duration::from_secs(10)))
///     .timeout(Duration::from_secs(120));
/// assert_eq!(OPTIONS.max_attempts(), 6);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobOptions {
    pub(crate) queue: Option<&'static str>,
    pub(crate) retries: Option<u32>,
    pub(crate) delay: Delay,
    pub(crate) timeout: Option<Duration>,
    pub(crate) concurrency: Option<u16>,
    pub(crate) expires: Option<Duration>,
    pub(crate) priority: Priority,
    /// Whether each enqueue may choose.
    pub(crate) priorities: bool,
    pub(crate) on: &'static [&'static str],
    #[cfg(feature = "schedules")]
    pub(crate) periodic: Option<Periodic>,
    read_back: ReadBack,
}

/// The builds in which a client decodes each payload that it has encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadBack {
    All,
    Debug,
    None,
}

/// The default number of retries.
const DEFAULT_RETRIES: u32 = 3;
/// The default delay.
const DEFAULT_DELAY: Duration = Duration::from_secs(30);
/// The default longest wait of an exponential delay.
const DEFAULT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl JobOptions {
    /// The defaults: the job's own queue, 3 retries 30 seconds apart, no timeout, the
    /// pool's concurrency, no expiry, no events, and a check of each payload.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            queue: None,
            retries: None,
            delay: Delay::constant(DEFAULT_DELAY),
            timeout: None,
            concurrency: None,
            expires: None,
            priority: Priority::Normal,
            priorities: false,
            on: &[],
            #[cfg(feature = "schedules")]
            periodic: None,
            read_back: ReadBack::All,
        }
    }

    /// The queue. Defaults to the job's name.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Further attempts after the first; 0 means that the first is the only one.
    /// Defaults to the length of a [`Delay::list`], else to 3.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// The wait before each retry. Defaults to 30 seconds. More than 3,650 days count as 3,650
    /// days.
    #[must_use]
    pub const fn delay(mut self, delay: Delay) -> Self {
        self.delay = delay;
        self
    }

    /// The time limit of an attempt, after which it has failed. Defaults to no limit, and to 10
    /// minutes in a solo run of a job that may crash its worker. A pool does not start with a
    /// timeout of zero.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many attempts of the job's queue run at once in one pool. Defaults to the pool's
    /// concurrency.
    #[must_use]
    pub const fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// How long after enqueueing, plus the initial delay, an attempt may start. Defaults to no
    /// limit. A pool does not start with an expiry of zero.
    #[must_use]
    pub const fn expires(mut self, expires: Duration) -> Self {
        self.expires = Some(expires);
        self
    }

    /// The priority of the jobs. Defaults to normal. A pool with a job that has both a priority and
    /// [topic patterns](Self::on) does not start.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Lets each enqueue [choose](crate::Enqueue::priority) the priority of its job.
    #[must_use]
    pub const fn priorities(mut self) -> Self {
        self.priorities = true;
        self
    }

    /// Whether jobs may have a priority other than normal.
    pub(crate) const fn has_priorities(&self) -> bool {
        self.priorities || !matches!(self.priority, Priority::Normal)
    }

    /// The topic patterns of the events that the job subscribes to: `*` matches one word of a
    /// topic, `#` any number of words. The event is then the job's payload, and no other job may
    /// use its queue. Defaults to none.
    #[must_use]
    pub const fn on(mut self, patterns: &'static [&'static str]) -> Self {
        self.on = patterns;
        self
    }

    /// The times at which a pool enqueues the job, with the payload `{}`. Defaults to none.
    #[cfg(feature = "schedules")]
    #[must_use]
    pub const fn periodic(mut self, periodic: Periodic) -> Self {
        self.periodic = Some(periodic);
        self
    }

    /// Leaves out the check of each enqueue that a worker can read the payload.
    ///
    /// By default a client decodes what it has encoded as the payload's type, and an error is the
    /// [`Invalid`](crate::ErrorKind::Invalid) error of the enqueue. Without the check, a payload that
    /// its type cannot read becomes a failed job when a worker takes it.
    #[must_use]
    pub const fn unchecked(mut self) -> Self {
        self.read_back = ReadBack::None;
        self
    }

    /// As the macros say it of a payload whose fields are of types that read whatever they write:
    /// it is checked in debug builds alone.
    #[doc(hidden)]
    #[must_use]
    pub const fn plain(mut self) -> Self {
        self.read_back = ReadBack::Debug;
        self
    }

    /// Whether a client decodes each payload that it has encoded.
    pub(crate) const fn is_read_back(&self, is_debug_build: bool) -> bool {
        match self.read_back {
            ReadBack::All => true,
            ReadBack::Debug => is_debug_build,
            ReadBack::None => false,
        }
    }

    /// The number of attempts: the first one and all retries.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        let retries = match (self.retries, self.delay) {
            (Some(retries), _) => retries,
            (None, Delay::List(waits)) if waits.len() < u32::MAX as usize => {
                #[allow(clippy::cast_possible_truncation)] // just compared
                let retries = waits.len() as u32;
                retries
            }
            (None, _) => DEFAULT_RETRIES,
        };
        retries.saturating_add(1)
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The waits before a job's retries.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Delay {
    /// The same wait before each retry.
    Constant(Duration),
    /// The wait before retry 1, 2, 3; the last one repeats. An empty list is no wait.
    List(&'static [Duration]),
    /// A wait that grows with each retry.
    Exponential(Exponential),
}

impl Delay {
    /// The same wait before each retry.
    #[must_use]
    pub const fn constant(wait: Duration) -> Self {
        Self::Constant(wait)
    }

    /// The wait before retry 1, 2, 3; the last one repeats.
    #[must_use]
    pub const fn list(waits: &'static [Duration]) -> Self {
        Self::List(waits)
    }

    /// Waits that double from `first` up to a day, without jitter. For other numbers
    /// build an [`Exponential`].
    #[must_use]
    pub const fn exponential(first: Duration) -> Self {
        Self::Exponential(Exponential::new(first))
    }
}

/// A wait that grows with each retry: `first`, `first * factor`, and so on up to `max`.
///
/// ```
/// use jobq::{Delay, Exponential};
/// use std::time::Duration;
///
/// let growing = Exponential::new(Duration::from_secs(10))
///     .max(Duration::from_secs(3_600))
///     .factor(3.0)
///     .jitter(0.1);
/// let delay = Delay::Exponential(growing);
/// # let _ = delay;
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exponential {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
    pub(crate) factor: f64,
    pub(crate) jitter: f64,
}

impl Exponential {
    /// Waits that double from `first` up to a day, without jitter.
    #[must_use]
    pub const fn new(first: Duration) -> Self {
        Self { first, max: DEFAULT_MAX, factor: 2.0, jitter: 0.0 }
    }

    /// The longest wait. Defaults to a day.
    #[must_use]
    pub const fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// The ratio of each wait to the previous one; below 1 counts as 1. Defaults to 2.
    #[must_use]
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The share, from 0 to 1, by which a wait may be shortened at random, so that jobs that failed
    /// together are not retried together. Jitter never lengthens a wait, so `max` holds. Defaults
    /// to 0.
    #[must_use]
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_read_back_unless_they_are_plain_or_unchecked() {
        let table = [
            // In debug builds, in release builds.
            (JobOptions::new(), [true, true]),
            (JobOptions::new().plain(), [true, false]),
            (JobOptions::new().unchecked(), [false, false]),
        ];
        for (options, expected) in table {
            assert_eq!([true, false].map(|debug| options.is_read_back(debug)), expected);
        }
    }
}
