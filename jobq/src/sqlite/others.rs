//! Detection of dead owners.
//!
//! A live owner changes its row three times a lease. An owner counts as dead if its row is
//! unchanged for a whole lease, by the monotonic clock of the observer, or if its process has
//! ended. The time of day is not used, since it may be set.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::process;

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
    dead: Vec<i64>,
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
    pub(super) fn take_dead(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.dead)
    }

    fn owners(connection: &Connection, own: Option<i64>) -> rusqlite::Result<Vec<Owner>> {
        let sql = "SELECT id, until, process FROM owners WHERE id IS NOT ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let owner = |row: &rusqlite::Row<'_>| {
            Ok(Owner { id: row.get(0)?, until: row.get(1)?, process: row.get(2)? })
        };
        statement.query_map([own], owner)?.collect()
    }

    fn find_dead(&mut self, owners: &[Owner], now: Instant) -> Vec<i64> {
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
        owners.iter().filter(is_dead).map(|owner| owner.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn owner(id: i64, until: i64) -> Owner {
        Owner { id, until, process: process::own() }
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
            assert_eq!(others.find_dead(&rows, at(seconds)), [0; 0], "after {seconds} s");
            assert!(!others.is_due(at(seconds)));
        }
        assert_eq!(
            others.find_dead(&[owner(1, 7), owner(2, 1), owner(3, i64::MAX)], at(30)),
            [2, 3]
        );
        assert_eq!(others.find_dead(&[owner(1, 8)], at(31)), [0; 0]);
    }

    #[test]
    fn an_engine_that_was_paused_declares_no_owner_dead() {
        let mut others = Others::new(LEASE);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (seconds, dead) in
            [(0, vec![]), (15, vec![]), (45, vec![]), (60, vec![]), (75, vec![1])]
        {
            assert_eq!(others.find_dead(&[owner(1, 5)], at(seconds)), dead, "after {seconds} s");
        }
    }

    #[test]
    fn a_process_that_ended_is_dead_at_once() {
        let Some(own) = process::own() else { return };
        let (start, _) = own.rsplit_once(' ').unwrap();
        let ended = Owner { process: Some(format!("{start} 1")), ..owner(1, 5) };
        let unknown = Owner { process: None, ..owner(2, 5) };
        let mut others = Others::new(LEASE);
        assert_eq!(others.find_dead(&[ended, unknown], Instant::now()), [1]);
    }
}
