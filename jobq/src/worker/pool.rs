use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::function::JobFunction;
use super::layer::Next;
use super::registry::{self, Registered, Registry};
use super::run::Run;
use super::running::RunningPool;
use super::shared::Shared;
use super::signal::Signals;
use super::solo_lock::SoloLock;
use super::tally::Tally;
use crate::background;
use crate::client::{Client, Doctor};
use crate::engine::{About, Consume, QueueName, check_events};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Finding, Severity};
use crate::job::Outcome;
#[cfg(feature = "rabbitmq")]
use crate::rabbitmq::Topology;
use crate::telemetry;

/// Takes jobs from their queues and runs them.
///
/// Many pools in many processes may consume the same queues; each job is run by one of
/// them.
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
/// pool.run().await?; // until SIGINT or SIGTERM
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
}

impl WorkerPool {
    /// A pool without jobs.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            registry: Registry::default(),
            concurrency: 10,
            shutdown_timeout: Duration::from_secs(30),
        }
    }

    /// Adds a job whose function is part of its type: made by `#[job]` on a function.
    pub fn register<J: Run>(mut self) -> Self {
        self.registry.jobs.push(Registered::of_type::<J>());
        self
    }

    /// Adds a job with the function that runs it: an `async fn`, or a plain `fn`, which may
    /// block, with an argument that is a [`Job`](crate::Job) and any others of
    /// [`State<T>`](struct@crate::State) and [`JobContext`](crate::JobContext), in any order.
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
    pub fn handle<F: JobFunction<Arguments>, Arguments>(mut self, function: F) -> Self {
        self.registry.jobs.push(Registered::of_function(function));
        self
    }

    /// Gives the pool a value for arguments of the type `State<T>`. A state that a job
    /// needs and the pool does not have is an error when the pool starts.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.registry.state(value);
        self
    }

    /// Puts a layer around every attempt of the pool: for logs and metrics, tenants, transactions.
    /// The first one is the outermost.
    ///
    /// A layer stands outside the arguments of the function, so that it can leave something for
    /// [one of them](crate::FromAttempt) in [`Attempt::extensions`](crate::Attempt::extensions). It
    /// sees no job that cannot run: one that is unreadable, unknown, expired or poison. A timeout
    /// covers the layers as well, and a panic in one is a failed attempt. A layer that makes a
    /// success of a failure completes the job, and the log says so; it cannot lose one.
    ///
    /// The layers of a plain `fn` run on its thread, which may block, in the runtime that the pool
    /// was spawned in.
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

    /// How many attempts of each queue run at once, where its jobs state no
    /// `concurrency` of their own. 0 is an error when the pool starts. Defaults to 10.
    ///
    /// A pool takes more jobs than run, so that no slot waits for the next one: of each queue at
    /// most a second's work, at most 256 jobs, and fewer where payloads are large, as many as fit
    /// into 64 MiB if all are as large as the largest recent one. Large jobs that follow small
    /// ones may exceed that once, by as many as the pool took before.
    pub fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long running attempts may go on when the pool is shut down. What still runs
    /// then is cancelled and its job handed back: it runs again elsewhere, and no
    /// attempt is used up. Zero cancels at once. Defaults to 30 seconds.
    pub fn shutdown_timeout(mut self, shutdown_timeout: Duration) -> Self {
        self.shutdown_timeout = shutdown_timeout;
        self
    }

    /// Everything that the pool would declare on a RabbitMQ broker, whatever engine its
    /// client is on; printing it needs no broker. One line is one exchange, queue or
    /// binding.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let topology = WorkerPool::new(&client).register::<Mail>().topology()?.to_string();
    /// assert!(topology.contains("queue jobq:mail@failed"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What would keep the pool from starting on any engine; see [`spawn`](Self::spawn).
    #[cfg(feature = "rabbitmq")]
    pub fn topology(&self) -> Result<Topology> {
        let queues = self.registry.check(self.concurrency)?;
        Ok(Topology::of(self.client.namespace(), &registry::specs(&queues)))
    }

    /// Looks for settings that weaken what jobq promises, as [`Client::doctor`] does, about
    /// the queues of this pool. The pool need not run.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// println!("{}", WorkerPool::new(&client).register::<Mail>().doctor()?.await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What would keep the pool from starting on any engine; see [`spawn`](Self::spawn).
    pub fn doctor(&self) -> Result<Doctor> {
        let queues = self.registry.check(self.concurrency)?;
        Ok(Doctor::new(self.client.clone(), registry::specs(&queues)))
    }

    /// Runs the pool until the program gets SIGINT or SIGTERM, then shuts it down. A
    /// second signal ends the shutdown timeout.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn) and [`RunningPool::wait`].
    pub async fn run(self) -> Result<()> {
        let mut signals = {
            let _entered = background::enter()?;
            Signals::listen()?
        };
        let running = tokio::select! {
            started = self.spawn() => started?,
            // What was taken until now is handed back.
            () = signals.next() => return Ok(()),
        };
        tokio::select! {
            ended = running.wait() => return ended,
            () = signals.next() => {}
        }
        tracing::info!("asked to stop: finishing the attempts that run");
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

    /// Starts the pool in the background. It is consuming when this returns.
    ///
    /// # Errors
    ///
    /// No jobs, two jobs of one name, two values of `concurrency` for one queue, a
    /// missing state, an invalid name; an engine that cannot be reached or refuses;
    /// [`Conflict`](crate::ErrorKind::Conflict) where something of a queue's name exists
    /// that is no queue of jobq, or where a policy loses or stalls its jobs (which only the
    /// [management API](crate::ClientBuilder::management) shows);
    /// [`Invalid`](crate::ErrorKind::Invalid) outside of a tokio runtime.
    pub async fn spawn(self) -> Result<RunningPool> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::invalid(
                "a pool runs its job functions in the tokio runtime in which it is spawned, and \
                 there is none here; spawn it from `#[tokio::main]` or `Runtime::block_on`",
            )
        })?;
        background::call(self.start(runtime)).await
    }

    async fn start(self, runtime: Handle) -> Result<RunningPool> {
        let queues = self.registry.check(self.concurrency)?;
        let background = background::handle()?;
        let engine = self.client.engine();
        let has_solo = engine.capabilities().solo;
        let mut specs = registry::specs(&queues);
        for spec in &mut specs {
            spec.solo = has_solo;
        }
        if specs.iter().any(|spec| !spec.patterns.is_empty()) {
            check_events(&**engine)?;
        }
        engine.declare(&specs).await?;
        if let Some(diagnose) = engine.diagnose() {
            refuse_weak(&diagnose.examine_policies(&specs).await?)?;
        }
        let mut consumers = Vec::new();
        for (name, queue) in &queues {
            let name = QueueName::new(name)?;
            let alone =
                if has_solo { Some(engine.consume(Consume::solo(name)).await?) } else { None };
            let together = engine.consume(Consume::new(name, queue.concurrency)).await?;
            consumers.push((name.as_str(), together, alone));
        }
        let about = match engine.diagnose() {
            Some(diagnose) => diagnose.about().await,
            None => About::new("an engine of the program's own"),
        };
        let told = queues.iter().map(|(name, queue)| (*name, queue.concurrency));
        telemetry::pool_started(&about.name, self.client.namespace(), told);
        if let Some(hold) = about.hold {
            let limits = self.registry.jobs.iter().map(|job| (job.name, job.options.timeout));
            telemetry::may_be_taken_back(&registry::may_outlast(limits, hold.limit), &hold);
        }
        let (plan, resources) = self.registry.into_plan(queues, self.client);
        let shared = Shared {
            resources: Arc::new(resources),
            has_solo,
            runtime,
            plan,
            solo_lock: SoloLock::new(),
            tally: Tally::default(),
            halt: CancellationToken::new(),
        };
        Ok(RunningPool::start(&Arc::new(shared), consumers, self.shutdown_timeout, background))
    }
}

/// Refuses to start on queues that lose or stall jobs, and tells what else is weak.
fn refuse_weak(findings: &[Finding]) -> Result<()> {
    let (errors, others): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.severity() == Severity::Error);
    others.into_iter().for_each(telemetry::weakened);
    if errors.is_empty() {
        return Ok(());
    }
    let errors: Vec<_> = errors.into_iter().map(Finding::sentence).collect();
    let text = format!("the pool does not start: {}", errors.join(". "));
    Err(Error::new(ErrorKind::Conflict, text))
}
