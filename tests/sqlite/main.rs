//! What is special about the embedded engine: the file, several processes on it, and
//! what becomes of the jobs of a process that dies or hangs.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::engine::conformance::EngineExt as _;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use jobq::JobId;
use jobq::engine::conformance::{eventually, open, open_with_lease, soon};
use jobq::engine::{Consumer, Delivery, Settlement};
use jobq_tests::files::Directory;
use jobq_tests::jobs::{job, push, ready};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

mod clocks;
mod control;
mod doctor;
mod full;
mod outbox;
mod places;
mod schemas;
mod seats;

/// Short enough to be waited for, long enough for a machine with much else to do: a
/// process that gets no turn for as long loses its jobs.
const LEASE: Duration = Duration::from_secs(2);
/// Long enough not to end within a test.
const LONG: Duration = Duration::from_secs(600);

/// Another process on the same file.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(url: &str, lease: Duration, mode: &str) -> Self {
        Self::start_by(&[], url, lease, mode)
    }

    /// Starts it by a program, with arguments, that runs another.
    fn start_by(by: &[&str], url: &str, lease: Duration, mode: &str) -> Self {
        let lease = lease.as_millis().to_string();
        let mut words = [by, &[env!("CARGO_BIN_EXE_sqlite_process"), url, &lease, mode]].concat();
        let mut child = Command::new(words.remove(0))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, input, output }
    }

    async fn line(&mut self) -> Option<String> {
        soon("another process", self.output.next_line()).await.expect("readable")
    }

    async fn ask(&mut self, question: &str) -> String {
        self.tell(question).await;
        self.line().await.expect("an answer")
    }

    async fn tell(&mut self, what: &str) {
        self.input.write_all(format!("{what}\n").as_bytes()).await.expect("written");
    }

    /// Kills it as `kill -9` does, and gives what it had said before.
    async fn kill(mut self) -> Vec<String> {
        self.child.kill().await.expect("killed");
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            lines.push(line);
        }
        lines
    }

    /// Stops it (`STOP`) as a debugger would, or lets it go on (`CONT`).
    async fn signal(&self, signal: &str) {
        let id = self.child.id().expect("alive").to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &id]).status().await;
        assert!(status.expect("kill runs").success());
    }
}

fn id_of(line: &str) -> JobId {
    line.split(' ').nth(1).expect("an id").parse().expect("an id")
}

async fn take(consumer: &mut Consumer) -> Delivery {
    soon("a job", consumer.next()).await.expect("goes on").expect("a job")
}

/// Takes and completes all jobs of the queue.
async fn drain(consumer: &mut Consumer, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let delivery = take(consumer).await;
        ids.push(delivery.envelope().id);
        soon("a settlement", delivery.settle(Settlement::Complete)).await.expect("settles");
    }
    ids
}

#[tokio::test]
async fn what_was_accepted_survives_a_kill() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let mut process = Process::start(&url, LONG, "push");
    let mut said = Vec::new();
    while said.len() < 300 {
        said.push(process.line().await.expect("goes on"));
    }
    said.extend(process.kill().await);
    // The last line may be cut off.
    let accepted: BTreeSet<_> =
        said.iter().filter(|line| line.len() == 45).map(|l| id_of(l)).collect();
    assert!(accepted.len() >= 300);

    let engine = open(&url, "jobq").await.unwrap();
    let stored =
        usize::try_from(*engine.admin().counts("mail").await.unwrap().ready.known().unwrap())
            .unwrap();
    let mut consumer = engine.consume_from("mail", 100).await.unwrap();
    let found = drain(&mut consumer, stored).await;
    let unique: BTreeSet<_> = found.iter().copied().collect();
    assert_eq!(unique.len(), found.len(), "none came twice");
    assert!(accepted.is_subset(&unique), "an accepted job is lost");
}

#[tokio::test]
async fn the_jobs_of_a_killed_process_are_taken_over_as_the_same_attempt() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LEASE).await.unwrap();
    ready(&*engine, "mail").await;
    let pushed = push(&*engine, "mail", 2).await;
    let mut process = Process::start(&url, LEASE, "hold");
    // One in hand and on its second attempt, one taken ahead.
    assert_eq!(process.ask("next").await, format!("taken {} 1", pushed[0]));
    assert_eq!(process.ask("retry").await, "settled");
    assert_eq!(process.ask("next").await, format!("taken {} 1", pushed[1]));
    assert_eq!(process.ask("next").await, format!("taken {} 2", pushed[0]));

    let mut consumer = engine.consume_from("mail", 2).await.unwrap();
    process.kill().await;
    let mut taken = [take(&mut consumer).await, take(&mut consumer).await]
        .map(|delivery| (delivery.envelope().id, delivery.attempt));
    taken.sort_by_key(|(_, attempt)| *attempt);
    assert_eq!(taken, [(pushed[1], 1), (pushed[0], 2)]);
}

#[tokio::test]
async fn a_process_that_lives_keeps_its_job_for_longer_than_its_lease() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let worker = open_with_lease(&url, "jobq", LEASE).await.unwrap();
    ready(&*worker, "mail").await;
    let pushed = push(&*worker, "mail", 1).await;
    let mut busy = worker.consume_from("mail", 1).await.unwrap();
    let long = take(&mut busy).await;
    let other = open_with_lease(&url, "jobq", LEASE).await.unwrap();
    let mut idle = other.consume_from("mail", 10).await.unwrap();

    // Both owners have renewed their leases several times.
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    let leases = || {
        let mut statement = file.prepare_cached("SELECT until FROM owners ORDER BY id").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<i64>>()
    };
    eventually("two owners", 2, || async { leases().len() }).await;
    let start = leases();
    let enough = 2 * i64::try_from(LEASE.as_millis()).unwrap();
    eventually("renewals", true, || async {
        leases().iter().zip(&start).all(|(now, then)| now - then > enough)
    })
    .await;

    let later = push(&*worker, "mail", 1).await;
    assert_eq!(take(&mut idle).await.envelope().id, later[0]);
    let answer = soon("a settlement", long.settle(Settlement::Retry(LONG))).await;
    answer.expect("still its own");
    assert_eq!(worker.admin().counts("mail").await.unwrap().waiting, 1, "{}", pushed[0]);
}

