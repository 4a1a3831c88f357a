//! Errors of the database as errors of jobq.

use jobq::outbox::postgres;
use jobq::{Error, ErrorKind};

/// The error of a call.
pub(crate) fn failed(doing: &str, error: sqlx::Error) -> Error {
    let failed = match error.as_database_error() {
        Some(problem) => {
            let code = problem.code().unwrap_or_default();
            postgres::error(doing, &code, problem.message())
        }
        None => Error::new(ErrorKind::Connection, format!("{doing}: {}", with_causes(&error))),
    };
    failed.with_source(error)
}

/// An error with those below it, as far as it does not print them itself.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
