//! The outbox of a SQLite file: one of the program's own, or one in which jobq keeps its jobs.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobq::outbox::sqlite;
use jobq::{Error, ErrorKind, Result};
use jobq_tokio_postgres::Refused;
use rusqlite::{Connection, OpenFlags, Row, ToSql};

use super::list::Listed;

/// How long a command waits for programs that write.
const PATIENCE: Duration = Duration::from_secs(30);

const LIST: &str = "\
SELECT seq, queue, topic, name, job_id, enqueued_at, length(payload), tries, retry_at, error \
FROM jobq_outbox WHERE namespace = ?1 AND (?2 OR error IS NOT NULL) ORDER BY seq LIMIT ?3";

const OF_REFUSED: &str = "WHERE namespace = ?1 AND error IS NOT NULL AND (?2 OR seq = ?3)";

const DELETE_MARKS: &str = "DELETE FROM jobq_inbox WHERE namespace = ?1 AND done_at < ?2";

/// The columns that a relay, or a pool on a file of jobq, reads and writes.
const COLUMNS: [&str; 2] = [
    "SELECT seq, version, namespace, queue, topic, name, job_id, enqueued_at, due_at, expires_at, \
     retry_wait, content_encoding, enqueued_by, headers, payload, tries, retry_at, error \
     FROM jobq_outbox",
    "SELECT namespace, queue, name, job_id, step, done_at FROM jobq_inbox",
];

/// A file.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
}

impl File {
    pub(super) fn new(path: &str) -> Self {
        Self { path: path.into() }
    }

    pub(super) fn name(&self) -> String {
        format!("jobq_outbox of the file {}", self.path.display())
    }

    fn failed(&self, doing: &str, error: &rusqlite::Error) -> Error {
        let code = match error {
            rusqlite::Error::SqliteFailure(failure, _) => failure.extended_code,
            rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
            _ => 0,
        };
        sqlite::error(&format!("{doing} {}", self.name()), code, &error.to_string())
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    }

    /// Does something with the file.
    fn with<T>(
        &self,
        doing: &str,
        call: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.connect().and_then(|file| call(&file)).map_err(|error| self.failed(doing, &error))
    }

    pub(super) fn list(&self, namespace: &str, all: bool, limit: u32) -> Result<Vec<Listed>> {
        self.with("listing the rows of", |file| {
            let mut statement = file.prepare(LIST)?;
            statement.query_map((namespace, all, limit), listed)?.collect()
        })
    }

    pub(super) fn retry(&self, namespace: &str, rows: &Refused) -> Result<u64> {
        let update = format!("UPDATE jobq_outbox SET retry_at = NULL {OF_REFUSED}");
        self.change("retrying rows of", &update, namespace, rows)
    }

    pub(super) fn discard(&self, namespace: &str, rows: &Refused) -> Result<u64> {
        let delete = format!("DELETE FROM jobq_outbox {OF_REFUSED}");
        self.change("discarding rows of", &delete, namespace, rows)
    }

    fn change(&self, doing: &str, sql: &str, namespace: &str, rows: &Refused) -> Result<u64> {
        self.with(doing, |file| {
            let transaction = file.unchecked_transaction()?;
            let mut changed = 0;
            let mut change = |values: &[&dyn ToSql]| -> rusqlite::Result<()> {
                changed += transaction.prepare_cached(sql)?.execute(values)?;
                Ok(())
            };
            match rows {
                Refused::All => change(&[&namespace, &true, &0])?,
                Refused::Numbers(numbers) => {
                    for number in numbers {
                        change(&[&namespace, &false, number])?;
                    }
                }
            }
            transaction.commit()?;
            Ok(changed as u64)
        })
    }

    pub(super) fn migrate(&self) -> Result<bool> {
        const DOING: &str = "making";
        let failed = |error| self.failed(DOING, &error);
        let file = Connection::open(&self.path).map_err(failed)?;
        file.busy_timeout(PATIENCE).map_err(failed)?;
        let exists = "SELECT count(*) FROM sqlite_schema WHERE name = 'jobq_outbox'";
        let is_there = file.query_row(exists, [], |row| row.get(0)).map_err(failed)?;
        if is_there {
            return Ok(false);
        }
        if is_of_jobq(&file).map_err(failed)? {
            let text = format!(
                "{DOING} {}: jobq keeps its jobs in this file, and an earlier version has made it; run \
                 `jobq migrate` with its URL",
                self.name()
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let migration = format!("BEGIN IMMEDIATE; {} COMMIT", sqlite::MIGRATION);
        file.execute_batch(&migration).map_err(failed)?;
        Ok(true)
    }

    pub(super) fn verify(&self) -> Result<()> {
        self.with("reading", |file| {
            COLUMNS.iter().try_for_each(|columns| file.prepare(columns).map(drop))?;
            // A file that may not be written says so.
            file.execute_batch("BEGIN IMMEDIATE; ROLLBACK")
        })
    }

    pub(super) fn delete_marks(&self, namespace: &str, older: Duration) -> Result<u64> {
        self.with("deleting old marks beside", |file| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let end = i64::try_from(now.saturating_sub(older).as_millis()).unwrap_or(i64::MAX);
            Ok(file.execute(DELETE_MARKS, (namespace, end))? as u64)
        })
    }
}

/// Whether jobq keeps its jobs in the file.
fn is_of_jobq(file: &Connection) -> rusqlite::Result<bool> {
    let id: i32 = file.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(id == sqlite::APPLICATION_ID)
}

fn listed(row: &Row<'_>) -> rusqlite::Result<Listed> {
    let time = |millis: Option<i64>| {
        let since = Duration::from_millis(u64::try_from(millis?).ok()?);
        UNIX_EPOCH.checked_add(since)
    };
    Ok(Listed {
        seq: row.get(0)?,
        queue: row.get(1)?,
        topic: row.get(2)?,
        name: row.get(3)?,
        job_id: row.get(4)?,
        enqueued_at: time(row.get(5)?),
        bytes: row.get::<_, i64>(6)?.unsigned_abs(),
        tries: u32::try_from(row.get::<_, i64>(7)?).unwrap_or_default(),
        retry_at: time(row.get(8)?),
        error: row.get(9)?,
    })
}
