//! The choice of commits that are fsynced.
//!
//! Commits with a waiting caller are fsynced before the caller is answered. Claims, completions and
//! releases need no fsync, since after a power cut the job would only run again; they reach the
//! disk with the next fsynced commit. The crash of a process loses neither.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The longest time between two fsynced commits while there are commits.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The `synchronous` setting of a connection; [`open`](super::open::open) sets it to
/// `full`.
#[derive(Debug)]
pub(super) struct Disk {
    syncs: bool,
    synced_at: Instant,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self { syncs: true, synced_at: Instant::now() }
    }

    /// Sets whether the next commit is fsynced; outside of a transaction.
    pub(super) fn set(&mut self, connection: &Connection, must_sync: bool) -> rusqlite::Result<()> {
        let sync = must_sync || self.synced_at.elapsed() >= SYNC_INTERVAL;
        if sync != self.syncs {
            let mode = if sync { "full" } else { "normal" };
            connection.pragma_update(None, "synchronous", mode)?;
            self.syncs = sync;
        }
        if sync {
            self.synced_at = Instant::now();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::open;
    use super::super::place::Place;
    use super::*;

    #[test]
    fn required_commits_are_synced_and_all_after_a_while() {
        let connection = open(&Place::Memory, Duration::ZERO).unwrap();
        let mode = || -> i64 {
            connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
        };
        let mut disk = Disk::new();
        assert_eq!(mode(), 2);
        for (must_sync, expected) in [(false, 1), (false, 1), (true, 2), (true, 2), (false, 1)] {
            disk.set(&connection, must_sync).unwrap();
            assert_eq!(mode(), expected);
        }
        disk.synced_at -= SYNC_INTERVAL;
        disk.set(&connection, false).unwrap();
        assert_eq!(mode(), 2);
    }
}
