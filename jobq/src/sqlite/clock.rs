//! The clock of due times: it is monotonic, whatever the time of day is set to.
//!
//! It counts milliseconds since boot, plus an offset that all processes on a file share, from the
//! time of day at which the file was first opened. So it equals the time of day until that is set,
//! and all processes share one clock: a process whose clock since boot is another ([`clock_id`]) is
//! refused. After a reboot it goes on by as much as the time of day has,
//! and never goes back. So what sets the time of day before a reboot shortens no wait after it.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::clock_id::{self, AnotherClock, ClockId, Readings, Relation};
use super::columns;
use crate::clock::{Clock, since_boot};
use crate::period;

/// The first schema whose clock has the time of day.
const WITH_TIME_OF_DAY: usize = 8;

/// The clock of one file.
#[derive(Debug, Clone)]
pub(super) enum MachineClock {
    /// The time since boot, plus this offset.
    SinceBoot { ahead: i64 },
    /// The time of day, on a system that does not tell the time since boot.
    TimeOfDay,
    /// A clock that a test moves.
    Stopped(Clock),
}

/// The reason why a file has no clock for this process.
#[derive(Debug)]
pub(super) enum ClockError {
    Sqlite(rusqlite::Error),
    Another(AnotherClock),
}

impl From<rusqlite::Error> for ClockError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(source)
    }
}

/// The row of the clock.
struct Known {
    boot: String,
    ahead: i64,
    last: i64,
    /// The time of day at `last`; none if an earlier version of jobq kept it.
    time_of_day: Option<i64>,
}

impl Known {
    fn read(connection: &Connection, schema: usize) -> rusqlite::Result<Option<Self>> {
        let row = |row: &rusqlite::Row<'_>| {
            let (ahead, last, time_of_day) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Self { boot: columns::text(row, 0)?, ahead, last, time_of_day })
        };
        let time_of_day = if schema < WITH_TIME_OF_DAY { "NULL" } else { "time_of_day" };
        let sql = format!("SELECT boot, ahead, last, {time_of_day} FROM clock");
        connection.query_row(&sql, [], row).optional()
    }

    /// Whether this row is of the clock with this id, and not of one before a reboot.
    fn is_current(&self, id: &ClockId) -> Result<bool, AnotherClock> {
        let Some(since) = since_boot() else { return Ok(false) };
        let readings = Readings {
            last: self.last,
            time_of_day_then: self.time_of_day,
            now: self.ahead.saturating_add(whole_millis(since)),
            time_of_day: columns::now(),
        };
        match id.relation(&self.boot, readings) {
            Relation::Same => Ok(true),
            Relation::Earlier => Ok(false),
            Relation::Another(another) => Err(another),
        }
    }

    /// The clock after a reboot, at this time of day.
    fn after_reboot(&self, time_of_day: i64) -> i64 {
        match self.time_of_day {
            Some(then) => self.last.saturating_add(time_of_day.saturating_sub(then).max(0)),
            None => time_of_day.max(self.last),
        }
    }
}

impl MachineClock {
    /// The clock of a file with this schema, by reading only: if the file keeps none of this boot,
    /// the one that it would get.
    pub(super) fn look(
        connection: &Connection,
        schema: usize,
        clock: &Clock,
    ) -> Result<Self, ClockError> {
        Self::find(connection, schema, clock).map(|(clock, _)| clock)
    }

