//! Rows of `jobq_outbox` in this file, which a program inserts in transactions of its own.
//!
//! The writer makes jobs and events of them in the transaction in which it claims jobs. No relay is
//! needed: a row and its job are in one file, and change in one transaction.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row};
use tokio::time::Instant;

use super::feeds::View;
use super::lane::Lane;
use super::push::{self, New};
use super::store::Store;
use super::{columns, events};
use crate::error::Result;
use crate::job::{MAX_PAYLOAD, Priority};
use crate::outbox::{self, Content, no_priorities, retry_in, too_large};
use crate::repeated::Repeated;

/// The first schema with the tables.
pub(super) const SINCE: usize = 11;
/// The most rows of one transaction.
const MAX_ROWS: usize = 500;
/// The size of payloads at which a transaction is full.
const FULL_BYTES: usize = 16 * 1024 * 1024;
/// How often old marks are deleted.
const CLEANS: Duration = Duration::from_secs(3_600);
/// The age at which a mark of `jobq_inbox` is deleted.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// The rows that are due for a try, oldest first.
const SELECT: &str =
    "SELECT seq, tries, version, namespace, queue, topic, name, job_id, enqueued_at,
    due_at, expires_at, retry_wait, content_encoding, enqueued_by, headers, length(payload),
    CASE WHEN length(payload) <= ?3 THEN payload END
    FROM jobq_outbox WHERE namespace = ?1 AND (retry_at IS NULL OR retry_at <= ?2) ORDER BY seq";
const NEXT: &str = "SELECT coalesce(retry_at, 0) FROM jobq_outbox WHERE namespace = ?1
    ORDER BY retry_at LIMIT 1";
const DELETE: &str = "DELETE FROM jobq_outbox WHERE seq = ?1";
const REFUSE: &str = "UPDATE jobq_outbox SET error = ?2, retry_at = ?3,
    tries = CASE WHEN tries > 1000000 THEN tries ELSE tries + 1 END WHERE seq = ?1";
const CLEAN: &str = "DELETE FROM jobq_inbox WHERE namespace = ?1 AND done_at < ?2";

/// The knowledge of the writer about the rows.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The `data_version` of the last look: only other connections insert rows.
    looked: Option<i64>,
    /// When the next row is due for a try. A new one has been since 1970.
    next: Option<i64>,
    cleaned: Option<Instant>,
    troubles: Repeated,
}

/// A row that was taken.
struct Taken {
    seq: i64,
    tries: u32,
    row: Result<outbox::Row>,
}

impl Outbox {
    /// Whether a row is due for a try, found by reading only.
    pub(super) fn is_due(&mut self, view: &View<'_>, namespace: &str) -> rusqlite::Result<bool> {
        if self.looked != Some(view.version) {
            self.next = self.readable(next(view.connection, namespace))?.flatten();
            self.looked = Some(view.version);
        }
        Ok(self.next.is_some_and(|next| next <= view.now))
    }

    /// When the next row is due for a try, as of the last look.
    pub(super) fn next(&self) -> Option<i64> {
        self.next
    }

    /// Makes jobs and events of rows that are due for a try, and deletes the rows.
    pub(super) fn empty(&mut self, store: &mut Store<'_>, version: i64) -> rusqlite::Result<()> {
        let (connection, owner, now) = (store.connection, store.owner, store.clock.now());
        if self.is_due(&View { connection, version, owner, now }, store.namespace)? {
            let emptied = self.try_empty(store);
            self.next = self.readable(emptied)?.flatten();
        }
        let cleaned = self.clean(store);
        self.readable(cleaned).map(drop)
    }

    /// Returns when the next row is due for a try.
    fn try_empty(&mut self, store: &mut Store<'_>) -> rusqlite::Result<Option<i64>> {
        let (connection, now) = (store.connection, store.clock.now());
        for Taken { seq, tries, row } in take(store)? {
            match insert(store, row)? {
                Ok(()) => _ = connection.prepare_cached(DELETE)?.execute([seq])?,
                Err(error) => {
                    let error = error.to_string();
                    let again = now.saturating_add(columns::of_wait(retry_in(tries)));
                    connection.prepare_cached(REFUSE)?.execute((seq, &error, again))?;
                    if let Some(line) = self.troubles.happens(Instant::now()) {
                        let (row, more) = (seq, line.more);
                        tracing::warn!(
                            row,
                            error,
                            more,
                            "row of the outbox of the job file refused; it is tried again"
                        );
                    }
                }
            }
        }
        next(connection, store.namespace)
    }

