//! Outcomes of attempts.

use std::any::Any;
use std::time::Duration;

use super::control::{BoxError, Ending, meaning};
use super::failure::{Failure, PANIC};
use crate::guard;

/// The outcome of an attempt, with the text of the error if there is one. A
/// [layer](crate::WorkerPool::around) receives it from the inner function and returns it.
///
/// ```
/// use jobq::Outcome;
/// use std::time::Duration;
///
/// assert!(Outcome::completed().is_completed());
/// let failed = Outcome::failed("the disk is full");
/// assert_eq!((failed.is_failed(), failed.error()), (true, Some("the disk is full")));
/// let busy = Outcome::failed(jobq::retry_in(Duration::from_secs(90), "the service is busy"));
/// assert_eq!(busy.retry_after(), Some(Duration::from_secs(90)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) failure: Failure,
}

impl Outcome {
    /// The outcome of a completed job.
    #[must_use]
    pub fn completed() -> Self {
        Self { ending: Ending::Completed, failure: Failure::default() }
    }

    /// The outcome of a job function that returns this error: failed, or as requested by a
    /// [`Control`](crate::Control) in the error.
    #[must_use]
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Err::<(), _>(error).into_outcome()
    }

    /// The outcome of an attempt that panicked.
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Self {
        Self { ending: Ending::Failed, failure: Failure::new(PANIC, guard::text(panic)) }
    }

    /// The outcome of an attempt that took longer than its timeout, given as text.
    pub(crate) fn timed_out(limit: &str) -> Self {
        let error = format!("it took longer than its timeout of {limit}");
        Self { ending: Ending::Failed, failure: Failure::new("timeout", error) }
    }

    /// Whether the job is done.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.ending == Ending::Completed
    }

    /// Whether the attempt failed. It is retried by the job's policy.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.ending == Ending::Failed
    }

    /// Whether the job fails without further attempts; see [`abort`](crate::abort).
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.ending == Ending::Aborted
    }

    /// The wait before the next attempt, if the attempt requested one; see
    /// [`retry_in`](crate::retry_in).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.ending {
            Ending::RetryIn(wait) => Some(wait),
            _ => None,
        }
    }

    /// The wait before the job runs again without using up an attempt; see
    /// [`snooze`](crate::snooze).
    #[must_use]
    pub fn snoozed_for(&self) -> Option<Duration> {
        match self.ending {
            Ending::Snoozed(wait) => Some(wait),
            _ => None,
        }
    }

    /// The text of the error with its sources, if there is an error.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        Some(self.failure.error())
            .filter(|_| !matches!(self.ending, Ending::Completed | Ending::Snoozed(_)))
    }
}

/// The return type of a job function: any `Result` whose error converts into a boxed error, such as
/// `std::io::Result<()>`, `anyhow::Result<()>`, `Result<(), Box<dyn Error + Send + Sync>>` or one
/// with an enum of your own.
///
/// Only `Result` implements it.
#[diagnostic::on_unimplemented(
    message = "a job function must return a `Result`, found `{Self}`",
    label = "not a `Result` that a job can return",
    note = "for example `-> Result<(), jobq::BoxError>`; the error must be `Send + Sync` \
            and convert into `Box<dyn std::error::Error + Send + Sync>`"
)]
pub trait JobResult: sealed::Sealed {
    /// The outcome of the attempt.
    #[doc(hidden)]
    fn into_outcome(self) -> Outcome;
}

impl<T, E: Into<BoxError>> JobResult for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(_) => Outcome::completed(),
            Err(error) => {
                let error = error.into();
                // Its `Display` and `Drop` are user code, and two panics at once would abort.
                let read = guard::guarded(|| {
                    let (ending, text) = meaning(&*error);
                    let failure = match ending {
                        Ending::Snoozed(_) => Failure::default(),
                        _ => Failure::new("error", text).with_backtrace_of(&*error),
                    };
                    Outcome { ending, failure }
                });
                guard::dispose(error);
                read.unwrap_or_else(Outcome::panicked)
            }
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T, E: Into<super::BoxError>> Sealed for Result<T, E> {}
}

#[cfg(test)]
mod tests {
    use std::error::Error as StdError;
    use std::fmt;

    use super::super::control::{Control, abort, retry_in, snooze};
    use super::*;

    const WAIT: Duration = Duration::from_secs(7);

