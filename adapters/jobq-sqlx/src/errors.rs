//! Errors of the database as errors of jobq.

use jobq::outbox::postgres::no_answer;
use jobq::{Error, ErrorKind};
use sqlx::error::DatabaseError;

/// The error of a call. `meaning` is the error for a problem that the database tells.
pub(crate) fn failed(
    doing: &str,
    error: sqlx::Error,
    meaning: fn(&str, &dyn DatabaseError) -> Error,
) -> Error {
    let failed = match &error {
        sqlx::Error::Database(problem) => meaning(doing, &**problem),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) => {
            let text = format!(
                "{doing}: {error}; the table is not that of the migration: compare its columns"
            );
            Error::new(ErrorKind::Conflict, text)
        }
        _ => no_answer(doing, &error),
    };
    failed.with_source(error)
}