    /// The result, or nothing where the tables are not those of jobq: the program may have made others,
    /// and jobs must not stand still for that.
    fn readable<T>(&mut self, result: rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
        match result {
            Ok(result) => Ok(Some(result)),
            Err(error) => {
                let text = error.to_string();
                if !["no such table", "no such column"].iter().any(|what| text.starts_with(what)) {
                    return Err(error);
                }
                if let Some(line) = self.troubles.happens(Instant::now()) {
                    let more = line.more;
                    tracing::warn!(error = text, more, "the tables of the outbox cannot be used");
                }
                Ok(None)
            }
        }
    }

    /// The transaction of the last calls was rolled back.
    pub(super) fn forget(&mut self) {
        (self.looked, self.cleaned) = (None, None);
    }

    fn clean(&mut self, store: &Store<'_>) -> rusqlite::Result<()> {
        if self.cleaned.is_none_or(|cleaned| cleaned.elapsed() >= CLEANS) {
            self.cleaned = Some(Instant::now());
            let end = store.clock.time_of_day().saturating_sub(columns::of_wait(KEPT));
            store.connection.prepare_cached(CLEAN)?.execute((store.namespace, end))?;
        }
        Ok(())
    }
}

/// Makes jobs and events of rows where nobody else does, and returns whether more are due for a try.
pub(super) fn empty(store: &mut Store<'_>) -> rusqlite::Result<bool> {
    if store.version < SINCE {
        return Ok(false);
    }
    let mut outbox = Outbox::default();
    let emptied = outbox.try_empty(store);
    let next = outbox.readable(emptied)?.flatten();
    Ok(next.is_some_and(|next| next <= store.clock.now()))
}

fn next(connection: &Connection, namespace: &str) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(NEXT)?.query_row([namespace], |row| row.get(0)).optional()
}

fn take(store: &Store<'_>) -> rusqlite::Result<Vec<Taken>> {
    let mut select = store.connection.prepare_cached(SELECT)?;
    let largest = i64::try_from(MAX_PAYLOAD).unwrap_or(i64::MAX);
    let mut rows = select.query((store.namespace, store.clock.now(), largest))?;
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while taken.len() < MAX_ROWS
        && bytes < FULL_BYTES
        && let Some(row) = rows.next()?
    {
        let read = read(row)?;
        bytes += read.row.as_ref().map_or(0, |row| row.payload.len());
        taken.push(read);
    }
    Ok(taken)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Taken> {
    let text = |column| columns::text_or_null(row, column);
    let payload: Option<Vec<u8>> = row.get(16)?;
    let read = match payload {
        None => Err(too_large(row.get::<_, i64>(15)?.unsigned_abs(), MAX_PAYLOAD)),
        Some(payload) => Ok(outbox::Row {
            version: row.get(2)?,
            namespace: columns::text(row, 3)?,
            queue: text(4)?,
            topic: text(5)?,
            name: text(6)?,
            job_id: columns::text(row, 7)?,
            enqueued_at: row.get(8)?,
            due_at: row.get(9)?,
            expires_at: row.get(10)?,
            retry_wait: row.get(11)?,
            content_encoding: text(12)?,
            enqueued_by: text(13)?,
            headers: columns::text(row, 14)?,
            payload,
        }),
    };
    Ok(Taken { seq: row.get(0)?, tries: columns::to_attempts(row.get(1)?), row: read })
}

/// Inserts the job or the event of a row; an error if it is neither, or its queue is not there.
fn insert(store: &mut Store<'_>, row: Result<outbox::Row>) -> rusqlite::Result<Result<()>> {
    let now = columns::to_time(store.clock.time_of_day());
    match row.and_then(|row| Content::read(row, MAX_PAYLOAD, now)) {
        Err(error) => Ok(Err(error)),
        Ok(Content::Event(event)) => {
            events::publish(store, &event, std::time::Instant::now(), false)
        }
        Ok(Content::Job(job)) => {
            if job.priority() != Priority::Normal
                && let Some(queue) = store.queue(&job.queue)?
                && Lane::of_queue(store.connection, store.version, queue)?.len() == 1
            {
                return Ok(Err(no_priorities(&job.queue, job.priority())));
            }
            push::insert(store, &New::from(job))
        }
    }
}
