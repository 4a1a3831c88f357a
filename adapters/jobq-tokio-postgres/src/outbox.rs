use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jobq::outbox::Row;
use jobq::relay::{Backlog, Source, StoredRow, Take, Taking};
use jobq::{Error, ErrorKind, Result};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::connections::{Connections, query, run};
use crate::taken::TakenRows;

/// The most rows that are counted.
const MAX_COUNT: i64 = 10_000;
/// The age at which a mark is deleted by default.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Takes the lock of the one relay of a table and namespace, until the end of the transaction.
const LOCK: &str = "\
SELECT pg_try_advisory_xact_lock(hashtextextended('jobq_outbox'::regclass::oid::text || ' ' || $1::text, 0)), \
set_config('idle_in_transaction_session_timeout', $2::text, true)";

/// The numbers and sizes of rows that are due. A relay lets none wait for an hour: a later time is of a
/// clock that was wrong.
const FIND: &str = "\
SELECT seq, octet_length(payload)::bigint FROM jobq_outbox \
WHERE namespace = $1::text AND seq > $2::bigint \
AND (retry_at IS NULL OR retry_at <= now() OR retry_at > now() + interval '1 hour') \
ORDER BY seq LIMIT $3::bigint FOR UPDATE SKIP LOCKED";

/// Rows with these numbers. A time that is none is -1, and a payload that is too large is NULL.
const READ: &str = "\
SELECT seq, tries, version::bigint, namespace, queue, topic, name, job_id::text, \
CASE WHEN isfinite(enqueued_at) THEN (extract(epoch FROM enqueued_at) * 1000)::bigint ELSE -1 END, \
CASE WHEN isfinite(due_at) THEN (extract(epoch FROM due_at) * 1000)::bigint \
WHEN due_at IS NOT NULL THEN -1 END, \
CASE WHEN isfinite(expires_at) THEN (extract(epoch FROM expires_at) * 1000)::bigint \
WHEN expires_at IS NOT NULL THEN -1 END, \
retry_wait, content_encoding, enqueued_by, headers::text, \
CASE WHEN octet_length(payload) <= $2::bigint THEN payload END, octet_length(payload)::bigint \
FROM jobq_outbox WHERE seq = ANY($1::bigint[]) ORDER BY seq";

const COUNT: &str = "\
SELECT count(*) FILTER (WHERE error IS NULL), count(*) FILTER (WHERE error IS NOT NULL), \
(extract(epoch FROM now() - min(enqueued_at) FILTER (WHERE error IS NULL AND isfinite(enqueued_at))) \
* 1000)::bigint \
FROM (SELECT error, enqueued_at FROM jobq_outbox WHERE namespace = $1::text ORDER BY seq \
LIMIT $2::bigint) AS first";

/// The columns that a relay needs, and are missing.
const MISSING: &str = "\
SELECT wanted FROM unnest($1::text[]) AS wanted WHERE NOT EXISTS (SELECT FROM pg_attribute \
WHERE attrelid = 'jobq_outbox'::regclass AND attname = wanted AND NOT attisdropped)";

/// The columns of the table.
const COLUMNS: [&str; 18] = [
    "seq",
    "version",
    "namespace",
    "queue",
    "topic",
    "name",
    "job_id",
    "enqueued_at",
    "due_at",
    "expires_at",
    "retry_wait",
    "content_encoding",
    "enqueued_by",
    "headers",
    "payload",
    "tries",
    "retry_at",
    "error",
];

/// The rights that a relay needs, and lacks.
const LACKING: &str = "\
SELECT want.right_ || ' on ' || want.table_ FROM (VALUES ('SELECT', 'jobq_outbox'), \
('UPDATE', 'jobq_outbox'), ('DELETE', 'jobq_outbox'), ('SELECT', 'jobq_inbox'), \
('DELETE', 'jobq_inbox')) AS want (right_, table_) \
WHERE NOT has_table_privilege(want.table_::regclass, want.right_)";

