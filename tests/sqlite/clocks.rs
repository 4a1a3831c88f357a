//! Clocks that are set, forward and back: no job is taken from a process that lives, and none stays
//! with one that died. A row of an owner that says another time is what such a clock leaves.

use jobq::engine::conformance::EngineExt as _;
use std::time::{Duration, Instant};

use jobq::engine::Settlement;
use jobq::engine::conformance::{eventually, open_with_lease, soon};
use jobq_tests::files::Directory;
use jobq_tests::jobs::{job, push, ready, with};

use super::places::{assert_says, refusal};
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

/// An engine that others took for dead, and that went on: it takes no job under the number of the
/// row that they removed, and the jobs that it had are no longer its own.
#[tokio::test]
async fn an_engine_takes_no_job_once_its_row_is_gone() {
    let directory = Directory::new();
    let engine = open_with_lease(&directory.url("jobs.db"), "jobq", LONG).await.unwrap();
    ready(&*engine, "mail").await;
    let pushed = push(&*engine, "mail", 1).await;
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    let first = take(&mut consumer).await;
    let file = connection(&directory);
    let removed: i64 = file.query_row("SELECT id FROM owners", [], |row| row.get(0)).unwrap();
    file.execute_batch("BEGIN IMMEDIATE; DELETE FROM owners; UPDATE jobs SET owner = NULL; COMMIT")
        .unwrap();

    // Its next transaction, long before it would renew its lease.
    let later = push(&*engine, "mail", 1).await;
    let again = take(&mut consumer).await;
    assert_eq!(again.envelope().id, pushed[0]);
    assert_ne!(again.epoch(), first.epoch(), "so that a pool holds it back");
    let owners = "SELECT (SELECT count(*) FROM jobs WHERE owner = ?1),
        (SELECT count(*) FROM jobs WHERE owner IN (SELECT id FROM owners))";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    assert_eq!(file.query_row(owners, [removed], row).unwrap(), (0, 1));
    let error = soon("an answer", first.settle(Settlement::Retry(LONG))).await.unwrap_err();
    assert_eq!(error.kind(), jobq::ErrorKind::Stale);
    soon("a settlement", again.settle(Settlement::Complete)).await.unwrap();
    assert_eq!(take(&mut consumer).await.envelope().id, later[0]);
}

/// `unshare` with a clock since boot that is ahead; `None`, said aloud, where the machine has no time
/// namespaces or this user may not make one.
#[cfg(target_os = "linux")]
fn in_a_time_namespace(test: &str) -> Option<[&'static str; 5]> {
    const UNSHARE: [&str; 5] = ["unshare", "--time", "--boottime", "1000", "--"];
    let tried = std::process::Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").output();
    if tried.is_ok_and(|output| output.status.success()) {
        return Some(UNSHARE);
    }
    eprintln!(
        "SKIPPED: {test} needs root, `unshare` of util-linux and time namespaces (Linux 5.6)"
    );
    None
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_in_another_time_namespace_is_refused() {
    let test = "a_process_in_another_time_namespace_is_refused";
    let Some(unshare) = in_a_time_namespace(test) else { return };
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LONG).await.unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap().display().to_string();
    let mut child = tokio::process::Command::new(unshare[0]);
    child.args(&unshare[1..]).args([env!("CARGO_BIN_EXE_sqlite_process"), &url, "2000", "push"]);
    let ended = soon("its end", child.kill_on_drop(true).output()).await.unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && told.contains(&namespace), "{told}");
    assert!(
        told.matches("time:[").count() >= 2 && told.contains("in one time namespace"),
        "{told}"
    );
    assert_eq!(engine.admin().queues().await.unwrap().names.len(), 0, "it wrote nothing");
    engine.close().await;

    // A file that began in the other one, whose process goes on.
    let mut process = Process::start_by(&unshare, &directory.url("other.db"), LONG, "hold");
    assert_eq!(process.ask("waits").await, "ready");
    let error = refusal(&directory.file("other.db")).await;
    let fragments = ["a different clock", &namespace, "in one time namespace"];
    assert_says(&error, jobq::ErrorKind::Refused, &fragments);
    assert_eq!(process.ask("waits").await, "ready");
}
