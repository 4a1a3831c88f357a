//! The differences between SQLite and MariaDB, for their relays.

use jobq::outbox::Row;
use jobq::{Error, Result};
use sqlx::Database;
use sqlx::error::DatabaseError;

use crate::statement::Statement;

/// A database with parameters that are question marks.
pub(crate) trait Dialect: Database {
    /// Milliseconds since 1970, by the clock of the database.
    const NOW: &'static str;
    /// Begins a transaction that writes.
    const BEGIN: &'static str;
    /// The end of a query that locks its rows.
    const LOCKING: &'static str;
    /// Creates the tables.
    const MIGRATION: &'static str;
    /// Counts the tables `jobq_outbox`.
    const EXISTS: &'static str;
    /// Deletes marks of a namespace that are older than a time, at most so many.
    const DELETE_MARKS: &'static str;
    /// Statements that change nothing and take what a relay needs: a right, and how it is tried.
    const PROBES: &'static [(&'static str, &'static str)];

    /// Statements that delete the rows with these numbers.
    fn deletions(numbers: &[i64]) -> String;

    /// Prepares a new connection of a relay from the table of this name, and checks it.
    fn set_up(
        connection: &mut Self::Connection,
        name: &str,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The number of rows that a statement affects.
    fn execute(
        connection: &mut Self::Connection,
        statement: Statement<'_>,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// The rows of a query.
    fn rows(
        connection: &mut Self::Connection,
        statement: Statement<'_>,
    ) -> impl Future<Output = sqlx::Result<Vec<Self::Row>>> + Send;

    /// Runs statements without parameters.
    fn run(
        connection: &mut Self::Connection,
        statements: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The number in a column.
    fn number(row: &Self::Row, place: usize) -> sqlx::Result<Option<i64>>;

    /// The text in a column.
    fn text(row: &Self::Row, place: usize) -> sqlx::Result<Option<String>>;

    /// The bytes in a column.
    fn bytes(row: &Self::Row, place: usize) -> sqlx::Result<Option<Vec<u8>>>;

    /// The error for a problem that the database tells.
    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error;

    /// Whether the user lacks a right.
    fn is_denied(problem: &dyn DatabaseError) -> bool;
}

/// The methods that differ in types alone.
macro_rules! methods {
    () => {
        async fn execute(
            connection: &mut Self::Connection,
            statement: Statement<'_>,
        ) -> sqlx::Result<u64> {
            Ok(statement.query::<Self>().execute(connection).await?.rows_affected())
        }

        async fn rows(
            connection: &mut Self::Connection,
            statement: Statement<'_>,
        ) -> sqlx::Result<Vec<Self::Row>> {
            statement.query::<Self>().fetch_all(connection).await
        }

        async fn run(connection: &mut Self::Connection, statements: &str) -> sqlx::Result<()> {
            let statements = sqlx::AssertSqlSafe(statements.to_owned());
            sqlx::raw_sql(statements).execute(connection).await?;
            Ok(())
        }

        fn number(row: &Self::Row, place: usize) -> sqlx::Result<Option<i64>> {
            row.try_get(place)
        }

        fn text(row: &Self::Row, place: usize) -> sqlx::Result<Option<String>> {
            row.try_get(place)
        }

        fn bytes(row: &Self::Row, place: usize) -> sqlx::Result<Option<Vec<u8>>> {
            row.try_get(place)
        }
    };
}

pub(crate) use methods;

/// The columns that [`row`] reads, from the third one on.
pub(crate) const COLUMNS: &str = "\
seq, tries, version, namespace, queue, topic, name, job_id, enqueued_at, due_at, expires_at, \
retry_wait, content_encoding, enqueued_by, headers";

/// The row of these [columns](COLUMNS), with its payload.
///
/// # Errors
///
/// A column of another type.
pub(crate) fn row<D: Dialect>(row: &D::Row, payload: Vec<u8>) -> sqlx::Result<Row> {
    let number = |place| Ok::<_, sqlx::Error>(D::number(row, place)?.unwrap_or_default());
    let text = |place| Ok::<_, sqlx::Error>(D::text(row, place)?.unwrap_or_default());
    Ok(Row {
        version: number(2)?,
        namespace: text(3)?,
        queue: D::text(row, 4)?,
        topic: D::text(row, 5)?,
        name: D::text(row, 6)?,
        job_id: text(7)?,
        enqueued_at: number(8)?,
        due_at: D::number(row, 9)?,
        expires_at: D::number(row, 10)?,
        retry_wait: D::number(row, 11)?,
        content_encoding: D::text(row, 12)?,
        enqueued_by: D::text(row, 13)?,
        headers: text(14)?,
        payload,
    })
}
