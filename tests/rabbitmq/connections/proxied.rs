//! A client and a pool that reach their broker through a proxy, and the ledger of what
//! they did.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jobq::{BoxError, Client, FailedJob, JobContext, JobId, RunningPool, State, WorkerPool, job};
use jobq_tests::account::{Account, Report};
use jobq_tests::broker;
use jobq_tests::files::Directory;
use jobq_tests::ledger::{Answer, End, Ledger};
use jobq_tests::proxy::Proxy;
use jobq_tests::test_store::{DEADLINE, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How many attempts run at once.
pub(crate) const CONCURRENCY: usize = 6;
/// How long nothing may happen before what is missing is lost.
const PATIENCE: Duration = DEADLINE;

/// How the first attempt of a [`Held`] job ends. Any other one completes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Complete,
    /// An error: one `basic.nack`.
    Fail,
    /// `retry_in`: the job is published again, into the delay levels.
    Move,
    /// The job is published to the failed jobs.
    Abort,
}

impl Ending {
    fn attempts(self) -> u32 {
        match self {
            Self::Complete | Self::Abort => 1,
            Self::Fail | Self::Move => 2,
        }
    }
}

/// Its first attempt ends when the test lets it.
#[job(retries = 3, delay = "200ms", concurrency = 6)]
async fn held(
    ending: Ending,
    ctx: JobContext,
    ledger: State<Ledger>,
    gate: State<watch::Receiver<bool>>,
) -> Result<(), BoxError> {
    let (id, attempt) = (ctx.id(), ctx.attempt());
    ledger.begins(id, attempt);
    if attempt > 1 {
        ledger.ends(id, attempt, End::Completed);
        return Ok(());
    }
    let mut gate = watch::Receiver::clone(&gate);
    gate.wait_for(|open| *open).await?;
    let end = match ending {
        Ending::Complete => End::Completed,
        Ending::Fail | Ending::Move => End::Again,
        Ending::Abort => End::Failed,
    };
    ledger.ends(id, attempt, end);
    match ending {
        Ending::Complete => Ok(()),
        Ending::Fail => Err("again".into()),
        Ending::Move => Err(jobq::retry_in(Duration::from_millis(150), "not now"))?,
        Ending::Abort => Err(jobq::abort("no use"))?,
    }
}

/// One test: its client, its pool and its books.
pub(crate) struct ProxiedStore {
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) ledger: Ledger,
    pool: Option<RunningPool>,
    gate: watch::Sender<bool>,
    path: PathBuf,
    account: Account,
    _folder: Directory,
}

impl ProxiedStore {
    /// On the broker of this URL, by way of a proxy whose URL has this part beyond a `?`.
    pub(crate) async fn open(url: &str, query: &str) -> Self {
        let proxy = Proxy::to(url).await;
        let builder = Client::builder(format!("{}{query}", proxy.url()));
        let client = builder.namespace(broker::namespace()).connect().await.unwrap();
        let folder = Directory::new();
        let path = folder.file("ledger");
        let ledger = Ledger::open(&path, "pool").unwrap();
        let mut test = Self {
            proxy,
            client,
            ledger,
            pool: None,
            gate: watch::Sender::new(true),
            path,
            account: Account::default(),
            _folder: folder,
        };
        test.start_pool().await;
        // Every queue that is needed is there.
        let all = [Ending::Complete, Ending::Fail, Ending::Move, Ending::Abort];
        assert_eq!(test.enqueue(all).join_all().await, [Answer::Accepted; 4]);
        test.settle_down().await;
        test
    }

    pub(crate) async fn start_pool(&mut self) {
        let pool = WorkerPool::new(&self.client)
            .state(self.ledger.clone())
            .state(self.gate.subscribe())
            .register::<Held>();
        let started = soon("the pool to start", pool.shutdown_timeout(DEADLINE).spawn()).await;
        self.pool = Some(started.unwrap());
    }

    /// Takes the pool, to shut it down.
    pub(crate) fn take_pool(&mut self) -> RunningPool {
        self.pool.take().unwrap()
    }

    /// Whether first attempts may end.
    pub(crate) fn gate(&self, open: bool) {
        self.gate.send_replace(open);
    }

    /// Enqueues all of these at once, and gives what is said to that.
    pub(crate) fn enqueue(&self, endings: impl IntoIterator<Item = Ending>) -> JoinSet<Answer> {
        let mut answers = JoinSet::new();
        for ending in endings {
            let (client, ledger) = (self.client.clone(), self.ledger.clone());
            answers.spawn(async move {
                let id = JobId::new();
                ledger.enqueues(id, ending.attempts(), ending == Ending::Abort);
                let answer = Answer::to(&client.enqueue(Held { ending }).id(id).await);
                ledger.answered(id, answer);
                answer
            });
        }
        answers
    }

    /// Waits until so many attempts run. A job of an earlier phase that comes again may be
    /// among them.
    pub(crate) async fn runs(&mut self, attempts: usize) {
        self.read_until("attempts do not begin", |account| account.running() >= attempts).await;
    }

    /// Notes how far the ledger is.
    fn read(&mut self) {
        self.account.read(&self.path);
    }

    async fn read_until(&mut self, what: &str, says: impl Fn(&Account) -> bool) {
        let mut changed = Instant::now();
        loop {
            let lines = self.account.lines();
            self.read();
            if says(&self.account) {
                return;
            }
            if self.account.lines() > lines {
                changed = Instant::now();
            }
            assert!(changed.elapsed() < PATIENCE, "nothing happens: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a job is accepted again and every accepted job has ended.
    pub(crate) async fn settle_down(&mut self) {
        until("a job to be accepted", async || {
            let answers = self.enqueue([Ending::Complete]).join_all().await;
            (answers == [Answer::Accepted]).then_some(())
        })
        .await;
        self.read_until("jobs do not end", Account::is_over).await;
    }

    /// Shuts the pool down and compares the ledger with what jobq has.
    pub(crate) async fn close(mut self, what: &str) -> Report {
        let failed = soon("nothing to be left", async {
            loop {
                self.read();
                let failed = self.left().await;
                if let Some(failed) = failed.filter(|failed| self.account.not_among(failed) == 0) {
                    return failed;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        self.take_pool().shutdown().await.unwrap();
        self.read();
        let failed: Vec<_> = failed.iter().map(FailedJob::id).collect();
        let report = self.account.judge(&failed, 0);
        println!("{what}: {report}");
        report.assert_nothing_lost();
        report
    }

    /// The failed jobs, if there are no others.
    async fn left(&self) -> Option<Vec<FailedJob>> {
        let counts = self.client.counts("held").await.ok()?;
        let failed = self.client.failed("held").list(1_000_000).await.ok()?;
        (counts.open() == 0 && self.account.is_over()).then_some(failed)
    }
}
