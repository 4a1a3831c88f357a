//! Ownership leases of claimed jobs.
//!
//! An engine that takes jobs has a row among the owners, and changes it three times a lease. An
//! owner whose row does not change is dead ([`others`](super::others)): whoever notices first hands
//! back its jobs and deletes its row. One that was merely held up finds its row gone, treats all
//! its claimed jobs as lost, and starts anew under another number.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{columns, process};

/// Hands back all jobs of an owner, each at its place in its queue; the second parameter
/// says how many crashes that was.
pub(super) const FREE_JOBS: &str =
    "UPDATE jobs SET owner = NULL, crashes = crashes + ?2 WHERE owner = ?1";

/// The lease of one engine.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    length: Duration,
    held: Option<Held>,
}

#[derive(Debug, Clone)]
struct Held {
    owner: i64,
    renew_at: Instant,
}

impl Lease {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, held: None }
    }

    /// The number under which jobs are taken, once there is one.
    pub(super) fn owner(&self) -> Option<i64> {
        self.held.as_ref().map(|held| held.owner)
    }

    /// When the lease must be renewed, if there is one.
    pub(super) fn renew_at(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.renew_at)
    }

    /// Makes sure, within a transaction, that there is a lease and that it is fresh.
    pub(super) fn hold(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        if let Some(held) = &self.held {
            let owner = held.owner;
            if Instant::now() < held.renew_at {
                return Ok(owner);
            }
            // Another value each time, whatever the clock says.
            let sql = "UPDATE owners SET until = max(until + 1, ?2) WHERE id = ?1";
            if connection.prepare_cached(sql)?.execute((owner, self.until()))? > 0 {
                self.set(owner);
                return Ok(owner);
            }
            tracing::warn!(
                "the lease of this engine ran out and others took its jobs over; it was held up \
                 for longer than {:?}",
                self.length
            );
        }
        let sql = "INSERT INTO owners (until, process) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute((self.until(), process::own()))?;
        let owner = connection.last_insert_rowid();
        self.set(owner);
        Ok(owner)
    }

    /// Until when it is promised, by the time of day: what earlier versions of jobq go by.
    fn until(&self) -> i64 {
        columns::due_after(self.length)
    }

    fn set(&mut self, owner: i64) {
        let renew_at = Instant::now() + self.length / 3;
        self.held = Some(Held { owner, renew_at });
    }

    /// Ends the lease without a word to the file.
    pub(super) fn forget(&mut self) {
        self.held = None;
    }

    /// Hands back what is in hand and ends the lease, within a transaction.
    pub(super) fn give_back(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        match self.held.take() {
            Some(held) => free(connection, held.owner, 0),
            None => Ok(()),
        }
    }
}

/// Hands back the jobs of an owner that is dead.
pub(super) fn take_over(connection: &Connection, dead: i64) -> rusqlite::Result<()> {
    tracing::info!(owner = dead, "handing back the jobs of a worker process that ended or hangs");
    free(connection, dead, 1)
}

fn free(connection: &Connection, owner: i64, crashes: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(FREE_JOBS)?.execute((owner, crashes))?;
    connection.prepare_cached("DELETE FROM owners WHERE id = ?1")?.execute([owner])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Place, schema};
    use super::*;

    fn owners(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("SELECT id FROM owners ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    const LENGTH: Duration = Duration::from_secs(60);

    #[test]
    fn whose_row_is_gone_starts_anew_and_no_number_is_given_again() {
        let file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let (mut one, mut other) = (Lease::new(LENGTH), Lease::new(LENGTH));
        let (first, second) = (one.hold(&file).unwrap(), other.hold(&file).unwrap());
        assert_eq!(one.hold(&file).unwrap(), first, "held on to");
        take_over(&file, first).unwrap();
        one.held.as_mut().unwrap().renew_at = Instant::now();
        let third = one.hold(&file).unwrap();
        assert!(first != third && second != third);
        other.give_back(&file).unwrap();
        assert_eq!(owners(&file), [third]);
    }

    #[test]
    fn each_renewal_changes_the_row_also_when_the_clock_goes_back() {
        let file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let mut lease = Lease::new(LENGTH);
        let owner = lease.hold(&file).unwrap();
        let far = columns::due_after(LENGTH * 1_000);
        file.execute("UPDATE owners SET until = ?1", [far]).unwrap();
        for renewals in 1..4 {
            lease.held.as_mut().unwrap().renew_at = Instant::now();
            assert_eq!(lease.hold(&file).unwrap(), owner);
            let until: i64 =
                file.query_row("SELECT until FROM owners", [], |row| row.get(0)).unwrap();
            assert_eq!(until, far + renewals);
        }
    }
}
