//! The statements, in a transaction.

use jobq::outbox::{Mark, Marked, Row, postgres};
use jobq::{Error, ErrorKind, JobId, Result};
use sea_orm::{ConnectionTrait as _, DatabaseTransaction, DbBackend, Statement, Value};

use crate::errors::failed;

/// What fails, if a row cannot be inserted.
pub(crate) const INSERTING: &str = "writing a row of jobq_outbox";
const MARKING: &str = "marking a step";

/// Changes nothing in a transaction, and is an error (25P01) without one.
const IN_TRANSACTION: &str = "SAVEPOINT jobq; RELEASE SAVEPOINT jobq";

/// Inserts a row, in a transaction that is [checked](check).
pub(crate) async fn insert(tx: &DatabaseTransaction, row: Row) -> Result<JobId> {
    let id = row.job_id.parse()?;
    let values: [Value; 14] = [
        row.version.into(),
        row.namespace.into(),
        row.queue.into(),
        row.topic.into(),
        row.name.into(),
        row.job_id.into(),
        row.enqueued_at.into(),
        row.due_at.into(),
        row.expires_at.into(),
        row.retry_wait.into(),
        row.content_encoding.into(),
        row.enqueued_by.into(),
        row.headers.into(),
        row.payload.into(),
    ];
    execute(tx, INSERTING, postgres::INSERT, values).await?;
    Ok(id)
}

/// Inserts a mark.
pub(crate) async fn mark(tx: &DatabaseTransaction, mark: Mark) -> Result<Marked> {
    check(tx, MARKING).await?;
    let Mark { namespace, queue, name, job_id, step, .. } = mark;
    let values = [namespace, queue, name, job_id, step].map(Value::from);
    let marked = execute(tx, MARKING, postgres::MARK, values).await?;
    Ok(Marked::from_affected(marked))
}

/// Fails unless this is an open transaction of PostgreSQL.
///
/// In version 2.0.4 of `sea_orm`, a nested `begin` ends the outer transaction if it fails or if its
/// future is dropped. No method of the outer one tells. Each further statement would commit by
/// itself.
pub(crate) async fn check(tx: &DatabaseTransaction, doing: &str) -> Result<()> {
    let backend = tx.get_database_backend();
    if backend != DbBackend::Postgres {
        let text = format!("{doing}: the database is {backend:?}; use PostgreSQL");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let asked = tx.execute_unprepared(IN_TRANSACTION).await;
    asked.map(drop).map_err(|error| failed(doing, error))
}

/// The number of rows that a statement affects.
async fn execute(
    tx: &DatabaseTransaction,
    doing: &str,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Result<u64> {
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, sql, values);
    let done = tx.execute_raw(statement).await.map_err(|error| failed(doing, error))?;
    Ok(done.rows_affected())
}
