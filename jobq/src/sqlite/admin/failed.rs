//! Visits of failed jobs.
//!
//! The jobs are read and settled in batches, so that other callers wait for one batch at most. The
//! function of the caller runs between them, outside of the writer.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row};

use crate::engine::{Extent, Verdict, Visit, Visited, Visiting};
use crate::error::Result;
use crate::job::headers::{By, ONCE, OPERATIONS};
use crate::job::{Envelope, FailedJob, FailedReason, JobId};
use crate::sqlite::columns;
use crate::sqlite::inbox::Inbox;
use crate::sqlite::lane::set_priority;
use crate::sqlite::store::Store;

/// The most jobs of a batch.
const BATCH: usize = 500;
/// The size of payloads at which a batch is full.
const FULL_BYTES: usize = 16 * 1024 * 1024;

/// The failed jobs that are still to be looked at.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub(super) queue: i64,
    /// The number of the last job that was looked at.
    pub(super) after: i64,
    /// The number of the last job from the start of the visit.
    pub(super) last: i64,
}

/// A job to be settled. A later one may get its number, but hardly with the same id.
struct Decided {
    seq: i64,
    id: JobId,
    verdict: Verdict,
}

/// Asks about the failed jobs of a queue, oldest first, and settles them.
pub(in crate::sqlite) async fn visit(inbox: Inbox, name: String, visit: Visit) -> Result<Visited> {
    let mut visiting = Visiting::new(visit);
    let of = name.clone();
    let Some((mut ahead, extent)) = inbox.read(move |store| begin(store, &of)).await? else {
        visiting.missing();
        return visiting.result();
    };
    visiting.visited.extent = Some(extent);
    let mut is_enough = false;
    while ahead.after < ahead.last && !is_enough {
        let name = name.clone();
        let read = inbox.read(move |store| read_batch(store, ahead, &name)).await;
        let jobs = read.unwrap_or_else(|error| {
            visiting.end(error);
            Vec::new()
        });
        if jobs.is_empty() && visiting.visited.end.is_none() {
            // Somebody else has removed them.
            ahead.after = ahead.last;
        }
        let mut decided = Vec::new();
        for (seq, job) in jobs {
            ahead.after = seq;
            let id = job.id();
            match visiting.ask(job) {
                Verdict::Keep => {}
                Verdict::Enough => {
                    is_enough = true;
                    break;
                }
                verdict => decided.push(Decided { seq, id, verdict }),
            }
        }
        settle(&inbox, &mut visiting, ahead.queue, decided).await;
        is_enough |= visiting.visited.end.is_some();
    }
    visiting.visited.complete = ahead.after >= ahead.last;
    visiting.result()
}

/// The failed jobs of a declared queue that are ahead.
fn begin(store: &mut Store<'_>, name: &str) -> rusqlite::Result<Option<(Ahead, Extent)>> {
    let Some(queue) = store.queue(name)? else { return Ok(None) };
    let sql = "SELECT count(*), coalesce(max(seq), 0) FROM failed WHERE queue = ?1";
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?));
    let (jobs, last) = store.connection.prepare_cached(sql)?.query_row([queue], read)?;
    let extent = Extent::new(jobs.unsigned_abs()).up_to(number(last));
    Ok(Some((Ahead { queue, after: 0, last }, extent)))
}

/// A row as the number of a failed job.
fn number(seq: i64) -> u64 {
    seq.max(0).unsigned_abs()
}

/// The first of the jobs that are ahead, with their numbers.
pub(super) fn read_batch(
    store: &Store<'_>,
    ahead: Ahead,
    name: &str,
) -> rusqlite::Result<Vec<(i64, FailedJob)>> {
    let sql = "SELECT failed_at, attempts, reason, error, job_id, enqueued_at, retry_wait, name,
        topic, payload, enqueued_by, headers, content_encoding, seq
        FROM failed WHERE queue = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq";
    let mut statement = store.connection.prepare_cached(sql)?;
    let mut rows = statement.query((ahead.queue, ahead.after, ahead.last))?;
    let (mut jobs, mut bytes) = (Vec::new(), 0);
    while jobs.len() < BATCH
        && bytes < FULL_BYTES
        && let Some(row) = rows.next()?
    {
        let (job, seq) = (read(row, name)?, row.get(13)?);
        bytes += job.payload_bytes().len();
        jobs.push((seq, job.numbered(number(seq))));
    }
    Ok(jobs)
}

