use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::Mutex;

use super::jobs::Jobs;
use super::memory::Memory;
use crate::client::{Client, Hooks, Outgoing};
use crate::clock::Clock;
#[cfg(feature = "schedules")]
use crate::job::Job;
use crate::job::{BoxError, Outcome};
#[cfg(feature = "schedules")]
use crate::schedule::IntoSchedule;
use crate::worker::{Attempt, InlineBuilder, JobFunction, Next, Run};

impl Jobs {
    /// The settings of the jobs of a test.
    #[allow(clippy::new_ret_no_self)] // as `Client::builder`, in the most used call of tests
    pub fn new() -> JobsBuilder {
        JobsBuilder::new()
    }
}

/// The settings of [`Jobs`].
///
/// ```
/// use jobq::testing::Jobs;
/// use jobq::{BoxError, State, job};
///
/// struct FakeMailer;
///
/// #[job]
/// async fn send_welcome(user_id: u64, mailer: State<FakeMailer>) -> Result<(), BoxError> {
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let jobs = Jobs::new().state(FakeMailer).register::<SendWelcome>().start().await;
/// # }
/// ```
#[must_use = "call `.start().await`"]
pub struct JobsBuilder {
    worker: InlineBuilder,
    memory: Memory,
    clock: Clock,
    hooks: Hooks,
    allows_panics: bool,
}

impl JobsBuilder {
    pub(super) fn new() -> Self {
        let clock = Clock::stopped_at(SystemTime::now());
        let (memory, mut hooks) = (Memory::new(clock.clone()), Hooks::default());
        let recorded = memory.clone();
        hooks.add(move |outgoing: &mut Outgoing| {
            recorded.expect(outgoing.id(), outgoing.location());
            Ok(())
        });
        Self { worker: InlineBuilder::default(), memory, clock, hooks, allows_panics: false }
    }

    /// Adds a job, as [`WorkerPool::register`](crate::WorkerPool::register) does. Jobs that are not
    /// added can be enqueued, and stay enqueued.
    pub fn register<J: Run>(mut self) -> Self {
        self.worker.register::<J>();
        self
    }

    /// Adds a job with its function, as [`WorkerPool::handle`](crate::WorkerPool::handle) does.
    pub fn handle<F: JobFunction<Arguments>, Arguments>(mut self, function: F) -> Self {
        self.worker.handle(function);
        self
    }

    /// Adds a value for arguments of type `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.worker.state(value);
        self
    }

    /// Wraps every attempt in a layer, as [`WorkerPool::around`](crate::WorkerPool::around) does.
    pub fn around<F, Fut>(mut self, layer: F) -> Self
    where
        F: Fn(Attempt, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        self.worker.around(layer);
        self
    }

    /// Adds a hook, as [`ClientBuilder::on_enqueue`](crate::ClientBuilder::on_enqueue) does.
    pub fn on_enqueue(
        mut self,
        hook: impl Fn(&mut Outgoing) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.add(hook);
        self
    }

    /// Enqueues a job at these times, as [`WorkerPool::cron`](crate::WorkerPool::cron) does.
    ///
    /// ```
    /// use jobq::testing::Jobs;
    /// use jobq::{BoxError, job};
    ///
    /// #[job]
    /// async fn report() -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let jobs = Jobs::new().register::<Report>().cron::<Report>("0 6 * * *").start().await;
    /// assert_eq!(jobs.advance("30d").await.attempts().len(), 30);
    /// # }
    /// ```
    #[cfg(feature = "schedules")]
    pub fn cron<J: Job>(mut self, times: impl IntoSchedule) -> Self {
        self.worker.cron::<J>(times.into_schedule());
        self
    }

    /// Sets the time at which the clock begins. Defaults to the current time.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// # use jobq::testing::Jobs;
    /// # #[jobq::job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    /// let jobs = Jobs::new().register::<Mail>().starting_at(time).start().await;
    /// assert_eq!(jobs.now(), time);
    /// # }
    /// ```
    pub fn starting_at(self, time: SystemTime) -> Self {
        self.clock.set(time);
        self
    }

    /// Counts a panic of a job as a failed attempt, as a pool does. By default a panic fails the
    /// test, since most panics in tests are failed assertions of fakes.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// #[jobq::job(retries = 1)]
    /// async fn divide(by: u64) -> Result<(), jobq::BoxError> {
    ///     println!("{}", 7 / by);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let jobs = Jobs::new().allow_panics().register::<Divide>().start().await;
    /// assert!(jobs.run(Divide { by: 0 }).await.retried_after().is_some());
    /// # }
    /// ```
    pub fn allow_panics(mut self) -> Self {
        self.allows_panics = true;
        self
    }

    /// Makes the client and declares the queues.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime; with settings with which a pool does not start, such as a
    /// missing state.
    #[track_caller]
    pub fn start(self) -> impl Future<Output = Jobs> + Send {
        let Self { worker, memory, clock, hooks, allows_panics } = self;
        let client = Client::with_hooks(Arc::new(memory.clone()), "test", hooks);
        let place = std::panic::Location::caller();
        async move {
            let worker = worker.start(client.clone()).await;
            let worker =
                worker.unwrap_or_else(|error| panic!("the jobs of {place} do not start: {error}"));
            Jobs { worker, client, memory, clock, allows_panics, interval: Mutex::default() }
        }
    }
}

impl fmt::Debug for JobsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobsBuilder").field("worker", &self.worker).finish_non_exhaustive()
    }
}
