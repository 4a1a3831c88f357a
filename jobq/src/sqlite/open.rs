//! Opening of a file, which changes it only if it is new: checks, and SQLite's settings.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::failure::{Failure, OpenError, READ_ONLY};
use super::place::Place;
use super::schema;
use crate::error::Result;

/// [`open_or_make`] for tests.
#[cfg(test)]
pub(super) fn open(place: &Place, timeout: Duration) -> Result<Connection> {
    open_or_make(place, timeout).map(|(connection, _)| connection)
}

/// Opens a place, and returns whether it is new. A new one gets the newest schema; the others stay as
/// they are.
pub(super) fn open_or_make(place: &Place, timeout: Duration) -> Result<(Connection, bool)> {
    if let Some(path) = place.file() {
        check_path(path).map_err(|problem| Failure::unfit(place, &problem).error())?;
    }
    let opened = patiently(timeout, || try_open(place, timeout));
    opened.map_err(|error| Failure::of_open(place, error).error())
}

/// Tries again while another process opens the same file: several steps return "busy" at once then,
/// without SQLite's own waiting.
pub(super) fn patiently<T>(
    timeout: Duration,
    mut step: impl FnMut() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let start = Instant::now();
    loop {
        match step() {
            Err(OpenError::Sqlite(source))
                if source.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < timeout =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            ended => return ended,
        }
    }
}

/// What is wrong with a path.
fn check_path(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err("is a directory; use a file".to_owned());
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.is_dir()) {
        let directory = directory.display();
        return Err(format!(
            "cannot be created: the directory {directory} does not exist; create it"
        ));
    }
    // SQLite would make the log and its index in the name of this user if the directory allows it,
    // and the programs that write the file could not write these.
    if may_only_read(path) && !index(path).exists() {
        return Err(
            "is read-only for this user, and no process has it open; SQLite then requires write \
             permission even for reads: start a program that uses the file, or grant this user \
             write permission on the file and its directory"
                .to_owned(),
        );
    }
    Ok(())
}

/// The index of the write-ahead log, which is there while a process has the file open.
fn index(path: &Path) -> PathBuf {
    let mut index = path.as_os_str().to_owned();
    index.push("-shm");
    index.into()
}

/// Whether this user may read a file that exists, and not write it. It is not opened for that: the end of
/// any handle of a file ends the locks of SQLite's connections in this process.
#[cfg(unix)]
fn may_only_read(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};

    let may = |access| accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    may(Access::READ_OK) && !may(Access::WRITE_OK)
}

#[cfg(not(unix))]
fn may_only_read(_: &Path) -> bool {
    false
}

fn try_open(place: &Place, timeout: Duration) -> Result<(Connection, bool), OpenError> {
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
    let version = schema::check_identity(&connection.transaction()?)?;
    // FULL: a commit is fsynced when it returns. The log shrinks again after a burst.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    let is_new = schema::is_new(version);
    if is_new {
        if connection.is_readonly(MAIN_DB)? {
            return Err(OpenError::Unfit(READ_ONLY.to_owned()));
        }
        keep_a_log(place, &connection)?;
        schema::migrate(&mut connection, version)?;
    }
    Ok((connection, is_new))
}

/// Sets the write-ahead log, which a file keeps.
pub(super) fn keep_a_log(place: &Place, connection: &Connection) -> Result<(), OpenError> {
    if place.file().is_none() {
        return Ok(());
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(OpenError::Unfit(format!(
        "is on a file system that does not support SQLite's write-ahead log (journal mode {mode}, \
         expected wal), such as a network file system; use a file on a local disk"
    )))
}
