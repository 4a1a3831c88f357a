//! Which commits wait for the disk.
//!
//! What somebody waits for does: it is on the disk when they are answered. That a job
//! was taken, completed or released need not be, since after a power cut it would only
//! run again; such a commit alone is on its way to the disk, where it arrives with the
//! next one that waits. The death of a process loses neither.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long commits may go on without one that waits.
const AT_MOST: Duration = Duration::from_secs(1);

/// The setting of a connection, which [`schema::open`](super::schema::open) has made
/// one that waits.
#[derive(Debug)]
pub(super) struct Disk {
    waits: bool,
    waited: Instant,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self { waits: true, waited: Instant::now() }
    }

    /// Sets whether the next commit waits; outside of a transaction.
    pub(super) fn set(&mut self, connection: &Connection, must_wait: bool) -> rusqlite::Result<()> {
        let wait = must_wait || self.waited.elapsed() >= AT_MOST;
        if wait != self.waits {
            let mode = if wait { "full" } else { "normal" };
            connection.pragma_update(None, "synchronous", mode)?;
            self.waits = wait;
        }
        if wait {
            self.waited = Instant::now();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Place, schema};
    use super::*;

    #[test]
    fn whoever_must_wait_does_and_all_do_after_a_while() {
        let connection = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let mode = || -> i64 {
            connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
        };
        let mut disk = Disk::new();
        assert_eq!(mode(), 2);
        for (must_wait, expected) in [(false, 1), (false, 1), (true, 2), (true, 2), (false, 1)] {
            disk.set(&connection, must_wait).unwrap();
            assert_eq!(mode(), expected);
        }
        disk.waited -= AT_MOST;
        disk.set(&connection, false).unwrap();
        assert_eq!(mode(), 2);
    }
}
