//! What is special about sea-orm and its transactions.

// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::{BoxError, Client, ErrorKind, JobContext};
use jobq_outbox_facts::{Note, Postgres};
use jobq_sea_orm::{Once, Within};
use sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DbBackend, MockDatabase, TransactionTrait,
};

/// The number of rows of both tables.
const ROWS: &str = "SELECT (SELECT count(*) FROM jobq_outbox) + (SELECT count(*) FROM jobq_inbox)";

/// A program: its database, connections to that, and a client.
async fn shop() -> (Postgres, DatabaseConnection, Client) {
    let database = Postgres::start();
    let db = Database::connect(database.url("postgres")).await.unwrap();
    (database, db, Client::connect("sqlite::memory:").await.unwrap())
}

fn note(text: &str) -> Note {
    Note { text: text.to_owned() }
}

fn stored(database: &Postgres) -> String {
    database.sql("SELECT convert_from(payload, 'UTF8') FROM jobq_outbox ORDER BY seq")
}

#[tokio::test]
async fn a_nested_transaction_that_is_rolled_back_loses_its_job_only() {
    let (database, db, client) = shop().await;
    let tx = db.begin().await.unwrap();
    client.enqueue(note("outer")).within(&tx).await.unwrap();
    let nested = tx.begin().await.unwrap();
    client.enqueue(note("rolled back")).within(&nested).await.unwrap();
    nested.rollback().await.unwrap();
    let nested = tx.begin().await.unwrap();
    client.enqueue(note("dropped")).within(&nested).await.unwrap();
    drop(nested);
    let nested = tx.begin().await.unwrap();
    client.enqueue(note("nested")).within(&nested).await.unwrap();
    nested.commit().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stored(&database), "{\"text\":\"outer\"}\n{\"text\":\"nested\"}");
}

#[tokio::test]
async fn a_closure_that_fails_loses_its_job() {
    let (database, db, client) = shop().await;
    for fails in [true, false] {
        let job = client.enqueue(note(if fails { "failed" } else { "done" }));
        let ended = db.transaction(|tx| {
            Box::pin(async move {
                job.within(tx).await?;
                if fails { Err(BoxError::from("no stock")) } else { Ok(()) }
            })
        });
        assert_eq!(ended.await.is_err(), fails);
    }
    assert_eq!(stored(&database), "{\"text\":\"done\"}");
}

/// In version 2.0.4 of sea-orm, a nested `begin` that fails rolls the outer transaction back. Each
/// further statement commits by itself then.
#[tokio::test]
async fn a_transaction_that_a_nested_begin_has_ended_takes_no_job() {
    let (database, db, client) = shop().await;
    let tx = db.begin().await.unwrap();
    client.enqueue(note("before")).within(&tx).await.unwrap();
    tx.execute_unprepared("SELECT 1 / 0").await.unwrap_err();
    tx.begin().await.unwrap_err();
    let job = client.enqueue(note("a")).within(&tx).await.unwrap_err();
    let named = client.enqueue_named("note", "notes", "a").within(&tx).await.unwrap_err();
    let jobs = client.enqueue_all([note("a")]).within(&tx).await.unwrap_err();
    let event = client.publish("shop.opened", "a").within(&tx).await.unwrap_err();
    let mark = JobContext::for_test().once(&tx, "pay").await.unwrap_err();
    for error in [job, named, jobs, event, mark] {
        assert!(error.is_invalid() && error.to_string().contains("has ended"), "{error}");
    }
    tx.commit().await.unwrap();
    assert_eq!(database.sql(ROWS), "0");
}

#[tokio::test]
async fn an_invalid_job_ends_the_call_before_later_ones_are_made() {
    let (_database, db, client) = shop().await;
    let tx = db.begin().await.unwrap();
    let mut made = 0;
    let jobs = (0..10).map(|number| {
        made += 1;
        note(&"x".repeat(if number == 2 { jobq::MAX_PAYLOAD } else { 1 }))
    });
    let error = client.enqueue_all(jobs).within(&tx).await.unwrap_err();
    assert!(error.to_string().contains("the payload of job"), "{error}");
    assert_eq!(made, 3);
}

#[tokio::test]
async fn another_database_is_refused_before_any_statement() {
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let db = MockDatabase::new(DbBackend::MySql).into_connection();
    let tx = db.begin().await.unwrap();
    let job = client.enqueue(note("a")).within(&tx).await.unwrap_err();
    let mark = JobContext::for_test().once(&tx, "pay").await.unwrap_err();
    for error in [job, mark] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("PostgreSQL"), "{error}");
    }
    tx.commit().await.unwrap();
    let [log] = &*db.into_transaction_log() else { panic!("it is one transaction") };
    let statements: Vec<_> = log.statements().iter().map(|statement| &*statement.sql).collect();
    assert_eq!(statements, ["BEGIN", "COMMIT"]);
}

#[tokio::test]
async fn a_lost_connection_is_told() {
    let (database, db, client) = shop().await;
    let tx = db.begin().await.unwrap();
    client.enqueue(note("a")).within(&tx).await.unwrap();
    database.sql(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity \
         WHERE state = 'idle in transaction'",
    );
    let error = client.enqueue(note("b")).within(&tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert_eq!(database.sql(ROWS), "0");
}
