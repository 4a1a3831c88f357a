//! What is special about sqlx and its transactions.

// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::{Client, JobContext};
use jobq_outbox_facts::{Note, Postgres};
use jobq_sqlx::{Once, Within};
use sqlx::{Connection, PgConnection};

/// Counts the rows of both tables.
const ROWS: &str = "SELECT (SELECT count(*) FROM jobq_outbox) + (SELECT count(*) FROM jobq_inbox)";

/// A program: its database, a connection to that, and a client.
async fn shop() -> (Postgres, PgConnection, Client) {
    let database = Postgres::start();
    let db = PgConnection::connect(&database.url("postgres")).await.unwrap();
    (database, db, Client::connect("sqlite::memory:").await.unwrap())
}

fn note(text: &str) -> Note {
    Note { text: text.to_owned() }
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_loses_its_job_only() {
    let (database, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("outer")).within(&mut *tx).await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    client.enqueue(note("rolled back")).within(&mut *nested).await.unwrap();
    nested.rollback().await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    client.enqueue(note("dropped")).within(&mut *nested).await.unwrap();
    drop(nested);
    let mut nested = tx.begin().await.unwrap();
    client.enqueue(note("nested")).within(&mut *nested).await.unwrap();
    nested.commit().await.unwrap();
    tx.commit().await.unwrap();
    let stored = database.sql("SELECT convert_from(payload, 'UTF8') FROM jobq_outbox ORDER BY seq");
    assert_eq!(stored, "{\"text\":\"outer\"}\n{\"text\":\"nested\"}");
}

#[tokio::test]
async fn without_a_transaction_nothing_is_written() {
    let (database, mut db, client) = shop().await;
    let job = client.enqueue(note("a")).within(&mut db).await.unwrap_err();
    let jobs = client.enqueue_all([note("a")]).within(&mut db).await.unwrap_err();
    let mark = JobContext::for_test().once(&mut db, "pay").await.unwrap_err();
    for error in [job, jobs, mark] {
        assert!(error.is_invalid() && error.to_string().contains("`begin()`"), "{error}");
    }
    assert_eq!(database.sql(ROWS), "0");
}

/// In version 0.9.0 of sqlx, a nested `begin` that fails rolls the outer transaction back. Each
/// further statement commits by itself then.
#[tokio::test]
async fn a_transaction_that_a_nested_begin_has_ended_takes_no_job() {
    let (database, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("before")).within(&mut *tx).await.unwrap();
    sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    tx.begin().await.unwrap_err();
    let after = client.enqueue(note("after")).within(&mut *tx).await.unwrap_err();
    assert!(after.is_invalid(), "{after}");
    let mark = JobContext::for_test().once(&mut *tx, "pay").await.unwrap_err();
    assert!(mark.is_invalid(), "{mark}");
    tx.commit().await.unwrap();
    assert_eq!(database.sql(ROWS), "0");
}

#[tokio::test]
async fn rows_are_the_same_one_by_one_and_in_a_batch() {
    let (database, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("a")).within(&mut *tx).await.unwrap();
    client.enqueue_all([note("a")]).within(&mut *tx).await.unwrap();
    let job = client.enqueue(note("ä")).delay("1m").expires_in("1h").header("tenant", "a\"b");
    job.within(&mut *tx).await.unwrap();
    let jobs = client.enqueue_all([note("ä")]).delay("1m").expires_in("1h");
    jobs.header("tenant", "a\"b").within(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    // Without the columns that differ: `seq`, `job_id` and `enqueued_at`.
    let kinds = "SELECT count(*) FROM (SELECT DISTINCT version, namespace, queue, topic, name, \
                 due_at - enqueued_at, expires_at - enqueued_at, retry_wait, \
                 content_encoding, enqueued_by, headers::text, payload, tries FROM jobq_outbox) x";
    assert_eq!(database.sql(kinds), "2", "{}", database.sql("TABLE jobq_outbox"));
}

#[tokio::test]
async fn an_invalid_job_ends_the_call_before_later_ones_are_made() {
    let (_database, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    let mut made = 0;
    let jobs = (0..1_000).map(|number| {
        made += 1;
        note(&"x".repeat(if number == 600 { jobq::MAX_PAYLOAD } else { 1 }))
    });
    let error = client.enqueue_all(jobs).within(&mut tx).await.unwrap_err();
    assert!(error.to_string().contains("the payload of job"), "{error}");
    assert_eq!(made, 601);
    // The rows before it are there, as far as they filled a statement.
    let rows = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM jobq_outbox");
    assert_eq!(rows.fetch_one(&mut *tx).await.unwrap(), 500);
}

#[tokio::test]
async fn large_jobs_take_several_statements() {
    const JOBS: usize = 11;
    let (database, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    let megabyte = "x".repeat(1_000_000);
    let jobs = (0..JOBS).map(|number| note(&format!("{number}{megabyte}")));
    let ids = client.enqueue_all(jobs).within(&mut *tx).await.unwrap();
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    tx.commit().await.unwrap();
    let stored = database.sql("SELECT job_id FROM jobq_outbox ORDER BY seq");
    assert_eq!(stored, ids.join("\n"));
}
