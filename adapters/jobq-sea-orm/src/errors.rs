//! Errors of the database as errors of jobq.

use jobq::outbox::postgres;
use jobq::{Error, ErrorKind};
use sea_orm::{DbErr, RuntimeErr, sqlx};

/// The error of a call.
pub(crate) fn failed(doing: &str, error: DbErr) -> Error {
    let failed = match in_sqlx(&error) {
        Some(sqlx::Error::Database(problem)) => match problem.code().unwrap_or_default() {
            code if code == "25P01" => {
                let text = "the transaction of sea-orm has ended, by a nested `begin` that failed \
                            or was dropped; roll back what is left, and begin again";
                Error::new(ErrorKind::Invalid, format!("{doing}: {text}"))
            }
            code => postgres::error(doing, &code, problem.message()),
        },
        Some(error) => postgres::no_answer(doing, error),
        None => postgres::no_answer(doing, &error),
    };
    failed.with_source(error)
}

/// The error of sqlx, which is not among the [sources](std::error::Error::source).
fn in_sqlx(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}
