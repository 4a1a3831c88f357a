//! SQLite, in a file of the program's own.

use std::future::pending;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use jobq::relay::{Settled, Source as _, Take, Taking};
use jobq::{Client, JobContext};
use jobq_outbox_facts::Database as _;
use jobq_sqlx::{Once, SqliteOutbox, Within};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{ConnectOptions as _, Connection, SqliteConnection};
use tokio::time::timeout;

use crate::adapter::OnSqlite;
use crate::file::File;
use crate::relays::{good, relays, take};
use crate::watch::{client, note};

jobq_outbox_facts::facts!(OnSqlite, without users on File);
relays!(File);

/// How long the relays of tests may hold rows.
const HOLD: Duration = Duration::from_secs(5);
/// Counts the rows of both tables.
const ROWS: &str = "SELECT (SELECT count(*) FROM jobq_outbox) + (SELECT count(*) FROM jobq_inbox)";

async fn shop() -> (File, SqliteConnection, Client) {
    let file = File::start();
    let db = SqliteConnection::connect(&file.url()).await.unwrap();
    (file, db, client().await)
}

fn options(file: &File) -> SqliteConnectOptions {
    file.url().parse().unwrap()
}

/// The rollback is done by another thread, some time later.
#[tokio::test]
async fn a_transaction_that_a_nested_begin_has_ended_takes_no_job() {
    let (file, mut db, client) = shop().await;
    for _ in 0..100 {
        let mut tx = db.begin().await.unwrap();
        client.enqueue(note("before")).within(&mut *tx).await.unwrap();
        tx.begin_with("BEGIN").await.unwrap_err();
        let after = client.enqueue(note("after")).within(&mut *tx).await.unwrap_err();
        let many = client.enqueue_all([note("after")]).within(&mut *tx).await.unwrap_err();
        let mark = JobContext::for_test().once(&mut *tx, "pay").await.unwrap_err();
        for error in [after, many, mark] {
            assert!(error.is_invalid() && error.to_string().contains("`begin()`"), "{error}");
        }
        tx.commit().await.unwrap();
    }
    assert_eq!(file.sql(ROWS), "0");
}

/// SQLite ends a transaction, and each further statement would commit by itself.
#[tokio::test]
async fn a_transaction_that_sqlite_has_ended_takes_no_job() {
    let (file, mut db, client) = shop().await;
    file.sql("CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1)");
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("before")).within(&mut *tx).await.unwrap();
    let twice = sqlx::raw_sql("INSERT OR ROLLBACK INTO orders VALUES (1)");
    twice.execute(&mut *tx).await.unwrap_err();
    let job = client.enqueue(note("after")).within(&mut *tx).await.unwrap_err();
    let mark = JobContext::for_test().once(&mut *tx, "pay").await.unwrap_err();
    for error in [job, mark] {
        assert!(error.is_invalid() && error.to_string().contains("has ended"), "{error}");
    }
    drop(tx);
    assert_eq!(file.sql(ROWS), "0");
    // The connection goes on.
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("again")).within(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(file.sql(ROWS), "1");
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_loses_its_job_only() {
    let (file, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("outer")).within(&mut *tx).await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    client.enqueue(note("rolled back")).within(&mut *nested).await.unwrap();
    nested.rollback().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(file.sql("SELECT payload FROM jobq_outbox"), "{\"text\":\"outer\"}");
}

/// Between taking rows and settling them, the relay holds no lock.
#[tokio::test]
async fn a_writer_does_not_wait_for_the_relay() {
    let (file, _db, client) = shop().await;
    file.sql(&good("a"));
    let outbox = file.outbox().await;
    let Taking::Rows { rows, taken, .. } = outbox.take(&Take::new("jobq")).await.unwrap() else {
        panic!("there is a row")
    };
    // A writer that does not wait at all.
    let mut writer = options(&file).busy_timeout(Duration::ZERO).connect().await.unwrap();
    for number in 0..20 {
        let mut tx = writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
        client.enqueue(note(&number.to_string())).within(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    // It can empty the log, for no read transaction is open.
    assert_eq!(file.sql("PRAGMA wal_checkpoint(TRUNCATE)"), "0|0|0");
    let mut settled = Settled::default();
    settled.sent = vec![rows[0].seq];
    taken.settle(settled).await.unwrap();
    assert_eq!(file.sql("SELECT count(*) FROM jobq_outbox"), "20");
    // A standby may work at once.
    let next = file.outbox().await.take(&Take::new("jobq")).await.unwrap();
    assert!(matches!(next, Taking::Rows { .. }), "{next:?}");
}

/// The process that the next test kills.
#[tokio::test]
#[ignore = "another test runs it"]
async fn a_process_with_rows_in_its_hands() {
    let outbox = SqliteOutbox::connect(std::env::var("SHOP").unwrap()).await.unwrap();
    let taking = outbox.take(&take(HOLD)).await.unwrap();
    println!("{taking:?}");
    pending::<()>().await;
}

/// Its row in `jobq_relay` stays, and holds for as long as a take.
#[tokio::test]
async fn a_relay_whose_process_is_killed_is_followed_by_the_next() {
    let (file, mut db, client) = shop().await;
    file.sql(&good("a"));
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "sqlite::a_process_with_rows_in_its_hands"])
        .env("SHOP", file.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let taken = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("Rows {")));
    let next = file.outbox().await;
    let standby = next.take(&take(HOLD)).await.unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(taken.is_some() && matches!(standby, Taking::Standby), "{taken:?} {standby:?}");
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("b")).within(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let taking = async {
        loop {
            if let Taking::Rows { rows, .. } = next.take(&take(HOLD)).await.unwrap() {
                return rows;
            }
        }
    };
    assert_eq!(timeout(HOLD * 10, taking).await.unwrap().len(), 2);
}

