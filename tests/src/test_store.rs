//! A place for one test: a store with nothing in it, and a job that does as its payload
//! says and tells the test what it did.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use jobq::engine::conformance::{DEADLINE, soon};
use jobq::{BoxError, Client, JobContext, JobId, State, WorkerPool, job};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::broker;
use crate::files::Directory;

/// Asks again and again until there is an answer: for what has no event to wait for.
///
/// # Panics
///
/// If there is none in time.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    soon(what, async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// A store with nothing in it, that clients of several processes can reach.
#[derive(Debug)]
pub struct Store {
    /// Where it is.
    pub url: String,
    /// What keeps this test's queues apart.
    pub namespace: String,
    /// The folder of a file; it is removed with the store.
    folder: Option<Directory>,
    /// The certificate of the CA that clients trust beside the system's.
    authority: Option<String>,
}

impl Store {
    /// A namespace of its own on the broker that the tests of this process share.
    pub async fn rabbitmq() -> Self {
        Self::on_broker(broker::shared().await)
    }

    /// A namespace of its own on this broker.
    #[must_use]
    pub fn on_broker(url: String) -> Self {
        Self { url, namespace: broker::namespace(), folder: None, authority: None }
    }

    /// [`on_broker`](Self::on_broker), with the certificate of the broker's CA.
    #[must_use]
    pub fn on_encrypted_broker(url: String, authority: String) -> Self {
        Self { authority: Some(authority), ..Self::on_broker(url) }
    }

    /// A client of this store as another user of the broker.
    ///
    /// # Panics
    ///
    /// If it cannot connect.
    pub async fn client_as(&self, user: &str, password: &str) -> Client {
        let (scheme, host) = self.url.split_once("://").expect("the URL of a broker");
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        self.client_at(&format!("{scheme}://{user}:{password}@{host}"), DEADLINE).await
    }

    /// A client of this store with another timeout.
    ///
    /// # Panics
    ///
    /// If it cannot connect.
    pub async fn client_within(&self, timeout: Duration) -> Client {
        self.client_at(&self.url, timeout).await
    }

    async fn client_at(&self, url: &str, timeout: Duration) -> Client {
        let mut builder = Client::builder(url).namespace(&self.namespace).timeout(timeout);
        if let Some(authority) = &self.authority {
            builder = builder.root_certificate(authority.as_str());
        }
        builder.connect().await.expect("the store of a test can be reached")
    }

    /// A file of its own.
    #[allow(clippy::unused_async)] // so that both engines are called alike
    pub async fn sqlite() -> Self {
        let folder = Directory::new();
        let (url, namespace) = (folder.url("jobs.db"), "test".to_owned());
        Self { url, namespace, folder: Some(folder), authority: None }
    }

    /// Whether it is the embedded engine's.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.folder.is_some()
    }

    /// A client of this store.
    ///
    /// # Panics
    ///
    /// If it cannot connect.
    pub async fn client(&self) -> Client {
        self.client_within(DEADLINE).await
    }
}

/// One thing that a [`Scripted`] job does when it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step {
    /// Returns `Ok`.
    Succeed,
    /// Returns an error with this text.
    Fail(String),
    /// Panics with this text.
    Panic(String),
    /// Aborts with this text.
    Abort(String),
    /// Asks to be retried after these milliseconds.
    RetryIn(u64),
    /// Asks to be run later, after these milliseconds.
    Snooze(u64),
    /// Waits until the test says [`TestStore::go`].
    Wait,
    /// Never ends.
    Hang,
}

/// A run of a [`Scripted`] job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The job.
    pub id: JobId,
    /// Which attempt it was.
    pub attempt: u32,
    /// When it began.
    pub at: Instant,
}

/// What a [`Scripted`] job knows of its test.
#[derive(Debug, Clone)]
pub struct Script {
    runs: mpsc::UnboundedSender<Run>,
    ends: mpsc::UnboundedSender<JobId>,
    counts: Arc<Mutex<HashMap<JobId, usize>>>,
    go: CancellationToken,
}

/// Does at each run what the next step says, and at all further ones what the last does.
///
/// # Errors
///
/// What its steps say.
#[job(retries = 3, delay = "200ms")]
pub async fn scripted(
    steps: Vec<Step>,
    ctx: JobContext,
    script: State<Script>,
) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

/// The same with a timeout.
///
/// # Errors
///
/// What its steps say.
#[job(queue = "hasty", retries = 1, delay = "200ms", timeout = "100ms")]
pub async fn hasty(
    steps: Vec<Step>,
    ctx: JobContext,
    script: State<Script>,
) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

