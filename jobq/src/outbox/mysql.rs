//! The statements for MariaDB and MySQL.
//!
//! Each parameter has a type that every library can bind: a text, `bigint` or `longblob`. A connection has
//! `utf8mb4`, as each library has by default.

use super::errors::RIGHTS;
pub use super::errors::no_answer;
use super::question_marks;
use crate::error::{Error, ErrorKind};

/// Creates the tables `jobq_outbox` and `jobq_inbox` in the database of the connection. Run it once, with
/// the tool that runs your other migrations.
pub const MIGRATION: &str = include_str!("mysql.sql");

/// Inserts a row. The parameters are the fields of a [`Row`](super::Row), in their order.
///
/// ```
/// use jobq::outbox::mysql;
///
/// assert_eq!(mysql::INSERT.matches('?').count(), 14);
/// ```
pub const INSERT: &str = question_marks::INSERT;

/// [`INSERT`] for so many rows, at least one, in their order. The parameters are those of each row, one row
/// after the other.
///
/// ```
/// use jobq::outbox::mysql;
///
/// assert_eq!(mysql::insert_many(1), mysql::INSERT);
/// assert_eq!(mysql::insert_many(500).matches('?').count(), 7_000);
/// ```
#[must_use]
pub fn insert_many(rows: usize) -> String {
    let (_, row) = INSERT.rsplit_once("VALUES ").unwrap_or_default();
    format!("{INSERT}{}", format!(", {row}").repeat(rows.saturating_sub(1)))
}

/// Marks a step of a job as done. It inserts no row if the step is done already: the number of rows that
/// it affects is 1 for the first run, and 0 for each further one. The parameters are the fields of a
/// [`Mark`](super::Mark), in their order.
///
/// Another transaction that marks the same step at the same time waits for the end of this one.
pub const MARK: &str = "\
INSERT IGNORE INTO jobq_inbox (namespace, queue, name, job_id, step) VALUES (?, ?, ?, ?, ?)";

/// The error of jobq for an error of the server with this number and message, for an adapter. `doing` is
/// what failed, such as `writing a row of jobq_outbox`. The text says what to do about it.
///
/// ```
/// use jobq::outbox::mysql;
///
/// let message = "Table 'shop.jobq_outbox' doesn't exist";
/// let error = mysql::error("writing a row of jobq_outbox", 1146, message);
/// assert!(error.is_not_found() && error.to_string().contains("run the migration"));
/// ```
#[must_use]
pub fn error(doing: &str, number: u16, message: &str) -> Error {
    let (kind, remedy) = meaning(number);
    Error::new(kind, format!("{doing}: {message}{remedy}"))
}

/// The kind of an error, and what to do about it.
fn meaning(number: u16) -> (ErrorKind, &'static str) {
    match number {
        1146 => (
            ErrorKind::NotFound,
            "; run the migration `jobq::outbox::mysql::MIGRATION` in this database",
        ),
        1054 => (
            ErrorKind::Conflict,
            "; the table is not that of `jobq::outbox::mysql::MIGRATION`: compare its columns",
        ),
        // A right on a table, and on a column.
        1142 | 1143 => (ErrorKind::Refused, RIGHTS),
        1213 => (
            ErrorKind::Conflict,
            "; the server has rolled the whole transaction back: run it again",
        ),
        // A wait for a lock, and a row that has changed since it was read.
        1205 | 1020 => (ErrorKind::Conflict, "; roll the transaction back, and run it again"),
        1153 => {
            (ErrorKind::Refused, "; the server's `max_allowed_packet` must be larger than the row")
        }
        // A user, a database of a user, and a database.
        1045 | 1044 | 1049 => (ErrorKind::Refused, "; check the URL of the database"),
        // Too many connections, a server that stops, connections that were killed or timed out.
        1040 | 1053 | 1158..=1161 | 1203 | 1317 | 1927 | 4031 => (ErrorKind::Connection, ""),
        _ => (ErrorKind::Refused, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_kind() {
        use ErrorKind::{Conflict, Connection, NotFound, Refused};
        for (number, kind) in [
            (1146, NotFound),
            (1054, Conflict),
            (1142, Refused),
            (1213, Conflict),
            (1205, Conflict),
            (1153, Refused),
            (1045, Refused),
            (1040, Connection),
            (1927, Connection),
            (1062, Refused),
        ] {
            assert_eq!(error("doing", number, "text").kind(), kind, "{number}");
        }
    }
}
