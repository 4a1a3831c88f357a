use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Filter;
use super::passes::{self, Plan};
use super::progress::{Action, Done, Progress};
use crate::awaitable::awaitable;
use crate::background;
use crate::engine::{Engine, Extent, closed};
use crate::error::Result;

/// How long the outcomes of canaries are waited for, unless it is set.
const CANARY_PATIENCE: Duration = Duration::from_secs(600);

/// An operation on all failed jobs that match a filter, made by
/// [`FailedJobs::retry_where`](crate::FailedJobs::retry_where) and
/// [`discard_where`](crate::FailedJobs::discard_where). Await it, or [start](Self::start) it to see
/// its progress.
///
/// It acts on at most as many jobs as the queue had failed ones when its first pass began, the oldest
/// ones, and takes none again that it retried itself: such a job bears its id. No clock decides. It
/// works in passes, between which others may look at the failed jobs or act on them.
///
/// ```
/// use jobq::admin::{End, Filter};
///
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// let failed = client.failed("send_welcome");
/// // Three first, and the rest if these complete: ten a second.
/// let filter = Filter::new().error("connection refused");
/// let done = failed.retry_where(filter).canary(3).rate(10.0).await?;
/// if !matches!(done.end, End::Finished) {
///     println!("{} of {} retried: {:?}", done.settled, done.matched, done.end);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is done until it is awaited or started"]
pub struct Operation {
    engine: Arc<dyn Engine>,
    plan: Plan,
}

impl Operation {
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        queue: String,
        filter: Filter,
        action: Action,
    ) -> Self {
        let plan = Plan {
            queue,
            filter,
            within: None,
            action,
            canary: None,
            canary_patience: CANARY_PATIENCE,
            rate: None,
            dry_run: false,
            stop_on_failure: false,
            actor: super::UNKNOWN.to_owned(),
        };
        Self { engine, plan }
    }

    /// Retries this many jobs first, each with a single attempt, and the rest when all of these
    /// have completed. If one of them fails, or none is heard of for the
    /// [patience](Self::canary_patience), the operation ends, and the rest stays failed.
    ///
    /// The pools of the queue tell the outcomes; at least one must answer, and the queue must not
    /// be paused. An error, a panic, a timeout and `retry_in` are failures. A pool that ends right
    /// after such a job may take its outcome along.
    pub fn canary(mut self, jobs: u32) -> Self {
        self.plan.canary = Some(jobs);
        self
    }

    /// How long the outcomes of canaries are waited for. Defaults to ten minutes.
    pub fn canary_patience(mut self, patience: Duration) -> Self {
        self.plan.canary_patience = patience;
        self
    }

    /// On average at most this many jobs a second. They are settled in passes of up to ten seconds'
    /// worth: at a rate of 10, up to 100 jobs at once, and then none for ten seconds.
    pub fn rate(mut self, jobs_per_second: f64) -> Self {
        self.plan.rate = Some(jobs_per_second);
        self
    }

    /// Acts on no job beyond this extent, such as that of the [dry run](Done::extent) about which
    /// somebody was asked: jobs that have failed since are left out.
    pub fn within(mut self, extent: Extent) -> Self {
        self.plan.within = Some(extent);
        self
    }

    /// Only counts the jobs that match, and changes nothing.
    pub fn dry_run(mut self) -> Self {
        self.plan.dry_run = true;
        self
    }

    /// Ends as soon as a job that it retried has failed again: it has the id of the operation then.
    /// It looks in its passes and between them, so it needs a [`rate`](Self::rate). What fails after
    /// the last pass ends nothing.
    pub fn stop_on_failure(mut self) -> Self {
        self.plan.stop_on_failure = true;
        self
    }

    /// Sets who acts, for the log. Defaults to `unknown`.
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.plan.actor = actor.into();
        self
    }

    /// Starts the operation in the background.
    ///
    /// # Errors
    ///
    /// An invalid queue name or setting; a process without jobq's threads.
    pub fn start(self) -> Result<Running> {
        self.plan.check()?;
        let (progress, seen) = watch::channel(Progress::default());
        let cancel = CancellationToken::new();
        let run = passes::run(self.engine, self.plan, progress, cancel.clone());
        background::handle()?;
        let task = Some(background::spawn(run));
        Ok(Running { progress: seen, task, cancel })
    }

    async fn run(self) -> Result<Done> {
        self.start()?.finish().await
    }
}

awaitable!(Operation, OperationFuture, Result<Done>, run, "The future of an [`Operation`].");

/// An operation that runs. Dropping it cancels the operation: what it has begun with one pass is
/// finished.
#[derive(Debug)]
#[must_use = "dropping it cancels the operation"]
pub struct Running {
    progress: watch::Receiver<Progress>,
    task: Option<JoinHandle<Result<Done>>>,
    cancel: CancellationToken,
}

impl Running {
    /// The progress so far, and its changes.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Ends the operation after what it has begun. [`finish`](Self::finish) tells what was done.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if a canary was asked for and no pool
    /// answers; [`Conflict`](crate::ErrorKind::Conflict) if one was asked for and the queue is
    /// paused, or if somebody else looks at the failed jobs for longer than the timeout; an engine
    /// that cannot be reached or refuses. Nothing was changed then. An error after that is
    /// [`End::Lost`](super::End::Lost).
    pub async fn finish(mut self) -> Result<Done> {
        let Some(task) = self.task.take() else { return Err(closed()) };
        // Dropping this future cancels the operation.
        let guard = self.cancel.clone().drop_guard();
        let done = task.await.unwrap_or_else(|_| Err(closed()));
        guard.disarm();
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.cancel.cancel();
        }
    }
}