    /// The clock of a file with this schema, which keeps it. A file of an earlier schema does not:
    /// its programs do that.
    pub(super) fn of(
        connection: &mut Connection,
        schema: usize,
        clock: &Clock,
    ) -> Result<Self, ClockError> {
        // Figure without the file's write lock, which another process may hold for long.
        let (found, new) = Self::find(connection, schema, clock)?;
        if new.is_none() || schema < WITH_TIME_OF_DAY {
            return Ok(found);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have written it meanwhile. Without that it is read again after the
        // wait for the write lock, which would put the clock ahead of the time of day.
        let (found, new) = Self::find(&transaction, schema, clock)?;
        if let Some(Known { boot, ahead, last, time_of_day }) = new {
            let sql = "REPLACE INTO clock (id, boot, ahead, last, time_of_day)
                VALUES (1, ?1, ?2, ?3, ?4)";
            transaction.execute(sql, (boot, ahead, last, time_of_day))?;
            transaction.commit()?;
        }
        Ok(found)
    }

    /// The clock of a file, and its new row if the file keeps no clock of this boot.
    fn find(
        connection: &Connection,
        schema: usize,
        clock: &Clock,
    ) -> Result<(Self, Option<Known>), ClockError> {
        if clock.is_stopped() {
            return Ok((Self::Stopped(clock.clone()), None));
        }
        let Some(id) = clock_id::own() else { return Ok((Self::TimeOfDay, None)) };
        let known = Known::read(connection, schema)?;
        if let Some(known) = &known
            && known.is_current(&id).map_err(ClockError::Another)?
        {
            return Ok((Self::SinceBoot { ahead: known.ahead }, None));
        }
        let time_of_day = columns::now();
        let last = known.map_or(time_of_day, |known| known.after_reboot(time_of_day));
        // Figure after the time of day, so that a pause in between puts the clock back and never ahead.
        let Some(since) = since_boot() else { return Ok((Self::TimeOfDay, None)) };
        let ahead = last.saturating_sub(whole_millis(since));
        let boot = id.as_str().to_owned();
        let new = Known { boot, ahead, last, time_of_day: Some(time_of_day) };
        Ok((Self::SinceBoot { ahead }, Some(new)))
    }

    /// Whether it counts the time since boot.
    #[cfg(test)]
    pub(super) fn is_since_boot(&self) -> bool {
        matches!(self, Self::SinceBoot { .. })
    }

    /// Takes the clock of this process for that of a file that nobody else has open. It goes on by as
    /// much as the time of day has, as after a reboot.
    pub(super) fn replace(
        connection: &mut Connection,
        schema: usize,
        clock: &Clock,
    ) -> Result<Self, ClockError> {
        connection.execute("UPDATE clock SET boot = ''", [])?;
        Self::of(connection, schema, clock)
    }

    /// The current time. A job is due if its time is not later.
    pub(super) fn now(&self) -> i64 {
        match (self, since_boot()) {
            (Self::SinceBoot { ahead }, Some(since)) => ahead.saturating_add(whole_millis(since)),
            (Self::Stopped(clock), _) => columns::of_time(clock.now()),
            _ => columns::now(),
        }
    }

    /// The time of day, at which a job fails.
    pub(super) fn time_of_day(&self) -> i64 {
        match self {
            Self::Stopped(clock) => columns::of_time(clock.now()),
            Self::SinceBoot { .. } | Self::TimeOfDay => columns::now(),
        }
    }

    /// The end of a wait that begins now: the current time for a zero wait, else rounded up, so
    /// that nothing is early.
    pub(super) fn due_after(&self, wait: Duration) -> i64 {
        match (self, since_boot()) {
            _ if wait.is_zero() => self.now(),
            (Self::SinceBoot { ahead }, Some(since)) => {
                let end = period::millis(since.saturating_add(wait));
                ahead.saturating_add(i64::try_from(end).unwrap_or(i64::MAX))
            }
            (Self::Stopped(_), _) => self.now().saturating_add(columns::of_wait(wait)),
            _ => columns::due_after(wait),
        }
    }

    /// Stores the current time, so that the clock does not go back after a reboot.
    pub(super) fn keep(&self, connection: &Connection, schema: usize) -> rusqlite::Result<()> {
        if matches!(self, Self::Stopped(_)) || schema < WITH_TIME_OF_DAY {
            return Ok(());
        }
        let sql = "UPDATE clock SET last = max(last, ?1), time_of_day = ?2";
        connection.prepare_cached(sql)?.execute((self.now(), columns::now())).map(drop)
    }
}

fn whole_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Mutex;
    use std::time::SystemTime;

    use super::super::open::open;
    use super::super::place::Place;
    use super::super::schema::{self, NEWEST};
    use super::*;

    fn ahead(clock: &MachineClock) -> i64 {
        let MachineClock::SinceBoot { ahead } = clock else { panic!("{clock:?}") };
        *ahead
    }

    fn row(file: &Connection) -> (String, i64, i64) {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        file.query_row("SELECT boot, ahead, last FROM clock", [], row).expect("it has a clock")
    }

    #[test]
    fn it_begins_with_the_time_of_day_and_is_the_same_for_all() {
        let mut file = open(&Place::Memory, Duration::ZERO).unwrap();
        let before = columns::now();
        let clock = MachineClock::of(&mut file, NEWEST, &Clock::system()).unwrap();
        assert!((before..=before + 60_000).contains(&clock.now()));
        // As if the time of day had been set back by an hour since the file was first opened.
        let ahead = ahead(&clock) + 3_600_000;
        file.execute("UPDATE clock SET ahead = ?1", [ahead]).unwrap();
        let other = MachineClock::of(&mut file, NEWEST, &Clock::system()).unwrap();
        assert_eq!(self::ahead(&other), ahead);
        assert!(other.now() >= before + 3_600_000);
    }

