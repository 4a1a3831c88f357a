//! What this engine may do with its file: look, change what is in it, or use the newest schema.
//!
//! Whoever looks changes nothing, so that programs of the version before go on. Pools, and clients
//! when they enqueue, migrate the file.

use std::time::Duration;

use rusqlite::{Connection, MAIN_DB};

use super::clock::{ClockError, MachineClock};
use super::failure::Failure;
use super::open::{keep_a_log, open_or_make, patiently};
use super::place::Place;
use super::schema::{self, NEWEST, Step, step};
use super::store::Need;
use crate::clock::Clock;
use crate::error::Result;

/// A connection to the file of an engine, with its clock.
pub(super) struct File {
    pub(super) connection: Connection,
    pub(super) clock: MachineClock,
    pub(super) access: Access,
}

/// What a file is prepared for.
#[derive(Debug)]
pub(super) struct Access {
    place: Place,
    timeout: Duration,
    clock: Clock,
    version: usize,
    is_read_only: bool,
    prepared: Option<Need>,
}

impl File {
    /// Opens a place for looking; a new one for all calls. One that is too old for looking is opened if
    /// the engine may migrate it later.
    pub(super) fn open(
        place: &Place,
        timeout: Duration,
        clock: &Clock,
        migrates: bool,
    ) -> Result<Self> {
        let (connection, is_new) = open_or_make(place, timeout)?;
        let read = || Ok((schema::version(&connection)?, connection.is_readonly(MAIN_DB)?));
        let read: rusqlite::Result<_> = read();
        let (version, is_read_only) = read.map_err(|source| Failure::new(place, source).error())?;
        let (place, clock) = (place.clone(), clock.clone());
        let access = Access { place, timeout, clock, version, is_read_only, prepared: None };
        let mut file = Self { connection, clock: MachineClock::TimeOfDay, access };
        let need = if is_new { Need::Newest } else { Need::Look };
        if step(version, NEWEST, need) == Step::None || !migrates {
            file.prepare(need).map_err(|failure| failure.error())?;
        }
        Ok(file)
    }

    /// Prepares the file for a call.
    pub(super) fn prepare(&mut self, need: Need) -> Result<(), Failure> {
        self.access.prepare((&mut self.connection, &mut self.clock), need)
    }
}

impl Access {
    /// Whether it is prepared for all calls.
    pub(super) fn is_complete(&self) -> bool {
        self.prepared == Some(Need::Newest)
    }

    /// The version of the schema, as last read.
    pub(super) fn version(&self) -> usize {
        self.version
    }

    /// Prepares the file for a call.
    pub(super) fn prepare(
        &mut self,
        (connection, clock): (&mut Connection, &mut MachineClock),
        need: Need,
    ) -> Result<(), Failure> {
        if self.prepared >= Some(need) {
            return Ok(());
        }
        let place = &self.place;
        let sqlite = |source| Failure::new(place, source);
        // Another process may have migrated it.
        self.version = schema::version(connection).map_err(sqlite)?;
        let step = step(self.version, NEWEST, need);
        if step == Step::Refuse {
            return Err(Failure::unfit(place, &too_old(place, self.version)));
        }
        if need > Need::Look {
            if self.is_read_only {
                return Err(Failure::ReadOnly(place.clone()));
            }
            patiently(self.timeout, || {
                keep_a_log(place, connection)?;
                if step == Step::Migrate {
                    schema::migrate(connection, self.version)?;
                }
                Ok(())
            })
            .map_err(|error| Failure::of_open(place, error))?;
            self.version = schema::version(connection).map_err(sqlite)?;
        }
        let found = if need > Need::Look {
            MachineClock::of(connection, self.version, &self.clock)
        } else {
            MachineClock::look(connection, self.version, &self.clock)
        };
        *clock = found.map_err(|error| match error {
            ClockError::Sqlite(source) => sqlite(source),
            ClockError::Another(another) => Failure::unfit(place, &another.to_string()),
        })?;
        self.prepared = Some(need);
        Ok(())
    }
}

/// The problem of a file whose schema is older than the one before the newest.
fn too_old(place: &Place, version: usize) -> String {
    let file = place.file().map(|path| path.display().to_string()).unwrap_or_default();
    format!(
        "has schema {version} of an earlier jobq, but this version reads the schemas {} and \
         {NEWEST}; once all programs that use the file have this version, run `jobq migrate \
         {file}`",
        NEWEST - 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earlier(version: usize) -> File {
        let connection = Connection::open_in_memory().unwrap();
        schema::make_earlier(&connection, version).unwrap();
        let access = Access {
            place: Place::File("/data/jobs.db".into()),
            timeout: Duration::ZERO,
            clock: Clock::system(),
            version,
            is_read_only: false,
            prepared: None,
        };
        File { connection, clock: MachineClock::TimeOfDay, access }
    }

    #[test]
    fn an_older_file_is_refused_by_its_version_until_it_is_migrated() {
        let mut file = earlier(NEWEST - 2);
        for need in [Need::Look, Need::Change] {
            let error = file.prepare(need).unwrap_err().error();
            let expected = format!("has schema {} of", NEWEST - 2);
            assert!(error.is_refused() && error.to_string().contains(&expected), "{error}");
            assert!(error.to_string().contains("`jobq migrate /data/jobs.db`"), "{error}");
        }
        // By another process.
        assert!(schema::migrate(&mut file.connection, NEWEST - 2).is_ok());
        file.prepare(Need::Look).unwrap();
        assert_eq!(file.access.version(), NEWEST);
    }

    #[test]
    fn looking_at_a_file_keeps_no_clock() {
        let mut file = earlier(NEWEST - 1);
        let clocks = |file: &File| -> i64 {
            file.connection.query_row("SELECT count(*) FROM clock", [], |row| row.get(0)).unwrap()
        };
        file.prepare(Need::Look).unwrap();
        assert_eq!((clocks(&file), file.access.version()), (0, NEWEST - 1));
        assert!(!file.access.is_complete());
        file.access.is_read_only = true;
        assert!(matches!(file.prepare(Need::Change), Err(Failure::ReadOnly(_))));
        file.prepare(Need::Look).unwrap();
    }
}
