//! Ownership leases of claimed jobs.
//!
//! An engine that takes jobs has a row among the owners, and changes it three times a lease. An
//! owner whose row does not change is dead ([`others`](super::others)): the first engine that
//! notices releases its jobs and deletes its row. Each transaction of an owner looks for its row
//! before it claims jobs. An owner that was only paused finds its row gone, treats all its claimed
//! jobs as lost, and starts again under another number.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::others::Dead;
use super::{columns, process};

/// The deletion of what an owner has listed, and of the questions that it will not answer.
const UNLIST: [&str; 3] = [
    "DELETE FROM pools WHERE owner = ?1",
    "DELETE FROM consumers WHERE owner = ?1",
    "DELETE FROM questions WHERE owner = ?1 AND answer IS NULL",
];

/// Releases all jobs of an owner, each at its position in its queue; the second parameter is added
/// to their crashes.
pub(super) const FREE_JOBS: &str =
    "UPDATE jobs SET owner = NULL, crashes = min(crashes, 4294967295) + ?2 WHERE owner = ?1";

/// Releases the jobs whose owner is not in the file any more: it was removed from there while it
/// lived, and went on until it noticed.
const FREE_ORPHANS: &str = "UPDATE jobs SET owner = NULL
    WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM owners)";

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
    /// The `data_version` at which its row was in the file. Only another connection removes it.
    seen: i64,
}

impl Lease {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, held: None }
    }

    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// The owner number of the lease, if there is one.
    pub(super) fn owner(&self) -> Option<i64> {
        self.held.as_ref().map(|held| held.owner)
    }

    /// When the lease must be renewed, if there is one.
    pub(super) fn renew_at(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.renew_at)
    }

    /// Acquires, keeps or renews the lease, within a transaction that sees this `data_version`, and
    /// returns the owner number, whose row is in the file.
    pub(super) fn hold(&mut self, connection: &Connection, version: i64) -> rusqlite::Result<i64> {
        let until = self.until();
        if let Some(held) = &mut self.held {
            let owner = held.owner;
            if Instant::now() < held.renew_at {
                let sql = "SELECT 1 FROM owners WHERE id = ?1";
                if held.seen == version || connection.prepare_cached(sql)?.exists([owner])? {
                    held.seen = version;
                    return Ok(owner);
                }
            } else {
                // The value changes each time, whatever the clock says.
                let sql = "UPDATE owners SET until = max(until + 1, ?2) WHERE id = ?1";
                if connection.prepare_cached(sql)?.execute((owner, until))? > 0 {
                    self.set(owner, version);
                    return Ok(owner);
                }
            }
            tracing::warn!(
                "lease expired: this engine stalled for longer than {:?}; other engines took over \
                 its jobs",
                self.length
            );
        }
        connection.prepare_cached(FREE_ORPHANS)?.execute([])?;
        let sql = "INSERT INTO owners (until, process, lists) VALUES (?1, ?2, 1)";
        connection.prepare_cached(sql)?.execute((until, process::own()))?;
        let owner = connection.last_insert_rowid();
        self.set(owner, version);
        Ok(owner)
    }

    /// The end of the lease by the time of day, which earlier versions of jobq use.
    fn until(&self) -> i64 {
        columns::due_after(self.length)
    }

    fn set(&mut self, owner: i64, seen: i64) {
        let renew_at = Instant::now() + self.length / 3;
        self.held = Some(Held { owner, renew_at, seen });
    }

    /// Ends the lease without writing to the file.
    pub(super) fn forget(&mut self) {
        self.held = None;
    }

    /// Releases all claimed jobs and ends the lease, within a transaction.
    pub(super) fn release(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        match self.held.take() {
            Some(Held { owner, .. }) => {
                connection.prepare_cached("DELETE FROM owners WHERE id = ?1")?.execute([owner])?;
                release_all(connection, owner, 0)
            }
            None => Ok(()),
        }
    }
}

/// Releases the jobs of a dead owner, unless it has renewed its lease since it was found dead.
pub(super) fn take_over(connection: &Connection, dead: Dead) -> rusqlite::Result<()> {
    let Dead { id: owner, until } = dead;
    let sql = "DELETE FROM owners WHERE id = ?1 AND until = ?2";
    if connection.prepare_cached(sql)?.execute((owner, until))? == 0 {
        return Ok(());
    }
    tracing::info!(owner, "releasing the jobs of a worker process that exited or hangs");
    release_all(connection, owner, 1)
}

