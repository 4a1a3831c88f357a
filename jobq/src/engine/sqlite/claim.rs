//! Taking due jobs in hand.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::{Connection, Row};

use super::columns;
use crate::job::{Envelope, JobId};

/// The jobs of a queue that nobody has in hand, those that are due first, oldest first.
/// The index is the order, so that as much is read as is taken.
pub(super) const SELECT: &str = "SELECT seq, due, attempts, job_id, enqueued_at, retry_wait,
    expires_at, name, topic, payload FROM jobs WHERE queue = ?1 AND owner IS NULL
    ORDER BY due, seq";

/// A job that was taken in hand.
pub(super) struct Claimed {
    pub(super) seq: i64,
    pub(super) envelope: Envelope,
    pub(super) attempt: u32,
}

/// What a look into a queue gave.
#[derive(Default)]
pub(super) struct Look {
    pub(super) claimed: Vec<Claimed>,
    /// When the first job that was left is due, if one was seen.
    pub(super) next_due: Option<i64>,
}

/// Takes at most `room` jobs that are due, for this owner.
pub(super) fn claim(
    connection: &Connection,
    (queue, name): (i64, &str),
    owner: i64,
    room: usize,
) -> rusqlite::Result<Look> {
    let now = columns::now();
    let mut look = Look::default();
    {
        let mut select = connection.prepare_cached(SELECT)?;
        let mut rows = select.query([queue])?;
        while let Some(row) = rows.next()? {
            let due = row.get(1)?;
            if due > now || look.claimed.len() >= room {
                look.next_due = Some(due);
                break;
            }
            look.claimed.push(read(row, name)?);
        }
    }
    let mut update = connection.prepare_cached("UPDATE jobs SET owner = ?2 WHERE seq = ?1")?;
    for claimed in &look.claimed {
        update.execute((claimed.seq, owner))?;
    }
    Ok(look)
}

fn read(row: &Row<'_>, queue: &str) -> rusqlite::Result<Claimed> {
    let attempts: i64 = row.get(2)?;
    Ok(Claimed {
        seq: row.get(0)?,
        attempt: columns::to_attempts(attempts).saturating_add(1),
        envelope: Envelope {
            id: JobId::from_bytes(row.get(3)?),
            queue: Cow::Owned(queue.to_owned()),
            enqueued_at: columns::to_time(row.get(4)?),
            delay: Duration::ZERO,
            retry_wait: row.get::<_, Option<_>>(5)?.map(columns::to_wait),
            expires_at: row.get::<_, Option<_>>(6)?.map(columns::to_time),
            name: row.get::<_, Option<String>>(7)?.map(Cow::Owned),
            topic: row.get(8)?,
            payload: row.get(9)?,
        },
    })
}

/// When the next job of a queue is due, or was.
pub(super) fn next_due(connection: &Connection, queue: i64) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT min(due) FROM jobs WHERE queue = ?1 AND owner IS NULL";
    connection.prepare_cached(sql)?.query_row([queue], |row| row.get(0))
}