/// The table `jobq_outbox` of a PostgreSQL database, for a [relay](jobq::relay).
///
/// It has up to two connections of its own, which may pass PgBouncer in transaction mode. With the
/// feature `tls` they are encrypted if the server can (`sslmode=prefer`), or must be
/// (`sslmode=require`).
///
/// ```no_run
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// use jobq::relay::Relay;
/// use jobq_tokio_postgres::PgOutbox;
///
/// let outbox = PgOutbox::connect("postgres://shop:secret@db:5432/shop").await?;
/// Relay::new(&client, outbox).run_until(jobq::shutdown_signal()?).await
/// # }
/// ```
#[derive(Debug)]
pub struct PgOutbox {
    pub(crate) connections: Arc<Connections>,
    /// The age of marks that the relay deletes.
    kept: Duration,
}

impl PgOutbox {
    /// Connects to the database of the URL, and checks the tables and the rights of a relay.
    ///
    /// # Errors
    ///
    /// As [`lazy`](Self::lazy) and [`verify`](Self::verify).
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        let outbox = Self::lazy(url)?;
        outbox.verify().await?;
        Ok(outbox)
    }

    /// Connects when a relay needs it. A database that is away, or without the tables, makes its
    /// [health](jobq::relay::RelayHealth) say so, until that has changed.
    ///
    /// ```
    /// let outbox = jobq_tokio_postgres::PgOutbox::lazy("postgres://shop:secret@db:5432/shop")?;
    /// assert_eq!(format!("{outbox:?}").matches("secret").count(), 0);
    /// # Ok::<(), jobq::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A URL of another form, or `sslmode=require` without the feature `tls`.
    pub fn lazy(url: impl AsRef<str>) -> Result<Self> {
        Ok(Self { connections: Arc::new(Connections::new(url.as_ref())?), kept: KEPT })
    }

    /// Sets the age at which the relay deletes marks of `jobq_inbox`. A job that runs again after that
    /// does its steps again. Defaults to 30 days. A mark takes some 200 bytes, with its index.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use jobq_tokio_postgres::PgOutbox;
    /// let outbox = PgOutbox::lazy("postgres://shop@db/shop")?;
    /// let outbox = outbox.keep_marks(Duration::from_secs(7 * 86_400));
    /// # Ok::<(), jobq::Error>(())
    /// ```
    #[must_use]
    pub fn keep_marks(mut self, age: Duration) -> Self {
        self.kept = age;
        self
    }

    /// Checks the columns of the table, and the rights of the user.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) without the table; [`Conflict`](ErrorKind::Conflict) without one
    /// of its columns; [`Refused`](ErrorKind::Refused) without a right; a database that cannot be
    /// reached.
    pub async fn verify(&self) -> Result<()> {
        let client = self.connections.get().await?;
        let doing = format!("looking at {}", self.connections.name());
        let columns: &[&str] = &COLUMNS;
        let missing = texts(&client, &doing, MISSING, &[(&columns, Type::TEXT_ARRAY)]).await?;
        if !missing.is_empty() {
            let text = format!(
                "{doing}: the table has no column {}; compare it with that of \
                 `jobq::outbox::postgres::MIGRATION`",
                missing.join(", ")
            );
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        let lacking = texts(&client, &doing, LACKING, &[]).await?;
        if !lacking.is_empty() {
            let text = format!(
                "{doing}: the user of the relay lacks {}; let the owner of the tables GRANT it",
                lacking.join(", ")
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        self.connections.give_back(client);
        Ok(())
    }

    async fn find(&self, client: &Client, take: &Take) -> Result<Option<Vec<(i64, u64)>>> {
        let name = self.connections.name();
        let doing = format!("taking rows of {name}");
        let hold = format!("{}ms", take.hold.as_millis());
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&take.namespace, Type::TEXT), (&hold, Type::TEXT)];
        // Both are sent at once.
        let (begun, locked) =
            tokio::join!(run(client, &doing, "BEGIN"), query(client, &doing, LOCK, &parameters),);
        begun?;
        let locked = locked?;
        if !locked.first().is_some_and(|row| row.get(0)) {
            return Ok(None);
        }
        let limit = i64::from(take.limit);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&take.namespace, Type::TEXT), (&take.after, Type::INT8), (&limit, Type::INT8)];
        let found = query(client, &doing, FIND, &parameters).await?;
        let size = |row: &tokio_postgres::Row| row.get::<_, i64>(1).unsigned_abs();
        Ok(Some(found.iter().map(|row| (row.get(0), size(row))).collect()))
    }

    async fn read(&self, client: &Client, numbers: &[i64], take: &Take) -> Result<Vec<StoredRow>> {
        let largest = i64::try_from(take.largest_payload).unwrap_or(i64::MAX);
        let doing = format!("reading rows of {}", self.connections.name());
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&numbers, Type::INT8_ARRAY), (&largest, Type::INT8)];
        let rows = query(client, &doing, READ, &parameters).await?;
        Ok(rows.iter().map(|row| stored(row, take)).collect())
    }
}

