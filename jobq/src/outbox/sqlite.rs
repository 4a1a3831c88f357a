//! The statements for SQLite, in a file of the program's own.
//!
//! Each parameter has a type that every library can bind: an integer, a text or a blob. SQLite 3.37 is the
//! oldest that has the tables (`STRICT`).

pub use super::errors::no_answer;
use super::question_marks;
use crate::error::{Error, ErrorKind};

/// The `application_id` of a file that jobq keeps its jobs in: `jobq` in ASCII. Such a file has the tables
/// `jobq_outbox` and `jobq_inbox`, and its pools make jobs of the rows: it needs neither the migration nor
/// a relay.
pub const APPLICATION_ID: i32 = 0x6a6f_6271;

/// Creates the tables `jobq_outbox`, `jobq_inbox` and `jobq_relay`. Run it once, with the tool that runs your
/// other migrations.
pub const MIGRATION: &str = include_str!("sqlite.sql");

/// Inserts a row. The parameters are the fields of a [`Row`](super::Row), in their order.
///
/// ```
/// use jobq::outbox::sqlite;
///
/// assert_eq!(sqlite::INSERT.matches('?').count(), 14);
/// ```
pub const INSERT: &str = question_marks::INSERT;

/// Marks a step of a job as done. It inserts no row if the step is done already: the number of rows that
/// it affects is 1 for the first run, and 0 for each further one. The parameters are the fields of a
/// [`Mark`](super::Mark), in their order.
///
/// Another transaction that writes at the same time waits for the end of this one, or has an error after
/// its `busy_timeout`.
pub const MARK: &str = "\
INSERT INTO jobq_inbox (namespace, queue, name, job_id, step) \
VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

/// The extended code of a transaction that has read before another one wrote.
const BUSY_SNAPSHOT: i32 = 517;

/// The error of jobq for an error of SQLite with this code, which may be an extended one, and message, for
/// an adapter. `doing` is what failed, such as `writing a row of jobq_outbox`. The text says what to do
/// about it.
///
/// ```
/// use jobq::outbox::sqlite;
///
/// let error = sqlite::error("writing a row of jobq_outbox", 1, "no such table: jobq_outbox");
/// assert!(error.is_not_found() && error.to_string().contains("run the migration"));
/// ```
#[must_use]
pub fn error(doing: &str, code: i32, message: &str) -> Error {
    let (kind, remedy) = meaning(code, message);
    Error::new(kind, format!("{doing}: {message}{remedy}"))
}

/// The kind of an error, and what to do about it.
fn meaning(code: i32, message: &str) -> (ErrorKind, &'static str) {
    match code & 0xff {
        1 if message.starts_with("no such table") => (
            ErrorKind::NotFound,
            "; run the migration `jobq::outbox::sqlite::MIGRATION` in this file, and check its path",
        ),
        1 if message.contains("column") => (
            ErrorKind::Conflict,
            "; the table is not that of `jobq::outbox::sqlite::MIGRATION`: compare its columns",
        ),
        5 if code == BUSY_SNAPSHOT => (
            ErrorKind::Conflict,
            "; another transaction has written since this one began to read: roll it back and run it \
             again, and begin it with BEGIN IMMEDIATE",
        ),
        5 | 6 => (
            ErrorKind::Conflict,
            "; another transaction had the file's write lock for longer than the `busy_timeout` of this \
             connection: run it again, and keep transactions short",
        ),
        8 => (
            ErrorKind::Refused,
            "; open the file for writing, and check the rights on it and its folder",
        ),
        // Input and output, a full disk, and a file that cannot be opened.
        10 | 13 => (ErrorKind::Connection, ""),
        14 => (ErrorKind::Connection, "; check the path of the file and the rights on its folder"),
        _ => (ErrorKind::Refused, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_kind() {
        use ErrorKind::{Conflict, Connection, NotFound, Refused};
        for (code, message, kind) in [
            (1, "no such table: jobq_outbox", NotFound),
            (1, "no such column: tries", Conflict),
            (1, "table jobq_outbox has no column named tries", Conflict),
            (1, "near \"a\": syntax error", Refused),
            (5, "database is locked", Conflict),
            (BUSY_SNAPSHOT, "database is locked", Conflict),
            (262, "database table is locked", Conflict),
            (8, "attempt to write a readonly database", Refused),
            (1032, "attempt to write a readonly database", Refused),
            (14, "unable to open database file", Connection),
            (13, "database or disk is full", Connection),
            (26, "file is not a database", Refused),
            (1299, "NOT NULL constraint failed", Refused),
        ] {
            assert_eq!(error("doing", code, message).kind(), kind, "{code} {message}");
        }
    }
}
