//! Migration of a file by itself, without an engine.

use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::clock::{ClockError, MachineClock};
use super::clock_id::AnotherClock;
use super::failure::Failure;
use super::open::{keep_a_log, open_or_make, patiently};
use super::place::Place;
use super::schema::{self, NEWEST};
use crate::clock::Clock;
use crate::engine::Migrated;
use crate::error::Result;

/// Brings a file to the newest schema, and to the clock of this process if it has that of another
/// and nobody else has it open.
pub(super) fn migrate(place: &Place, timeout: Duration, clock: &Clock) -> Result<Migrated> {
    if place.file().is_some_and(|path| !path.exists()) {
        return Err(Failure::unfit(place, "does not exist; check the path").error());
    }
    let sqlite = |source| Failure::new(place, source).error();
    let (mut connection, is_new) = open_or_make(place, timeout)?;
    if connection.is_readonly(MAIN_DB).map_err(sqlite)? {
        return Err(Failure::ReadOnly(place.clone()).error());
    }
    let seen = schema::version(&connection).map_err(sqlite)?;
    let migrating = patiently(timeout, || {
        keep_a_log(place, &connection)?;
        schema::migrate(&mut connection, seen)
    });
    let before = migrating.map_err(|error| Failure::of_open(place, error).error())?;
    let clock_replaced = match MachineClock::of(&mut connection, NEWEST, clock) {
        Ok(_) => false,
        Err(ClockError::Sqlite(source)) => return Err(sqlite(source)),
        Err(ClockError::Another(another)) => {
            drop(connection);
            replace_clock(place, timeout, clock, &another)?;
            true
        }
    };
    let from = if is_new { 0 } else { before as u64 };
    Ok(Migrated { from, to: NEWEST as u64, clock_replaced })
}

/// Takes the clock of this process for that of the file, unless another process has it open.
fn replace_clock(
    place: &Place,
    timeout: Duration,
    clock: &Clock,
    another: &AnotherClock,
) -> Result<()> {
    let replace = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = match place.file() {
            Some(path) => Connection::open_with_flags(path, flags)?,
            None => Connection::open_in_memory()?,
        };
        connection.busy_timeout(timeout)?;
        // Before the first access, so that it does not share the log's index with others.
        connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
        MachineClock::replace(&mut connection, NEWEST, clock)
    };
    match replace() {
        Ok(_) => Ok(()),
        Err(ClockError::Sqlite(source))
            if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) =>
        {
            let problem = format!(
                "{another}; the clock cannot be switched while another process has the file open: \
                 stop the programs that use it"
            );
            Err(Failure::unfit(place, &problem).error())
        }
        Err(ClockError::Sqlite(source)) => Err(Failure::new(place, source).error()),
        Err(ClockError::Another(another)) => {
            Err(Failure::unfit(place, &another.to_string()).error())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::open;
    use super::*;

    #[test]
    fn a_file_gets_the_clock_of_this_process_only_while_nobody_has_it_open() {
        let path = std::env::temp_dir().join(format!("jobq-migrate-{}.db", std::process::id()));
        let place = Place::File(path.clone());
        let system = Clock::system();
        let file = open(&place, Duration::ZERO).unwrap();
        file.execute("INSERT INTO clock VALUES (1, 'none time:[1]', 5, 6, 7)", []).unwrap();
        let found = migrate(&place, Duration::ZERO, &system).unwrap();
        assert_eq!((found.from, found.clock_replaced), (NEWEST as u64, false), "an earlier boot");
        if MachineClock::look(&file, NEWEST, &system).is_ok_and(|clock| clock.is_since_boot()) {
            file.execute("UPDATE clock SET boot = boot || ' time:[1]'", []).unwrap();
            let error = migrate(&place, Duration::ZERO, &system).unwrap_err();
            let told = error.to_string();
            assert!(error.is_refused() && told.contains("time:[1]"), "{told}");
            assert!(told.contains("while another process has the file open"), "{told}");
            drop(file);
            assert!(migrate(&place, Duration::ZERO, &system).unwrap().clock_replaced);
        }
        std::fs::remove_file(path).unwrap();
    }
}
