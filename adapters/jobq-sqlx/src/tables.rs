//! The statements of a user's transaction.

use jobq::outbox::{Mark, Marked, Row};
use jobq::{EnqueueAll, Error, ErrorKind, JobId, Result};
use sqlx::Connection;
use sqlx::error::DatabaseError;

use crate::errors::failed;

/// The most rows of a statement.
const BATCH: usize = 500;
/// A statement has no more bytes of payloads, unless its first row alone has more.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A connection to a database with the tables of jobq. Each method gives the number of rows that were
/// affected.
pub(crate) trait Tables: Connection {
    fn insert(&mut self, row: &Row) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn insert_many(&mut self, rows: &[Row]) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn mark(&mut self, mark: &Mark) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Whether sqlx has begun a transaction, and not ended it.
    fn is_begun(&mut self) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// The error for a problem that the database tells.
    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error;
}

/// Inserts a row.
pub(crate) async fn insert<C: Tables>(tx: &mut C, row: &Row) -> Result<JobId> {
    const DOING: &str = "writing a row of jobq_outbox";
    check(tx, DOING).await?;
    tx.insert(row).await.map_err(|error| failed(DOING, error, C::meaning))?;
    row.job_id.parse()
}

/// Inserts the rows of many jobs.
pub(crate) async fn insert_all<C: Tables>(tx: &mut C, jobs: EnqueueAll<'_>) -> Result<Vec<JobId>> {
    let (mut ids, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for row in jobs.rows()? {
        let row = row?;
        ids.push(row.job_id.parse()?);
        if batch.len() == BATCH || (bytes + row.payload.len() > BATCH_BYTES && !batch.is_empty()) {
            insert_many(tx, &batch).await?;
            batch.clear();
            bytes = 0;
        }
        bytes += row.payload.len();
        batch.push(row);
    }
    if !batch.is_empty() {
        insert_many(tx, &batch).await?;
    }
    Ok(ids)
}

async fn insert_many<C: Tables>(tx: &mut C, rows: &[Row]) -> Result<()> {
    const DOING: &str = "writing rows of jobq_outbox";
    check(tx, DOING).await?;
    tx.insert_many(rows).await.map_err(|error| failed(DOING, error, C::meaning))?;
    Ok(())
}

/// Marks a step.
pub(crate) async fn mark<C: Tables>(tx: &mut C, mark: &Mark) -> Result<Marked> {
    const DOING: &str = "marking a step";
    check(tx, DOING).await?;
    let marked = tx.mark(mark).await.map_err(|error| failed(DOING, error, C::meaning))?;
    Ok(Marked::from_affected(marked))
}

/// Besides mistakes, this finds a transaction that sqlx has ended: in version 0.9.0, by a nested `begin`
/// that fails or is dropped. Each further statement would commit by itself.
async fn check<C: Tables>(tx: &mut C, doing: &str) -> Result<()> {
    if tx.is_begun().await.map_err(|error| failed(doing, error, C::meaning))? {
        return Ok(());
    }
    let text = "the connection is not in a transaction of sqlx; begin one by `begin()`, and pass \
                `&mut *tx`";
    Err(Error::new(ErrorKind::Invalid, format!("{doing}: {text}")))
}
