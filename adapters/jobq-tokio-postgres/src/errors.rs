//! Errors of the database as errors of jobq.

use jobq::Error;
use jobq::outbox::postgres;

/// The error of a call.
pub(crate) fn failed(doing: &str, error: tokio_postgres::Error) -> Error {
    let failed = match error.as_db_error() {
        Some(problem) => postgres::error(doing, problem.code().code(), problem.message()),
        None => postgres::no_answer(doing, &error),
    };
    failed.with_source(error)
}
