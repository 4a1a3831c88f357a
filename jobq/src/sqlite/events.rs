//! Events: a job for each subscriber, at once or when the event is due.

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension};

use super::columns;
use super::store::Store;
use crate::engine::nobody_subscribes;
use crate::error::Result;
use crate::job::EventEnvelope;
use crate::job::topic::matches;

const INSERT_JOB: &str = "INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, expires_at,
    topic, enqueued_by, payload, headers, content_encoding)
    VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// The columns of an event.
struct Row<'e> {
    id: &'e [u8],
    due: i64,
    published_at: i64,
    expires_at: Option<i64>,
    topic: &'e str,
    enqueued_by: Option<&'e str>,
    payload: &'e [u8],
    headers: Option<&'e str>,
    content_encoding: Option<&'e str>,
}

/// Adds subscriptions of a queue.
pub(super) fn subscribe(
    store: &mut Store<'_>,
    queue: &str,
    patterns: &[String],
) -> rusqlite::Result<()> {
    let Some(queue) = store.queue(queue)?.filter(|_| !patterns.is_empty()) else {
        return Ok(());
    };
    release(store.connection, store.namespace, store.clock.now())?;
    let sql = "INSERT OR IGNORE INTO subscriptions (queue, pattern) VALUES (?1, ?2)";
    let mut statement = store.connection.prepare_cached(sql)?;
    patterns.iter().try_for_each(|pattern| statement.execute((queue, pattern)).map(drop))
}

/// Ends a subscription.
pub(super) fn unsubscribe(
    store: &mut Store<'_>,
    queue: &str,
    pattern: &str,
) -> rusqlite::Result<()> {
    let Some(queue) = store.queue(queue)? else {
        return Ok(());
    };
    release(store.connection, store.namespace, store.clock.now())?;
    let sql = "DELETE FROM subscriptions WHERE queue = ?1 AND pattern = ?2";
    store.connection.prepare_cached(sql)?.execute((queue, pattern)).map(drop)
}

/// Stores an event: as jobs, or as an event if a part of its delay, which began at `since`, is left.
pub(super) fn publish(
    store: &mut Store<'_>,
    event: &EventEnvelope,
    since: Instant,
    mandatory: bool,
) -> rusqlite::Result<Result<()>> {
    let delay = event.delay.saturating_sub(since.elapsed());
    let headers = columns::of_headers(&event.headers);
    let row = Row {
        id: event.id.as_bytes(),
        due: store.clock.due_after(delay),
        published_at: columns::of_time(event.published_at),
        expires_at: event.expires_at.map(columns::of_time),
        topic: &event.topic,
        enqueued_by: event.enqueued_by.as_deref(),
        payload: &event.payload,
        headers: headers.as_deref(),
        content_encoding: event.content_encoding.as_deref(),
    };
    if delay.is_zero() {
        let subscribers = insert_jobs(store.connection, store.namespace, &row)?;
        let unheard = mandatory && subscribers == 0;
        return Ok(if unheard { Err(nobody_subscribes(row.topic)) } else { Ok(()) });
    }
    let sql = "INSERT INTO events (namespace, due, job_id, published_at, expires_at, topic,
        enqueued_by, payload, headers, content_encoding)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    store.connection.prepare_cached(sql)?.execute((
        store.namespace,
        row.due,
        row.id,
        row.published_at,
        row.expires_at,
        row.topic,
        row.enqueued_by,
        row.payload,
        row.headers,
        row.content_encoding,
    ))?;
    Ok(Ok(()))
}

/// Inserts a job for each subscriber, and returns their number.
fn insert_jobs(
    connection: &Connection,
    namespace: &str,
    event: &Row<'_>,
) -> rusqlite::Result<usize> {
    let sql =
        "SELECT DISTINCT queues.id, pattern FROM subscriptions JOIN queues ON queues.id = queue
        WHERE namespace = ?1 ORDER BY queues.id";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([namespace])?;
    let mut queues: Vec<i64> = Vec::new();
    while let Some(row) = rows.next()? {
        let queue = row.get(0)?;
        if queues.last() != Some(&queue) && matches(&columns::text(row, 1)?, event.topic) {
            queues.push(queue);
        }
    }
    let mut insert = connection.prepare_cached(INSERT_JOB)?;
    for queue in &queues {
        insert.execute((
            queue,
            event.due,
            event.id,
            event.published_at,
            event.expires_at,
            event.topic,
            event.enqueued_by,
            event.payload,
            event.headers,
            event.content_encoding,
        ))?;
    }
    Ok(queues.len())
}

/// Inserts the jobs of all due events, within a transaction, and returns when the next event is
/// due. Called before every change of subscriptions, so that an event reaches the subscribers at
/// its due time.
pub(super) fn release(
    connection: &Connection,
    namespace: &str,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let first = next_due(connection, namespace)?;
    if first.is_none_or(|due| due > now) {
        return Ok(first);
    }
    let sql = "SELECT job_id, due, published_at, expires_at, topic, payload, enqueued_by, headers,
            content_encoding
        FROM events WHERE namespace = ?1 AND due <= ?2 ORDER BY due, seq";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((namespace, now))?;
    while let Some(row) = rows.next()? {
        let topic = columns::text(row, 4)?;
        let [enqueued_by, headers, content_encoding] =
            [6, 7, 8].map(|column| columns::text_or_null(row, column));
        let (enqueued_by, headers) = (enqueued_by?, headers?);
        let content_encoding = content_encoding?;
        let event = Row {
            id: row.get_ref(0)?.as_blob()?,
            due: row.get(1)?,
            published_at: row.get(2)?,
            expires_at: row.get(3)?,
            topic: &topic,
            payload: row.get_ref(5)?.as_blob()?,
            enqueued_by: enqueued_by.as_deref(),
            headers: headers.as_deref(),
            content_encoding: content_encoding.as_deref(),
        };
        insert_jobs(connection, namespace, &event)?;
    }
    let sql = "DELETE FROM events WHERE namespace = ?1 AND due <= ?2";
    connection.prepare_cached(sql)?.execute((namespace, now))?;
    next_due(connection, namespace)
}

/// The patterns of a queue's subscriptions.
pub(super) fn patterns(connection: &Connection, queue: i64) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT pattern FROM subscriptions WHERE queue = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([queue], |row| columns::text(row, 0))?.collect()
}

/// The number of jobs that the events which are due have for a queue, before [`release`].
pub(super) fn due_jobs(
    connection: &Connection,
    namespace: &str,
    queue: i64,
    now: i64,
) -> rusqlite::Result<i64> {
    if next_due(connection, namespace)?.is_none_or(|due| due > now) {
        return Ok(0);
    }
    let patterns = patterns(connection, queue)?;
    let sql = "SELECT topic FROM events WHERE namespace = ?1 AND due <= ?2";
    let mut topics = connection.prepare_cached(sql)?;
    let mut rows = topics.query((namespace, now))?;
    let mut jobs = 0;
    while let Some(row) = rows.next()? {
        let topic = columns::text(row, 0)?;
        jobs += i64::from(patterns.iter().any(|pattern| matches(pattern, &topic)));
    }
    Ok(jobs)
}

/// When the next event is due, if one waits.
pub(super) fn next_due(connection: &Connection, namespace: &str) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT due FROM events WHERE namespace = ?1 ORDER BY due LIMIT 1";
    connection.prepare_cached(sql)?.query_row([namespace], |row| row.get(0)).optional()
}
