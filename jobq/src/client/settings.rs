//! The settings that calls share: times, a timeout and headers.

use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use crate::background;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::job::Headers;
use crate::period::{self, IntoPeriod, PeriodError};

/// The start and the expiry of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    start: Start,
    expires_in: Option<Duration>,
    timeout: Option<Duration>,
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

    pub(super) fn timeout(&mut self, limit: impl IntoPeriod) {
        self.timeout = self.read(limit).or(self.timeout);
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

    /// Returns an error if a text was no duration, or the call has no time.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(problem) = &self.problem {
            return Err(Error::invalid(problem.to_string()));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::invalid("the timeout of the call is zero; set a longer one"));
        }
        Ok(())
    }

    /// As [`check`](Self::check), for a row of an outbox: it is made without waiting.
    pub(super) fn check_of_row(&self) -> Result<()> {
        if self.timeout.is_some() {
            return Err(Error::invalid(
                "the row of an outbox is made without waiting for a broker, so it has no timeout; \
                 leave `timeout` out",
            ));
        }
        self.check()
    }

    /// How long the call waits; `None` for the client's timeout.
    pub(super) fn timeout_of_call(&self) -> Option<Duration> {
        self.timeout
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

/// Awaits a call of an engine for no longer than this. What it has sent goes on after that.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(limit) = limit else {
        return background::call(call).await;
    };
    // Apart, so that a call without a limit is no larger. The clock of the program may be paused.
    let call = Box::pin(async { timeout(limit, call).await.unwrap_or_else(|_| Err(late(limit))) });
    background::call(call).await
}

/// The error of a call that has not ended within its limit.
pub(super) fn late(limit: Duration) -> Error {
    let limit = period::format(limit);
    let text = format!("no answer in {limit}, the timeout of this call");
    Error::new(ErrorKind::Timeout, text).and_maybe_enqueued()
}

/// The headers of a builder, or the first error.
#[derive(Debug, Clone, Default)]
pub(super) struct SetHeaders {
    headers: Headers,
    problem: Option<Error>,
}

impl SetHeaders {
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        if let Err(error) = self.headers.set(name, value) {
            self.problem.get_or_insert(error);
        }
    }

    pub(super) fn check(self) -> Result<Headers> {
        self.problem.map_or(Ok(self.headers), Err)
    }
}
