//! The transaction of the writer: one that writes, or one that only reads.

use std::time::Instant;

use super::{Failure, Look, Need, Work, Writer};

impl Writer {
    /// Runs the work in one transaction.
    pub(super) fn transaction(&mut self, work: &mut [Work]) -> Result<Vec<Option<Look>>, Failure> {
        self.check_place(false)?;
        let result = if self.only_reads(work) { self.read(work) } else { self.write(work) };
        if result.is_err() && !self.connection.is_autocommit() {
            // Fails only if SQLite has already rolled back.
            let _ = self.execute("ROLLBACK");
        }
        result
    }

    /// Whether nothing is to be written. An engine with a lease also renews it and claims jobs.
    fn only_reads(&self, work: &[Work]) -> bool {
        !self.takes_jobs() && work.iter().all(|work| work.need() == Need::Look)
    }

    /// Runs work that only reads, without the file's write lock.
    fn read(&mut self, work: &mut [Work]) -> Result<Vec<Option<Look>>, Failure> {
        self.execute("BEGIN")
            .and_then(|()| self.run(work, None))
            .and_then(|()| self.execute("COMMIT"))
            .map_err(|source| Failure::new(&self.place, source))?;
        Ok(Vec::new())
    }

    fn write(&mut self, work: &mut [Work]) -> Result<Vec<Option<Look>>, Failure> {
        let must_sync = self.closing.is_some() || work.iter().any(Work::has_caller);
        self.disk
            .set(&self.connection, must_sync)
            .and_then(|()| self.begin())
            .and_then(|()| self.within(work))
            .map_err(|source| Failure::new(&self.place, source))
            .and_then(|looks| match self.execute("COMMIT") {
                // Commits to a removed file are not confirmed.
                Ok(()) => self.check_place(true).map(|()| looks),
                Err(source) => Err(Failure::of_commit(&self.place, source)),
            })
    }

    /// Takes the file's write lock.
    fn begin(&mut self) -> rusqlite::Result<()> {
        let start = Instant::now();
        self.execute("BEGIN IMMEDIATE")?;
        self.others.excuse(start.elapsed());
        Ok(())
    }

    /// Checks that the path still names the file that was opened.
    fn check_place(&self, maybe_done: bool) -> Result<(), Failure> {
        if self.place.is_still(self.opened) {
            return Ok(());
        }
        Err(Failure::Gone { place: self.place.clone(), maybe_done })
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
