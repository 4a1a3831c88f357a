//! Rows that a program inserts in its own transactions become jobs of the file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobq::engine::conformance::{EngineExt as _, eventually, open, open_with_lease, soon};
use jobq::engine::{Disposition, Engine, Next, QueueSpec, Scope};
use jobq_tests::files::Directory;
use jobq_tests::jobs::ready;
use rusqlite::Connection;

use super::{LEASE, LONG, Process, drain, take};

fn connect(directory: &Directory) -> Connection {
    let db = Connection::open(directory.file("jobs.db")).unwrap();
    db.busy_timeout(LONG).unwrap();
    db
}

/// Inserts a row with these columns and values.
fn insert(db: &Connection, columns: &str, values: &str) {
    let sql = format!(
        "INSERT INTO jobq_outbox (job_id, payload{columns})
        VALUES ('0199d1a2-0000-7000-8000-000000000007', CAST('{{}}' AS BLOB){values})"
    );
    db.execute_batch(&sql).unwrap();
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn rows(db: &Connection) -> i64 {
    number(db, "SELECT count(*) FROM jobq_outbox")
}

async fn waiting(engine: &dyn Engine) -> u64 {
    *engine.admin().counts("mail").await.unwrap().waiting.known().unwrap()
}

/// The error of a row is noted there, and it is tried again.
#[tokio::test]
async fn a_row_that_is_refused_holds_up_no_other() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let db = connect(&directory);
    for (columns, values) in [
        (", queue", ", 'absent'"),
        (", queue, version", ", 'mail', 2"),
        ("", ""),
        (", queue, headers", ", 'mail', '[]'"),
        (", queue, headers", r#", 'mail', '{"jobq-priority": "high"}'"#),
        (", queue", ", CAST(x'ff' AS TEXT)"),
        (", queue", ", 'mail'"),
    ] {
        insert(&db, columns, values);
    }
    let large = "UPDATE jobq_outbox SET payload = zeroblob(16777217), queue = 'mail' WHERE seq = 3";
    db.execute_batch(large).unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    drain(&mut consumer, 1).await;
    let sql = "SELECT tries || ' ' || (retry_at > 0) || ' ' || error FROM jobq_outbox ORDER BY seq";
    let mut statement = db.prepare(sql).unwrap();
    let found: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let expected = [
        "queue `absent` does not exist",
        "update the program",
        "16777217 bytes",
        "a JSON object of texts",
        "has no priorities",
        "queue",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with("1 1 ") && found.contains(expected), "{found}");
    }
    // Somebody has seen to it.
    ready(&*engine, "absent").await;
    engine.declare(&[QueueSpec::new("mail").priorities()]).await.unwrap();
    let mended = "UPDATE jobq_outbox SET retry_at = NULL WHERE seq IN (1, 5)";
    db.execute_batch(mended).unwrap();
    let mut absent = engine.consume_from("absent", 1).await.unwrap();
    drain(&mut absent, 1).await;
    assert_eq!(rows(&db), 4);
}

#[tokio::test]
async fn rows_of_later_and_of_other_namespaces_wait() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let db = connect(&directory);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let later = i64::try_from((now + LONG).as_millis()).unwrap();
    insert(&db, ", queue, due_at", &format!(", 'mail', {later}"));
    insert(&db, ", queue, retry_at", &format!(", 'mail', {later}"));
    insert(&db, ", queue, namespace", ", 'mail', 'other'");
    insert(&db, ", queue", ", 'mail'");
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    drain(&mut consumer, 1).await;
    assert_eq!((waiting(&*engine).await, rows(&db)), (1, 2));
    let due = number(&db, "SELECT due FROM jobs");
    assert!((due - later).abs() < 5_000, "{due} is not {later}");
    let other = open(&directory.url("jobs.db"), "other").await.unwrap();
    ready(&*other, "mail").await;
    let mut consumer = other.consume_from("mail", 1).await.unwrap();
    drain(&mut consumer, 1).await;
    assert_eq!(rows(&db), 1);
}

