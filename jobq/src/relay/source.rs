//! The interface between a relay and a table.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::job::MAX_PAYLOAD;
use crate::outbox::{Row, too_large};

/// The most bytes of payloads of one take, unless its first row alone has more.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A table `jobq_outbox`, from which a relay takes rows.
///
/// # Errors
///
/// Each method may return an error of the database. It names what to do about it: a table that is
/// missing, a permission. The relay shows it in its health, and tries again.
#[async_trait]
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// The table, for people: `jobq_outbox of database shop at db-1`. Without a password.
    fn name(&self) -> String;

    /// Takes rows that are due, in ascending order of their numbers. Nobody else gets them until the
    /// answer is settled or dropped.
    async fn take(&self, take: &Take) -> Result<Taking>;

    /// The rows that are left.
    async fn backlog(&self, namespace: &str) -> Result<Backlog>;

    /// Deletes marks of `jobq_inbox` that are too old, and returns their number.
    async fn clean(&self, namespace: &str) -> Result<u64>;
}

/// The rows that a relay wants.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Take {
    /// Of this namespace.
    pub namespace: String,
    /// With higher numbers than this one.
    pub after: i64,
    /// At most so many.
    pub limit: u32,
    /// The size limit of a payload, in bytes. A larger one need not be read.
    pub largest_payload: usize,
    /// How long they may be held. The database releases them later, if the relay does nothing.
    pub hold: Duration,
}

impl Take {
    /// At most 500 rows of a namespace, from the first one on, for 20 seconds.
    #[must_use]
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            after: 0,
            limit: 500,
            largest_payload: MAX_PAYLOAD,
            hold: Duration::from_secs(20),
        }
    }

    /// The numbers of the rows to read: the first, and those after it as long as there is room for their
    /// payloads. `found` has the numbers and sizes of rows that are due.
    ///
    /// ```
    /// use jobq::relay::Take;
    ///
    /// let take = Take::new("jobq");
    /// assert_eq!(take.fitting(&[(7, 10_000_000), (8, 6_000_000), (9, 6_000_000)]), [7, 8]);
    /// ```
    #[must_use]
    pub fn fitting(&self, found: &[(i64, u64)]) -> Vec<i64> {
        let largest = u64::try_from(self.largest_payload).unwrap_or(u64::MAX);
        let mut bytes = 0_u64;
        let fits = |(place, (seq, size)): (usize, &(i64, u64))| {
            // One that is too large is not read.
            let size = if *size > largest { 0 } else { *size };
            bytes = bytes.saturating_add(size);
            (place == 0 || bytes <= MAX_BYTES).then_some(*seq)
        };
        found.iter().enumerate().map_while(fits).collect()
    }

    /// The error of a row whose payload is larger than [`largest_payload`](Self::largest_payload).
    ///
    /// ```
    /// use jobq::relay::Take;
    ///
    /// let error = Take::new("jobq").too_large(16_777_217);
    /// assert!(error.to_string().contains("16777217 bytes, more than this engine's limit of 16777216"));
    /// ```
    #[must_use]
    pub fn too_large(&self, size: u64) -> Error {
        too_large(size, self.largest_payload)
    }
}

/// The answer to a [`Take`].
#[derive(Debug)]
pub enum Taking {
    /// Another relay works on the table.
    Standby,
    /// No row is due.
    Nothing,
    /// Rows.
    Rows {
        /// At least one.
        rows: Vec<StoredRow>,
        /// Whether there may be more.
        is_full: bool,
        /// What settles them.
        taken: Box<dyn Taken>,
    },
}

/// A row with what the table adds to it.
#[derive(Debug, Clone)]
pub struct StoredRow {
    /// The number of the row. Those of one transaction ascend.
    pub seq: i64,
    /// How often it was refused.
    pub tries: u32,
    /// The row, or why it cannot be read.
    pub row: Result<Row>,
}

/// Rows in the hands of a relay. Dropped, they are given back as they were.
#[async_trait]
pub trait Taken: fmt::Debug + Send {
    /// Deletes the rows that were sent, and notes the errors of those that were refused, in one
    /// transaction.
    async fn settle(self: Box<Self>, settled: Settled) -> Result<()>;
}

/// What became of rows that were taken. The others are given back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// The numbers of the rows that the engine has stored.
    pub sent: Vec<i64>,
    /// The rows that were refused.
    pub refused: Vec<Refusal>,
}

/// A row that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The number of the row.
    pub seq: i64,
    /// Why.
    pub error: String,
    /// The wait until it is tried again, by the clock of the database.
    pub retry_in: Duration,
}

/// The rows that are left in a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backlog {
    /// The rows that were not tried yet. A source may stop counting at 10,000.
    pub waiting: u64,
    /// The age of the oldest of them, by its `enqueued_at` and the clock of the database. In JSON:
    /// milliseconds (`oldest_ms`).
    #[serde(
        rename = "oldest_ms",
        serialize_with = "crate::job::millis::duration::option::serialize"
    )]
    pub oldest: Option<Duration>,
    /// The rows that were refused and are tried again.
    pub refused: u64,
}

impl Backlog {
    /// So many rows, and the age of the oldest that was not tried yet.
    #[must_use]
    pub fn new(waiting: u64, oldest: Option<Duration>, refused: u64) -> Self {
        Self { waiting, oldest, refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_take_has_room_for_its_payloads() {
        const MIB: u64 = 1024 * 1024;
        let mut take = Take::new("jobq");
        take.largest_payload = 100 * 1024 * 1024;
        let table = [
            (vec![], vec![]),
            (vec![(1, 100 * MIB)], vec![1]),
            (vec![(1, 10 * MIB), (2, 6 * MIB), (3, 1)], vec![1, 2]),
            (vec![(1, 200 * MIB), (2, 16 * MIB), (3, 0), (4, 1)], vec![1, 2, 3]),
        ];
        for (found, expected) in table {
            assert_eq!(take.fitting(&found), expected, "{found:?}");
        }
    }
}
