//! Clocks that are set, forward and back: no job is taken from a process that lives, and none stays
//! with one that died. A row of an owner that says another time is what such a clock leaves.

use jobq::engine::conformance::EngineExt as _;
use std::time::{Duration, Instant};

use jobq::engine::Settlement;
use jobq::engine::conformance::{eventually, open_with_lease, soon};
use jobq_tests::files::Directory;
use jobq_tests::jobs::{job, push, ready, with};

use super::{LEASE, LONG, Process, take};

/// Another connection to the same file, as that of another process.
fn connection(directory: &Directory) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    file.busy_timeout(LONG).unwrap();
    file
}

#[tokio::test]
async fn a_process_that_starts_with_a_clock_ahead_takes_no_job_from_another() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LONG).await.unwrap();
    ready(&*engine, "mail").await;
    let pushed = push(&*engine, "mail", 3).await;
    let mut process = Process::start(&url, LONG, "hold");
    assert_eq!(process.ask("next").await, format!("taken {} 1", pushed[0]));
    // One is in hand, two are taken ahead.
    eventually("jobs taken ahead", 0.into(), || async {
        engine.admin().counts("mail").await.unwrap().ready
    })
    .await;

    // To a clock that is ahead, every time is long over.
    let file = connection(&directory);
    file.execute("UPDATE owners SET until = 1", []).unwrap();
    let other = open_with_lease(&url, "jobq", LONG).await.unwrap();
    let mut consumer = other.consume_from("mail", 10).await.unwrap();
    let later = push(&*engine, "mail", 1).await;
    assert_eq!(take(&mut consumer).await.envelope().id, later[0], "and none of those");
    assert_eq!(process.ask("retry").await, "settled", "it is still its own");
}

/// Takes over what a killed process held, whose row says a time that is far away. Gives how long
/// that took from its last sign on.
async fn is_taken_over(lease: Duration, hide_process: bool) -> Duration {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", lease).await.unwrap();
    ready(&*engine, "mail").await;
    let pushed = push(&*engine, "mail", 1).await;
    // It does not renew its lease any more, so that its row stays as it is set here.
    let mut process = Process::start(&url, LONG, "hold");
    assert_eq!(process.ask("next").await, format!("taken {} 1", pushed[0]));
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    let file = connection(&directory);
    eventually("two owners", 2, || async {
        file.query_row("SELECT count(*) FROM owners", [], |row| row.get::<_, i64>(0)).unwrap()
    })
    .await;
    let process_of = if hide_process { "NULL" } else { "process" };
    let sql = format!("UPDATE owners SET until = 9000000000000000, process = {process_of}");
    let silent_since = Instant::now();
    file.execute(&sql, []).unwrap();
    process.kill().await;
    assert_eq!(take(&mut consumer).await.envelope().id, pushed[0]);
    let took = silent_since.elapsed();
    soon("the end", engine.close()).await;
    took
}

#[tokio::test]
async fn the_job_of_a_dead_process_is_taken_over_whatever_the_clock_was() {
    assert!(is_taken_over(LEASE, true).await >= LEASE, "until then nobody knows that it died");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_end_of_a_process_on_the_same_machine_is_seen_before_its_lease_is_over() {
    assert!(is_taken_over(LONG, false).await < LONG / 2);
}

/// The time of day was another when the file was opened first after the machine started, and was
/// set since then.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_clock_that_was_set_makes_no_job_wait_and_none_early() {
    const WAIT: Duration = Duration::from_millis(300);
    for hours in [-1, 1] {
        let directory = Directory::new();
        let url = directory.url("jobs.db");
        open_with_lease(&url, "jobq", LONG).await.unwrap().close().await;
        let sql = "UPDATE clock SET ahead = ahead + ?1 * 3600000";
        connection(&directory).execute(sql, [hours]).unwrap();

        let engine = open_with_lease(&url, "jobq", LONG).await.unwrap();
        ready(&*engine, "mail").await;
        let pushed = Instant::now();
        let delayed = with(job("mail"), |job| job.delay = WAIT);
        let last = delayed.id;
        engine.push(delayed).await.unwrap();
        let at_once = push(&*engine, "mail", 3).await;
        assert_eq!(engine.admin().counts("mail").await.unwrap().ready, 3);
        let mut consumer = engine.consume_from("mail", 10).await.unwrap();
        for id in at_once {
            let delivery = take(&mut consumer).await;
            assert_eq!(delivery.envelope().id, id, "in their order");
            soon("a settlement", delivery.settle(Settlement::Complete)).await.unwrap();
        }
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().id, last);
        assert!(pushed.elapsed() >= WAIT);
        let failed = Instant::now();
        soon("a settlement", delivery.settle(Settlement::Retry(WAIT))).await.unwrap();
        assert_eq!(take(&mut consumer).await.attempt, 2);
        assert!(failed.elapsed() >= WAIT);
    }
}
