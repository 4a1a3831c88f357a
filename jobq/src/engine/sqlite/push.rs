//! Storing new jobs.

use super::columns;
use super::queues::{Store, unknown};
use crate::error::Result;
use crate::job::Envelope;

pub(super) const INSERT: &str =
    "INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, retry_wait,
    expires_at, name, topic, payload) VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Stores jobs, and says for each whether its queue is there.
pub(super) fn insert(
    store: &mut Store<'_>,
    jobs: &[Envelope],
) -> rusqlite::Result<Vec<Result<()>>> {
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(queue) = store.queue(&job.queue)? else {
            answers.push(Err(unknown(&job.queue)));
            continue;
        };
        store.insert.of(store.connection)?.execute((
            queue,
            columns::due_after(job.delay),
            job.id.as_bytes(),
            columns::of_time(job.enqueued_at),
            job.retry_wait.map(columns::of_wait),
            job.expires_at.map(columns::of_time),
            job.name.as_deref(),
            job.topic.as_deref(),
            &job.payload,
        ))?;
        answers.push(Ok(()));
    }
    Ok(answers)
}
