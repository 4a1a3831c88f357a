//! Ten thousand jobs, each failing at random, in the hands of four competing processes:
//! every one ends where it should.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jobq::FailedReason;
use jobq_tests::account::Account;
use jobq_tests::both_engines;
use jobq_tests::files::Directory;
use jobq_tests::jobs::fails_first::FailsFirst;
use jobq_tests::test_store::{Store, until};

both_engines!(every_job_ends_exactly_where_it_should);

const JOBS: u32 = 10_000;
const PROCESSES: usize = 4;
const MAX_ATTEMPTS: u32 = 4;

/// A worker process, ended with the test.
struct Worker(Child);

impl Worker {
    fn start(store: &Store, ledger: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["fails_first", &store.url, &store.namespace])
            .arg(ledger)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// Ends it in good order.
    fn terminate(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn every_job_ends_exactly_where_it_should(store: Store) {
    let folder = Directory::new();
    let ledger = folder.path().join("ledger");
    let client = store.client().await;
    let mut random = fastrand::Rng::with_seed(1);
    let jobs: Vec<_> =
        (0..JOBS).map(|number| FailsFirst { number, failures: random.u32(0..=4) }).collect();
    let workers: Vec<_> = (0..PROCESSES).map(|_| Worker::start(&store, &ledger)).collect();
    let ids = client.enqueue_all(jobs.clone()).await.unwrap();

    let expected = |job: &FailsFirst| (job.failures + 1).min(MAX_ATTEMPTS);
    let all_attempts: u32 = jobs.iter().map(expected).sum();
    let exhausted = jobs.iter().filter(|job| job.failures >= MAX_ATTEMPTS).count();
    let mut account = Account::default();
    until("every attempt to be made", || {
        account.read(&ledger);
        let all = account.begun() >= all_attempts as usize;
        async move { all.then_some(()) }
    })
    .await;
    let counts = until("every job to end", || async {
        let counts = client.counts("fails_first").await.unwrap();
        (counts.failed >= exhausted as u64).then_some(counts)
    })
    .await;
    for worker in workers {
        worker.terminate();
    }

    // What is written now is all that was ever done.
    account.read(&ledger);
    for (id, job) in ids.iter().zip(&jobs) {
        let expected: Vec<_> = (1..=expected(job)).collect();
        assert_eq!(account.attempts(*id), expected, "{job:?}");
    }
    let failed = client.failed("fails_first").list(JOBS as usize).await.unwrap();
    assert_eq!((failed.len(), counts.failed), (exhausted, (exhausted as u64).into()));
    for job in failed {
        assert_eq!((job.attempts(), job.reason()), (MAX_ATTEMPTS, FailedReason::Exhausted));
        assert_eq!(job.error(), "failure 4 of 4");
        assert_eq!(job.payload()["failures"], 4);
    }
    let counts = client.counts("fails_first").await.unwrap();
    assert_eq!(counts.open(), 0);
}
