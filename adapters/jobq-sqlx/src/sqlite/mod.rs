//! SQLite, in a file of the program's own.

mod outbox;
mod taken;

use std::time::Duration;

use jobq::outbox::{Mark, Row, sqlite};
use jobq::{Error, ErrorKind, Result};
use sqlx::error::DatabaseError;
use sqlx::{Connection as _, Row as _, Sqlite, SqliteConnection};

use crate::dialect::{Dialect, methods};
use crate::errors::failed;
use crate::outbox::list;
use crate::statement::{Statement, of_mark, of_row};
use crate::tables::{Look, Tables};

pub use outbox::SqliteOutbox;

/// The shortest wait for the lock of the file that a relay accepts.
const BUSY: Duration = Duration::from_secs(1);

impl Tables for SqliteConnection {
    async fn insert(&mut self, row: &Row) -> sqlx::Result<u64> {
        Sqlite::execute(self, Statement::new(sqlite::INSERT, &of_row(row))).await
    }

    async fn insert_many(&mut self, rows: &[Row]) -> sqlx::Result<u64> {
        let mut inserted = 0;
        for row in rows {
            inserted += self.insert(row).await?;
        }
        Ok(inserted)
    }

    async fn mark(&mut self, mark: &Mark) -> sqlx::Result<u64> {
        Sqlite::execute(self, Statement::new(sqlite::MARK, &of_mark(mark))).await
    }

    /// SQLite is asked, too: an error such as that of a full disk rolls the transaction back, of which sqlx
    /// 0.9.0 knows nothing. The thread of the connection may also have a rollback of sqlx before it, which
    /// has happened when it answers.
    async fn look(&mut self) -> sqlx::Result<Look> {
        let is_begun = match Sqlite::run(self, "BEGIN").await {
            Ok(()) => {
                Sqlite::run(self, "ROLLBACK").await?;
                false
            }
            // There is a transaction already.
            Err(sqlx::Error::Database(problem)) if code(&*problem) == 1 => self.is_in_transaction(),
            Err(error) => return Err(error),
        };
        Ok(Look { is_begun, largest: None })
    }

    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error {
        sqlite::error(doing, code(problem), problem.message())
    }
}

impl Dialect for Sqlite {
    const NOW: &'static str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";
    const BEGIN: &'static str = "BEGIN IMMEDIATE";
    const LOCKING: &'static str = "";
    const MIGRATION: &'static str = sqlite::MIGRATION;
    const EXISTS: &'static str =
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'jobq_outbox'";
    const DELETE_MARKS: &'static str = "\
DELETE FROM jobq_inbox WHERE rowid IN (SELECT rowid FROM jobq_inbox WHERE namespace = ? \
AND done_at < CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) - ? LIMIT ?)";
    const PROBES: &'static [(&'static str, &'static str)] = &[
        (
            "reading jobq_outbox",
            "SELECT seq, version, namespace, queue, topic, name, job_id, enqueued_at, due_at, \
             expires_at, retry_wait, content_encoding, enqueued_by, headers, payload, tries, \
             retry_at, error FROM jobq_outbox WHERE 1 = 0",
        ),
        ("reading jobq_inbox", "SELECT namespace, done_at FROM jobq_inbox WHERE 1 = 0"),
        (
            "writing jobq_relay",
            "UPDATE jobq_relay SET namespace = '', holder = '', takes = 0, held_until = 0 \
             WHERE 1 = 0",
        ),
    ];

    fn deletions(numbers: &[i64]) -> String {
        format!("DELETE FROM jobq_outbox WHERE seq IN ({})", list(numbers))
    }

    async fn set_up(connection: &mut SqliteConnection, name: &str) -> Result<()> {
        let doing = format!("opening the file of {name}");
        let failed = |error| failed(&doing, error, SqliteConnection::meaning);
        let unfit = |text| Error::new(ErrorKind::Unsupported, format!("{doing}: {text}"));
        // Before the file is read: without patience that may fail.
        let busy = Self::rows(connection, Statement::new("PRAGMA busy_timeout", &[])).await;
        let busy = busy.and_then(|rows| rows.first().map(|row| Self::number(row, 0)).transpose());
        if let Some(text) = impatient(busy.map_err(failed)?.flatten().unwrap_or_default()) {
            return Err(unfit(text));
        }
        let owner = Self::rows(connection, Statement::new("PRAGMA application_id", &[])).await;
        let owner = owner.and_then(|rows| rows.first().map(|row| Self::number(row, 0)).transpose());
        if owner.map_err(failed)?.flatten() == Some(sqlite::APPLICATION_ID.into()) {
            let text = "jobq keeps its jobs in this file, and its pools make jobs of the rows: it needs \
                        no relay";
            return Err(unfit(text.to_owned()));
        }
        let mode = Self::rows(connection, Statement::new("PRAGMA journal_mode", &[])).await;
        let mode = mode.and_then(|rows| rows.first().map(|row| Self::text(row, 0)).transpose());
        match without_log(&mode.map_err(failed)?.flatten().unwrap_or_default()) {
            None => Ok(()),
            Some(text) => Err(unfit(text)),
        }
    }

    methods!();

    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error {
        SqliteConnection::meaning(doing, problem)
    }

    /// Files have no users. One that may not be written has an error of its own.
    fn is_denied(_: &dyn DatabaseError) -> bool {
        false
    }
}

fn code(problem: &dyn DatabaseError) -> i32 {
    problem.code().and_then(|code| code.parse().ok()).unwrap_or_default()
}

/// Why a relay cannot work on a file with this journal mode.
fn without_log(mode: &str) -> Option<String> {
    (!mode.eq_ignore_ascii_case("wal")).then(|| {
        format!(
            "a relay needs the journal mode `wal`, so that it reads while others write, and this \
             file has `{mode}`; run `PRAGMA journal_mode = WAL` once, or open your own connections \
             with `.journal_mode(SqliteJournalMode::Wal)`"
        )
    })
}

/// Why a relay cannot work by a connection with this wait for the lock, in milliseconds.
fn impatient(busy: i64) -> Option<String> {
    let least = i64::try_from(BUSY.as_millis()).unwrap_or(i64::MAX);
    (busy < least).then(|| {
        format!(
            "a relay needs a `busy_timeout` of at least {least} ms, to wait for others that write, \
             and this connection has {busy} ms; set `.busy_timeout(..)` of the SqliteConnectOptions"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_fit_is_named() {
        assert_eq!((without_log("wal"), without_log("WAL")), (None, None));
        assert!(without_log("delete").is_some_and(|text| text.contains("has `delete`")));
        assert_eq!((impatient(1_000), impatient(5_000)), (None, None));
        assert!(impatient(0).is_some_and(|text| text.contains("has 0 ms")));
    }
}
