//! Who has jobs in hand, and for how long nobody doubts it.
//!
//! An engine that takes jobs has a row among the owners with the time until which it
//! vouches for them. It moves that time on three times a lease. An owner whose time
//! has passed is dead, or as good as: whoever notices first hands back its jobs and
//! deletes its row. One that was merely held up finds its row gone, treats all that it
//! had in hand as lost, and starts anew under another number.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::columns;

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
    /// Until when it was promised last, by the time of day.
    until: i64,
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
    /// Hands back the jobs of dead owners on that occasion.
    pub(super) fn hold(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        if let Some(held) = &self.held {
            if Instant::now() < held.renew_at {
                return Ok(held.owner);
            }
            let (owner, was_until) = (held.owner, held.until);
            let until = self.until();
            let sql = "UPDATE owners SET until = ?2 WHERE id = ?1";
            if connection.prepare_cached(sql)?.execute((owner, until))? > 0 {
                self.set(owner, until);
                // An engine that is late itself, as after the machine has slept, cannot
                // blame the others for being so: they get until the next time.
                if was_until > columns::now() {
                    sweep(connection)?;
                }
                return Ok(owner);
            }
            tracing::warn!(
                "the lease of this engine ran out and others took its jobs over; it was held up \
                 for longer than {:?}",
                self.length
            );
        }
        let until = self.until();
        connection.prepare_cached("INSERT INTO owners (until) VALUES (?1)")?.execute([until])?;
        let owner = connection.last_insert_rowid();
        self.set(owner, until);
        sweep(connection)?;
        Ok(owner)
    }

    fn until(&self) -> i64 {
        columns::due_after(self.length)
    }

    fn set(&mut self, owner: i64, until: i64) {
        let renew_at = Instant::now() + self.length / 3;
        self.held = Some(Held { owner, until, renew_at });
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

/// Hands back the jobs of the owners whose time has passed.
fn sweep(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT id FROM owners WHERE until < ?1")?;
    let dead: Vec<i64> =
        statement.query_map([columns::now()], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for owner in dead {
        tracing::info!(owner, "handing back the jobs of a worker process that ended or hangs");
        free(connection, owner, 1)?;
    }
    Ok(())
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

    /// As if its time had passed.
    fn end(lease: &mut Lease, connection: &Connection) {
        let held = lease.held.as_mut().unwrap();
        (held.until, held.renew_at) = (0, Instant::now());
        connection.execute("UPDATE owners SET until = 0 WHERE id = ?1", [held.owner]).unwrap();
    }

    #[test]
    fn a_dead_owner_is_swept_and_its_number_is_not_given_again() {
        let file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let mut dead = Lease::new(LENGTH);
        let first = dead.hold(&file).unwrap();
        end(&mut dead, &file);

        let mut alive = Lease::new(LENGTH);
        let second = alive.hold(&file).unwrap();
        assert_eq!(owners(&file), [second]);
        assert_eq!(alive.hold(&file).unwrap(), second, "held on to");

        // The dead one was only held up, and starts anew.
        let third = dead.hold(&file).unwrap();
        assert!(first != third && second != third);
        alive.give_back(&file).unwrap();
        assert_eq!(owners(&file), [third]);
    }

    #[test]
    fn who_is_late_does_not_blame_others() {
        let file = schema::open(&Place::Memory, Duration::ZERO).unwrap();
        let mut one = Lease::new(LENGTH);
        let mut other = Lease::new(LENGTH);
        let first = one.hold(&file).unwrap();
        let second = other.hold(&file).unwrap();
        // As after the machine has slept: both are over their time.
        end(&mut one, &file);
        end(&mut other, &file);
        assert_eq!(one.hold(&file).unwrap(), first);
        assert_eq!(owners(&file), [first, second]);
    }
}