#[tokio::test]
async fn a_process_that_was_held_up_cannot_settle_what_others_took_over() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LEASE).await.unwrap();
    ready(&*engine, "mail").await;
    let pushed = push(&*engine, "mail", 3).await;
    let mut process = Process::start(&url, LEASE, "hold");
    // One is in hand, two are taken ahead.
    assert_eq!(process.ask("next").await, format!("taken {} 1", pushed[0]));
    eventually("jobs taken ahead", 0.into(), || async {
        engine.admin().counts("mail").await.unwrap().ready
    })
    .await;

    // Not while it writes: it would keep the file's lock for as long as it sleeps.
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    file.busy_timeout(LONG).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    process.signal("STOP").await;
    file.execute_batch("ROLLBACK").unwrap();
    let mut consumer = engine.consume_from("mail", 3).await.unwrap();
    let taken = [take(&mut consumer).await, take(&mut consumer).await, take(&mut consumer).await];
    assert_eq!(taken.each_ref().map(|delivery| delivery.envelope().id)[..], pushed);
    assert!(taken.iter().all(|delivery| delivery.attempt == 1));
    soon("a stop", consumer.stop()).await;

    process.signal("CONT").await;
    assert_eq!(process.ask("retry").await, "Stale");
    // It goes on with what comes, and not with what it had taken ahead.
    process.tell("next").await;
    let later = push(&*engine, "mail", 1).await;
    assert_eq!(process.line().await, Some(format!("taken {} 1", later[0])));
    for delivery in taken {
        soon("a settlement", delivery.settle(Settlement::Retry(LONG))).await.expect("settles");
    }
    assert_eq!(engine.admin().counts("mail").await.unwrap().waiting, 3);
}

#[tokio::test]
async fn processes_share_a_queue_without_doing_a_job_twice() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open(&url, "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let mut processes = [Process::start(&url, LONG, "work"), Process::start(&url, LONG, "work")];
    let pushed: BTreeSet<_> = push(&*engine, "mail", 1_000).await.into_iter().collect();

    let mut done = Vec::new();
    while done.len() < 1_000 {
        let [one, other] = &mut processes;
        let line = tokio::select! {
            line = one.line() => line,
            line = other.line() => line,
        };
        done.push(id_of(&line.expect("goes on")));
    }
    let unique: BTreeSet<_> = done.iter().copied().collect();
    assert_eq!(unique, pushed);
    // Completions are written a moment later.
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    eventually("jobs in the file", 0, || async {
        file.query_row("SELECT count(*) FROM jobs", [], |row| row.get::<_, i64>(0)).unwrap()
    })
    .await;
}

#[tokio::test]
async fn many_may_open_a_new_file_at_the_same_moment() {
    let directory = Directory::new();
    // Many files: each is new for a moment only.
    for round in 0..20 {
        let url = directory.url(&format!("jobs-{round}.db"));
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let url = url.clone();
            opening.spawn(async move { open(&url, "jobq").await });
        }
        let engines = soon("the file to be opened", opening.join_all()).await;
        for engine in engines {
            ready(&*engine.expect("opens"), "mail").await;
        }
    }
}

#[tokio::test]
async fn the_file_is_safe_against_power_cuts_and_says_whose_it_is() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    let text = |sql| file.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    let number = |sql| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    assert_eq!(number("PRAGMA application_id"), i64::from(u32::from_be_bytes(*b"jobq")));
    assert!(number("PRAGMA user_version") > 0);
    drop(file);

    // Whoever closes it last leaves one file behind: no connection is forgotten.
    let log = directory.file("jobs.db-wal");
    assert!(log.exists());
    engine.close().await;
    assert!(!log.exists());
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    assert!(log.exists());
    drop(engine);
    eventually("a log", false, || async { log.exists() }).await;
}

#[tokio::test]
async fn namespaces_share_a_file_and_nothing_else() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let (shop, blog) = (open(&url, "shop").await.unwrap(), open(&url, "blog").await.unwrap());
    ready(&*shop, "mail").await;
    assert!(blog.consume_from("mail", 1).await.unwrap_err().is_not_found());
    ready(&*blog, "mail").await;
    let (one, two) = (push(&*shop, "mail", 1).await, push(&*blog, "mail", 1).await);
    for (engine, expected) in [(&blog, &two), (&shop, &one)] {
        let mut consumer = engine.consume_from("mail", 10).await.unwrap();
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().id, expected[0]);
        assert_eq!(engine.admin().counts("mail").await.unwrap().ready, 0);
    }
}

#[tokio::test]
async fn a_queue_must_be_declared_before_it_is_pushed_to() {
    let engine = open("sqlite::memory:", "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    // More than one transaction takes.
    let mut jobs = (0..3_000).map(|number| job(if number == 2_500 { "nowhere" } else { "mail" }));
    let not_pushed = engine.push_all(&mut jobs).await;
    let [(2_500, error)] = not_pushed.as_slice() else {
        panic!("{not_pushed:?}");
    };
    assert!(error.is_not_found() && error.to_string().contains("`nowhere`"), "{error}");
    assert!(!error.maybe_enqueued());
    assert_eq!(engine.admin().counts("mail").await.unwrap().ready, 2_999);
}
