//! What an operator does with the table.

use std::time::{Duration, SystemTime};

use jobq::Result;
use jobq::outbox::postgres::MIGRATION;
use tokio_postgres::types::{ToSql, Type};

use crate::PgOutbox;
use crate::connections::{execute, query, run};

const LIST: &str = "\
SELECT seq, queue, topic, name, job_id::text, \
CASE WHEN isfinite(enqueued_at) THEN (extract(epoch FROM enqueued_at) * 1000)::bigint END, \
octet_length(payload)::bigint, tries, \
CASE WHEN isfinite(retry_at) THEN (extract(epoch FROM retry_at) * 1000)::bigint END, error \
FROM jobq_outbox WHERE namespace = $1::text AND ($2::boolean OR error IS NOT NULL) \
ORDER BY seq LIMIT $3::bigint";

const RETRY: &str = "\
UPDATE jobq_outbox SET retry_at = NULL WHERE namespace = $1::text AND error IS NOT NULL \
AND ($2::bigint[] IS NULL OR seq = ANY($2::bigint[]))";

const DISCARD: &str = "\
DELETE FROM jobq_outbox WHERE namespace = $1::text AND error IS NOT NULL \
AND ($2::bigint[] IS NULL OR seq = ANY($2::bigint[]))";

/// How many marks one statement deletes.
const MARKS: i64 = 1_000;

const DELETE_MARKS: &str = "\
DELETE FROM jobq_inbox WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobq_inbox \
WHERE namespace = $1::text AND done_at < now() - $2::bigint * interval '1 millisecond' \
LIMIT $3::bigint))";

/// A row of the table, from [`PgOutbox::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedRow {
    /// The number of the row.
    pub seq: i64,
    /// The queue of a job.
    pub queue: Option<String>,
    /// The topic of an event.
    pub topic: Option<String>,
    /// The name of a job.
    pub name: Option<String>,
    /// The id, as text.
    pub job_id: String,
    /// When the row was made, if that is a time.
    pub enqueued_at: Option<SystemTime>,
    /// The size of the payload.
    pub bytes: u64,
    /// How often it was refused.
    pub tries: u32,
    /// When it is tried again; `None` for at once.
    pub retry_at: Option<SystemTime>,
    /// Why it was refused last.
    pub error: Option<String>,
}

/// Which refused rows are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// All of the namespace.
    All,
    /// Those with these numbers.
    Numbers(Vec<i64>),
}

impl Refused {
    fn numbers(&self) -> Option<&[i64]> {
        match self {
            Self::All => None,
            Self::Numbers(numbers) => Some(numbers),
        }
    }
}

/// For operators, as `jobq outbox` does it.
impl PgOutbox {
    /// Makes the tables, for databases whose migrations no other tool runs, and returns whether they
    /// were missing.
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<bool> {
        let client = self.connections.get().await?;
        let doing = format!("making {}", self.connections.name());
        let exists = "SELECT to_regclass('jobq_outbox') IS NOT NULL";
        let rows = query(&client, &doing, exists, &[]).await?;
        let is_missing = !rows.first().is_some_and(|row| row.get(0));
        if is_missing {
            // Several statements are one transaction.
            run(&client, &doing, MIGRATION).await?;
        }
        self.connections.give_back(client);
        Ok(is_missing)
    }

    /// The first rows of a namespace: those that were refused, or all.
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn list(&self, namespace: &str, all: bool, limit: u32) -> Result<Vec<ListedRow>> {
        let client = self.connections.get().await?;
        let doing = format!("listing the rows of {}", self.connections.name());
        let limit = i64::from(limit);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&namespace, Type::TEXT), (&all, Type::BOOL), (&limit, Type::INT8)];
        let rows = query(&client, &doing, LIST, &parameters).await?;
        self.connections.give_back(client);
        Ok(rows.iter().map(listed).collect())
    }

    /// Has refused rows tried again at the relay's next look, which is at most 30 seconds away, and
    /// returns their number.
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn retry(&self, namespace: &str, rows: &Refused) -> Result<u64> {
        self.change("retrying", RETRY, namespace, rows).await
    }

    /// Deletes refused rows, whose jobs are lost, and returns their number.
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn discard(&self, namespace: &str, rows: &Refused) -> Result<u64> {
        self.change("discarding", DISCARD, namespace, rows).await
    }

    /// Deletes marks of `jobq_inbox` that are older than this, and returns their number.
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn delete_marks(&self, namespace: &str, older: Duration) -> Result<u64> {
        let client = self.connections.get().await?;
        let doing = format!("deleting old marks beside {}", self.connections.name());
        let older = i64::try_from(older.as_millis()).unwrap_or(i64::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&namespace, Type::TEXT), (&older, Type::INT8), (&MARKS, Type::INT8)];
        let mut deleted = 0;
        loop {
            let now = execute(&client, &doing, DELETE_MARKS, &parameters).await?;
            deleted += now;
            if now < MARKS.unsigned_abs() {
                self.connections.give_back(client);
                return Ok(deleted);
            }
        }
    }

    async fn change(
        &self,
        doing: &str,
        statement: &str,
        namespace: &str,
        rows: &Refused,
    ) -> Result<u64> {
        let client = self.connections.get().await?;
        let doing = format!("{doing} rows of {}", self.connections.name());
        let numbers = rows.numbers();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&namespace, Type::TEXT), (&numbers, Type::INT8_ARRAY)];
        let changed = execute(&client, &doing, statement, &parameters).await?;
        self.connections.give_back(client);
        Ok(changed)
    }
}

fn listed(row: &tokio_postgres::Row) -> ListedRow {
    let time = |place: usize| {
        let millis: Option<i64> = row.get(place);
        let since = Duration::from_millis(u64::try_from(millis?).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    };
    let (bytes, tries): (i64, i32) = (row.get(6), row.get(7));
    ListedRow {
        seq: row.get(0),
        queue: row.get(1),
        topic: row.get(2),
        name: row.get(3),
        job_id: row.get(4),
        enqueued_at: time(5),
        bytes: bytes.unsigned_abs(),
        tries: u32::try_from(tries).unwrap_or_default(),
        retry_at: time(8),
        error: row.get(9),
    }
}