impl Script {
    fn begin(&self, ctx: &JobContext) {
        // The test may have ended and not care any more.
        let _ = self.runs.send(Run { id: ctx.id(), attempt: ctx.attempt(), at: Instant::now() });
    }

    /// Does what a [`Scripted`] job does, for a job of a test's own.
    ///
    /// # Errors
    ///
    /// What the steps say.
    pub async fn perform(&self, steps: &[Step], ctx: &JobContext) -> Result<(), BoxError> {
        self.begin(ctx);
        let run = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(ctx.id()).or_default();
            *count += 1;
            *count - 1
        };
        match steps.get(run).or(steps.last()).unwrap_or(&Step::Succeed) {
            Step::Succeed => {}
            Step::Fail(text) => return Err(text.as_str().into()),
            Step::Panic(text) => panic!("{text}"),
            Step::Abort(text) => return Err(jobq::abort(text.as_str()).into()),
            Step::RetryIn(millis) => {
                Err(jobq::retry_in(Duration::from_millis(*millis), "not now"))?;
            }
            Step::Snooze(millis) => Err(jobq::snooze(Duration::from_millis(*millis)))?,
            Step::Wait => self.go.cancelled().await,
            Step::Hang => std::future::pending().await,
        }
        let _ = self.ends.send(ctx.id());
        Ok(())
    }
}

/// A store with a client, and what the [`Scripted`] jobs on it do.
#[derive(Debug)]
pub struct TestStore {
    /// Where the jobs are.
    pub store: Store,
    /// A client of it.
    pub client: Client,
    /// What a pool of this test's own needs as its state.
    pub script: Script,
    runs: mpsc::UnboundedReceiver<Run>,
    ends: mpsc::UnboundedReceiver<JobId>,
}

impl TestStore {
    /// A test on this store.
    pub async fn on(store: Store) -> Self {
        let client = store.client().await;
        let (runs, run_events) = mpsc::unbounded_channel();
        let (ends, end_events) = mpsc::unbounded_channel();
        let script = Script { runs, ends, counts: Arc::default(), go: CancellationToken::new() };
        Self { store, client, script, runs: run_events, ends: end_events }
    }

    /// A pool of this test store's client for the scripted jobs.
    pub fn pool(&self) -> WorkerPool {
        self.pool_of(&self.client)
    }

    /// A pool of another client for the scripted jobs.
    pub fn pool_of(&self, client: &Client) -> WorkerPool {
        WorkerPool::new(client)
            .state(self.script.clone())
            .register::<Scripted>()
            .register::<Hasty>()
            .shutdown_timeout(DEADLINE)
    }

    /// Enqueues a scripted job.
    ///
    /// # Panics
    ///
    /// If it is not accepted.
    pub async fn enqueue(&self, steps: impl Into<Vec<Step>>) -> JobId {
        let job = Scripted { steps: steps.into() };
        self.client.enqueue(job).await.expect("the job is accepted")
    }

    /// The next run of any job.
    ///
    /// # Panics
    ///
    /// If there is none in time.
    pub async fn run(&mut self) -> Run {
        soon("the next run of a job", self.runs.recv())
            .await
            .expect("the test store keeps a sender")
    }

    /// The next job that succeeded.
    ///
    /// # Panics
    ///
    /// If there is none in time.
    pub async fn end(&mut self) -> JobId {
        soon("the next end of a job", self.ends.recv())
            .await
            .expect("the test store keeps a sender")
    }

    /// Whether any job ran that the test did not yet ask for.
    #[must_use]
    pub fn has_run(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Ends every [`Step::Wait`].
    pub fn go(&self) {
        self.script.go.cancel();
    }

    /// Waits for the first failed job of a queue.
    pub async fn failed(&self, queue: &str) -> jobq::FailedJob {
        until("a failed job", || async { self.client.failed(queue).list(1).await.ok()?.pop() })
            .await
    }
}

/// Makes a test of each function for each engine: `both_engines!(one, two)` gives
/// `rabbitmq::one`, `sqlite::one` and so on.
#[macro_export]
macro_rules! both_engines {
    ($($test:ident),* $(,)?) => {
        mod rabbitmq {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::test_store::Store::rabbitmq().await).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::test_store::Store::sqlite().await).await;
            })*
        }
    };
}

/// Makes a test of each function on a file, for what no engine changes: `on_a_file!(one, two)` gives
/// `on_a_file::one` and `on_a_file::two`.
#[macro_export]
macro_rules! on_a_file {
    ($($test:ident),* $(,)?) => {
        mod on_a_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::test_store::Store::sqlite().await).await;
            })*
        }
    };
}
