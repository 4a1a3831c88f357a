//! Errors of the database as errors of jobq.

use jobq::Error;
use jobq::outbox::postgres;

/// The error of a call.
pub(crate) fn failed(doing: &str, error: sqlx::Error) -> Error {
    let failed = match error.as_database_error() {
        Some(problem) => {
            postgres::error(doing, &problem.code().unwrap_or_default(), problem.message())
        }
        None => postgres::no_answer(doing, &error),
    };
    failed.with_source(error)
}
