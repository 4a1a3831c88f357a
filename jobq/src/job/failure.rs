//! The failure of an attempt, as logs, traces and failed jobs show it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error as StdError;
use std::sync::LazyLock;

use crate::guard::{self, guarded};

/// The size limit of an error, in bytes. A failed job stores it in a header.
const MAX_ERROR: usize = 8 * 1024;

/// What precedes the backtrace in the debug form of an error of `anyhow` or `eyre`, and in the error
/// of a failed job.
const TITLE: &str = "\n\nStack backtrace:\n";

/// The class of a panic.
pub(crate) const PANIC: &str = "panic";

/// What went wrong in an attempt; empty if nothing did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    error: String,
    class: &'static str,
    backtrace: String,
}

impl Failure {
    /// A failure with the text of its error, which is cut to [`MAX_ERROR`], and the class of the
    /// error: one of a few words, by which traces can be grouped.
    pub(crate) fn new(class: &'static str, error: String) -> Self {
        Self { error: cut(error), class, backtrace: String::new() }
    }

    /// Adds the backtrace that the error carries, if it is known.
    pub(crate) fn with_backtrace_of(mut self, error: &(dyn StdError + 'static)) -> Self {
        // The debug form of an error may be long, and takes the program's own code.
        static ARE_CAPTURED: LazyLock<bool> =
            LazyLock::new(|| Backtrace::capture().status() == BacktraceStatus::Captured);
        if *ARE_CAPTURED {
            match guarded(|| backtrace_in(&format!("{error:?}")).map(str::to_owned)) {
                Ok(found) => self.backtrace = found.unwrap_or_default(),
                Err(panic) => guard::dispose(panic),
            }
        }
        self
    }

    /// Whether the function or a layer panicked.
    #[cfg(feature = "testing")]
    pub(crate) fn is_panic(&self) -> bool {
        self.class == PANIC
    }

    /// The text of the error with its sources, of at most [`MAX_ERROR`] bytes.
    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    /// The class of the error; empty if there is none.
    pub(crate) fn class(&self) -> &'static str {
        self.class
    }

    /// The backtrace of the error, if it is known.
    pub(crate) fn backtrace(&self) -> Option<&str> {
        Some(&*self.backtrace).filter(|backtrace| !backtrace.is_empty())
    }

    /// The error for the failed job: with as much of the backtrace as [`MAX_ERROR`] allows.
    pub(crate) fn kept(&self) -> String {
        match self.backtrace() {
            Some(backtrace) if self.error.len() + TITLE.len() < MAX_ERROR => {
                cut([&self.error, TITLE, backtrace].concat())
            }
            _ => self.error.clone(),
        }
    }
}

/// The error and the backtrace of a failed job.
pub(crate) fn split(kept: &str) -> (&str, Option<&str>) {
    match kept.split_once(TITLE) {
        Some((error, backtrace)) => (error, Some(backtrace)),
        None => (kept, None),
    }
}

/// Cuts an error to [`MAX_ERROR`] bytes at a character boundary.
fn cut(mut error: String) -> String {
    if error.len() > MAX_ERROR {
        let end = (0..=MAX_ERROR).rev().find(|end| error.is_char_boundary(*end));
        error.truncate(end.unwrap_or(0));
        error.shrink_to_fit();
    }
    error
}

/// The backtrace in the debug form of an error: the last part of one of `anyhow` or `eyre`, or a
/// [`Backtrace`] among the fields of another type. An error has no other way to show it that is
/// stable.
fn backtrace_in(shown: &str) -> Option<&str> {
    if let Some((_, backtrace)) = shown.split_once(TITLE) {
        return Some(backtrace.trim_end());
    }
    let (_, frames) = shown.split_once("Backtrace [")?;
    let end = frames.starts_with("{ fn:").then(|| frames.find(" }]"))??;
    Some(&frames[..end + " }".len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_between_characters() {
        let table = [
            (String::new(), 0),
            ("x".repeat(MAX_ERROR), MAX_ERROR),
            ("x".repeat(MAX_ERROR + 1), MAX_ERROR),
            ("😀".repeat(MAX_ERROR), MAX_ERROR),
            (format!("a{}", "😀".repeat(MAX_ERROR)), MAX_ERROR - 3),
            (format!("ab{}", "ß".repeat(MAX_ERROR)), MAX_ERROR),
            (format!("a{}", "ß".repeat(MAX_ERROR)), MAX_ERROR - 1),
        ];
        for (text, kept) in table {
            let failure = Failure::new("error", text.clone());
            assert_eq!(failure.error().len(), kept);
            assert!(text.starts_with(failure.error()));
        }
    }

    #[test]
    fn a_backtrace_is_found_in_the_debug_form() {
        #[derive(Debug)]
        #[allow(dead_code)] // its debug form is read
        struct Own {
            code: u8,
            backtrace: Backtrace,
        }
        let captured = Backtrace::force_capture();
        assert_eq!(captured.status(), BacktraceStatus::Captured);
        let own = |backtrace| format!("{:?}", Own { code: 7, backtrace });
        let found = own(captured);
        let found = backtrace_in(&found).unwrap();
        assert!(found.starts_with("{ fn: \"") && found.ends_with(" }"), "{found}");
        assert!(found.contains("a_backtrace_is_found_in_the_debug_form"), "{found}");
        assert_eq!(backtrace_in(&own(Backtrace::disabled())), None);

        let table = [
            ("no such user", None),
            ("outer\n\nCaused by:\n    deep", None),
            (
                "outer\n\nStack backtrace:\n   0: main\n   1: start\n",
                Some("   0: main\n   1: start"),
            ),
            (
                "Own { by: Backtrace [{ fn: \"main\", line: 3 }] }",
                Some("{ fn: \"main\", line: 3 }"),
            ),
            ("Own { by: Backtrace [7] }", None),
            ("Own { by: Backtrace [{ fn: \"main\"", None),
        ];
        for (shown, backtrace) in table {
            assert_eq!(backtrace_in(shown), backtrace, "{shown}");
        }
    }

    #[test]
    fn a_failed_job_has_what_fits_of_the_backtrace() {
        let of = |error: &str, backtrace: &str| {
            let backtrace = backtrace.to_owned();
            Failure { backtrace, ..Failure::new("error", error.to_owned()) }.kept()
        };
        let long = "ß".repeat(MAX_ERROR);
        let table = [
            ("no", "", "no", None),
            ("no", "   0: main", "no", Some("   0: main")),
            ("not", &long, "not", Some(&long[..MAX_ERROR - "not".len() - TITLE.len()])),
            (&long, "   0: main", &long[..MAX_ERROR], None),
            (&long[..MAX_ERROR - 10], "   0: main", &long[..MAX_ERROR - 10], None),
        ];
        for (error, backtrace, kept, shown) in table {
            assert_eq!(split(&of(error, backtrace)), (kept, shown));
        }
    }
}
