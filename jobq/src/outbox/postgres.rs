//! The statements for PostgreSQL.
//!
//! Each parameter has a type that every library can bind: text, `bigint` or `bytea`.

use super::errors::RIGHTS;
pub use super::errors::no_answer;
use crate::error::{Error, ErrorKind};

/// Creates the tables `jobq_outbox` and `jobq_inbox`, in the first schema of the search path. Run it
/// once, with the tool that runs your other migrations.
pub const MIGRATION: &str = include_str!("postgres.sql");

/// Inserts a row. The parameters are the fields of a [`Row`](super::Row), in their order.
///
/// ```
/// use jobq::outbox::{Row, postgres};
///
/// /// A row by the synchronous crate `postgres`, whose parameters are such a list.
/// fn parameters(row: &Row) -> [&dyn std::fmt::Debug; 13] {
///     [
///         &row.version, &row.namespace, &row.queue, &row.topic, &row.name, &row.job_id,
///         &row.enqueued_at, &row.due_at, &row.expires_at, &row.retry_wait,
///         &row.content_encoding, &row.enqueued_by, &row.headers,
///     ] // and &row.payload
/// }
/// assert!(postgres::INSERT.contains("$14"));
/// ```
pub const INSERT: &str = "\
INSERT INTO jobq_outbox (version, namespace, queue, topic, name, job_id, enqueued_at, due_at, expires_at, \
retry_wait, content_encoding, enqueued_by, headers, payload) \
VALUES ($1::bigint::smallint, $2::text, $3::text, $4::text, $5::text, $6::text::uuid, \
timestamptz 'epoch' + $7::bigint * interval '1 millisecond', \
timestamptz 'epoch' + $8::bigint * interval '1 millisecond', \
timestamptz 'epoch' + $9::bigint * interval '1 millisecond', \
$10::bigint, $11::text, $12::text, $13::text::json, $14::bytea)";

/// [`INSERT`] for many rows, in their order. Each parameter is an array: of `bigint` in place of a number,
/// of text and of `bytea`.
pub const INSERT_MANY: &str = "\
INSERT INTO jobq_outbox (version, namespace, queue, topic, name, job_id, enqueued_at, due_at, expires_at, \
retry_wait, content_encoding, enqueued_by, headers, payload) \
SELECT version::smallint, namespace, queue, topic, name, job_id::uuid, \
timestamptz 'epoch' + enqueued_at * interval '1 millisecond', \
timestamptz 'epoch' + due_at * interval '1 millisecond', \
timestamptz 'epoch' + expires_at * interval '1 millisecond', \
retry_wait, content_encoding, enqueued_by, headers::json, payload \
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], \
$8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bytea[]) \
WITH ORDINALITY AS jobs (version, namespace, queue, topic, name, job_id, enqueued_at, due_at, \
expires_at, retry_wait, content_encoding, enqueued_by, headers, payload, place) ORDER BY place";

/// Marks a step of a job as done. It inserts no row if the step is done already: the number of rows that
/// it affects is 1 for the first run, and 0 for each further one. The parameters are the fields of a
/// [`Mark`](super::Mark), in their order.
///
/// Another transaction that marks the same step at the same time waits for the end of this one.
pub const MARK: &str = "\
INSERT INTO jobq_inbox (namespace, queue, name, job_id, step) \
VALUES ($1::text, $2::text, $3::text, $4::text::uuid, $5::text) ON CONFLICT DO NOTHING";

/// The error of jobq for an error of PostgreSQL with this code (`SQLSTATE`) and message, for an adapter.
/// `doing` is what failed, such as `writing a row of jobq_outbox`. The text says what to do about it.
///
/// ```
/// use jobq::outbox::postgres;
///
/// let error = postgres::error("writing a row of jobq_outbox", "42P01", "relation does not exist");
/// assert!(error.is_not_found() && error.to_string().contains("run the migration"));
/// ```
#[must_use]
pub fn error(doing: &str, code: &str, message: &str) -> Error {
    let (kind, remedy) = meaning(code);
    Error::new(kind, format!("{doing}: {message}{remedy}"))
}

/// The kind of an error, and what to do about it.
fn meaning(code: &str) -> (ErrorKind, &'static str) {
    match code {
        "42P01" => (
            ErrorKind::NotFound,
            "; run the migration `jobq::outbox::postgres::MIGRATION` in this database, and check the \
             `search_path` of the user",
        ),
        "42703" | "42804" => (
            ErrorKind::Conflict,
            "; the table is not that of `jobq::outbox::postgres::MIGRATION`: compare its columns",
        ),
        "42501" => (ErrorKind::Refused, RIGHTS),
        "25P01" => (ErrorKind::Invalid, "; the transaction has ended: begin another one"),
        "25P02" => {
            (ErrorKind::Invalid, "; an earlier statement of the transaction failed: roll it back")
        }
        "40001" | "40P01" => (ErrorKind::Conflict, "; run the transaction again"),
        "28P01" | "28000" | "3D000" => (ErrorKind::Refused, "; check the URL of the database"),
        // Connections, resources, and a server that stops.
        code if ["08", "53", "57"].iter().any(|class| code.starts_with(class)) => {
            (ErrorKind::Connection, "")
        }
        _ => (ErrorKind::Refused, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_kind() {
        use ErrorKind::{Conflict, Connection, Invalid, NotFound, Refused};
        for (code, kind) in [
            ("42P01", NotFound),
            ("42703", Conflict),
            ("42501", Refused),
            ("25P01", Invalid),
            ("25P02", Invalid),
            ("40001", Conflict),
            ("57P01", Connection),
            ("53300", Connection),
            ("08006", Connection),
            ("28P01", Refused),
            ("23505", Refused),
            ("", Refused),
        ] {
            assert_eq!(error("doing", code, "text").kind(), kind, "{code}");
        }
    }
}
