//! Nothing is lost, whatever dies: things are killed at random moments under load, and at
//! the end a ledger that is none of jobq's is compared with what jobq has.
//!
//! `JOBQ_SOAK=full`, or `./tests/run --soak`, kills many times; else, in `./tests/run --all`, each
//! scenario is short.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobq::{Client, FailedJob, FailedReason};
use jobq_tests::account::{Account, Report};
use jobq_tests::files::Directory;
use jobq_tests::test_store::Store;

mod broker;
mod cluster;
mod deleted;
mod file;
mod moving;
mod outbox;
mod priorities;
mod schedules;
mod tokens;
mod workers;

/// How long nothing may happen before what is missing is lost: more than the three minutes
/// for which a broker that crashed may hold back a job, or the lease of a dead process.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long nothing happens before it is looked at why.
const QUIET: Duration = Duration::from_secs(5);
/// How often a job is started alone before it fails as poison.
const STARTS_ALONE: usize = 3;
/// How many failed jobs are looked at.
const MANY: usize = 1_000_000;

/// One number for every run, or another for `JOBQ_SOAK=full`.
fn rounds(short: usize, full: usize) -> usize {
    if is_full() { full } else { short }
}

fn is_full() -> bool {
    std::env::var("JOBQ_SOAK").is_ok_and(|value| value == "full")
}

/// The ledger of one scenario, and what is read of it.
struct Books {
    _folder: Directory,
    path: PathBuf,
    account: Account,
    began: Instant,
}

impl Books {
    fn open() -> Self {
        let folder = Directory::new();
        let path = folder.file("ledger");
        Self { _folder: folder, path, account: Account::default(), began: Instant::now() }
    }

    /// Reads on until the ledger says this.
    async fn until(&mut self, what: &str, says: impl Fn(&Account) -> bool) {
        let mut changed = Instant::now();
        loop {
            let lines = self.account.lines();
            self.account.read(&self.path);
            if says(&self.account) {
                return;
            }
            if self.account.lines() > lines {
                changed = Instant::now();
            }
            assert!(changed.elapsed() < PATIENCE, "nothing happens: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until so many more jobs were accepted, and as many have ended.
    async fn progress(&mut self, more: usize) {
        self.account.read(&self.path);
        let (accepted, ended) = self.account.progress();
        let enough = |account: &Account| {
            let now = account.progress();
            now.0 >= accepted + more && now.1 >= ended + more
        };
        self.until("no job is accepted or ends", enough).await;
    }

    /// Waits until all jobs have ended, or nothing happens any more, and compares. Nobody
    /// enqueues by now.
    async fn close(&mut self, scenario: &str, rounds: usize, client: &Client) -> Report {
        let mut changed = Instant::now();
        let (failed, still_there) = loop {
            let lines = self.account.lines();
            self.account.read(&self.path);
            if self.account.lines() > lines {
                changed = Instant::now();
            }
            if self.account.is_over() || changed.elapsed() > QUIET {
                let (failed, left) = stock(client).await;
                if self.retry(client, &failed).await {
                    changed = Instant::now();
                    continue;
                }
                let settled = left == 0 && self.account.not_among(&failed) == 0;
                let over = settled && self.account.is_over();
                if over || changed.elapsed() > PATIENCE {
                    break (failed, left);
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        for job in &failed {
            if !matches!(job.reason(), FailedReason::Exhausted | FailedReason::Aborted) {
                println!("{} failed, {:?}: {}", job.id(), job.reason(), job.error());
            }
        }
        // What ran twice at the very end.
        self.account.read(&self.path);
        let failed: Vec<_> = failed.iter().map(FailedJob::id).collect();
        let report = self.account.judge(&failed, still_there);
        let seconds = self.began.elapsed().as_secs();
        println!("{scenario}: {rounds} times, {seconds} s: {report}");
        report
    }

    /// Retries what failed as poison and was in flight when workers were killed by this test,
    /// as a person would who knows of that; true if there was any.
    async fn retry(&self, client: &Client, failed: &[FailedJob]) -> bool {
        let taken_for_poison = |job: &&FailedJob| {
            job.reason() == FailedReason::Poison && self.account.deaths(job.id()) >= STARTS_ALONE
        };
        let mut any = false;
        for job in failed.iter().filter(taken_for_poison) {
            println!("{} was in flight at so many kills that it failed; it is retried", job.id());
            any |= client.failed("soak_job").retry(job.id()).await.is_ok();
        }
        any
    }
}

/// Where a scenario plays.
fn place(store: &Store) -> String {
    let version = std::env::var("JOBQ_TEST_BROKER_VERSION").unwrap_or_default();
    if store.is_file() { "SQLite".to_owned() } else { format!("RabbitMQ {version}") }
}

/// The failed jobs, and how many there are to be run.
async fn stock(client: &Client) -> (Vec<FailedJob>, u64) {
    loop {
        let stock = async {
            let counts = client.counts("soak_job").await?;
            Ok::<_, jobq::Error>((client.failed("soak_job").list(MANY).await?, counts))
        };
        match stock.await {
            Ok((failed, counts)) => {
                return (failed, *counts.open().known().expect("the tiers are known"));
            }
            // The connection comes back by itself.
            Err(error) => println!("asked again: {error:?}"),
        }
    }
}

/// A process that runs soak jobs; it is killed with the test.
struct Process {
    child: Child,
    name: String,
}

impl Process {
    fn start(store: &Store, ledger: &Path, name: &str, lease: Duration, load: usize) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["soak_jobs", &store.url, &store.namespace])
            .arg(ledger)
            .args([name, &lease.as_millis().to_string(), &load.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, name: name.to_owned() }
    }

    /// Waits until it consumes.
    fn ready(&mut self) {
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// `kill -9`. It must have lived until then.
    fn kill(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "{} ended by itself", self.name);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in good order.
    fn terminate(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
