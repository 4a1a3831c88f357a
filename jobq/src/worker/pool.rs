mod examine;
#[cfg(feature = "schedules")]
mod periodic;
mod start;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::answers::PoolControl;
use super::attempt::Attempt;
use super::function::JobFunction;
use super::layer::Next;
use super::registry::{Queues, Registered, Registry};
use super::run::Run;
use super::running::RunningPool;
use super::signal::Signals;
use crate::background;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::job::Outcome;
use crate::period::{IntoPeriod, PeriodError};
use crate::relay::{Source, Task};

/// The default shutdown timeout: the pool ends before the 30 s after which Kubernetes kills it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);

/// Takes jobs from their queues and runs them.
///
/// Many pools in many processes may consume the same queues; each job runs in one of them.
///
/// ```
/// use jobq::{Client, JobContext, State, WorkerPool, job};
///
/// struct Mailer;
///
/// #[job(retries = 5, delay = "1m", timeout = "2m")]
/// async fn send_welcome(user_id: u64, mailer: State<Mailer>) -> Result<(), jobq::BoxError> {
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// # let client = Client::connect("sqlite::memory:").await?;
/// let pool = WorkerPool::new(&client).state(Mailer).register::<SendWelcome>().concurrency(16);
/// # if false {
/// pool.run().await?; // until SIGINT, SIGTERM or SIGHUP
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a pool does nothing until `.run()`, `.run_until(..)` or `.spawn()` is awaited"]
pub struct WorkerPool {
    client: Client,
    registry: Registry,
    concurrency: u16,
    shutdown_timeout: Duration,
    /// The error of a shutdown timeout whose text is no duration.
    unread_timeout: Option<PeriodError>,
    control: PoolControl,
    relays: Vec<Task>,
}