    #[derive(Debug, thiserror::Error)]
    enum Wrapped {
        #[error(transparent)]
        Transparent(#[from] Control),
        #[error("it went wrong")]
        Source(#[source] Control),
        #[error("two deep")]
        Deep(#[source] Box<Wrapped>),
    }

    fn outcome<E: Into<BoxError>>(error: E) -> Outcome {
        Err::<(), E>(error).into_outcome()
    }

    /// All supported ways to return a control.
    fn wrappings(make: impl Fn() -> Control) -> Vec<(&'static str, Outcome)> {
        use anyhow::Context as _;
        let through_question_mark = || -> Result<(), BoxError> { Err(make())? };
        let through_from = || -> Result<(), Wrapped> { Err(make())? };
        let through_anyhow = || -> anyhow::Result<()> { Err(make())? };
        vec![
            ("bare", outcome(make())),
            ("boxed", through_question_mark().into_outcome()),
            ("transparent enum", through_from().into_outcome()),
            ("source of an enum", outcome(Wrapped::Source(make()))),
            ("two enums deep", outcome(Wrapped::Deep(Box::new(Wrapped::Source(make()))))),
            ("anyhow", through_anyhow().into_outcome()),
            (
                "anyhow with context",
                through_anyhow().context("while a").context("b").into_outcome(),
            ),
            ("enum in anyhow", through_from().context("while a").into_outcome()),
            ("boxed twice", outcome::<BoxError>(Box::new(Wrapped::from(make())))),
        ]
    }

    #[test]
    fn a_control_keeps_its_meaning_however_it_is_wrapped() {
        for (how, outcome) in wrappings(|| abort("no such user")) {
            assert_eq!(outcome.ending, Ending::Aborted, "{how}");
            let error = outcome.error().unwrap();
            assert!(error.contains("no such user"), "{how}: {error}");
        }
        for (how, outcome) in wrappings(|| retry_in(WAIT, "busy")) {
            assert_eq!(outcome.ending, Ending::RetryIn(WAIT), "{how}");
        }
        for (how, outcome) in wrappings(|| snooze(WAIT)) {
            assert_eq!(outcome.ending, Ending::Snoozed(WAIT), "{how}");
        }
    }

    #[test]
    fn any_other_error_is_a_failure_with_its_causes() {
        let io = || std::io::Error::other("disk on fire");
        assert_eq!(outcome(io()).ending, Ending::Failed);
        assert_eq!(outcome("a plain text").error(), Some("a plain text"));
        let chained = anyhow::Error::from(io()).context("reading the letter").context("sending");
        assert_eq!(outcome(chained).error(), Some("sending: reading the letter: disk on fire"));
    }

    #[test]
    fn the_cause_of_an_abort_is_shown_once_with_its_own_causes() {
        let cause = anyhow::Error::msg("deep").context("outer");
        assert_eq!(outcome(abort(cause)).error(), Some("outer: deep"));
        assert_eq!(outcome(abort("closed")).error(), Some("closed"));
    }

    #[test]
    fn an_endless_chain_ends() {
        #[derive(Debug)]
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("again")
            }
        }
        impl StdError for Endless {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(self)
            }
        }
        assert_eq!(outcome(Endless).error(), Some("again"));
    }

    #[test]
    fn a_control_is_found_in_an_error() {
        let asked = |make: fn() -> Control| {
            let wrapped: BoxError = Wrapped::Deep(Box::new(Wrapped::Source(make()))).into();
            let of_wrapped = Control::of(&*wrapped).expect("it is found");
            let questions = |control: &Control| {
                (control.is_abort(), control.retry_after(), control.snooze_for())
            };
            assert_eq!(questions(&of_wrapped), questions(&make()));
            questions(&of_wrapped)
        };
        assert_eq!(asked(|| abort("no")), (true, None, None));
        assert_eq!(asked(|| retry_in(WAIT, "later")), (false, Some(WAIT), None));
        assert_eq!(asked(|| snooze(WAIT)), (false, None, Some(WAIT)));
        assert!(Control::of(&std::io::Error::other("plain")).is_none());
    }

    #[test]
    fn a_wait_is_a_duration_or_its_text() {
        assert_eq!(outcome(retry_in("7s", "busy")).retry_after(), Some(WAIT));
        assert_eq!(outcome(snooze("7s")).snoozed_for(), Some(WAIT));
        // The error of the function stays, with its sources.
        let source = Wrapped::Source(abort("the cause"));
        let retry = outcome(retry_in("7", source));
        let table = [(retry, "it went wrong: the cause; the wait of `jobq::retry_in`")];
        for (outcome, expected) in
            table.into_iter().chain([(outcome(snooze("7")), "the wait of `jobq::snooze`")])
        {
            assert_eq!(outcome.ending, Ending::Failed);
            let error = outcome.error().unwrap();
            assert!(error.starts_with(expected), "{error}");
            assert!(error.ends_with("write \"7s\" (units: d, h, m, s, ms)"), "{error}");
        }
    }
}
