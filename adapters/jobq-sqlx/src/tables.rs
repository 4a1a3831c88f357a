//! The statements of a user's transaction.

use jobq::outbox::{Mark, Marked, Row};
use jobq::{EnqueueAll, Error, ErrorKind, JobId, Result};
use sqlx::Connection;
use sqlx::error::DatabaseError;

use crate::errors::failed;

/// The most rows of a statement.
const BATCH: usize = 500;
/// The most bytes of a statement for each row, besides its texts and bytes.
const OVERHEAD: usize = 200;

/// A connection to a database with the tables of jobq. Each method gives the number of rows that were
/// affected.
pub(crate) trait Tables: Connection {
    /// A statement has no more bytes of rows, unless its first row alone has more.
    const BATCH_BYTES: usize = 4 * 1024 * 1024;

    fn insert(&mut self, row: &Row) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn insert_many(&mut self, rows: &[Row]) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn mark(&mut self, mark: &Mark) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// How the transaction stands.
    fn look(&mut self) -> impl Future<Output = sqlx::Result<Look>> + Send;

    /// The error for a problem that the database tells.
    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error;
}

/// How a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether sqlx has begun one that has not ended.
    pub(crate) is_begun: bool,
    /// The most bytes of a statement, if the database says it.
    pub(crate) largest: Option<u64>,
}

/// Inserts a row.
pub(crate) async fn insert<C: Tables>(tx: &mut C, row: &Row) -> Result<JobId> {
    const DOING: &str = "writing a row of jobq_outbox";
    check(tx, DOING, size(row)).await?;
    tx.insert(row).await.map_err(|error| failed(DOING, error, C::meaning))?;
    row.job_id.parse()
}

/// Inserts the rows of many jobs.
pub(crate) async fn insert_all<C: Tables>(tx: &mut C, jobs: EnqueueAll<'_>) -> Result<Vec<JobId>> {
    let (mut ids, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for row in jobs.rows()? {
        let row = row?;
        ids.push(row.job_id.parse()?);
        let is_full = batch.len() == BATCH || bytes + size(&row) > C::BATCH_BYTES;
        if is_full && !batch.is_empty() {
            insert_many(tx, &batch).await?;
            batch.clear();
            bytes = 0;
        }
        bytes += size(&row);
        batch.push(row);
    }
    if !batch.is_empty() {
        insert_many(tx, &batch).await?;
    }
    Ok(ids)
}

async fn insert_many<C: Tables>(tx: &mut C, rows: &[Row]) -> Result<()> {
    const DOING: &str = "writing rows of jobq_outbox";
    check(tx, DOING, rows.iter().map(size).sum()).await?;
    tx.insert_many(rows).await.map_err(|error| failed(DOING, error, C::meaning))?;
    Ok(())
}

/// Marks a step.
pub(crate) async fn mark<C: Tables>(tx: &mut C, mark: &Mark) -> Result<Marked> {
    const DOING: &str = "marking a step";
    check(tx, DOING, 0).await?;
    let marked = tx.mark(mark).await.map_err(|error| failed(DOING, error, C::meaning))?;
    Ok(Marked::from_affected(marked))
}

/// Besides mistakes, this finds a transaction that sqlx has ended: in version 0.9.0, by a nested `begin`
/// that fails or is dropped. Each further statement would commit by itself.
async fn check<C: Tables>(tx: &mut C, doing: &str, bytes: usize) -> Result<()> {
    let look = tx.look().await.map_err(|error| failed(doing, error, C::meaning))?;
    match problem(look, bytes) {
        None => Ok(()),
        Some(problem) => Err(Error::new(ErrorKind::Invalid, format!("{doing}: {problem}"))),
    }
}

/// Why a statement with so many bytes of rows cannot be sent.
fn problem(look: Look, bytes: usize) -> Option<String> {
    if !look.is_begun {
        let text = "the connection is not in a transaction of sqlx, or that has ended; begin one by \
                    `begin()`, and pass `&mut *tx`";
        return Some(text.to_owned());
    }
    let largest =
        look.largest.filter(|largest| u64::try_from(bytes).is_ok_and(|b| b > *largest))?;
    Some(format!(
        "the row has {bytes} bytes, more than the server's `max_allowed_packet` of {largest}; raise \
         that, or store the data elsewhere and send a reference to it"
    ))
}

/// The bytes that a row takes in a statement, at most.
fn size(row: &Row) -> usize {
    let texts = [&row.queue, &row.topic, &row.name, &row.content_encoding, &row.enqueued_by];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    row.payload.len()
        + row.headers.len()
        + row.namespace.len()
        + row.job_id.len()
        + texts
        + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_needs_a_transaction_and_room() {
        let look = |is_begun, largest| Look { is_begun, largest };
        assert_eq!(problem(look(true, None), usize::MAX), None);
        assert_eq!(problem(look(true, Some(1_000)), 1_000), None);
        let large = problem(look(true, Some(1_000)), 1_001).unwrap_or_default();
        assert!(large.contains("1001 bytes, more than the server's `max_allowed_packet` of 1000"));
        assert!(problem(look(false, None), 0).is_some_and(|text| text.contains("`begin()`")));
    }
}
