//! Detection of dead owners.
//!
//! An owner that lives changes its row three times a lease. One whose row stays as it is for a
//! whole lease, by the monotonic clock of whoever looks, is dead or as good as, and so is one
//! whose process has ended. The time of day has no part in it: it may be set.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::process;

/// The longest time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The rows of the other owners, as this engine saw them.
#[derive(Debug)]
pub(super) struct Others {
    lease: Duration,
    looked: Option<Instant>,
    /// The content of each row, and since when it is that.
    seen: HashMap<i64, (i64, Instant)>,
    /// Those that were dead at the last look.
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
        Self { lease, looked: None, seen: HashMap::new(), dead: Vec::new() }
    }

    /// Whether it is time for another look.
    fn is_time(&self, now: Instant) -> bool {
        let pause = LOOK.min(self.lease / 3);
        self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= pause)
    }

    /// Looks once more, if it is time, and says whether any owner but this one is dead.
    pub(super) fn look(
        &mut self,
        connection: &Connection,
        own: Option<i64>,
        now: Instant,
    ) -> rusqlite::Result<bool> {
        if self.is_time(now) {
            let owners = Self::owners(connection, own)?;
            self.dead = self.judge(&owners, now);
        }
        Ok(!self.dead.is_empty())
    }

    /// The dead ones, whose jobs are about to be taken over.
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

    fn judge(&mut self, owners: &[Owner], now: Instant) -> Vec<i64> {
        // After a pause of its own, as when the machine has slept, an engine cannot blame others for
        // their silence.
        let since = |looked| now.saturating_duration_since(looked);
        if self.looked.is_some_and(|looked| since(looked) > self.lease / 2) {
            self.seen.clear();
        }
        self.looked = Some(now);
        self.seen.retain(|id, _| owners.iter().any(|owner| owner.id == *id));
        let is_dead = |owner: &&Owner| {
            let sign = self.seen.entry(owner.id).or_insert((owner.until, now));
            if sign.0 != owner.until {
                *sign = (owner.until, now);
            }
            since(sign.1) >= self.lease || owner.process.as_deref().is_some_and(process::has_ended)
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
    fn who_is_silent_for_a_whole_lease_is_dead_whatever_the_time_of_day() {
        let mut others = Others::new(LEASE);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // The first one renews by a clock that is set back and forth, the second one is silent,
        // with a time that is long over, and the third with one that is far away.
        for seconds in 0..30 {
            let until = if seconds % 2 == 0 { 1_000_000_000 + seconds } else { seconds };
            let rows = [owner(1, i64::try_from(until).unwrap()), owner(2, 1), owner(3, i64::MAX)];
            assert!(others.is_time(at(seconds)));
            assert_eq!(others.judge(&rows, at(seconds)), [0; 0], "after {seconds} s");
            assert!(!others.is_time(at(seconds)));
        }
        assert_eq!(others.judge(&[owner(1, 7), owner(2, 1), owner(3, i64::MAX)], at(30)), [2, 3]);
        assert_eq!(others.judge(&[owner(1, 8)], at(31)), [0; 0]);
    }

    #[test]
    fn who_did_not_look_blames_nobody() {
        let mut others = Others::new(LEASE);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (seconds, dead) in
            [(0, vec![]), (15, vec![]), (45, vec![]), (60, vec![]), (75, vec![1])]
        {
            assert_eq!(others.judge(&[owner(1, 5)], at(seconds)), dead, "after {seconds} s");
        }
    }

    #[test]
    fn a_process_that_ended_is_dead_at_once() {
        let Some(own) = process::own() else { return };
        let (start, _) = own.rsplit_once(' ').unwrap();
        let ended = Owner { process: Some(format!("{start} 1")), ..owner(1, 5) };
        let unknown = Owner { process: None, ..owner(2, 5) };
        let mut others = Others::new(LEASE);
        assert_eq!(others.judge(&[ended, unknown], Instant::now()), [1]);
    }
}