    #[test]
    fn a_stopped_clock_is_the_time_of_its_file() {
        let mut file = open(&Place::Memory, Duration::ZERO).unwrap();
        let clock = Clock::stopped_at(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        let machine = MachineClock::of(&mut file, NEWEST, &clock).unwrap();
        assert_eq!((machine.now(), machine.due_after(Duration::from_micros(1))), (7_000, 7_001));
        clock.advance(Duration::from_secs(1));
        assert_eq!((machine.now(), machine.time_of_day()), (8_000, 8_000));
    }

    #[test]
    fn no_wait_is_shorter_or_too_long() {
        let mut file = open(&Place::Memory, Duration::ZERO).unwrap();
        let clock = MachineClock::of(&mut file, NEWEST, &Clock::system()).unwrap();
        for micros in [1, 999, 1_000, 1_001, 86_400_000_000] {
            let wait = Duration::from_micros(micros);
            let before = since_boot().unwrap();
            let due = clock.due_after(wait);
            let end = before.as_micros() + wait.as_micros();
            assert!(i128::from(due - ahead(&clock)) * 1_000 >= i128::try_from(end).unwrap());
        }
        let now = clock.now();
        assert!((now..now + 60_000).contains(&clock.due_after(Duration::ZERO)));
        assert_eq!(clock.due_after(Duration::MAX), i64::MAX);
    }

    #[test]
    fn after_a_restart_of_the_machine_it_goes_on_and_not_back() {
        let mut file = open(&Place::Memory, Duration::ZERO).unwrap();
        let clock = MachineClock::of(&mut file, NEWEST, &Clock::system()).unwrap();
        clock.keep(&file, NEWEST).unwrap();
        let (hour, day) = (3_600_000, 86_400_000);
        let (last, now) = (clock.now(), columns::now());
        for (what, kept, then, expected) in [
            ("an hour passed", last, Some(now - hour), last + hour),
            ("the time of day was ahead and is corrected", last, Some(now + day), last),
            // A wait that began before is not shorter than it was asked for.
            ("it was behind and had been corrected before", last - day, Some(now), last - day),
            ("it was behind and is corrected", last, Some(now - day), last + day),
            ("an earlier version, and the time of day is behind", last + hour, None, last + hour),
            ("an earlier version, and the machine was off for years", 5, None, last),
        ] {
            let sql = "UPDATE clock SET boot = 'before', last = ?1, time_of_day = ?2";
            file.execute(sql, (kept, then)).unwrap();
            let found = MachineClock::of(&mut file, NEWEST, &Clock::system()).unwrap().now();
            // Both are whole milliseconds, truncated at different times.
            assert!((expected - 1..expected + 60_000).contains(&found), "{what}");
            assert_ne!(row(&file).0, "before");
        }
    }

    #[test]
    fn a_wait_for_the_write_lock_does_not_put_it_ahead() {
        static HOLDER: Mutex<Option<Connection>> = Mutex::new(None);
        let path = std::env::temp_dir().join(format!("jobq-clock-{}.db", std::process::id()));
        let place = Place::File(path.clone());
        let mut file = open(&place, Duration::ZERO).unwrap();
        let holder = Connection::open(&path).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        *HOLDER.lock().unwrap() = Some(holder);
        // SQLite calls this while it waits: the lock is released only then.
        file.busy_handler(Some(|_| {
            std::thread::sleep(Duration::from_millis(50));
            drop(HOLDER.lock().unwrap().take());
            true
        }))
        .unwrap();
        let found = MachineClock::of(&mut file, NEWEST, &Clock::system()).unwrap().now();
        assert!(found <= columns::now() + 1);
        assert!(HOLDER.lock().unwrap().is_none(), "it waited");
        drop(file);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_clock_of_the_schema_before_is_read_and_left_as_it_is() {
        let mut file = Connection::open_in_memory().unwrap();
        let schema = WITH_TIME_OF_DAY - 1;
        schema::make_earlier(&file, schema).unwrap();
        let boot = clock_id::own().unwrap();
        let system = Clock::system();
        let count = |file: &Connection| -> i64 {
            file.query_row("SELECT count(*) FROM clock", [], |row| row.get(0)).unwrap()
        };
        MachineClock::of(&mut file, schema, &system).unwrap().keep(&file, schema).unwrap();
        assert_eq!(count(&file), 0);
        let sql = "INSERT INTO clock (id, boot, ahead, last) VALUES (1, ?1, 5, 6)";
        file.execute(sql, [boot.as_str()]).unwrap();
        assert_eq!(ahead(&MachineClock::look(&file, schema, &system).unwrap()), 5);
        let clock = MachineClock::of(&mut file, schema, &system).unwrap();
        clock.keep(&file, schema).unwrap();
        assert_eq!((ahead(&clock), row(&file).2), (5, 6));
    }

    #[test]
    fn the_clock_of_another_time_namespace_is_refused_until_it_is_replaced() {
        let mut file = open(&Place::Memory, Duration::ZERO).unwrap();
        let system = Clock::system();
        let clock = MachineClock::of(&mut file, NEWEST, &system).unwrap();
        clock.keep(&file, NEWEST).unwrap();
        let (boot, _, last) = row(&file);
        let other = format!("{boot} time:[1]");
        file.execute("UPDATE clock SET boot = ?1", [&other]).unwrap();
        for found in [
            MachineClock::look(&file, NEWEST, &system),
            MachineClock::of(&mut file, NEWEST, &system),
        ] {
            let Err(ClockError::Another(another)) = found else { panic!("{found:?}") };
            assert!(another.to_string().contains(&other), "{another}");
        }
        let clock = MachineClock::replace(&mut file, NEWEST, &system).unwrap();
        assert_eq!(row(&file).0, boot);
        assert!((last - 1..last + 60_000).contains(&clock.now()));
    }
}
