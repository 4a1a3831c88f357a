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
use crate::clock::Clock;
use crate::period;

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
    fn read(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let row = |row: &rusqlite::Row<'_>| {
            let (ahead, last, time_of_day) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Self { boot: columns::text(row, 0)?, ahead, last, time_of_day })
        };
        let sql = "SELECT boot, ahead, last, time_of_day FROM clock";
        connection.query_row(sql, [], row).optional()
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
    /// The clock of this file.
    pub(super) fn of(connection: &mut Connection, clock: &Clock) -> Result<Self, ClockError> {
        if clock.is_stopped() {
            return Ok(Self::Stopped(clock.clone()));
        }
        let Some(id) = clock_id::own() else { return Ok(Self::TimeOfDay) };
        // Read without the file's write lock, which another process may hold for long.
        let current = |known: Option<&Known>| match known {
            Some(known) if known.is_current(&id).map_err(ClockError::Another)? => {
                Ok::<_, ClockError>(Some(Self::SinceBoot { ahead: known.ahead }))
            }
            _ => Ok(None),
        };
        if let Some(clock) = current(Known::read(connection)?.as_ref())? {
            return Ok(clock);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have written it meanwhile.
        let known = Known::read(&transaction)?;
        if let Some(clock) = current(known.as_ref())? {
            return Ok(clock);
        }
        let time_of_day = columns::now();
        let now = known.map_or(time_of_day, |known| known.after_reboot(time_of_day));
        // Read after the wait for the write lock, which would put the clock ahead of the time of
        // day, and after `now`, so that a pause in between puts it back and never ahead.
        let Some(since) = since_boot() else { return Ok(Self::TimeOfDay) };
        let ahead = now.saturating_sub(whole_millis(since));
        let sql =
            "REPLACE INTO clock (id, boot, ahead, last, time_of_day) VALUES (1, ?1, ?2, ?3, ?4)";
        transaction.execute(sql, (id.as_str(), ahead, now, time_of_day))?;
        transaction.commit()?;
        Ok(Self::SinceBoot { ahead })
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
    pub(super) fn keep(&self, connection: &Connection) -> rusqlite::Result<()> {
        if matches!(self, Self::Stopped(_)) {
            return Ok(());
        }
        let sql = "UPDATE clock SET last = max(last, ?1), time_of_day = ?2";
        connection.prepare_cached(sql)?.execute((self.now(), columns::now())).map(drop)
    }
}

fn whole_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The time since boot, including suspended time.
#[cfg(target_os = "linux")]
fn since_boot() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).ok()
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Mutex;
    use std::time::SystemTime;

    use super::super::{Place, schema};
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
        let mut file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let before = columns::now();
        let clock = MachineClock::of(&mut file, &Clock::system()).unwrap();
        assert!((before..=before + 60_000).contains(&clock.now()));
        // As if the time of day had been set back by an hour since the file was first opened.
        let ahead = ahead(&clock) + 3_600_000;
        file.execute("UPDATE clock SET ahead = ?1", [ahead]).unwrap();
        let other = MachineClock::of(&mut file, &Clock::system()).unwrap();
        assert_eq!(self::ahead(&other), ahead);
        assert!(other.now() >= before + 3_600_000);
    }

    #[test]
    fn a_stopped_clock_is_the_time_of_its_file() {
        let mut file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let clock = Clock::stopped_at(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        let machine = MachineClock::of(&mut file, &clock).unwrap();
        assert_eq!((machine.now(), machine.due_after(Duration::from_micros(1))), (7_000, 7_001));
        clock.advance(Duration::from_secs(1));
        assert_eq!((machine.now(), machine.time_of_day()), (8_000, 8_000));
    }

    #[test]
    fn no_wait_is_shorter_or_too_long() {
        let mut file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let clock = MachineClock::of(&mut file, &Clock::system()).unwrap();
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
        let mut file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let clock = MachineClock::of(&mut file, &Clock::system()).unwrap();
        clock.keep(&file).unwrap();
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
            let found = MachineClock::of(&mut file, &Clock::system()).unwrap().now();
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
        let mut file = schema::open(&place, Duration::ZERO).unwrap();
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
        let found = MachineClock::of(&mut file, &Clock::system()).unwrap().now();
        assert!(found <= columns::now() + 1);
        assert!(HOLDER.lock().unwrap().is_none(), "it waited");
        drop(file);
        std::fs::remove_file(path).unwrap();
    }
}