/// A clock that was wrong for a while stops nobody for years.
#[tokio::test]
async fn a_relay_of_the_future_holds_nothing() {
    let file = File::start();
    file.sql(&good("a"));
    file.sql("INSERT INTO jobq_relay VALUES ('jobq', 'other', 1, 4102444800000)");
    let outbox = file.outbox().await;
    let taking = outbox.take(&Take::new("jobq")).await.unwrap();
    assert!(matches!(taking, Taking::Rows { .. }), "{taking:?}");
}

/// Without rows, the log does not grow.
#[tokio::test]
async fn a_relay_without_work_writes_nothing() {
    let file = File::start();
    let outbox = file.outbox().await;
    let mut other = options(&file).busy_timeout(Duration::ZERO).connect().await.unwrap();
    let tx = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let taking = outbox.take(&Take::new("jobq")).await.unwrap();
    assert!(matches!(taking, Taking::Nothing), "{taking:?}");
    outbox.backlog("jobq").await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(file.sql("SELECT count(*) FROM jobq_relay"), "0");
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_named() {
    let file = File::start();
    let patience = |time| {
        let pool = SqlitePoolOptions::new().connect_lazy_with(options(&file).busy_timeout(time));
        SqliteOutbox::of_pool(&pool)
    };
    patience(Duration::from_secs(1)).verify().await.unwrap();
    let error = patience(Duration::ZERO).verify().await.unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("busy_timeout"), "{error}");
    let file = File::start();
    file.sql("PRAGMA journal_mode = DELETE");
    let error = SqliteOutbox::connect(file.url()).await.unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("journal_mode = WAL"), "{error}");
    let options = options(&file).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().connect_lazy_with(options);
    SqliteOutbox::of_pool(&pool).verify().await.unwrap();
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_named() {
    let (file, _db, client) = shop().await;
    let url = format!("{}?mode=ro", file.url());
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    let error = client.enqueue(note("a")).within(&mut tx).await.unwrap_err();
    assert!(error.is_refused() && error.to_string().contains("for writing"), "{error}");
    let error = SqliteOutbox::connect(&url).await.unwrap_err();
    assert!(error.is_refused() && error.to_string().contains("for writing"), "{error}");
    let error = SqliteOutbox::connect("sqlite:///nowhere/shop.db").await.unwrap_err();
    assert!(error.is_connection() && error.to_string().contains("path of the file"), "{error}");
    let error = SqliteOutbox::lazy("mysql://db/shop").unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("expected one such as"), "{error}");
}

#[tokio::test]
async fn missing_columns_are_named_and_the_tables_are_made_once() {
    let file = File::empty();
    let outbox = SqliteOutbox::lazy(file.url()).unwrap();
    assert!(outbox.migrate().await.unwrap());
    assert!(!outbox.migrate().await.unwrap());
    outbox.verify().await.unwrap();
    file.sql("ALTER TABLE jobq_outbox DROP COLUMN headers");
    let error = outbox.verify().await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("headers"), "{error}");
}

/// A transaction that has read cannot write after another one has written.
#[tokio::test]
async fn a_deferred_transaction_that_has_read_is_told_to_begin_otherwise() {
    let (file, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    let rows = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM jobq_outbox");
    rows.fetch_one(&mut *tx).await.unwrap();
    file.sql(&good("a"));
    let error = client.enqueue(note("b")).within(&mut *tx).await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("BEGIN IMMEDIATE"), "{error}");
}

/// A writer that keeps the lock for longer than the `busy_timeout`.
#[tokio::test]
async fn a_lock_that_is_held_for_too_long_is_named() {
    let (file, mut db, client) = shop().await;
    let holding = db.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let mut other = options(&file).busy_timeout(Duration::from_millis(10)).connect().await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let error = client.enqueue(note("a")).within(&mut *tx).await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("`busy_timeout`"), "{error}");
    tx.rollback().await.unwrap();
    holding.rollback().await.unwrap();
    let mut tx = other.begin().await.unwrap();
    assert!(JobContext::for_test().once(&mut *tx, "pay").await.unwrap().is_first());
    tx.commit().await.unwrap();
    assert_eq!(file.sql(ROWS), "1");
}
