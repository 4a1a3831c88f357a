//! Detection of dead owners.
//!
//! A live owner changes its row three times a lease. An owner counts as dead if its row is
//! unchanged for a whole lease, by the monotonic clock of the observer, or if its process has
//! ended. The time of day is not used, since it may be set.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{columns, process};

/// The longest time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The rows of the other owners, as last read by this engine.
#[derive(Debug)]
pub(super) struct Others {
    lease: Duration,
    checked: Option<Instant>,
    /// The content of each row, and the time of its last change.
    seen: HashMap<i64, (i64, Instant)>,
    /// The owners that were dead at the last check.
    dead: Vec<Dead>,
}

/// An owner that was dead when its row had this content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) id: i64,
    pub(super) until: i64,
}

/// The row of an owner.
#[derive(Debug)]
struct Owner {
    id: i64,
    until: i64,
    process: Option<String>,
}

impl Others {
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, checked: None, seen: HashMap::new(), dead: Vec::new() }
    }

    /// Whether the next check is due.
    fn is_due(&self, now: Instant) -> bool {
        let pause = CHECK_INTERVAL.min(self.lease / 3);
        self.checked.is_none_or(|checked| now.saturating_duration_since(checked) >= pause)
    }

    /// Checks the other owners, if the check is due, and returns whether any is dead.
    pub(super) fn look(
        &mut self,
        connection: &Connection,
        own: Option<i64>,
        now: Instant,
    ) -> rusqlite::Result<bool> {
        if self.is_due(now) {
            let owners = Self::owners(connection, own)?;
            self.dead = self.find_dead(&owners, now);
        }
        Ok(!self.dead.is_empty())
    }

    /// Removes and returns the dead owners.
    pub(super) fn take_dead(&mut self) -> Vec<Dead> {
        std::mem::take(&mut self.dead)
    }

    /// Leaves out of account a time in which this engine waited for the file's write lock: if it is
    /// long, the others could not renew either.
    pub(super) fn excuse(&mut self, waited: Duration) {
        if waited >= CHECK_INTERVAL {
            for (_, changed) in self.seen.values_mut() {
                *changed += waited;
            }
        }
    }

    /// Forgets what was seen, since this engine could not write: nor can the others then, as on a
    /// disk that is full.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
        self.dead.clear();
    }

    fn owners(connection: &Connection, own: Option<i64>) -> rusqlite::Result<Vec<Owner>> {
        let sql = "SELECT id, until, process FROM owners WHERE id IS NOT ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let owner = |row: &rusqlite::Row<'_>| {
            let process = columns::text_or_null(row, 2)?;
            Ok(Owner { id: row.get(0)?, until: row.get(1)?, process })
        };
        statement.query_map([own], owner)?.collect()
    }

    fn find_dead(&mut self, owners: &[Owner], now: Instant) -> Vec<Dead> {
        // After a pause of this engine, such as a suspended machine, the other owners were
        // paused too.
        let since = |checked| now.saturating_duration_since(checked);
        if self.checked.is_some_and(|checked| since(checked) > self.lease / 2) {
            self.seen.clear();
        }
        self.checked = Some(now);
        self.seen.retain(|id, _| owners.iter().any(|owner| owner.id == *id));
        let is_dead = |owner: &&Owner| {
            let renewal = self.seen.entry(owner.id).or_insert((owner.until, now));
            if renewal.0 != owner.until {
                *renewal = (owner.until, now);
            }
            since(renewal.1) >= self.lease
                || owner.process.as_deref().is_some_and(process::has_ended)
        };
        let dead = owners.iter().filter(is_dead);
        dead.map(|Owner { id, until, .. }| Dead { id: *id, until: *until }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn owner(id: i64, until: i64) -> Owner {
        Owner { id, until, process: process::own() }
    }

    fn ids(dead: &[Dead]) -> Vec<i64> {
        dead.iter().map(|dead| dead.id).collect()
    }

    #[test]
    fn an_owner_without_renewal_for_a_lease_is_dead_whatever_the_time_of_day() {
        let mut others = Others::new(LEASE);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // The first one renews with a clock that is set back and forth. The other two do not renew:
        // the second has a time long past, the third one far in the future.
        for seconds in 0..30 {
            let until = if seconds % 2 == 0 { 1_000_000_000 + seconds } else { seconds };
            let rows = [owner(1, i64::try_from(until).unwrap()), owner(2, 1), owner(3, i64::MAX)];
            assert!(others.is_due(at(seconds)));
            assert_eq!(others.find_dead(&rows, at(seconds)), [], "after {seconds} s");
            assert!(!others.is_due(at(seconds)));
        }
        let rows = [owner(1, 7), owner(2, 1), owner(3, i64::MAX)];
        let dead = [Dead { id: 2, until: 1 }, Dead { id: 3, until: i64::MAX }];
        assert_eq!(others.find_dead(&rows, at(30)), dead);
        assert_eq!(others.find_dead(&[owner(1, 8)], at(31)), []);
    }

    #[test]
    fn an_engine_that_was_paused_declares_no_owner_dead() {
        let mut others = Others::new(LEASE);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (seconds, dead) in
            [(0, vec![]), (15, vec![]), (45, vec![]), (60, vec![]), (75, vec![1])]
        {
            let found = others.find_dead(&[owner(1, 5)], at(seconds));
            assert_eq!(ids(&found), dead, "after {seconds} s");
        }
    }

    #[test]
    fn a_time_in_which_nobody_could_write_does_not_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let dead =
            |others: &mut Others, seconds| ids(&others.find_dead(&[owner(1, 5)], at(seconds)));
        let mut waited = Others::new(LEASE);
        assert_eq!(dead(&mut waited, 0), [0; 0]);
        assert_eq!(dead(&mut waited, 15), [0; 0]);
        waited.excuse(Duration::from_secs(10));
        for (seconds, expected) in [(30, vec![]), (39, vec![]), (40, vec![1])] {
            assert_eq!(dead(&mut waited, seconds), expected, "after {seconds} s");
        }
        let mut failed = Others::new(LEASE);
        for seconds in 0..60 {
            assert_eq!(dead(&mut failed, seconds), [0; 0], "after {seconds} s");
            failed.forget();
        }
        // Short waits are those of a busy file.
        let mut busy = Others::new(LEASE);
        for seconds in 0..30 {
            assert_eq!(dead(&mut busy, seconds), [0; 0], "after {seconds} s");
            busy.excuse(Duration::from_millis(900));
        }
        assert_eq!(dead(&mut busy, 30), [1]);
    }

    #[test]
    fn a_process_that_ended_is_dead_at_once() {
        let Some(own) = process::own() else { return };
        let (start, _) = own.rsplit_once(' ').unwrap();
        let ended = Owner { process: Some(format!("{start} 1")), ..owner(1, 5) };
        let unknown = Owner { process: None, ..owner(2, 5) };
        let mut others = Others::new(LEASE);
        assert_eq!(ids(&others.find_dead(&[ended, unknown], Instant::now())), [1]);
    }
}
