//! Inserts of new jobs.

use std::time::{Duration, Instant};

use super::columns;
use super::failure::Failure;
use super::inbox::Inbox;
use super::lane::set_priority;
use super::store::{Store, unknown};
use crate::engine::NotPushed;
use crate::error::Result;
use crate::job::Envelope;

pub(super) const INSERT: &str =
    "INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, retry_wait,
    expires_at, name, topic, enqueued_by, payload, headers, content_encoding) VALUES (?1, ?2, ?11,
    ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12, ?13)";

/// The most jobs of one command, so that other callers do not wait long and a large `push_all` need
/// not be in memory at once.
const MAX_JOBS: usize = 1_024;
/// The size of payloads at which a command is full.
const FULL_BYTES: usize = 4 * 1024 * 1024;

/// A job to insert. The time until it is inserted is a part of its delay.
pub(super) struct New {
    job: Envelope,
    /// When its delay began, for a job with one.
    since: Option<Instant>,
}

impl From<Envelope> for New {
    fn from(job: Envelope) -> Self {
        let since = (!job.delay.is_zero()).then(Instant::now);
        Self { job, since }
    }
}

/// Inserts a job; an error if its queue is not declared.
pub(super) fn insert(store: &mut Store<'_>, new: &New) -> rusqlite::Result<Result<()>> {
    let New { job, since } = new;
    let Some(queue) = store.queue(&job.queue)? else {
        return Ok(Err(unknown(&job.queue)));
    };
    let gone = since.map_or(Duration::ZERO, |since| since.elapsed());
    store.insert.of(store.connection)?.execute((
        queue,
        store.clock.due_after(job.delay.saturating_sub(gone)),
        job.id.as_bytes(),
        columns::of_time(job.enqueued_at),
        job.retry_wait.map(columns::of_wait),
        job.expires_at.map(columns::of_time),
        job.name.as_deref(),
        job.topic.as_deref(),
        job.enqueued_by.as_deref(),
        &job.payload,
        job.attempts,
        columns::of_headers(&job.headers),
        job.content_encoding.as_deref(),
    ))?;
    set_priority(store, job.priority())?;
    Ok(Ok(()))
}

/// Inserts jobs in batches: the next batch is taken from the iterator while the previous one is
/// written.
pub(super) async fn insert_all(
    inbox: &Inbox,
    jobs: &mut (dyn Iterator<Item = Envelope> + Send),
) -> Vec<NotPushed> {
    let (mut failed, mut first, mut writing) = (Vec::new(), 0, None);
    loop {
        let batch = next_batch(jobs);
        let count = batch.len();
        let next = (count > 0).then(|| inbox.try_run(move |store| insert_batch(store, &batch)));
        if let Some((first, count, written)) = writing {
            failed.extend(not_pushed(first, count, written.await));
        }
        let Some(next) = next else {
            return failed;
        };
        writing = Some((first, count, next));
        first += count;
    }
}

fn next_batch(jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<New> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < MAX_JOBS
        && bytes < FULL_BYTES
        && let Some(job) = jobs.next()
    {
        bytes += job.payload.len();
        batch.push(New::from(job));
    }
    batch
}

/// Inserts a batch, and returns the jobs that were refused.
pub(super) fn insert_batch(
    store: &mut Store<'_>,
    jobs: &[New],
) -> rusqlite::Result<Vec<NotPushed>> {
    let mut refused = Vec::new();
    for (place, job) in jobs.iter().enumerate() {
        if let Err(error) = insert(store, job)? {
            refused.push((place, error));
        }
    }
    Ok(refused)
}

/// The jobs of a batch that were not inserted, by position in the whole.
fn not_pushed(
    first: usize,
    count: usize,
    written: Result<Vec<NotPushed>, Failure>,
) -> Vec<NotPushed> {
    match written {
        Ok(refused) => refused.into_iter().map(|(place, error)| (first + place, error)).collect(),
        Err(failure) => (first..first + count).map(|place| (place, failure.error())).collect(),
    }
}
