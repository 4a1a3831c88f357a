//! The statements of the relays of SQLite and of MariaDB.

use std::time::Duration;

use jobq::relay::{Backlog, Settled, StoredRow, Take};
use jobq::{Error, ErrorKind, Result};

use crate::connections::Connections;
use crate::dialect::{COLUMNS, Dialect, row};
use crate::errors::failed;
use crate::statement::{Statement, Value};

/// The age at which a mark is deleted by default.
pub(crate) const KEPT: Duration = Duration::from_hours(30 * 24);
/// The most rows that are counted.
const MAX_COUNT: i64 = 10_000;
/// How many marks one statement deletes.
const MARKS: i64 = 1_000;

/// The table of a database, with the connections to it.
#[derive(Debug)]
pub(crate) struct Table<D: Dialect> {
    pub(crate) connections: Connections<D>,
}

impl<D: Dialect> Table<D> {
    /// The table, for people.
    pub(crate) fn name(&self) -> &str {
        self.connections.name()
    }

    /// The number of rows that a statement affects.
    pub(crate) async fn execute(
        &self,
        connection: &mut D::Connection,
        doing: &str,
        statement: Statement<'_>,
    ) -> Result<u64> {
        let done = D::execute(connection, statement).await;
        done.map_err(|error| self.failed(doing, error))
    }

    /// The rows of a query.
    pub(crate) async fn rows(
        &self,
        connection: &mut D::Connection,
        doing: &str,
        statement: Statement<'_>,
    ) -> Result<Vec<D::Row>> {
        let rows = D::rows(connection, statement).await;
        rows.map_err(|error| self.failed(doing, error))
    }

    /// Runs statements without parameters.
    pub(crate) async fn run(
        &self,
        connection: &mut D::Connection,
        doing: &str,
        statements: &str,
    ) -> Result<()> {
        D::run(connection, statements).await.map_err(|error| self.failed(doing, error))
    }

    /// The one number that a query gives.
    pub(crate) async fn number(
        &self,
        connection: &mut D::Connection,
        doing: &str,
        statement: Statement<'_>,
    ) -> Result<Option<i64>> {
        let rows = self.rows(connection, doing, statement).await?;
        let number = rows.first().map(|row| D::number(row, 0)).transpose();
        Ok(number.map_err(|error| self.failed(doing, error))?.flatten())
    }

    fn failed(&self, doing: &str, error: sqlx::Error) -> Error {
        failed(&format!("{doing} {}", self.name()), error, D::meaning)
    }

