//! Claims of due jobs.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Row};

use super::columns;
use super::lane::{Lane, of_lanes};
use crate::job::{Envelope, JobId};

/// The unclaimed jobs of a lane, by due time, oldest first. The order is that of the index, so
/// that only claimed rows are read.
pub(super) const SELECT: [&str; 4] = of_lanes!(
    "SELECT seq, due, attempts, job_id, enqueued_at, retry_wait,
    expires_at, name, topic, payload, crashes, solo, enqueued_by, headers, content_encoding
    FROM jobs
    WHERE queue = ?1 AND owner IS NULL AND solo IS NULL",
    " ORDER BY due, seq"
);

/// As [`SELECT`], for solo jobs, including claimed ones.
pub(super) const SELECT_SOLO: &str = "SELECT seq, due, attempts, job_id, enqueued_at,
    retry_wait, expires_at, name, topic, payload, crashes, solo, enqueued_by, headers,
    content_encoding, owner FROM jobs
    WHERE queue = ?1 AND solo IS NOT NULL ORDER BY due, seq";

/// Claims the first jobs that [`SELECT`] finds, in one statement: each opens the table and its
/// indexes anew.
pub(super) const CLAIM: [&str; 4] = of_lanes!(
    "UPDATE jobs SET owner = ?2 WHERE seq IN (
    SELECT seq FROM jobs
    WHERE queue = ?1 AND owner IS NULL AND solo IS NULL",
    " ORDER BY due, seq LIMIT ?3)"
);

/// When the next job of a lane is due.
pub(super) const NEXT_DUE: [&str; 4] =
    of_lanes!("SELECT min(due) FROM jobs WHERE queue = ?1 AND owner IS NULL AND solo IS NULL", "");

/// As [`CLAIM`], for jobs that are neighbours in the table: no index is searched for them.
const CLAIM_RANGE: &str = "UPDATE jobs SET owner = ?1 WHERE seq BETWEEN ?2 AND ?3";

/// The most jobs for which there is room before they are read.
const MOST_RESERVED: usize = 256;

/// A claimed job.
pub(super) struct Claimed {
    pub(super) seq: i64,
    pub(super) envelope: Envelope,
    pub(super) due: SystemTime,
    /// How many owners died while they held it.
    pub(super) crashes: u32,
    /// How often its solo run was started, if it has one.
    pub(super) starts: Option<u32>,
}

/// The result of a look into a queue.
#[derive(Default)]
pub(super) struct Look {
    pub(super) claimed: Vec<Claimed>,
    /// When the first job left is due, if there is one.
    pub(super) next_due: Option<i64>,
}

/// Claims at most `room` due jobs for this owner.
pub(super) fn claim(
    connection: &Connection,
    (queue, name, lane): (i64, &'static str, Lane),
    owner: i64,
    room: usize,
    now: i64,
) -> rusqlite::Result<Look> {
    let mut look = Look::default();
    {
        let mut select = connection.prepare_cached(lane.sql(&SELECT))?;
        let mut rows = select.query([queue])?;
        while let Some(row) = rows.next()? {
            let due = row.get(1)?;
            if due > now || look.claimed.len() >= room {
                look.next_due = Some(due);
                break;
            }
            if look.claimed.is_empty() {
                look.claimed.reserve(room.min(MOST_RESERVED));
            }
            look.claimed.push(read(row, name)?);
        }
    }
    if let (Some(first), Some(last)) = (look.claimed.first(), look.claimed.last()) {
        let count = i64::try_from(look.claimed.len()).unwrap_or(i64::MAX);
        let is_range = last.seq - first.seq < count && look.claimed.is_sorted_by_key(|job| job.seq);
        if is_range {
            let range = (owner, first.seq, last.seq);
            connection.prepare_cached(CLAIM_RANGE)?.execute(range)?;
        } else {
            connection.prepare_cached(lane.sql(&CLAIM))?.execute((queue, owner, count))?;
        }
    }
    Ok(look)
}

/// Claims the solo job whose start was recorded, or else the first one, unless one is in flight.
pub(super) fn claim_solo(
    connection: &Connection,
    (queue, name): (i64, &'static str),
    owner: i64,
    started: Option<i64>,
) -> rusqlite::Result<Look> {
    let mut look = Look::default();
    {
        let mut select = connection.prepare_cached(SELECT_SOLO)?;
        let mut rows = select.query([queue])?;
        while let Some(row) = rows.next()? {
            if row.get::<_, Option<i64>>("owner")?.is_some() {
                return Ok(Look::default());
            }
            if look.claimed.is_empty() || started == Some(row.get(0)?) {
                look.claimed = vec![read(row, name)?];
            }
        }
    }
    if let Some(claimed) = look.claimed.first() {
        let sql = "UPDATE jobs SET owner = ?2 WHERE seq = ?1";
        connection.prepare_cached(sql)?.execute((claimed.seq, owner))?;
    }
    Ok(look)
}

pub(super) fn read(row: &Row<'_>, queue: &'static str) -> rusqlite::Result<Claimed> {
    let attempts = columns::to_attempts(row.get(2)?);
    Ok(Claimed {
        seq: row.get(0)?,
        due: columns::to_time(row.get(1)?),
        crashes: columns::to_attempts(row.get(10)?),
        starts: row.get::<_, Option<i64>>(11)?.map(columns::to_attempts),
        envelope: Envelope {
            id: JobId::from_bytes(row.get(3)?),
            queue: Cow::Borrowed(queue),
            enqueued_at: columns::to_time(row.get(4)?),
            delay: Duration::ZERO,
            retry_wait: row.get::<_, Option<_>>(5)?.map(columns::to_wait),
            expires_at: row.get::<_, Option<_>>(6)?.map(columns::to_time),
            name: columns::text_or_null(row, 7)?.map(Cow::Owned),
            topic: columns::text_or_null(row, 8)?,
            payload: row.get(9)?,
            enqueued_by: columns::text_or_null(row, 12)?.map(Into::into),
            headers: columns::to_headers(columns::text_or_null(row, 13)?.as_deref()),
            content_encoding: columns::text_or_null(row, 14)?.map(Cow::Owned),
            attempts,
        },
    })
}

/// When the next job of a queue is due or was due: of its solo jobs or of a lane.
pub(super) fn next_due(
    connection: &Connection,
    (queue, lane): (i64, Lane),
    solo: bool,
) -> rusqlite::Result<Option<i64>> {
    let sql = if solo {
        "SELECT min(due) FROM jobs WHERE queue = ?1 AND solo IS NOT NULL AND owner IS NULL"
    } else {
        lane.sql(&NEXT_DUE)
    };
    connection.prepare_cached(sql)?.query_row([queue], |row| row.get(0))
}