/// More rows than one transaction takes.
#[tokio::test]
async fn rows_become_jobs_in_their_order() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let mut db = connect(&directory);
    let tx = db.transaction().unwrap();
    for number in 0..1_200 {
        insert(&tx, ", queue, name", &format!(", 'mail', 'job-{number}'"));
    }
    tx.commit().unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    for number in 0..1_200 {
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().name.as_deref(), Some(&*format!("job-{number}")));
        delivery.settle(jobq::engine::Settlement::Complete).await.unwrap();
    }
    assert_eq!(rows(&db), 0);
}

/// A move takes them, without a pool on the file.
#[tokio::test]
async fn rows_depart_with_the_jobs() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let mut db = connect(&directory);
    let tx = db.transaction().unwrap();
    for _ in 0..1_200 {
        insert(&tx, ", queue", ", 'mail'");
    }
    insert(&tx, ", queue", ", 'absent'");
    tx.commit().unwrap();
    let depart = engine.depart().unwrap();
    let mut departing = depart.depart(Scope::Queue("mail".to_owned())).await.unwrap();
    let mut departed = 0;
    while let Next::Taken(batch) = soon("jobs", departing.next()).await.unwrap() {
        departed += batch.len();
        departing.settle(vec![Disposition::Removed; batch.len()]).await.unwrap();
    }
    assert_eq!((departed, rows(&db)), (1_200, 1));
}

/// A program has made other tables of these names: its jobs run nevertheless.
#[tokio::test]
async fn tables_that_are_not_those_of_jobq_stop_no_job() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let db = connect(&directory);
    db.execute_batch(
        "DROP TABLE jobq_outbox; CREATE TABLE jobq_outbox (id); DROP TABLE jobq_inbox",
    )
    .unwrap();
    db.execute_batch("INSERT INTO jobq_outbox VALUES (1)").unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    jobq_tests::jobs::push(&*engine, "mail", 1).await;
    drain(&mut consumer, 1).await;
    assert_eq!(rows(&db), 1);
}

#[tokio::test]
async fn old_marks_are_deleted() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let db = connect(&directory);
    for (step, days) in [("old", 31), ("young", 29)] {
        let done_at = format!("(julianday('now') - 2440587.5 - {days}) * 86400000");
        let values =
            format!("VALUES ('jobq', 'mail', 'mail', 'a', '{step}', CAST({done_at} AS INTEGER))");
        db.execute_batch(&format!("INSERT INTO jobq_inbox {values}")).unwrap();
    }
    let _consumer = engine.consume_from("mail", 1).await.unwrap();
    let steps = || async { number(&db, "SELECT count(*) FROM jobq_inbox") };
    eventually("marks", 1, steps).await;
    assert_eq!(number(&db, "SELECT step = 'young' FROM jobq_inbox"), 1);
}

/// A row and its job are never both there, and never both gone.
#[tokio::test]
async fn kills_of_the_pool_lose_no_row_and_repeat_none() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LEASE).await.unwrap();
    ready(&*engine, "mail").await;
    let inserting = std::thread::spawn({
        let mut db = connect(&directory);
        move || {
            let mut committed = 0;
            for number in 0..3_000 {
                let tx = db.transaction().unwrap();
                insert(&tx, ", queue, name", &format!(", 'mail', 'job-{number}'"));
                if number % 3 == 0 {
                    tx.rollback().unwrap();
                } else {
                    tx.commit().unwrap();
                    committed += 1;
                }
                // SQLite lets the next one in line wait without a turn.
                std::thread::sleep(Duration::from_millis(1));
            }
            committed
        }
    });
    let db = connect(&directory);
    let jobs = || number(&db, "SELECT count(*) FROM jobs");
    let mut kills = 0;
    while !inserting.is_finished() {
        let process = Process::start(&url, LEASE, "hold");
        let enough = jobs() + 20;
        eventually("jobs", true, || async { jobs() > enough || inserting.is_finished() }).await;
        process.kill().await;
        kills += 1;
    }
    assert!(kills > 3, "{kills} kills");
    let committed: i64 = inserting.join().unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    take(&mut consumer).await;
    eventually("no rows", 0, || async { rows(&db) }).await;
    assert_eq!(jobs(), committed, "after {kills} kills");
    let names = number(&db, "SELECT count(DISTINCT name) FROM jobs");
    assert_eq!(names, committed, "after {kills} kills");
}