impl WorkerPool {
    /// A pool without jobs.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # fn example(client: Client) {
    /// let pool = WorkerPool::new(&client).register::<Mail>();
    /// # }
    /// ```
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            registry: Registry::default(),
            concurrency: 10,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            unread_timeout: None,
            control: PoolControl::default(),
            relays: Vec::new(),
        }
    }

    /// Adds a job whose function is part of its type, as made by `#[job]` on a function.
    ///
    /// ```
    /// use jobq::{BoxError, Client, WorkerPool, job};
    ///
    /// #[job]
    /// async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # fn example(client: Client) {
    /// let pool = WorkerPool::new(&client).register::<SendWelcome>();
    /// # }
    /// ```
    pub fn register<J: Run>(mut self) -> Self {
        self.registry.jobs.push(Registered::of_type::<J>());
        self
    }

    /// Adds a job with its function: an `async fn`, or a plain `fn`, which may block. One argument
    /// is the [`Job`](crate::Job); any others are [`State<T>`](struct@crate::State) and
    /// [`JobContext`](crate::JobContext), in any order.
    ///
    /// ```
    /// use jobq::{Job, JobContext, WorkerPool};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(queue = "images", retries = 5)]
    /// struct ResizeImage {
    ///     image: u64,
    /// }
    ///
    /// async fn resize_image(job: ResizeImage, ctx: JobContext) -> Result<(), jobq::BoxError> {
    ///     println!("image {}, attempt {}", job.image, ctx.attempt());
    ///     Ok(())
    /// }
    ///
    /// # fn example(client: jobq::Client) {
    /// let pool = WorkerPool::new(&client).handle(resize_image);
    /// # }
    /// ```
    pub fn handle<Arguments>(mut self, function: impl JobFunction<Arguments>) -> Self {
        self.registry.jobs.push(Registered::of_function(function));
        self
    }

    /// Adds a value for arguments of type `State<T>`. A pool that lacks a state of one of its jobs
    /// does not start.
    ///
    /// ```
    /// use jobq::{BoxError, Client, State, WorkerPool, job};
    ///
    /// struct Mailer;
    ///
    /// #[job]
    /// async fn send_welcome(user_id: u64, mailer: State<Mailer>) -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # fn example(client: Client) {
    /// let pool = WorkerPool::new(&client).state(Mailer).register::<SendWelcome>();
    /// # }
    /// ```
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.registry.state(value);
        self
    }

    /// Wraps every attempt of the pool in a layer: for logs and metrics, tenants, transactions. The
    /// first layer is the outermost.
    ///
    /// A layer runs before the arguments of the function are made, so it can pass values to [one of
    /// them](crate::FromAttempt) in [`Attempt::extensions`](crate::Attempt::extensions). It does
    /// not see jobs that cannot run: unreadable, unknown, expired and poison ones. The timeout
    /// covers the layers as well, and a panic in one is a failed attempt. A layer that turns a
    /// failure into a success completes the job, and this is logged; it cannot lose a job. A layer
    /// returns an [`Outcome`](crate::Outcome): that of `next.run().await`, or another one.
    ///
    /// The layers of a plain `fn` run on its thread, which may block, in the runtime in which the
    /// pool was spawned.
    ///
    /// ```
    /// use jobq::{Attempt, Client, Next, WorkerPool, job};
    ///
    /// #[job]
    /// async fn mail() -> Result<(), jobq::BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let pool = WorkerPool::new(&client)
    ///     .around(|attempt: Attempt, next: Next| async move {
    ///         let outcome = next.run().await;
    ///         println!("{} {}: {outcome:?}", attempt.job(), attempt.id());
    ///         outcome
    ///     })
    ///     .register::<Mail>();
    /// # Ok(())
    /// # }
    /// ```
    pub fn around<F, Fut>(mut self, layer: F) -> Self
    where
        F: Fn(Attempt, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        self.registry.layers.push(layer);
        self
    }

    /// Adds a [relay](crate::relay): while the pool runs, the jobs that transactions have left in this
    /// table are enqueued. Each pool of a fleet may have it; one of them works. A pool without jobs does
    /// not start: see [`Relay`](crate::relay::Relay).
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # fn example(client: Client, outbox: impl jobq::relay::Source) {
    /// let pool = WorkerPool::new(&client).register::<Mail>().relay(outbox);
    /// # }
    /// ```
    pub fn relay(mut self, source: impl Source) -> Self {
        self.relays.push(Task::new(&self.client, Arc::new(source)));
        self
    }

    /// How many attempts of each queue run at once, unless its jobs state a `concurrency` of their
    /// own. A pool with 0 does not start. Defaults to 10.
    ///
    /// A pool takes more jobs than it runs, so that no slot waits for the next one: for each queue
    /// at most a second's work and at most 256 jobs. Large payloads lower that to as many jobs as
    /// fit into 64 MiB if all are as large as the largest recent one. Large jobs that follow small
    /// ones may exceed that once, by as many as the pool took before.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let pool = WorkerPool::new(&client).register::<Mail>().concurrency(50);
    /// # Ok(())
    /// # }
    /// ```
    pub fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Never starts a job while one of the same queue with a higher [priority](crate::Priority) waits in
    /// this pool.
    ///
    /// By default, one start in ten takes the job of a lower priority that has waited longest. Such jobs
    /// then run however many jobs of a higher priority there are.
    ///
    /// ```
    /// use jobq::{BoxError, Client, WorkerPool, job};
    ///
    /// #[job(priorities)]
    /// async fn export(user_id: u64) -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # fn example(client: Client) {
    /// let pool = WorkerPool::new(&client).register::<Export>().strict_priorities();
    /// # }
    /// ```
    pub fn strict_priorities(mut self) -> Self {
        self.registry.is_strict = true;
        self
    }

    /// How long running attempts may go on when the pool is shut down. Attempts that still run then
    /// are cancelled and their jobs released: they run again elsewhere, and no attempt is used up.
    /// A `Duration`, or its text, such as `"1m"`. Zero cancels at once. Defaults to 25 seconds:
    /// Kubernetes kills a program after 30.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let pool = WorkerPool::new(&client).register::<Mail>().shutdown_timeout("2m");
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown_timeout(mut self, timeout: impl IntoPeriod) -> Self {
        let read = timeout.into_period().map(|timeout| self.shutdown_timeout = timeout);
        self.unread_timeout = read.err();
        self
    }

    /// How far the pool can be [controlled](crate::admin::Admin) from outside. Defaults to
    /// [`PoolControl::Full`].
    ///
    /// A pool whose permissions on the broker forbid it warns at its start, and runs as with
    /// [`PoolControl::Off`].
    ///
    /// ```
    /// # use jobq::{Client, PoolControl, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # fn example(client: Client) {
    /// // It takes no orders but pauses.
    /// let pool = WorkerPool::new(&client).register::<Mail>().control(PoolControl::Look);
    /// # }
    /// ```
    pub fn control(mut self, control: PoolControl) -> Self {
        self.control = control;
        self
    }

    /// Runs the pool until the program gets SIGINT, SIGTERM or SIGHUP, then shuts it down. A second
    /// signal ends the shutdown timeout. See [`shutdown_signal`](crate::shutdown_signal).
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// WorkerPool::new(&client).register::<Mail>().run().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn) and [`RunningPool::wait`].
    pub async fn run(self) -> Result<()> {
        let mut signals = Signals::listen()?;
        let running = tokio::select! {
            started = self.spawn() => started?,
            // Jobs taken so far are released.
            () = signals.next() => return Ok(()),
        };
        tokio::select! {
            ended = running.wait() => return ended,
            () = signals.next() => {}
        }
        tracing::info!("shutdown requested; finishing running attempts");
        running.stop();
        tokio::select! {
            ended = running.wait() => return ended,
            () = signals.next() => {}
        }
        running.halt();
        running.wait().await
    }

    /// Runs the pool until the future is ready, then shuts it down.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client, end: tokio::sync::oneshot::Receiver<()>) -> jobq::Result<()> {
    /// let pool = WorkerPool::new(&client).register::<Mail>();
    /// pool.run_until(async { _ = end.await }).await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn) and [`RunningPool::wait`].
    pub async fn run_until(self, end: impl Future<Output = ()>) -> Result<()> {
        let running = self.spawn().await?;
        tokio::select! {
            ended = running.wait() => ended,
            () = end => running.shutdown().await,
        }
    }

    /// Starts the pool in the background. It consumes when this returns.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let running = WorkerPool::new(&client).register::<Mail>().spawn().await?;
    /// // ... until the program ends:
    /// running.shutdown().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Neither jobs nor a relay, two jobs of one name, two values of `concurrency` for one queue, a missing state,
    /// an invalid name, a shutdown timeout that is no duration; an engine that cannot be reached or
    /// refuses; [`Conflict`](crate::ErrorKind::Conflict) if something that is not a queue of jobq
    /// has a queue's name, or if a policy loses or stalls its jobs (which only the [management
    /// API](crate::ClientBuilder::management) shows); [`Invalid`](crate::ErrorKind::Invalid)
    /// outside of a tokio runtime.
    pub async fn spawn(self) -> Result<RunningPool> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::invalid(
                "a pool runs its job functions in the tokio runtime that spawns it, but no runtime \
                 is active here; spawn the pool from `#[tokio::main]` or `Runtime::block_on`",
            )
        })?;
        background::call(self.start(runtime)).await
    }

    /// Checks the settings, and returns the plan of each queue.
    fn check(&self) -> Result<Queues> {
        if let Some(problem) = &self.unread_timeout {
            return Err(Error::invalid(format!("the shutdown timeout of the pool: {problem}")));
        }
        self.registry.check(self.concurrency, self.relays.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::shared::RECORD_LIMIT;

    #[test]
    fn a_pool_gives_up_before_kubernetes_kills_it() {
        let given_up = SHUTDOWN_TIMEOUT + 2 * RECORD_LIMIT;
        assert!(given_up < Duration::from_secs(30), "{given_up:?}");
    }
}
