//! Names, counts and deletion of queues.

use std::collections::BTreeSet;

use rusqlite::Row;

use super::{pauses, questions};
use crate::engine::{Counts, Figure, Part, Place, must_be_unused};
use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::lane::{Lane, of_lanes};
use crate::sqlite::store::Store;
use crate::sqlite::{columns, events, seats};

/// The names of the queues of the namespace: those declared, those that have jobs though they were
/// deleted, and those paused.
pub(super) fn names(store: &Store<'_>) -> rusqlite::Result<BTreeSet<String>> {
    let sql = "SELECT name FROM queues WHERE namespace = ?1 AND (NOT deleted
            OR EXISTS (SELECT 1 FROM jobs WHERE queue = queues.id)
            OR EXISTS (SELECT 1 FROM failed WHERE queue = queues.id))
        UNION SELECT queue FROM pauses WHERE namespace = ?1";
    let mut statement = store.connection.prepare_cached(sql)?;
    statement.query_map([store.namespace], |row| columns::text(row, 0))?.collect()
}

/// The numbers of jobs of a queue at one time, each by an index.
const DUE: [&str; 4] = of_lanes!(
    "SELECT count(*) FROM jobs WHERE queue = ?1 AND owner IS NULL AND solo IS NULL AND due <= ?2",
    ""
);
const WAITING: [&str; 4] = of_lanes!(
    "SELECT count(*) FROM jobs WHERE queue = ?1 AND owner IS NULL AND solo IS NULL AND due > ?2",
    ""
);
const SOLO_DUE: &str = "SELECT count(*) FROM jobs WHERE queue = ?1 AND owner IS NULL AND solo IS NOT NULL AND due <= ?2";
const SOLO_WAITING: &str = "SELECT count(*) FROM jobs WHERE queue = ?1 AND owner IS NULL AND solo IS NOT NULL AND due > ?2";
const FAILED: &str = "SELECT count(*) FROM failed WHERE queue = ?1 AND ?2";
const DELETED: &str = "SELECT deleted FROM queues WHERE id = ?1 AND ?2";

/// Where the jobs of a queue are, if there is one, by reading only. The job of an event that is due
/// counts as ready, also while it is not in the queue yet.
pub(in crate::sqlite) fn parts(store: &mut Store<'_>, name: &str) -> rusqlite::Result<Vec<Part>> {
    let now = store.clock.now();
    let Some(queue) = store.queue(name)? else {
        return Ok(Vec::new());
    };
    let connection = store.connection;
    let number = |sql: &str| -> rusqlite::Result<u64> {
        let count = |row: &Row<'_>| row.get(0).map(|count: i64| u64::try_from(count).unwrap_or(0));
        connection.prepare_cached(sql)?.query_row((queue, now), count)
    };
    let (mut parts, mut waiting) = (Vec::new(), number(SOLO_WAITING)?);
    for lane in Lane::of_queue(connection, store.version, queue)? {
        let mut due = number(lane.sql(&DUE))?;
        if lane.place() == Place::Ready {
            let of_events = events::due_jobs(connection, store.namespace, queue, now)?;
            due += u64::try_from(of_events).unwrap_or(0);
        }
        parts.push(Part::new(lane.place(), due));
        waiting += number(lane.sql(&WAITING))?;
    }
    parts.push(Part::new(Place::Solo, number(SOLO_DUE)?));
    parts.push(Part::new(Place::Waiting, waiting));
    parts.push(Part::new(Place::Failed, number(FAILED)?));
    let is_deleted = number(DELETED)? > 0;
    Ok(if is_deleted && Counts::from_parts(&parts).is_empty() { Vec::new() } else { parts })
}

/// An error if a queue to delete has jobs or consumers.
fn refuse_if_used(store: &mut Store<'_>, name: &str, queue: i64) -> rusqlite::Result<Result<()>> {
    let counts = Counts::from_parts(&parts(store, name)?);
    let sql = "SELECT count(*) FROM jobs WHERE queue = ?1 AND owner IS NOT NULL";
    let in_flight: i64 =
        store.connection.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
    let in_flight = u64::try_from(in_flight).unwrap_or(0);
    Ok(match questions::consumers(store)? {
        Figure::Known(consumers) => {
            let theirs = consumers.iter().filter(|consumer| consumer.queue == name).count() as u64;
            must_be_unused(name, counts, &[(in_flight, "in flight"), (theirs, "consumers")])
        }
        Figure::Unknown(why) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "queue `{name}` was not deleted: its consumers are unknown, since {why}; stop that \
                 process, or use `.force()` to delete the queue"
            ),
        )),
    })
}

/// Ends the subscriptions and the pause of a queue and deletes its jobs. Its row stays: other
/// processes have cached its number and may still enqueue jobs with it.
pub(super) fn delete(
    store: &mut Store<'_>,
    name: &str,
    force: bool,
) -> rusqlite::Result<Result<u64>> {
    let Some(queue) = store.queue(name)? else {
        pauses::resume(store, name)?;
        return Ok(Ok(0));
    };
    if !force && let Err(error) = refuse_if_used(store, name, queue)? {
        return Ok(Err(error));
    }
    events::release(store.connection, store.namespace, store.clock.now())?;
    let connection = store.connection;
    let mut deleted = 0;
    for (table, holds_jobs) in [("subscriptions", false), ("jobs", true), ("failed", true)] {
        let sql = format!("DELETE FROM {table} WHERE queue = ?1");
        let rows = connection.prepare_cached(&sql)?.execute([queue])?;
        deleted += if holds_jobs { u64::try_from(rows).unwrap_or(u64::MAX) } else { 0 };
    }
    seats::delete(store, queue)?;
    connection.prepare_cached("UPDATE queues SET deleted = 1 WHERE id = ?1")?.execute([queue])?;
    pauses::resume(store, name)?;
    Ok(Ok(deleted))
}
