mod for_test;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::cancellation::{Cancellation, Cancelled};
use crate::client::Client;
use crate::error::Result;
#[cfg(feature = "schedules")]
use crate::job::headers::MISSED;
use crate::job::{Envelope, JobId, Priority};
use crate::outbox::Mark;

/// Argument of a job function: information about the attempt. Cloning it is cheap.
///
/// ```
/// use jobq::{JobContext, job};
///
/// #[job(retries = 5)]
/// async fn import(url: String, ctx: JobContext) -> Result<(), jobq::BoxError> {
///     println!("{url}: attempt {} of {}", ctx.attempt(), ctx.max_attempts());
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), jobq::BoxError> {
/// // In a test:
/// import("https://example.com".into(), JobContext::for_test()).await
/// # }
/// ```
///
/// What it tells:
///
/// ```
/// # use jobq::JobContext;
/// let ctx = JobContext::for_test().with_attempt(2, 4).with_topic("user.created");
/// assert_eq!((ctx.queue(), ctx.attempt(), ctx.max_attempts()), ("test", 2, 4));
/// assert_eq!((ctx.topic(), ctx.header("tenant")), (Some("user.created"), None));
/// assert_eq!(ctx.enqueued_by(), None); // else a program such as `shop-web`
/// assert_eq!(ctx.due(), ctx.enqueued_at()); // it has no delay
/// let late = ctx.now().duration_since(ctx.due()).unwrap_or_default();
/// println!("job {} starts {late:?} late", ctx.id());
/// assert_eq!((ctx.is_shutting_down(), ctx.cancellation()), (false, None));
/// ```
#[derive(Clone)]
pub struct JobContext {
    envelope: Arc<Envelope>,
    attempt: u32,
    max_attempts: u32,
    client: Client,
    cancelled: Cancelled,
    shutdown: CancellationToken,
}

impl JobContext {
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self {
            envelope: Arc::clone(attempt.envelope()),
            attempt: attempt.number(),
            max_attempts: attempt.max_attempts(),
            client: attempt.client().clone(),
            cancelled: attempt.cancelled().clone(),
            shutdown: attempt.shutdown().clone(),
        }
    }

    /// The job's id, the same in each attempt: a key for the effect of the job.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, job};
    ///
    /// #[job(retries = 3)]
    /// async fn charge(cents: u64, ctx: JobContext) -> Result<(), BoxError> {
    ///     let key = ctx.id().to_string(); // the bank charges each key once
    ///     pay(&key, cents).await
    /// }
    /// # async fn pay(_: &str, _: u64) -> Result<(), BoxError> { Ok(()) }
    /// ```
    #[must_use]
    pub fn id(&self) -> JobId {
        self.envelope.id
    }

    /// The mark of a step of this job in the table `jobq_inbox`, for a transaction of your database: an
    /// effect that commits together with its mark happens once. The module
    /// [`outbox`](crate::outbox) has the statement that inserts it. Each effect of a job that has a
    /// transaction of its own needs a step of its own.
    ///
    /// ```
    /// # fn main() -> jobq::Result<()> {
    /// let ctx = jobq::JobContext::for_test();
    /// let mark = ctx.mark("charge")?;
    /// assert_eq!((&*mark.step, mark.job_id), ("charge", ctx.id().to_string()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): a step without 1 to 120 bytes, or with NUL.
    pub fn mark(&self, step: &str) -> Result<Mark> {
        let name = self.envelope.name.as_deref().unwrap_or_default();
        Mark::new(self.client.namespace(), (self.queue(), name), self.id(), step)
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The maximum number of attempts, by the policy of this worker. The number of the attempt may
    /// exceed it if the policy was changed.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The queue of the job, without a namespace.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.envelope.queue
    }

    /// When the job was enqueued, by the clock of the enqueuing client, to the second or better.
    #[must_use]
    pub fn enqueued_at(&self) -> SystemTime {
        self.envelope.enqueued_at
    }

    /// The current time of the [clock](crate::Clock) of the client, which tests can move.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.client.clock().now()
    }

    /// When the first attempt was due: the time of enqueueing plus the delay, or the time of the schedule
    /// that enqueued the job.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.envelope.due()
    }

    /// The name of the schedule that enqueued the job, if one did.
    #[cfg(feature = "schedules")]
    #[must_use]
    pub fn schedule(&self) -> Option<&str> {
        self.envelope.schedule()
    }

    /// The number of missed times of its schedule that the job covers, in addition to the time at
    /// which it was [due](Self::due): see [`Missed`](crate::Missed). Zero for a job without a schedule.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, Missed, job};
    ///
    /// #[job(every = "10m", missed = "one")]
    /// async fn sample(ctx: JobContext) -> Result<(), BoxError> {
    ///     if ctx.missed() > 0 {
    ///         println!("{} samples are missing before {:?}", ctx.missed(), ctx.due());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "schedules")]
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.header(MISSED).and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// The priority of the job among those of its queue.
    ///
    /// ```
    /// use jobq::{JobContext, Priority};
    ///
    /// assert_eq!(JobContext::for_test().priority(), Priority::Normal);
    /// ```
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.envelope.priority()
    }

    /// The value of a header, if the job has it: see [`Enqueue::header`](crate::Enqueue::header). A
    /// message of another client has those of its headers whose name is `[a-z0-9-]` and whose value
    /// is text.
    ///
    /// ```
    /// use jobq::JobContext;
    ///
    /// let context = JobContext::for_test().with_header("tenant", "7");
    /// assert_eq!(context.header("tenant"), Some("7"));
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.envelope.headers.get(name)
    }

    /// The topic of the event, if the job was made from one: the published topic, on every attempt.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.envelope.topic.as_deref()
    }

    /// The program that enqueued the job or published its event, such as `shop-web`. Other clients
    /// may write anything here, or nothing.
    #[must_use]
    pub fn enqueued_by(&self) -> Option<&str> {
        self.envelope.enqueued_by.as_deref()
    }

    /// The client that the pool was built on, for enqueueing further jobs.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, job};
    ///
    /// #[job]
    /// async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// #[job]
    /// async fn sign_up(user_id: u64, ctx: JobContext) -> Result<(), BoxError> {
    ///     ctx.client().enqueue(SendWelcome { user_id }).delay("10m").await?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until the shutdown of the pool begins. The attempt may go on for the [shutdown
    /// timeout](crate::WorkerPool::shutdown_timeout), after which it is
    /// [cancelled](Self::cancelled): a long one can save its progress in this time.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, job};
    ///
    /// #[job]
    /// async fn import(file: String, ctx: JobContext) -> Result<(), BoxError> {
    ///     tokio::select! {
    ///         imported = read(&file) => imported,
    ///         () = ctx.shutting_down() => {
    ///             save(&file).await?;
    ///             // Another pool goes on, and no attempt is used up.
    ///             Err(jobq::snooze("0s"))?
    ///         }
    ///     }
    /// }
    /// # async fn read(_: &str) -> Result<(), BoxError> { Ok(()) }
    /// # async fn save(_: &str) -> Result<(), BoxError> { Ok(()) }
    /// ```
    pub async fn shutting_down(&self) {
        self.shutdown.cancelled().await;
    }

    /// Whether the [shutdown](Self::shutting_down) of the pool has begun, for the loop of a plain
    /// `fn`.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, job};
    ///
    /// #[job]
    /// fn import(lines: Vec<String>, ctx: JobContext) -> Result<(), BoxError> {
    ///     for line in lines {
    ///         if ctx.is_shutting_down() {
    ///             return Err(jobq::snooze("0s"))?; // another pool begins anew
    ///         }
    ///         println!("{line}");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// Waits until the attempt is cancelled: its timeout has passed, its pool is shutting down and
    /// the shutdown timeout is over, or an operator cancels the job.
    ///
    /// An operator's cancelling leaves the function five seconds to end, and counts a success in
    /// that time. Otherwise an async job function is dropped at that moment and its result ignored;
    /// await this in tasks that it spawned, which are not dropped.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, job};
    ///
    /// #[job(timeout = "10m")]
    /// async fn watch(url: String, ctx: JobContext) -> Result<(), BoxError> {
    ///     tokio::spawn(async move {
    ///         tokio::select! {
    ///             () = ctx.cancelled() => println!("{url}: ended, {:?}", ctx.cancellation()),
    ///             () = poll(&url) => {}
    ///         }
    ///     })
    ///     .await?;
    ///     Ok(())
    /// }
    /// # async fn poll(_: &str) {}
    /// ```
    pub async fn cancelled(&self) {
        self.cancelled.token().cancelled().await;
    }

    /// Whether the attempt is [cancelled](Self::cancelled). A blocking job function cannot be
    /// stopped from outside, so a long one should check it regularly.
    ///
    /// ```
    /// use jobq::{BoxError, JobContext, job};
    ///
    /// #[job(timeout = "10m")]
    /// fn resize(images: Vec<u64>, ctx: JobContext) -> Result<(), BoxError> {
    ///     for image in images {
    ///         if ctx.is_cancelled() {
    ///             return Err("cancelled".into());
    ///         }
    ///         println!("{image}");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.token().is_cancelled()
    }

    /// Why the attempt is [cancelled](Self::cancelled); `None` if it is not.
    #[must_use]
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.cancelled.why()
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("job", &self.envelope)
            .field("attempt", &self.attempt)
            .field("max_attempts", &self.max_attempts)
            .finish_non_exhaustive()
    }
}
