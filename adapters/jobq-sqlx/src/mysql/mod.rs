//! MariaDB and MySQL.

mod outbox;
mod taken;

use jobq::outbox::{Mark, Row, mysql};
use jobq::{Error, Result};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Connection as _, MySql, MySqlConnection, Row as _};

use crate::dialect::{Dialect, methods};
use crate::errors::failed;
use crate::statement::{Statement, of_mark, of_row};
use crate::tables::{Look, Tables};

pub use outbox::MySqlOutbox;

/// The numbers of errors of a user who lacks a right on a table or a column.
const DENIED: [u16; 2] = [1142, 1143];

impl Tables for MySqlConnection {
    // The `max_allowed_packet` of a server is 16 MiB by default, and was 1 MiB.
    const BATCH_BYTES: usize = 512 * 1024;

    async fn insert(&mut self, row: &Row) -> sqlx::Result<u64> {
        MySql::execute(self, Statement::new(mysql::INSERT, &of_row(row))).await
    }

    async fn insert_many(&mut self, rows: &[Row]) -> sqlx::Result<u64> {
        let values: Vec<_> = rows.iter().flat_map(of_row).collect();
        MySql::execute(self, Statement::once(mysql::insert_many(rows.len()), &values)).await
    }

    async fn mark(&mut self, mark: &Mark) -> sqlx::Result<u64> {
        MySql::execute(self, Statement::new(mysql::MARK, &of_mark(mark))).await
    }

    /// The server is asked, too: a deadlock rolls the whole transaction back, and a statement such as
    /// CREATE TABLE commits it, of which sqlx 0.9.0 knows nothing. MySQL has no such variable. A packet
    /// that is too large would end the connection.
    async fn look(&mut self) -> sqlx::Result<Look> {
        const ASK: &str = "SELECT 1 /*M! AND @@in_transaction */, \
                           CAST(@@max_allowed_packet AS SIGNED INTEGER)";
        if !self.is_in_transaction() {
            return Ok(Look { is_begun: false, largest: None });
        }
        let answer = MySql::rows(self, Statement::new(ASK, &[])).await?;
        let row = answer.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(Look {
            is_begun: MySql::number(row, 0)? == Some(1),
            largest: MySql::number(row, 1)?.map(i64::unsigned_abs),
        })
    }

    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error {
        mysql::error(doing, number(problem), problem.message())
    }
}

impl Dialect for MySql {
    const NOW: &'static str =
        "(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000)";
    const BEGIN: &'static str = "START TRANSACTION";
    const LOCKING: &'static str = " FOR UPDATE SKIP LOCKED";
    const MIGRATION: &'static str = mysql::MIGRATION;
    const EXISTS: &'static str = "\
SELECT count(*) FROM information_schema.tables \
WHERE table_schema = database() AND table_name = 'jobq_outbox'";
    const DELETE_MARKS: &'static str = "\
DELETE FROM jobq_inbox WHERE namespace = ? \
AND done_at < (timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000) - ? LIMIT ?";
    // A range without rows would wait for the lock of the row behind it.
    const PROBES: &'static [(&'static str, &'static str)] = &[
        (
            "SELECT on jobq_outbox",
            "SELECT seq, version, namespace, queue, topic, name, job_id, enqueued_at, due_at, \
             expires_at, retry_wait, content_encoding, enqueued_by, headers, payload, tries, \
             retry_at, error FROM jobq_outbox WHERE 1 = 0",
        ),
        ("UPDATE on jobq_outbox", "UPDATE jobq_outbox SET tries = 0 WHERE 1 = 0"),
        ("DELETE on jobq_outbox", "DELETE FROM jobq_outbox WHERE 1 = 0"),
        ("SELECT on jobq_inbox", "SELECT namespace, done_at FROM jobq_inbox WHERE 1 = 0"),
        ("DELETE on jobq_inbox", "DELETE FROM jobq_inbox WHERE 1 = 0"),
    ];

    /// Under `REPEATABLE READ`, the scan of a relay would lock the end of the table, and inserts would
    /// wait for it.
    /// One for each row: by a list, MariaDB 10.11.19 reads and locks a small table from its first row on,
    /// and waits for a row there that another transaction has inserted and not committed.
    fn deletions(numbers: &[i64]) -> String {
        let each = numbers.iter().map(|seq| format!("DELETE FROM jobq_outbox WHERE seq = {seq}"));
        each.collect::<Vec<_>>().join(";")
    }

    async fn set_up(connection: &mut MySqlConnection, name: &str) -> Result<()> {
        const SETTINGS: &str =
            "SET autocommit = 1; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        let doing = format!("preparing a connection for {name}");
        let set = Self::run(connection, SETTINGS).await;
        set.map_err(|error| failed(&doing, error, MySqlConnection::meaning))
    }

    methods!();

    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error {
        MySqlConnection::meaning(doing, problem)
    }

    fn is_denied(problem: &dyn DatabaseError) -> bool {
        DENIED.contains(&number(problem))
    }
}

fn number(problem: &dyn DatabaseError) -> u16 {
    let problem = problem.try_downcast_ref::<MySqlDatabaseError>();
    problem.map(MySqlDatabaseError::number).unwrap_or_default()
}
