//! Settlements of deliveries.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Failure;
use super::store::Store;
use crate::engine::Settlement;
use crate::error::{Error, ErrorKind, Result};
use crate::job::FailedReason;

/// Deletes a job, if it still has this owner.
pub(super) const DELETE: &str = "DELETE FROM jobs WHERE seq = ?1 AND owner = ?2";

/// How much of an error's text is kept, in bytes.
const MAX_ERROR: usize = 8 * 1024;

/// The identity of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// The job.
    pub(super) seq: i64,
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
            Settlement::Fail { reason, mut error, attempts } => {
                truncate(&mut error);
                Self::Fail { reason, error, attempts }
            }
        }
    }
}

/// Truncates to [`MAX_ERROR`] bytes at a character boundary.
fn truncate(error: &mut String) {
    if error.len() > MAX_ERROR {
        let end = (0..=MAX_ERROR).rev().find(|end| error.is_char_boundary(*end));
        error.truncate(end.unwrap_or(0));
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
}

impl Settling {
    pub(super) fn new(claim: Claim, act: Act) -> Self {
        Self { claim, act, answer: None, held: true }
    }

    /// Whether it recorded a start, so that the job is delivered again to run.
    pub(super) fn is_start(&self) -> bool {
        self.held && matches!(self.act, Act::Start { starts: 1 })
    }

    pub(super) fn run(&mut self, store: &mut Store<'_>) -> rusqlite::Result<()> {
        let connection = store.connection;
        let Claim { seq, owner, .. } = self.claim;
        let changed = match &self.act {
            Act::Complete => store.delete.of(connection)?.execute((seq, owner))?,
            Act::Release => {
                let sql = "UPDATE jobs SET owner = NULL WHERE seq = ?1 AND owner = ?2";
                connection.prepare_cached(sql)?.execute((seq, owner))?
            }
            Act::Again { wait, since, attempts } => {
                let due = store.clock.due_after(wait.saturating_sub(since.elapsed()));
                let sql = "UPDATE jobs SET owner = NULL, due = ?3, attempts = attempts + ?4,
                    crashes = 0, solo = NULL WHERE seq = ?1 AND owner = ?2";
                connection.prepare_cached(sql)?.execute((seq, owner, due, attempts))?
            }
            Act::Isolate => {
                let sql = "UPDATE jobs SET owner = NULL, solo = 0 WHERE seq = ?1 AND owner = ?2";
                connection.prepare_cached(sql)?.execute((seq, owner))?
            }
            Act::Start { starts } => {
                let sql = "UPDATE jobs SET owner = NULL, solo = max(solo + ?3, 0)
                    WHERE seq = ?1 AND owner = ?2 AND solo IS NOT NULL";
                connection.prepare_cached(sql)?.execute((seq, owner, starts))?
            }
            Act::Fail { reason, error, attempts } => {
                let at = store.clock.time_of_day();
                let sql = "INSERT INTO failed (queue, failed_at, attempts, reason, error, job_id,
                        enqueued_at, retry_wait, name, topic, enqueued_by, payload, headers,
                        content_encoding)
                    SELECT queue, ?3, ?4, ?5, ?6, job_id, enqueued_at, retry_wait, name, topic,
                        enqueued_by, payload, headers, content_encoding FROM jobs WHERE seq = ?1 AND owner = ?2";
                let row = (seq, owner, at, attempts, reason.as_str(), error);
                connection.prepare_cached(sql)?.execute(row)?;
                store.delete.of(connection)?.execute((seq, owner))?
            }
        };
        self.held = changed > 0;
        Ok(())
    }

    /// Answers the caller: recorded, or stale.
    pub(super) fn answer(self) {
        match self.answer {
            Some(answer) if self.held => drop(answer.send(Ok(()))),
            Some(answer) => drop(answer.send(Err(stale()))),
            None if self.held || matches!(self.act, Act::Release) => {}
            None => tracing::warn!(
                "a completed job runs again: this engine was held up for longer than its lease"
            ),
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

/// The error of settling a stale delivery.
pub(super) fn stale() -> Error {
    Error::new(
        ErrorKind::Stale,
        "the delivery is no longer this worker's: its engine was closed, or held up for longer \
         than its lease, and the job is delivered again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_truncated_at_a_boundary() {
        for (text, kept) in [
            ("x".repeat(MAX_ERROR), MAX_ERROR),
            ("x".repeat(MAX_ERROR + 1), MAX_ERROR),
            ("😀".repeat(MAX_ERROR), MAX_ERROR),
            (format!("a{}", "😀".repeat(MAX_ERROR)), MAX_ERROR - 3),
            (String::new(), 0),
        ] {
            let mut error = text.clone();
            truncate(&mut error);
            assert_eq!(error.len(), kept);
            assert!(text.starts_with(&error));
        }
    }
}
