//! The statements, in a transaction.

use jobq::outbox::{Row, postgres};
use jobq::{Error, ErrorKind, JobId, Result};
use sqlx::postgres::{PgArguments, PgBindIterExt as _};
use sqlx::query::Query;
use sqlx::{Connection as _, PgConnection, Postgres};

use crate::errors::failed;

/// Inserts a row.
pub(crate) async fn insert(tx: &mut PgConnection, row: &Row) -> Result<JobId> {
    let query = sqlx::query(postgres::INSERT)
        .bind(row.version)
        .bind(&row.namespace)
        .bind(&row.queue)
        .bind(&row.topic)
        .bind(&row.name)
        .bind(&row.job_id)
        .bind(row.enqueued_at)
        .bind(row.due_at)
        .bind(row.expires_at)
        .bind(row.retry_wait)
        .bind(&row.content_encoding)
        .bind(&row.enqueued_by)
        .bind(&row.headers)
        .bind(&row.payload);
    execute(tx, "writing a row of jobq_outbox", query).await?;
    row.job_id.parse()
}

/// Inserts rows by one statement.
pub(crate) async fn insert_many(tx: &mut PgConnection, rows: &[Row]) -> Result<()> {
    let query = sqlx::query(postgres::INSERT_MANY)
        .bind(rows.iter().map(|row| row.version).bind_iter())
        .bind(rows.iter().map(|row| &row.namespace).bind_iter())
        .bind(rows.iter().map(|row| &row.queue).bind_iter())
        .bind(rows.iter().map(|row| &row.topic).bind_iter())
        .bind(rows.iter().map(|row| &row.name).bind_iter())
        .bind(rows.iter().map(|row| &row.job_id).bind_iter())
        .bind(rows.iter().map(|row| row.enqueued_at).bind_iter())
        .bind(rows.iter().map(|row| row.due_at).bind_iter())
        .bind(rows.iter().map(|row| row.expires_at).bind_iter())
        .bind(rows.iter().map(|row| row.retry_wait).bind_iter())
        .bind(rows.iter().map(|row| &row.content_encoding).bind_iter())
        .bind(rows.iter().map(|row| &row.enqueued_by).bind_iter())
        .bind(rows.iter().map(|row| &row.headers).bind_iter())
        .bind(rows.iter().map(|row| &row.payload).bind_iter());
    execute(tx, "writing rows of jobq_outbox", query).await?;
    Ok(())
}

/// The number of rows that a statement affects in a transaction.
pub(crate) async fn execute(
    tx: &mut PgConnection,
    doing: &str,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<u64> {
    // Besides mistakes, this finds a transaction that sqlx has ended: in version 0.9.0, by a nested
    // `begin` that fails or is dropped. Each further statement would commit by itself.
    if !tx.is_in_transaction() {
        let text = "the connection is not in a transaction of sqlx; begin one by `begin()`, and \
                    pass `&mut *tx`";
        return Err(Error::new(ErrorKind::Invalid, format!("{doing}: {text}")));
    }
    let done = query.execute(tx).await.map_err(|error| failed(doing, error))?;
    Ok(done.rows_affected())
}
