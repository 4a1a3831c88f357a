//! Jobs that tell when they run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobq::engine::conformance::soon;
use jobq::{BoxError, Client, Job, JobContext, JobId, RunningPool, State, WorkerPool, job};
use tokio::sync::mpsc;

/// So many milliseconds.
#[must_use]
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The policy's wait of a [`reports_run`] job.
pub const PAUSE: Duration = millis(700);

/// A run of a [`reports_run`] job.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: &'static str,
    /// Which attempt it is.
    pub attempt: u32,
    /// When it began.
    pub at: Instant,
    /// When the attempt before it failed, if it is a retry: the wait begins then.
    pub failed: Option<Instant>,
}

/// The measure of the runs of [`reports_run`] jobs.
#[derive(Debug, Clone)]
pub struct Watch {
    /// When each job ran last.
    last: Arc<Mutex<HashMap<JobId, Instant>>>,
    runs: mpsc::UnboundedSender<Run>,
}

impl Watch {
    fn run(&self, queue: &'static str, failures: u32, ctx: &JobContext) -> Result<(), BoxError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, attempt, at) = (ctx.id(), ctx.attempt(), Instant::now());
        self.runs.send(Run { id, queue, attempt, at, failed: last.insert(id, at) })?;
        if attempt <= failures { Err("again".into()) } else { Ok(()) }
    }
}

/// Fails so many times, and says when it ran.
///
/// # Errors
///
/// So many times.
#[job(retries = 5, delay = "700ms", concurrency = 1)]
pub async fn reports_run(
    failures: u32,
    ctx: JobContext,
    watch: State<Watch>,
) -> Result<(), BoxError> {
    watch.run("reports_run", failures, &ctx)
}

/// The same in another queue.
///
/// # Errors
///
/// So many times.
#[job(retries = 5, delay = "700ms", concurrency = 1)]
pub async fn beside(failures: u32, ctx: JobContext, watch: State<Watch>) -> Result<(), BoxError> {
    watch.run("beside", failures, &ctx)
}

/// The runs of a pool's jobs.
pub type Runs = mpsc::UnboundedReceiver<Run>;

/// A pool for these jobs.
///
/// # Panics
///
/// If it does not start.
pub async fn reporting_pool(client: &Client) -> (RunningPool, Runs) {
    let (runs, received) = mpsc::unbounded_channel();
    let watch = Watch { last: Arc::default(), runs };
    let pool = WorkerPool::new(client).state(watch).register::<ReportsRun>().register::<Beside>();
    (pool.spawn().await.expect("the pool starts"), received)
}

/// Enqueues a job with this wait, and gives the time before which it must not run.
///
/// # Panics
///
/// If it is not accepted.
pub async fn enqueue(client: &Client, job: impl Job, wait: Duration) -> (JobId, Instant) {
    let due = Instant::now() + wait;
    let id = client.enqueue(job).delay(wait).await.expect("the job is accepted");
    (id, due)
}

/// A job that runs once.
pub const ONCE: ReportsRun = ReportsRun { failures: 0 };

/// The next run of any job.
///
/// # Panics
///
/// If there is none in time.
pub async fn next(runs: &mut Runs) -> Run {
    soon("the next run", runs.recv()).await.expect("the pool runs")
}

/// The first wait of a client may have to be prepared for.
pub async fn warm_up(client: &Client, runs: &mut Runs) {
    client.declare_delays().await.expect("the delays are declared");
    enqueue(client, ONCE, millis(1)).await;
    next(runs).await;
}