    /// Checks the tables, and the rights of the user.
    pub(crate) async fn verify(&self) -> Result<()> {
        const DOING: &str = "looking at";
        let mut connection = self.connections.get().await?;
        let mut lacking = Vec::new();
        for (right, probe) in D::PROBES {
            match D::execute(&mut connection, Statement::new(*probe, &[])).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(problem)) if D::is_denied(&*problem) => {
                    lacking.push(*right);
                }
                Err(error) => return Err(self.failed(DOING, error)),
            }
        }
        if !lacking.is_empty() {
            let text = format!(
                "{DOING} {}: the user of the relay lacks {}; let the owner of the tables GRANT it",
                self.name(),
                lacking.join(", ")
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        self.connections.give_back(connection);
        Ok(())
    }

    /// Makes the tables, and tells whether they were missing.
    pub(crate) async fn migrate(&self) -> Result<bool> {
        const DOING: &str = "making";
        let mut connection = self.connections.get().await?;
        self.run(&mut connection, DOING, D::BEGIN).await?;
        let exists = Statement::new(D::EXISTS, &[]);
        let is_missing = self.number(&mut connection, DOING, exists).await? == Some(0);
        if is_missing {
            self.run(&mut connection, DOING, D::MIGRATION).await?;
        }
        self.run(&mut connection, DOING, "COMMIT").await?;
        self.connections.give_back(connection);
        Ok(is_missing)
    }

    /// Deletes marks that are older than this, and returns their number.
    pub(crate) async fn delete_marks(&self, namespace: &str, older: Duration) -> Result<u64> {
        const DOING: &str = "deleting old marks beside";
        let mut connection = self.connections.get().await?;
        let values = [namespace.into(), millis(older).into(), MARKS.into()];
        let mut deleted = 0;
        loop {
            let statement = Statement::new(D::DELETE_MARKS, &values);
            let now = self.execute(&mut connection, DOING, statement).await?;
            deleted += now;
            if now < MARKS.unsigned_abs() {
                self.connections.give_back(connection);
                return Ok(deleted);
            }
        }
    }

    /// The rows that are left.
    pub(crate) async fn backlog(&self, namespace: &str) -> Result<Backlog> {
        const DOING: &str = "counting the rows of";
        let mut connection = self.connections.get().await?;
        let statement = format!(
            "SELECT count(CASE WHEN error IS NULL THEN 1 END), \
             count(CASE WHEN error IS NOT NULL THEN 1 END), \
             {} - min(CASE WHEN error IS NULL THEN enqueued_at END) \
             FROM (SELECT error, enqueued_at FROM jobq_outbox WHERE namespace = ? ORDER BY seq \
             LIMIT ?) AS oldest",
            D::NOW
        );
        let statement = Statement::new(statement, &[namespace.into(), MAX_COUNT.into()]);
        let rows = self.rows(&mut connection, DOING, statement).await?;
        self.connections.give_back(connection);
        let Some(row) = rows.first() else { return Ok(Backlog::default()) };
        let number = |place| D::number(row, place).map_err(|error| self.failed(DOING, error));
        let count = |place| Ok::<_, Error>(number(place)?.unwrap_or_default().unsigned_abs());
        let oldest = number(2)?.map(|age| Duration::from_millis(age.max(0).unsigned_abs()));
        Ok(Backlog::new(count(0)?, oldest, count(1)?))
    }

    /// The numbers and sizes of rows that are due. A relay lets none wait for an hour: a later time is of a
    /// clock that was wrong.
    pub(crate) async fn find(
        &self,
        connection: &mut D::Connection,
        take: &Take,
    ) -> Result<Vec<(i64, u64)>> {
        const DOING: &str = "taking rows of";
        let statement = format!(
            "SELECT seq, CAST(length(payload) AS SIGNED INTEGER) FROM jobq_outbox \
             WHERE namespace = ? AND seq > ? \
             AND (retry_at IS NULL OR retry_at <= {now} OR retry_at > {now} + 3600000) \
             ORDER BY seq LIMIT ?{locking}",
            now = D::NOW,
            locking = D::LOCKING
        );
        let values = [(&*take.namespace).into(), take.after.into(), i64::from(take.limit).into()];
        let rows = self.rows(connection, DOING, Statement::new(statement, &values)).await?;
        let found = rows.iter().map(|row| {
            let number = |place| D::number(row, place).map(Option::unwrap_or_default);
            Ok((number(0)?, number(1)?.unsigned_abs()))
        });
        found.collect::<sqlx::Result<_>>().map_err(|error| self.failed(DOING, error))
    }

    /// The rows with these numbers, at least one.
    pub(crate) async fn read(
        &self,
        connection: &mut D::Connection,
        numbers: &[i64],
        take: &Take,
    ) -> Result<Vec<StoredRow>> {
        const DOING: &str = "reading rows of";
        let statement = format!(
            "SELECT {COLUMNS}, CASE WHEN length(payload) <= ? THEN payload END, \
             CAST(length(payload) AS SIGNED INTEGER) \
             FROM jobq_outbox WHERE seq IN ({}) ORDER BY seq",
            list(numbers)
        );
        let largest = i64::try_from(take.largest_payload).unwrap_or(i64::MAX);
        let statement = Statement::once(statement, &[largest.into()]);
        let rows = self.rows(connection, DOING, statement).await?;
        let stored = rows.iter().map(|row| stored::<D>(row, take));
        stored.collect::<sqlx::Result<_>>().map_err(|error| self.failed(DOING, error))
    }

    /// Deletes the rows that were sent, and notes the errors of the others.
    pub(crate) async fn settle(
        &self,
        connection: &mut D::Connection,
        settled: &Settled,
    ) -> Result<()> {
        const DOING: &str = "settling rows of";
        if !settled.sent.is_empty() {
            self.run(connection, DOING, &D::deletions(&settled.sent)).await?;
        }
        let refuse = format!(
            "UPDATE jobq_outbox SET error = ?, retry_at = {} + ?, \
             tries = CASE WHEN tries > 1000000 THEN tries ELSE tries + 1 END WHERE seq = ?",
            D::NOW
        );
        for refusal in &settled.refused {
            let values: [Value<'_>; 3] =
                [(&*refusal.error).into(), millis(refusal.retry_in).into(), refusal.seq.into()];
            self.execute(connection, DOING, Statement::new(&*refuse, &values)).await?;
        }
        Ok(())
    }
}

/// A row with what the table adds to it. A column that cannot be read is an error of the row.
fn stored<D: Dialect>(columns: &D::Row, take: &Take) -> sqlx::Result<StoredRow> {
    let number = |place| D::number(columns, place).map(Option::unwrap_or_default);
    let seq = number(0)?;
    let tries = u32::try_from(number(1)?).unwrap_or_default();
    let row = match D::bytes(columns, 15)? {
        Some(payload) => row::<D>(columns, payload).map_err(|error| {
            let text = format!("the row cannot be read: {error}; correct or discard it");
            Error::new(ErrorKind::Invalid, text)
        }),
        None => Err(take.too_large(number(16)?.unsigned_abs())),
    };
    Ok(StoredRow { seq, tries, row })
}

/// The time as milliseconds.
pub(crate) fn millis(time: Duration) -> i64 {
    // Far enough, and a sum with it is none that overflows.
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

pub(crate) fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}
