//! What the errors of all databases have in common.

use crate::error::{Error, ErrorKind};

/// Which rights are needed.
pub(super) const RIGHTS: &str = "; who enqueues needs INSERT on jobq_outbox; a relay needs SELECT, UPDATE \
                                 and DELETE on jobq_outbox, and SELECT and DELETE on jobq_inbox; a job \
                                 needs INSERT on jobq_inbox";

/// The error of jobq for a database that gave no answer, with what an error of its library has below it,
/// for an adapter.
///
/// ```
/// use jobq::outbox::postgres;
///
/// let broken = std::io::Error::other("broken pipe");
/// let error = postgres::no_answer("writing a row of jobq_outbox", &broken);
/// assert!(error.is_connection());
/// assert_eq!(error.to_string(), "writing a row of jobq_outbox: broken pipe");
/// ```
#[must_use]
pub fn no_answer(doing: &str, error: &dyn std::error::Error) -> Error {
    let mut text = format!("{doing}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Many errors have the text of their cause in their own.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    Error::new(ErrorKind::Connection, text)
}
