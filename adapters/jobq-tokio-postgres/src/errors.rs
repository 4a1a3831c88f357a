//! Errors of the database as errors of jobq.

use jobq::outbox::postgres;
use jobq::{Error, ErrorKind};

/// The error of a call.
pub(crate) fn failed(doing: &str, error: tokio_postgres::Error) -> Error {
    let failed = match error.as_db_error() {
        Some(problem) => postgres::error(doing, problem.code().code(), problem.message()),
        None if error.is_closed() => {
            let text = format!("{doing}: the connection to the database was lost");
            Error::new(ErrorKind::Connection, text)
        }
        None => Error::new(ErrorKind::Connection, format!("{doing}: {}", with_causes(&error))),
    };
    failed.with_source(error)
}

/// An error with those below it, which `tokio_postgres` does not print.
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