/// Releases the jobs of an owner, and removes what it has listed.
pub(super) fn release_all(
    connection: &Connection,
    owner: i64,
    crashes: i64,
) -> rusqlite::Result<()> {
    connection.prepare_cached(FREE_JOBS)?.execute((owner, crashes))?;
    UNLIST.iter().try_for_each(|sql| connection.prepare_cached(sql)?.execute([owner]).map(drop))
}

#[cfg(test)]
mod tests {
    use super::super::open::open;
    use super::super::place::Place;
    use super::*;

    fn owners(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("SELECT id FROM owners ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    const LENGTH: Duration = Duration::from_secs(60);

    /// An owner that is found dead now.
    fn dead(connection: &Connection, id: i64) -> Dead {
        let sql = "SELECT until FROM owners WHERE id = ?1";
        let until = connection.query_row(sql, [id], |row| row.get(0)).unwrap();
        Dead { id, until }
    }

    /// A job that this owner holds.
    fn hold_job(connection: &Connection, owner: i64) {
        let sql = "INSERT INTO jobs (queue, due, owner, attempts, job_id, enqueued_at, payload)
            VALUES (1, 0, ?1, 0, zeroblob(16), 0, x'7b7d')";
        connection.execute(sql, [owner]).unwrap();
    }

    fn held(connection: &Connection) -> Vec<Option<i64>> {
        let mut statement = connection.prepare("SELECT owner FROM jobs ORDER BY seq").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn an_owner_that_renewed_since_it_was_found_dead_keeps_its_jobs() {
        let file = open(&Place::Memory, Duration::ZERO).unwrap();
        let mut lease = Lease::new(LENGTH);
        let owner = lease.hold(&file, 1).unwrap();
        hold_job(&file, owner);
        let found = dead(&file, owner);
        lease.held.as_mut().unwrap().renew_at = Instant::now();
        lease.hold(&file, 1).unwrap();
        take_over(&file, found).unwrap();
        assert_eq!((owners(&file), held(&file)), (vec![owner], vec![Some(owner)]));
        take_over(&file, dead(&file, owner)).unwrap();
        assert_eq!((owners(&file), held(&file)), (vec![], vec![None]));
    }

    #[test]
    fn jobs_of_an_owner_that_is_not_in_the_file_are_released() {
        let file = open(&Place::Memory, Duration::ZERO).unwrap();
        let (mut removed, mut other) = (Lease::new(LENGTH), Lease::new(LENGTH));
        let (gone, stays) = (removed.hold(&file, 1).unwrap(), other.hold(&file, 1).unwrap());
        file.execute("DELETE FROM owners WHERE id = ?1", [gone]).unwrap();
        for owner in [gone, stays] {
            hold_job(&file, owner);
        }
        // It is not due for renewal, and another connection has written.
        assert!(removed.hold(&file, 2).unwrap() > stays);
        assert_eq!(held(&file), [None, Some(stays)]);
        file.execute("DELETE FROM owners WHERE id = ?1", [stays]).unwrap();
        other.held.as_mut().unwrap().renew_at = Instant::now();
        assert!(other.hold(&file, 1).unwrap() > stays);
        assert_eq!(held(&file), [None, None]);
    }

    #[test]
    fn a_lost_lease_gets_a_new_number_that_is_never_reused() {
        let file = open(&Place::Memory, Duration::ZERO).unwrap();
        let (mut one, mut other) = (Lease::new(LENGTH), Lease::new(LENGTH));
        let (first, second) = (one.hold(&file, 1).unwrap(), other.hold(&file, 1).unwrap());
        assert_eq!(one.hold(&file, 1).unwrap(), first, "held on to");
        take_over(&file, dead(&file, first)).unwrap();
        one.held.as_mut().unwrap().renew_at = Instant::now();
        let third = one.hold(&file, 1).unwrap();
        assert!(first != third && second != third);
        other.release(&file).unwrap();
        assert_eq!(owners(&file), [third]);
    }

    #[test]
    fn each_renewal_changes_the_row_also_when_the_clock_goes_back() {
        let file = open(&Place::Memory, Duration::ZERO).unwrap();
        let mut lease = Lease::new(LENGTH);
        let owner = lease.hold(&file, 1).unwrap();
        let far = columns::due_after(LENGTH * 1_000);
        file.execute("UPDATE owners SET until = ?1", [far]).unwrap();
        for renewals in 1..4 {
            lease.held.as_mut().unwrap().renew_at = Instant::now();
            assert_eq!(lease.hold(&file, 1).unwrap(), owner);
            let until: i64 =
                file.query_row("SELECT until FROM owners", [], |row| row.get(0)).unwrap();
            assert_eq!(until, far + renewals);
        }
    }
}
