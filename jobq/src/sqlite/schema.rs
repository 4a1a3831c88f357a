//! Opening of the file: checks, SQLite settings and migrations.

use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use super::machine_clock::{ClockError, MachineClock};
use super::{Failure, Place};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// The SQLite application id of a file of jobq: `jobq` in ASCII.
const APPLICATION_ID: i32 = 0x6a6f_6271;

/// The migrations from an empty file to the newest schema, in order. The `user_version` of a file
/// is the number of migrations applied. A released migration is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
    include_str!("migrations/7.sql"),
    include_str!("migrations/8.sql"),
];

/// [`open`] with the clock of the file.
pub(super) fn open_with_clock(
    place: &Place,
    timeout: Duration,
    clock: &Clock,
) -> Result<(Connection, MachineClock)> {
    let mut connection = open(place, timeout)?;
    match MachineClock::of(&mut connection, clock) {
        Ok(clock) => Ok((connection, clock)),
        Err(ClockError::Sqlite(source)) => Err(Failure::new(place, source).error()),
        Err(ClockError::Another(another)) => Err(refused(place, &another.to_string())),
    }
}

/// Opens a place and migrates its schema.
pub(super) fn open(place: &Place, timeout: Duration) -> Result<Connection> {
    if let Some(path) = place.file() {
        if path.is_dir() {
            return Err(refused(place, "is a directory; name a file"));
        }
        if let Some(directory) = path.parent().filter(|directory| !directory.is_dir()) {
            let directory = directory.display();
            return Err(refused(
                place,
                &format!("cannot be made: there is no directory {directory}; make it"),
            ));
        }
    }
    // Several steps return "busy" at once, without SQLite's own waiting, if another process opens
    // the same file at the same moment.
    let start = Instant::now();
    loop {
        match try_open(place, timeout) {
            Err(OpenError::Sqlite(source))
                if source.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < timeout =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(OpenError::Sqlite(source)) => return Err(Failure::new(place, source).error()),
            Err(OpenError::Unfit(problem)) => return Err(refused(place, &problem)),
            Ok(connection) => return Ok(connection),
        }
    }
}

enum OpenError {
    Sqlite(rusqlite::Error),
    Unfit(String),
}

impl From<rusqlite::Error> for OpenError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(source)
    }
}

fn refused(place: &Place, problem: &str) -> Error {
    Error::new(ErrorKind::Refused, format!("{place} {problem}"))
}

fn try_open(place: &Place, timeout: Duration) -> Result<Connection, OpenError> {
    let mut connection = match place {
        Place::Memory => Connection::open_in_memory()?,
        Place::File(path) => Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?,
    };
    connection.busy_timeout(timeout)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Without it, statements whose plan depends on the queue are recompiled each time: 6 in 100 of
    // the instructions of a worker (https://sqlite.org/queryplanner-ng.html#qpstab).
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Checked before any write: a file of another program stays unchanged.
    check_identity(&connection.transaction()?)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(OpenError::Unfit(
            "is read-only; give this user the right to write the file and its directory".into(),
        ));
    }
    if place.file().is_some() {
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(OpenError::Unfit(format!(
                "is on a file system that SQLite cannot keep a write-ahead log on (journal mode \
                 {mode}, expected wal), as network file systems are; name a file on a local disk"
            )));
        }
    }
    // FULL: a commit is fsynced when it returns. The log shrinks again after a burst.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Refuses files that are not jobq's, or of a newer jobq. It reads in one transaction, since
/// another process may be creating the file.
fn check_identity(file: &Transaction<'_>) -> Result<(), OpenError> {
    let application: i32 = file.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = version(file)?;
    let tables: i64 = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let fresh = application == 0 && version == 0 && tables == 0;
    if application != APPLICATION_ID && !fresh {
        return Err(OpenError::Unfit(format!(
            "belongs to another program (application id {application:#x}, expected \
             {APPLICATION_ID:#x}); give jobq a file of its own"
        )));
    }
    if version > MIGRATIONS.len() {
        return Err(OpenError::Unfit(format!(
            "was written by a newer jobq (schema {version}, this program knows up to {}); update \
             this program",
            MIGRATIONS.len()
        )));
    }
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// Applies the missing migrations in one transaction.
fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    if version(connection)? >= MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have written the file meanwhile, and need not be jobq.
    check_identity(&transaction)?;
    for step in MIGRATIONS.iter().skip(version(&transaction)?) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    let newest = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "user_version", newest)?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hot_statements_use_the_partial_indexes() {
        let connection = open(&Place::Memory, Duration::ZERO).unwrap();
        for (sql, index) in [
            (super::super::claim::SELECT, "jobs_due"),
            (super::super::claim::CLAIM, "jobs_due"),
            (super::super::claim::SELECT_SOLO, "jobs_solo"),
            (super::super::lease::FREE_JOBS, "jobs_in_hand"),
        ] {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            // The plan does not depend on the parameters.
            let plan: Vec<String> =
                explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
            let plan = plan.join("; ");
            assert!(plan.contains(index), "{sql}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        }
    }

    #[test]
    fn an_older_file_keeps_its_jobs() {
        for known in 1..MIGRATIONS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            MIGRATIONS[..known].iter().for_each(|step| connection.execute_batch(step).unwrap());
            connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
            connection.pragma_update(None, "user_version", i64::try_from(known).unwrap()).unwrap();
            let rows = "INSERT INTO queues (namespace, name) VALUES ('jobq', 'mail');
                INSERT INTO owners (until) VALUES (7);
                INSERT INTO jobs (queue, due, owner, attempts, job_id, enqueued_at, payload)
                VALUES (1, 5, 1, 2, zeroblob(16), 4, x'7b7d')";
            connection.execute_batch(rows).unwrap();
            migrate(&mut connection).unwrap_or_else(|_| panic!("a file of version {known}"));
            assert_eq!(version(&connection).unwrap(), MIGRATIONS.len());
            let sql = "SELECT due, crashes, queues.name, deleted, lists FROM jobs
                JOIN queues ON queues.id = queue JOIN owners ON owners.id = owner";
            let row = connection.query_row(sql, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            });
            assert_eq!(row.unwrap(), (5, 0, "mail".to_owned(), false, false));
        }
    }

    #[test]
    fn opening_again_changes_nothing() {
        let mut connection = open(&Place::Memory, Duration::ZERO).unwrap();
        assert_eq!(version(&connection).unwrap(), MIGRATIONS.len());
        assert!(migrate(&mut connection).is_ok());
        assert!(check_identity(&connection.transaction().unwrap()).is_ok());
    }
}
