//! Failed jobs.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row};

use super::columns;
use super::store::Store;
use crate::engine::Which;
use crate::job::headers::ONCE;
use crate::job::{Envelope, FailedJob, FailedReason, JobId};

/// The failed jobs of a queue, oldest first.
pub(super) fn list(
    store: &mut Store<'_>,
    name: &str,
    limit: usize,
) -> rusqlite::Result<Vec<FailedJob>> {
    let Some(queue) = store.queue(name)? else {
        return Ok(Vec::new());
    };
    let sql = "SELECT failed_at, attempts, reason, error, job_id, enqueued_at, retry_wait, name,
        topic, payload, enqueued_by, headers, content_encoding
        FROM failed WHERE queue = ?1 ORDER BY seq LIMIT ?2";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = store.connection.prepare_cached(sql)?;
    statement.query_map((queue, limit), |row| read(row, name))?.collect()
}

/// The oldest failed job with this id.
pub(super) fn find(
    store: &mut Store<'_>,
    name: &str,
    id: JobId,
) -> rusqlite::Result<Option<FailedJob>> {
    let Some(queue) = store.queue(name)? else {
        return Ok(None);
    };
    let sql = "SELECT failed_at, attempts, reason, error, job_id, enqueued_at, retry_wait, name,
        topic, payload, enqueued_by, headers, content_encoding
        FROM failed WHERE queue = ?1 AND job_id = ?2 ORDER BY seq LIMIT 1";
    let mut statement = store.connection.prepare_cached(sql)?;
    statement.query_row((queue, id.as_bytes()), |row| read(row, name)).optional()
}

fn read(row: &Row<'_>, queue: &str) -> rusqlite::Result<FailedJob> {
    let attempts = columns::to_attempts(row.get(1)?);
    let envelope = Envelope {
        id: JobId::from_bytes(row.get(4)?),
        queue: Cow::Owned(queue.to_owned()),
        name: row.get::<_, Option<String>>(7)?.map(Cow::Owned),
        payload: row.get(9)?,
        enqueued_at: columns::to_time(row.get(5)?),
        delay: Duration::ZERO,
        retry_wait: row.get::<_, Option<_>>(6)?.map(columns::to_wait),
        expires_at: None,
        topic: row.get(8)?,
        enqueued_by: row.get(10)?,
        headers: columns::to_headers(row.get_ref(11)?.as_str_or_null()?),
        content_encoding: row.get::<_, Option<String>>(12)?.map(Cow::Owned),
        attempts,
    };
    // An unknown reason was written by a newer version.
    let reason = FailedReason::parse(&row.get::<_, String>(2)?).unwrap_or(FailedReason::Exhausted);
    let failed_at = columns::to_time(row.get(0)?);
    Ok(FailedJob::new(envelope, attempts, reason, row.get(3)?, failed_at))
}

/// Puts failed jobs back into their queue, as if they were new.
pub(super) fn retry(store: &mut Store<'_>, name: &str, which: Which) -> rusqlite::Result<u64> {
    on_each(store, name, which, |store, queue, first, last| {
        remove_once(store, queue, first, last)?;
        // An event needs an explicit `NEVER`: without a value the expiry of its subscriber applies.
        let sql = "INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, retry_wait,
                expires_at, name, topic, enqueued_by, payload, headers, content_encoding)
            SELECT queue, ?4, 0, job_id, enqueued_at, retry_wait, iif(topic IS NULL, NULL, ?5),
                name, topic, enqueued_by, payload, headers, content_encoding
            FROM failed WHERE queue = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq";
        let mut statement = store.connection.prepare_cached(sql)?;
        statement.execute((queue, first, last, store.clock.now(), columns::NEVER))?;
        delete(store, queue, first, last)
    })
}

/// Removes the marker of jobs with a single attempt, so that they have all attempts when put back.
fn remove_once(store: &Store<'_>, queue: i64, first: i64, last: i64) -> rusqlite::Result<()> {
    let sql = "SELECT seq, headers FROM failed
        WHERE queue = ?1 AND seq BETWEEN ?2 AND ?3 AND instr(headers, ?4) > 0";
    let mut select = store.connection.prepare_cached(sql)?;
    let mut rows = select.query((queue, first, last, ONCE))?;
    while let Some(row) = rows.next()? {
        let headers = columns::to_headers(row.get_ref(1)?.as_str_or_null()?).without_once();
        let sql = "UPDATE failed SET headers = ?2 WHERE seq = ?1";
        let changed = (row.get::<_, i64>(0)?, columns::of_headers(&headers));
        store.connection.prepare_cached(sql)?.execute(changed)?;
    }
    Ok(())
}

/// Deletes failed jobs.
pub(super) fn discard(store: &mut Store<'_>, name: &str, which: Which) -> rusqlite::Result<u64> {
    on_each(store, name, which, delete)
}

fn delete(store: &Store<'_>, queue: i64, first: i64, last: i64) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM failed WHERE queue = ?1 AND seq BETWEEN ?2 AND ?3";
    let deleted = store.connection.prepare_cached(sql)?.execute((queue, first, last))?;
    Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
}

/// Calls `act` with the range of numbers of the selected failed jobs.
fn on_each(
    store: &mut Store<'_>,
    name: &str,
    which: Which,
    act: impl Fn(&Store<'_>, i64, i64, i64) -> rusqlite::Result<u64>,
) -> rusqlite::Result<u64> {
    let Some(queue) = store.queue(name)? else {
        return Ok(0);
    };
    let id = match which {
        Which::All => return act(store, queue, 0, i64::MAX),
        Which::One(id) => id,
    };
    let sql = "SELECT min(seq) FROM failed WHERE queue = ?1 AND job_id = ?2";
    let mut statement = store.connection.prepare_cached(sql)?;
    match statement.query_row((queue, id.as_bytes()), |row| row.get::<_, Option<i64>>(0))? {
        Some(seq) => act(store, queue, seq, seq),
        None => Ok(0),
    }
}
