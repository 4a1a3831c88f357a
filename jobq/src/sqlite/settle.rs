//! Settlements of deliveries.

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension as _};
use tracing::field::display;

use super::columns;
use super::failure::Failure;
use super::inbox::{Act, Claim, Settling};
use super::store::Store;
use crate::engine::Settlement;
use crate::error::{Error, ErrorKind};
use crate::job::Envelope;
use crate::telemetry::Who;

/// Deletes a job, if it still has this owner.
pub(super) const DELETE: &str = "DELETE FROM jobs WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";

impl Act {
    pub(super) fn new(settlement: Settlement, job: &Envelope) -> Self {
        match settlement {
            Settlement::Complete => Self::Complete,
            Settlement::Release => Self::Release,
            Settlement::Isolate => Self::Isolate,
            Settlement::Start => Self::Start { starts: 1 },
            Settlement::Retry(wait) => Self::Again { wait, since: Instant::now(), attempts: 1 },
            Settlement::Snooze(wait) => Self::Again { wait, since: Instant::now(), attempts: 0 },
            Settlement::Fail { reason, error, attempts } => {
                Self::Fail { reason, error, attempts, name: job.name.clone() }
            }
        }
    }
}

impl Settling {
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
            Act::Fail { reason, error, attempts, name } => {
                let at = store.clock.time_of_day();
                let sql = "INSERT INTO failed (queue, failed_at, attempts, reason, error, job_id,
                        enqueued_at, retry_wait, name, topic, enqueued_by, payload, headers,
                        content_encoding)
                    SELECT queue, ?4, ?5, ?6, ?7, job_id, enqueued_at, retry_wait, ?8, topic,
                        enqueued_by, payload, headers, content_encoding
                    FROM jobs WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";
                let row = (seq, owner, id, at, attempts, reason.as_str(), error, name.as_deref());
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
                    "completed job will run again: this engine stalled for longer than its lease"
                );
            }
        }
    }

    /// The settlement to run again after a failure. A waiting caller gets the error and the job is
    /// released; without one, it is the same settlement.
    pub(super) fn again(mut self, failure: &Failure) -> Self {
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
        "this worker no longer holds the delivery: its engine was closed, or was delayed for \
         longer than its lease; the job is redelivered",
    )
}
