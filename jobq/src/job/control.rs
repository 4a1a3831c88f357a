//! Errors that control the next step of a job.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::period::{IntoPeriod, PeriodError};

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The search limit for the marker of a [`Control`] in a chain of sources. Real chains have a
/// handful of links; a chain may also be endless.
const MAX_CHAIN: usize = 64;

/// The end of an attempt, without the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The function returned `Ok`.
    Completed,
    /// The function returned an error, panicked or took too long.
    Failed,
    /// The function requested its next attempt after this wait.
    RetryIn(Duration),
    /// The function requested to run again after this wait without using up an attempt.
    Snoozed(Duration),
    /// The function requested to fail at once.
    Aborted,
}

/// An error of a job function that requests something else than a plain retry. Made by [`abort`],
/// [`retry_in`] and [`snooze`].
///
/// It keeps its meaning through `?`, inside an enum of your own (as a source, with
/// `#[from]` or transparent), with context added by `anyhow`, and in a
/// `Box<dyn Error + Send + Sync>`.
#[derive(Debug)]
pub struct Control {
    marker: Marker,
}

/// The request in a [`Control`]. It is the *source* of the public type, since transparent enums and
/// `anyhow`'s box hide the outermost type but pass its source on.
#[derive(Debug)]
struct Marker {
    ending: Ending,
    cause: Option<BoxError>,
}

impl Control {
    fn new(ending: Ending, cause: Option<BoxError>) -> Self {
        Self { marker: Marker { ending, cause } }
    }

    /// A plain failure of the attempt: the requested wait cannot be read.
    fn without_wait(error: String) -> Self {
        Self::new(Ending::Failed, Some(error.into()))
    }

    /// The request in an error's chain of sources, as a worker finds it. `None` for an error that
    /// is retried by the job's policy.
    ///
    /// ```
    /// use jobq::Control;
    /// use std::time::Duration;
    ///
    /// fn call() -> Result<(), jobq::BoxError> {
    ///     Err(jobq::retry_in(Duration::from_secs(90), "the service is busy"))?
    /// }
    ///
    /// let error = call().unwrap_err();
    /// let control = Control::of(&*error).expect("it asks for a retry");
    /// assert_eq!(control.retry_after(), Some(Duration::from_secs(90)));
    /// assert!(!control.is_abort());
    /// ```
    #[must_use]
    pub fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        match meaning(error).0 {
            Ending::Completed | Ending::Failed => None,
            ending => Some(Self::new(ending, None)),
        }
    }

    /// Whether the job fails at once: [`abort`].
    #[must_use]
    pub fn is_abort(&self) -> bool {
        self.marker.ending == Ending::Aborted
    }

    /// The wait before the next attempt, which uses one up: [`retry_in`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.marker.ending {
            Ending::RetryIn(wait) => Some(wait),
            _ => None,
        }
    }

    /// The wait before the job runs again without using up an attempt: [`snooze`].
    #[must_use]
    pub fn snooze_for(&self) -> Option<Duration> {
        match self.marker.ending {
            Ending::Snoozed(wait) => Some(wait),
            _ => None,
        }
    }
}

/// The ending that a job function's error requests, and the error's text with its sources.
pub(super) fn meaning(error: &(dyn StdError + 'static)) -> (Ending, String) {
    let mut ending = Ending::Failed;
    let mut text = error.to_string();
    let mut link = error.source();
    for _ in 0..MAX_CHAIN {
        let Some(source) = link else { break };
        if let Some(Marker { ending: asked, cause }) = source.downcast_ref() {
            ending = *asked;
            link = cause.as_deref().and_then(StdError::source);
            continue;
        }
        // A transparent wrapper has the same text as its source.
        let cause = source.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        link = source.source();
    }
    (ending, text)
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.marker.fmt(f)
    }
}

impl StdError for Control {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.marker)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cause, self.ending) {
            (Some(cause), _) => cause.fmt(f),
            (None, Ending::Snoozed(wait)) => write!(f, "snoozed for {wait:?}"),
            (None, ending) => write!(f, "{ending:?}"),
        }
    }
}

impl StdError for Marker {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().and_then(StdError::source)
    }
}

/// Ends the attempt and the job: it goes to the failed jobs as
/// [`Aborted`](crate::FailedReason::Aborted), whatever attempts are left.
///
/// ```
/// # #[derive(Debug)] struct Account { closed: bool }
/// fn charge(account: &Account) -> Result<(), jobq::BoxError> {
///     if account.closed {
///         return Err(jobq::abort("the account is closed").into());
///     }
///     Ok(())
/// }
/// assert!(charge(&Account { closed: true }).is_err());
/// ```
#[must_use = "return it as the error of the job function"]
pub fn abort(error: impl Into<BoxError>) -> Control {
    Control::new(Ending::Aborted, Some(error.into()))
}

/// Ends the attempt as failed and sets the wait before the next one, instead of the job's `delay`.
/// If no attempt is left, the job has failed.
///
/// The wait is a [`Duration`] or its text, such as `"90s"`. A text that is no duration leaves the
/// wait to the job's `delay`, and the error says so.
///
/// ```
/// # use std::time::Duration;
/// fn call(busy_for: Option<Duration>) -> Result<(), jobq::BoxError> {
///     if let Some(wait) = busy_for {
///         Err(jobq::retry_in(wait, "the service asked us to come back later"))?;
///     }
///     Err(jobq::retry_in("10m", "the service is down"))?
/// }
/// assert!(call(Some(Duration::from_secs(90))).is_err());
/// ```
#[must_use = "return it as the error of the job function"]
pub fn retry_in(wait: impl IntoPeriod, error: impl Into<BoxError>) -> Control {
    let error = error.into();
    match wait.into_period() {
        Ok(wait) => Control::new(Ending::RetryIn(wait), Some(error)),
        Err(problem) => {
            let (_, error) = meaning(&*error);
            Control::without_wait(format!("{error}; {}", unread("retry_in", &problem)))
        }
    }
}

/// Ends the attempt and runs the job again after `wait` without using up an attempt:
/// nothing went wrong, it is only too early.
///
/// The wait is a [`Duration`] or its text, such as `"1m"`. With a text that is no duration the
/// attempt fails, and its error says so.
///
/// ```
/// fn publish(ready: bool) -> Result<(), jobq::BoxError> {
///     if !ready {
///         Err(jobq::snooze("1m"))?;
///     }
///     Ok(())
/// }
/// assert!(publish(false).is_err());
/// ```
#[must_use = "return it as the error of the job function"]
pub fn snooze(wait: impl IntoPeriod) -> Control {
    match wait.into_period() {
        Ok(wait) => Control::new(Ending::Snoozed(wait), None),
        Err(problem) => Control::without_wait(unread("snooze", &problem)),
    }
}

/// The text of a wait that cannot be read.
fn unread(function: &str, problem: &PeriodError) -> String {
    format!("the wait of `jobq::{function}` cannot be read: {problem}")
}
