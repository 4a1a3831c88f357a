use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The times at which a job is enqueued by its pools, set by the keys `cron`, `every`, `zone`,
/// `missed` and `jitter` of `#[job(...)]`.
///
/// The macros generate it. Build it by hand only if you implement [`Job`](crate::Job) by hand. A pool
/// with an invalid time, zone or payload does not start.
///
/// ```
/// use jobq::{JobOptions, Missed, Periodic};
///
/// const OPTIONS: JobOptions = JobOptions::new()
///     .periodic(Periodic::cron(&["30 2 * * MON-FRI"]).zone("Europe/Berlin").missed(Missed::Skip));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periodic {
    pub(crate) times: PeriodicTimes,
    pub(crate) zone: &'static str,
    pub(crate) missed: Missed,
    pub(crate) jitter: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeriodicTimes {
    Cron(&'static [&'static str]),
    Every(Duration),
}

impl Periodic {
    /// The times of [cron expressions](crate::schedule::Schedule::cron). A time of several expressions
    /// counts once.
    #[must_use]
    pub const fn cron(expressions: &'static [&'static str]) -> Self {
        Self::new(PeriodicTimes::Cron(expressions))
    }

    /// The multiples of a [period](crate::schedule::Schedule::every).
    #[must_use]
    pub const fn every(period: Duration) -> Self {
        Self::new(PeriodicTimes::Every(period))
    }

    const fn new(times: PeriodicTimes) -> Self {
        Self { times, zone: "UTC", missed: Missed::One, jitter: Duration::ZERO }
    }

    /// The time zone of the cron expressions. Defaults to UTC.
    #[must_use]
    pub const fn zone(mut self, name: &'static str) -> Self {
        self.zone = name;
        self
    }

    /// Sets what happens to missed times. Defaults to [`Missed::One`].
    #[must_use]
    pub const fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets the limit of the delay with which a job is enqueued after it is due. Defaults to zero. See
    /// [`ScheduleJob::jitter`](crate::ScheduleJob::jitter).
    #[must_use]
    pub const fn jitter(mut self, longest: Duration) -> Self {
        self.jitter = longest;
        self
    }
}

/// The handling of missed times: those that passed two minutes or more before a pool could enqueue
/// the job, and those at which the queue was paused.
///
/// A time that passed less than two minutes before is late, not missed: its job is enqueued. With
/// [`One`](Self::One), late times share the job of the missed ones before them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// No job is enqueued for a missed time.
    Skip,
    /// One job is enqueued, for the last of the missed and late times.
    /// [`JobContext::missed`](crate::JobContext::missed) returns the number of the other times, at
    /// most 1,000.
    #[default]
    One,
    /// One job is enqueued for each of the last 100 times. [`JobContext::missed`](crate::JobContext::missed)
    /// of the first one returns the number of the times before it.
    All,
}

impl Missed {
    /// The word of the attribute: `skip`, `one` or `all`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::One => "one",
            Self::All => "all",
        }
    }
}
