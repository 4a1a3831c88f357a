//! Paused queues.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::engine::Pause;
use crate::sqlite::columns;
use crate::sqlite::store::Store;

/// The records of all paused queues of a namespace.
pub(super) fn all(
    connection: &Connection,
    namespace: &str,
) -> rusqlite::Result<HashMap<String, Pause>> {
    let sql = "SELECT since, paused_by, why, queue FROM pauses WHERE namespace = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([namespace], |row| Ok((columns::text(row, 3)?, read(row)?)))?.collect()
}

/// The record of a queue, if it is paused.
pub(in crate::sqlite) fn one(store: &Store<'_>, queue: &str) -> rusqlite::Result<Option<Pause>> {
    let sql = "SELECT since, paused_by, why FROM pauses WHERE namespace = ?1 AND queue = ?2";
    let mut statement = store.connection.prepare_cached(sql)?;
    statement.query_row((store.namespace, queue), read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Pause> {
    let since = row.get::<_, Option<i64>>(0)?.map(columns::to_time);
    let (by, why) = (columns::text_or_null(row, 1)?, columns::text_or_null(row, 2)?);
    Ok(Pause { since, by, why })
}

/// Pauses a queue, or replaces the record of its pause.
pub(in crate::sqlite) fn pause(
    store: &mut Store<'_>,
    queue: &str,
    pause: &Pause,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO pauses (namespace, queue, since, paused_by, why)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let Pause { since, by, why } = pause;
    let row = (store.namespace, queue, since.map(columns::of_time), by, why);
    store.connection.prepare_cached(sql)?.execute(row)?;
    store.has_news = true;
    Ok(())
}

/// Resumes a queue, and returns whether it was paused.
pub(super) fn resume(store: &mut Store<'_>, queue: &str) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM pauses WHERE namespace = ?1 AND queue = ?2";
    let deleted = store.connection.prepare_cached(sql)?.execute((store.namespace, queue))?;
    store.has_news = true;
    Ok(deleted > 0)
}
