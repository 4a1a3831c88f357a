//! Settlements of deliveries.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::oneshot;
use tracing::field::display;

use super::store::Store;
use super::{Failure, columns};
use crate::engine::Settlement;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, FailedReason, JobId};
use crate::telemetry::Who;

/// Deletes a job, if it still has this owner.
pub(super) const DELETE: &str = "DELETE FROM jobs WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";

/// The identity of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// The row of the job.
    pub(super) seq: i64,
    /// The job. If it was deleted in the meantime, a later one may have its row.
    pub(super) id: JobId,
    /// The owner of the delivery. A job with another owner is left alone.
    pub(super) owner: i64,
    /// The feed that delivered it.
    pub(super) feed: u64,
}

/// The change of a settlement.
#[derive(Debug)]
pub(super) enum Act {
    Complete,
    Release,
    /// Delivers the job again, with no crashes counted, after a wait that began at `since`.
    Again {
        wait: Duration,
        since: Instant,
        attempts: i64,
    },
    /// Marks the job for a solo run.
    Isolate,
    /// Adds to the number of solo starts.
    Start {
        starts: i64,
    },
    Fail {
        reason: FailedReason,
        error: String,
        attempts: u32,
    },
}

impl From<Settlement> for Act {
    fn from(settlement: Settlement) -> Self {
        match settlement {
            Settlement::Complete => Self::Complete,
            Settlement::Release => Self::Release,
            Settlement::Isolate => Self::Isolate,
            Settlement::Start => Self::Start { starts: 1 },
            Settlement::Retry(wait) => Self::Again { wait, since: Instant::now(), attempts: 1 },
            Settlement::Snooze(wait) => Self::Again { wait, since: Instant::now(), attempts: 0 },
            Settlement::Fail { reason, error, attempts } => Self::Fail { reason, error, attempts },
        }
    }
}

/// A settlement to be written.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) claim: Claim,
    pub(super) act: Act,
    /// The waiting caller, if any.
    pub(super) answer: Option<oneshot::Sender<Result<()>>>,
    /// Whether the owner still held the job when it was written.
    pub(super) held: bool,
    /// The completed job that its owner did not hold any more, if it is still in the file.
    pub(super) lost: Option<Who>,
}

impl Settling {
    pub(super) fn new(claim: Claim, act: Act) -> Self {
        Self { claim, act, answer: None, held: true, lost: None }
    }

    /// Whether it recorded a start, so that the job is delivered again to run.
    pub(super) fn is_start(&self) -> bool {
        self.held && matches!(self.act, Act::Start { starts: 1 })
    }

    pub(super) fn run(&mut self, store: &mut Store<'_>) -> rusqlite::Result<()> {
        let connection = store.connection;
        let Claim { seq, owner, ref id, .. } = self.claim;
        let id = id.as_bytes();
        let changed = match &self.act {
            Act::Complete => store.delete.of(connection)?.execute((seq, owner, id))?,
            Act::Release => {
                let sql = "UPDATE jobs SET owner = NULL
                    WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";
                connection.prepare_cached(sql)?.execute((seq, owner, id))?
            }
            Act::Again { wait, since, attempts } => {
                let due = store.clock.due_after(wait.saturating_sub(since.elapsed()));
                let sql = "UPDATE jobs SET owner = NULL, due = ?4,
                    attempts = min(attempts, 4294967295) + ?5, crashes = 0, solo = NULL
                    WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";
                connection.prepare_cached(sql)?.execute((seq, owner, id, due, attempts))?
            }
            Act::Isolate => {
                let sql = "UPDATE jobs SET owner = NULL, solo = 0
                    WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";
                connection.prepare_cached(sql)?.execute((seq, owner, id))?
            }
            Act::Start { starts } => {
                let sql = "UPDATE jobs SET owner = NULL,
                    solo = max(min(solo, 4294967295) + ?4, 0)
                    WHERE seq = ?1 AND owner = ?2 AND job_id = ?3 AND solo IS NOT NULL";
                connection.prepare_cached(sql)?.execute((seq, owner, id, starts))?
            }
            Act::Fail { reason, error, attempts } => {
                let at = store.clock.time_of_day();
                let sql = "INSERT INTO failed (queue, failed_at, attempts, reason, error, job_id,
                        enqueued_at, retry_wait, name, topic, enqueued_by, payload, headers,
                        content_encoding)
                    SELECT queue, ?4, ?5, ?6, ?7, job_id, enqueued_at, retry_wait, name, topic,
                        enqueued_by, payload, headers, content_encoding
                    FROM jobs WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";
                let row = (seq, owner, id, at, attempts, reason.as_str(), error);
                connection.prepare_cached(sql)?.execute(row)?;
                store.delete.of(connection)?.execute((seq, owner, id))?
            }
        };
        self.held = changed > 0;
        if !self.held && matches!(self.act, Act::Complete) {
            self.lost = who(connection, self.claim)?;
        }
        Ok(())
    }

    /// Answers the caller: recorded, or stale.
    pub(super) fn answer(self) {
        match self.answer {
            Some(answer) if self.held => drop(answer.send(Ok(()))),
            Some(answer) => drop(answer.send(Err(stale()))),
            None if self.held || matches!(self.act, Act::Release) => {}
            None => {
                let lost = self.lost.as_ref();
                let (job, id) = (lost.map(|who| &*who.job), lost.map(|who| display(who.id)));
                let (queue, attempt) = (lost.map(|who| &*who.queue), lost.map(|who| who.attempt));
                tracing::warn!(
                    job,
                    id,
                    queue,
                    attempt,
                    "a completed job runs again: this engine was held up for longer than its lease"
                );
            }
        }
    }

    /// The settlement to retry after a failure. A waiting caller gets the error and the job is
    /// released; without one, the same settlement is tried again.
    pub(super) fn later(mut self, failure: &Failure) -> Self {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(Err(failure.error()));
            self.act = Act::Release;
        }
        self
    }
}

/// The identity of a job that is in the file.
fn who(connection: &Connection, claim: Claim) -> rusqlite::Result<Option<Who>> {
    let sql = "SELECT jobs.name, queues.name, attempts FROM jobs
        JOIN queues ON queues.id = jobs.queue WHERE seq = ?1 AND job_id = ?2";
    let key = (claim.seq, claim.id.as_bytes());
    let who = connection.prepare_cached(sql)?.query_row(key, |row| {
        let queue = columns::text(row, 1)?;
        let mut job = Envelope::new(queue.clone(), Vec::new());
        job.id = claim.id;
        job.name = columns::text_or_null(row, 0)?.map(Into::into);
        job.attempts = columns::to_attempts(row.get(2)?);
        Ok(Who::of_job(&job, &queue))
    });
    who.optional()
}

/// The error of settling a stale delivery.
pub(super) fn stale() -> Error {
    Error::new(
        ErrorKind::Stale,
        "the delivery is no longer this worker's: its engine was closed, or held up for longer \
         than its lease, and the job is delivered again",
    )
}