fn stored(row: &tokio_postgres::Row, take: &Take) -> StoredRow {
    let payload: Option<Vec<u8>> = row.get(15);
    let row_ = payload.ok_or_else(|| take.too_large(row.get::<_, i64>(16).unsigned_abs()));
    let row_ = row_.map(|payload| Row {
        version: row.get(2),
        namespace: row.get(3),
        queue: row.get(4),
        topic: row.get(5),
        name: row.get(6),
        job_id: row.get(7),
        enqueued_at: row.get(8),
        due_at: row.get(9),
        expires_at: row.get(10),
        retry_wait: row.get(11),
        content_encoding: row.get(12),
        enqueued_by: row.get(13),
        headers: row.get(14),
        payload,
    });
    let tries: i32 = row.get(1);
    StoredRow { seq: row.get(0), tries: u32::try_from(tries).unwrap_or_default(), row: row_ }
}

/// The one column of texts of a query.
async fn texts(
    client: &Client,
    doing: &str,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<String>> {
    let rows = query(client, doing, statement, parameters).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[async_trait]
impl Source for PgOutbox {
    fn name(&self) -> String {
        self.connections.name().to_owned()
    }

    async fn take(&self, take: &Take) -> Result<Taking> {
        let client = self.connections.get().await?;
        let found = self.find(&client, take).await?;
        let numbers = found.as_deref().map(|found| take.fitting(found)).unwrap_or_default();
        if numbers.is_empty() {
            run(&client, &format!("looking at {}", self.connections.name()), "ROLLBACK").await?;
            self.connections.give_back(client);
            return Ok(if found.is_some() { Taking::Nothing } else { Taking::Standby });
        }
        let is_full = found.is_some_and(|found| found.len() > numbers.len())
            || numbers.len() >= take.limit as usize;
        let rows = self.read(&client, &numbers, take).await?;
        let taken = TakenRows::new(client, Arc::clone(&self.connections));
        Ok(Taking::Rows { rows, is_full, taken: Box::new(taken) })
    }

    async fn backlog(&self, namespace: &str) -> Result<Backlog> {
        let client = self.connections.get().await?;
        let doing = format!("counting the rows of {}", self.connections.name());
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&namespace, Type::TEXT), (&MAX_COUNT, Type::INT8)];
        let rows = query(&client, &doing, COUNT, &parameters).await?;
        self.connections.give_back(client);
        let Some(row) = rows.first() else { return Ok(Backlog::default()) };
        let number = |place: usize| row.get::<_, Option<i64>>(place).map(i64::unsigned_abs);
        let oldest: Option<i64> = row.get(2);
        let oldest = oldest.map(|millis| Duration::from_millis(millis.max(0).unsigned_abs()));
        Ok(Backlog::new(number(0).unwrap_or_default(), oldest, number(1).unwrap_or_default()))
    }

    async fn clean(&self, namespace: &str) -> Result<u64> {
        self.delete_marks(namespace, self.kept).await
    }
}
