//! Errors of the database as errors of jobq.

use std::num::NonZeroU32;

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind};
use diesel::{QueryResult, result};
use jobq::outbox::postgres;
use jobq::{Error, ErrorKind, Result};

/// Where the name of the table begins in [`postgres::INSERT`] and [`postgres::MARK`].
const TABLE: i32 = 13;

/// How the messages begin that tell more than diesel's kinds, in a server that speaks English.
const MESSAGES: [(&str, &str); 5] = [
    ("current transaction is aborted", "25P02"),
    ("deadlock detected", "40P01"),
    ("terminating connection", "57P01"),
    ("canceling statement due to statement timeout", "57014"),
    ("canceling statement due to user request", "57014"),
];

/// The error of a call.
pub(crate) fn failed(doing: &str, error: result::Error) -> Error {
    let failed = match &error {
        result::Error::DatabaseError(kind, problem) => {
            postgres::error(doing, code(*kind, &**problem), problem.message())
        }
        result::Error::SerializationError(_) => {
            Error::new(ErrorKind::Invalid, format!("{doing}: {error}"))
        }
        _ => postgres::no_answer(doing, &error),
    };
    failed.with_source(error)
}

/// The code (`SQLSTATE`) of an error, which diesel does not tell, as far as it can be found out.
fn code(kind: DatabaseErrorKind, problem: &dyn DatabaseErrorInformation) -> &'static str {
    match kind {
        DatabaseErrorKind::SerializationFailure => "40001",
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => "08006",
        DatabaseErrorKind::UniqueViolation
        | DatabaseErrorKind::ForeignKeyViolation
        | DatabaseErrorKind::RestrictViolation
        | DatabaseErrorKind::NotNullViolation
        | DatabaseErrorKind::CheckViolation
        | DatabaseErrorKind::ExclusionViolation => "23000",
        DatabaseErrorKind::ReadOnlyTransaction => "25006",
        _ => code_of_unknown(problem),
    }
}

/// Each language of a server has the name of the table in these messages.
fn code_of_unknown(problem: &dyn DatabaseErrorInformation) -> &'static str {
    let message = problem.message();
    let names_table = message.contains("jobq_outbox") || message.contains("jobq_inbox");
    match problem.statement_position() {
        Some(TABLE) if names_table => "42P01",
        None if names_table => "42501",
        // A column is missing, or has another type.
        Some(place) if place > TABLE => "42703",
        _ => {
            let known = MESSAGES.iter().find(|(begin, _)| message.starts_with(begin));
            known.map_or("", |(_, code)| code)
        }
    }
}

/// # Errors
///
/// diesel has begun no transaction on the connection, or has lost it.
pub(crate) fn check(doing: &str, depth: QueryResult<Option<NonZeroU32>>) -> Result<()> {
    if depth.map_err(|error| failed(doing, error))?.is_none() {
        let text = "the connection is not in a transaction of diesel; call this inside of \
                    `connection.transaction(..)`, on the connection that its closure gets";
        return Err(Error::new(ErrorKind::Invalid, format!("{doing}: {text}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Problem(Option<i32>, &'static str);

    impl DatabaseErrorInformation for Problem {
        fn message(&self) -> &str {
            self.1
        }

        fn details(&self) -> Option<&str> {
            None
        }

        fn hint(&self) -> Option<&str> {
            None
        }

        fn table_name(&self) -> Option<&str> {
            None
        }

        fn column_name(&self) -> Option<&str> {
            None
        }

        fn constraint_name(&self) -> Option<&str> {
            None
        }

        fn statement_position(&self) -> Option<i32> {
            self.0
        }
    }

    #[test]
    fn each_statement_names_its_table_at_one_place() {
        for (statement, table) in
            [(postgres::INSERT, "jobq_outbox"), (postgres::MARK, "jobq_inbox")]
        {
            assert_eq!(statement.find(table), Some(12), "{statement}");
        }
    }

    /// The messages are those of PostgreSQL 15.
    #[test]
    fn codes_are_found_out() {
        for (place, message, expected) in [
            (Some(13), "relation \"jobq_outbox\" does not exist", "42P01"),
            (Some(13), "Relation »jobq_inbox« existiert nicht", "42P01"),
            (None, "permission denied for table jobq_outbox", "42501"),
            (None, "keine Berechtigung für Tabelle jobq_outbox", "42501"),
            (Some(87), "column \"due_at\" of relation \"jobq_outbox\" does not exist", "42703"),
            (Some(228), "Spalte »name« hat Typ bytea, aber der Ausdruck hat Typ text", "42703"),
            (Some(13), "canceling statement due to lock timeout", ""),
            // In a trigger on the table.
            (None, "relation \"nowhere\" does not exist", ""),
            (Some(13), "relation \"nowhere\" does not exist", ""),
            (None, "current transaction is aborted, commands ignored until ..", "25P02"),
            (Some(13), "deadlock detected", "40P01"),
        ] {
            let problem = Problem(place, message);
            assert_eq!(code(DatabaseErrorKind::Unknown, &problem), expected, "{message}");
        }
    }
}
