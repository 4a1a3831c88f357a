use std::time::{Duration, SystemTime};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::period::{self, PeriodError};

/// A [`Duration`], or its text as in the attributes: `"10s"`, `"1h 30m"`.
///
/// ```
/// # use jobq::{Client, job};
/// # use std::time::Duration;
/// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: Client) -> jobq::Result<()> {
/// client.enqueue(Remind { user_id: 7 }).delay("10m").await?;
/// client.enqueue(Remind { user_id: 7 }).delay(Duration::from_secs(600)).await?;
/// # Ok(())
/// # }
/// ```
pub trait IntoPeriod {
    /// The duration.
    ///
    /// # Errors
    ///
    /// A text that is no duration.
    fn into_period(self) -> std::result::Result<Duration, PeriodError>;
}

impl IntoPeriod for Duration {
    fn into_period(self) -> std::result::Result<Duration, PeriodError> {
        Ok(self)
    }
}

impl IntoPeriod for &str {
    fn into_period(self) -> std::result::Result<Duration, PeriodError> {
        period::parse(self)
    }
}

/// The start and the expiry of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    start: Start,
    expires_in: Option<Duration>,
    /// The error of the first text that is no duration.
    problem: Option<PeriodError>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Start {
    #[default]
    Now,
    In(Duration),
    At(SystemTime),
}

/// [`Times`] resolved at one moment.
pub(super) struct Moments {
    pub(super) now: SystemTime,
    /// The start, unless it is now.
    pub(super) due: Option<SystemTime>,
    pub(super) delay: Duration,
    pub(super) expires_at: Option<SystemTime>,
}

impl Times {
    pub(super) fn delay(&mut self, delay: impl IntoPeriod) {
        if let Some(delay) = self.read(delay) {
            self.start = Start::In(delay);
        }
    }

    pub(super) fn at(&mut self, time: SystemTime) {
        self.start = Start::At(time);
    }

    pub(super) fn expires_in(&mut self, limit: impl IntoPeriod) {
        self.expires_in = self.read(limit).or(self.expires_in);
    }

    fn read(&mut self, period: impl IntoPeriod) -> Option<Duration> {
        match period.into_period() {
            Ok(period) => Some(period),
            Err(problem) => {
                self.problem.get_or_insert(problem);
                None
            }
        }
    }

    /// Returns an error if a text was no duration.
    pub(super) fn check(&self) -> Result<()> {
        self.problem.as_ref().map_or(Ok(()), |problem| Err(Error::invalid(problem.to_string())))
    }

    pub(super) fn is_now(&self) -> bool {
        matches!(self.start, Start::Now)
    }

    /// Resolves the times now, with this default limit.
    pub(super) fn moments(&self, limit: Option<Duration>, clock: &Clock) -> Moments {
        let now = clock.now();
        let delay = match self.start {
            Start::Now => Duration::ZERO,
            Start::In(delay) => delay,
            Start::At(time) => time.duration_since(now).unwrap_or_default(),
        };
        // A time beyond the range of the clock is never reached.
        let end = |limit: Duration| now.checked_add(delay.checked_add(limit)?);
        let due = now.checked_add(delay).filter(|_| !delay.is_zero());
        Moments { now, due, delay, expires_at: self.expires_in.or(limit).and_then(end) }
    }
}
