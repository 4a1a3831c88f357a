//! What is special about tokio-postgres and its transactions.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::Client;
use jobq_outbox_facts::{Note, Postgres};
use jobq_tokio_postgres::Within;
use tokio_postgres::NoTls;

async fn shop() -> (Postgres, tokio_postgres::Client, Client) {
    let database = Postgres::start();
    let url = database.url("postgres");
    let (db, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (database, db, Client::connect("sqlite::memory:").await.unwrap())
}

fn note(text: &str) -> Note {
    Note { text: text.to_owned() }
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_loses_its_job_only() {
    let (database, mut db, client) = shop().await;
    let mut tx = db.transaction().await.unwrap();
    client.enqueue(note("outer")).within(&tx).await.unwrap();
    let nested = tx.transaction().await.unwrap();
    client.enqueue(note("rolled back")).within(&nested).await.unwrap();
    nested.rollback().await.unwrap();
    let nested = tx.transaction().await.unwrap();
    client.enqueue(note("dropped")).within(&nested).await.unwrap();
    drop(nested);
    let nested = tx.transaction().await.unwrap();
    client.enqueue(note("nested")).within(&nested).await.unwrap();
    nested.commit().await.unwrap();
    tx.commit().await.unwrap();
    let stored = database.sql("SELECT convert_from(payload, 'UTF8') FROM jobq_outbox ORDER BY seq");
    assert_eq!(stored, "{\"text\":\"outer\"}\n{\"text\":\"nested\"}");
}

/// PostgreSQL rolls back, and tokio-postgres 0.7.18 does not tell.
#[tokio::test]
async fn a_commit_after_an_error_stores_nothing() {
    let (database, mut db, client) = shop().await;
    let tx = db.transaction().await.unwrap();
    client.enqueue(note("before")).within(&tx).await.unwrap();
    tx.batch_execute("SELECT 1 / 0").await.unwrap_err();
    let error = client.enqueue(note("after")).within(&tx).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("roll it back"), "{error}");
    tx.commit().await.unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM jobq_outbox"), "0");
}