fn read(row: &Row<'_>, queue: &str) -> rusqlite::Result<FailedJob> {
    let attempts = columns::to_attempts(row.get(1)?);
    let envelope = Envelope {
        id: JobId::from_bytes(row.get(4)?),
        queue: Cow::Owned(queue.to_owned()),
        name: columns::text_or_null(row, 7)?.map(Cow::Owned),
        payload: row.get(9)?,
        enqueued_at: columns::to_time(row.get(5)?),
        delay: Duration::ZERO,
        retry_wait: row.get::<_, Option<_>>(6)?.map(columns::to_wait),
        expires_at: None,
        topic: columns::text_or_null(row, 8)?,
        enqueued_by: columns::text_or_null(row, 10)?.map(Into::into),
        headers: columns::to_headers(columns::text_or_null(row, 11)?.as_deref()),
        content_encoding: columns::text_or_null(row, 12)?.map(Cow::Owned),
        attempts,
    };
    // An unknown reason was written by a newer version.
    let reason = FailedReason::parse(&columns::text(row, 2)?).unwrap_or(FailedReason::Exhausted);
    let failed_at = columns::to_time(row.get(0)?);
    Ok(FailedJob::new(envelope, attempts, reason, columns::text(row, 3)?, failed_at))
}

/// Settles the jobs of a batch in one transaction.
async fn settle(inbox: &Inbox, visiting: &mut Visiting, queue: i64, decided: Vec<Decided>) {
    if decided.is_empty() {
        return;
    }
    let ids: Vec<_> = decided.iter().map(|decided| decided.id).collect();
    let settling = inbox.call(move |store| {
        let done = |decided: &Decided| Ok(settle_one(store, queue, decided)?.then_some(decided.id));
        decided.iter().filter_map(|decided| done(decided).transpose()).collect::<Result<_, _>>()
    });
    let visited = &mut visiting.visited;
    match settling.await {
        Ok::<Vec<_>, _>(settled) => visited.settled.extend(settled),
        Err(error) => {
            if error.maybe_enqueued() {
                visited.unknown.extend(ids);
            }
            visiting.end(error);
        }
    }
}

/// Settles a job, and returns whether it was there.
fn settle_one(store: &Store<'_>, queue: i64, decided: &Decided) -> rusqlite::Result<bool> {
    let place = (queue, decided.seq, decided.id.as_bytes());
    match &decided.verdict {
        Verdict::Retry => retry(store, place, None)?,
        Verdict::RetryBy { operation, once } => {
            retry(store, place, Some(By { operation, once: *once }))?;
        }
        _ => {}
    }
    let sql = "DELETE FROM failed WHERE queue = ?1 AND seq = ?2 AND job_id = ?3";
    Ok(store.connection.prepare_cached(sql)?.execute(place)? > 0)
}

/// Inserts a failed job into its queue, as if it were new.
fn retry(
    store: &Store<'_>,
    (queue, seq, id): (i64, i64, &[u8; 16]),
    by: Option<By<'_>>,
) -> rusqlite::Result<()> {
    let sql = "SELECT headers FROM failed WHERE queue = ?1 AND seq = ?2 AND job_id = ?3";
    let mut select = store.connection.prepare_cached(sql)?;
    let headers = select.query_row((queue, seq, id), |row| {
        Ok(headers_of_retry(columns::text_or_null(row, 0)?.as_deref(), by))
    });
    let Some(headers) = headers.optional()? else {
        return Ok(());
    };
    // An event needs an explicit `NEVER`: without a value the expiry of its subscriber applies.
    let sql = "INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, retry_wait,
            expires_at, name, topic, enqueued_by, payload, headers, content_encoding)
        SELECT queue, ?2, 0, job_id, enqueued_at, retry_wait, iif(topic IS NULL, NULL, ?3),
            name, topic, enqueued_by, payload, ?4, content_encoding
        FROM failed WHERE seq = ?1";
    let mut insert = store.connection.prepare_cached(sql)?;
    insert.execute((seq, store.clock.now(), columns::NEVER, &headers))?;
    set_priority(store, columns::to_priority(headers.as_deref()))
}

/// The headers of a failed job that is retried. They are parsed only if they name an operation, which
/// is removed or extended, or if there is a new one. The word `once` in `jobq-needs` comes with
/// [`ONCE`] alone. A name inside a value costs a parse and nothing else.
fn headers_of_retry(headers: Option<&str>, by: Option<By<'_>>) -> Option<String> {
    let names_operation = |text: &str| text.contains(ONCE) || text.contains(OPERATIONS);
    if by.is_some() || headers.is_some_and(names_operation) {
        columns::of_headers(&columns::to_headers(headers).of_retry(by))
    } else {
        headers.map(str::to_owned)
    }
}
