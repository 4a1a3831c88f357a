//! Enqueueing jobs.

mod builder;
mod enqueue;
pub(crate) mod open;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

pub use builder::ClientBuilder;
pub use enqueue::{Enqueue, EnqueueAll, EnqueueAllError, EnqueueAllFuture, EnqueueFuture};

use crate::admin::FailedJobs;
use crate::engine::{Counts, Engine, QueueSpec};
use crate::error::Result;
use crate::job::{Job, JobOptions, check_name, queue_of};
use crate::retry;

/// A connection to a RabbitMQ broker or to an embedded file, to enqueue jobs through
/// and to build a [`WorkerPool`](crate::WorkerPool) on.
///
/// Cloning it is cheap, and all clones share the connection. Make one for a program.
///
/// ```
/// use jobq::{Client, job};
///
/// #[job(retries = 5, delay = "1m")]
/// async fn send_welcome(user_id: u64) -> Result<(), jobq::BoxError> {
///     println!("welcome, {user_id}");
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let id = client.enqueue(SendWelcome { user_id: 7 }).await?;
/// println!("enqueued {id}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn Engine>,
    namespace: String,
    declared: Mutex<Declared>,
}

/// The job types that were met, by name and queue, so that each is declared once.
type Declared = HashMap<(&'static str, &'static str), Arc<OnceCell<()>>>;

impl Client {
    /// Connects to the engine that the URL names, with the default settings:
    ///
    /// * `amqp://user:password@host:5672/vhost` or `amqps://...`: a RabbitMQ broker,
    /// * `sqlite://jobs.db` (relative) or `sqlite:///var/lib/shop/jobs.db`: a file,
    ///   which is made if it is missing,
    /// * `sqlite::memory:`: in the memory of this process, for tests.
    ///
    /// # Errors
    ///
    /// A URL of another form; a broker that cannot be reached or refuses; a file that
    /// cannot be used.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Connects to the URL in the environment variable `JOBQ_URL`, or, if it is not set
    /// or empty, to `sqlite://jobq.db`, and logs the absolute path of that file.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn from_env() -> Result<Self> {
        ClientBuilder::from_env()?.connect().await
    }

    /// A client with settings of its own.
    pub fn builder(url: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(url.as_ref())
    }

    /// A client on an engine of your own. Unstable, as [`Engine`] is.
    #[must_use]
    pub fn on_engine(engine: Arc<dyn Engine>, namespace: impl Into<String>) -> Self {
        let declared = Mutex::default();
        Self { shared: Arc::new(Shared { engine, namespace: namespace.into(), declared }) }
    }

    /// Enqueues a job. Await the result; its options come before that:
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # use std::time::Duration;
    /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// client.enqueue(Remind { user_id: 7 }).delay(Duration::from_secs(600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns `Ok`, the job is stored durably: it runs at least once, or is
    /// found among the [failed jobs](Self::failed).
    ///
    /// # Errors
    ///
    /// A payload that cannot be written as JSON or is larger than
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD); an engine that cannot be reached, refuses or
    /// cannot do what the options ask. [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) tells whether the job
    /// may be in the queue all the same.
    // By value, as a job that is handed over is no longer the caller's.
    #[allow(clippy::needless_pass_by_value)]
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue {
        Enqueue::new(self.clone(), &job)
    }

    /// Enqueues many jobs of one type, much faster than one after the other. Await the
    /// result: the ids in the order of the jobs.
    ///
    /// # Errors
    ///
    /// If any job was not accepted: an [`EnqueueAllError`] that lists by index which
    /// were, which were not and which may have been. It is not all or nothing.
    pub fn enqueue_all<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> EnqueueAll {
        EnqueueAll::new(self.clone(), jobs)
    }

    /// Makes the queue of a job type ready. [`enqueue`](Self::enqueue) does it the first
    /// time; calling it when a program is deployed or started moves that moment.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses;
    /// [`Conflict`](crate::ErrorKind::Conflict) where something of the queue's name
    /// exists that is no queue of jobq.
    pub async fn declare<J: Job>(&self) -> Result<()> {
        self.declare_kind(&JobKind::of::<J>()).await
    }

    async fn declare_kind(&self, kind: &JobKind) -> Result<()> {
        let cell = {
            let declared = self.shared.declared.lock();
            let mut declared = declared.unwrap_or_else(PoisonError::into_inner);
            Arc::clone(declared.entry((kind.name, kind.queue)).or_default())
        };
        let declare = || async {
            check_name("job", kind.name)?;
            check_name("queue", kind.queue)?;
            let spec =
                QueueSpec { name: kind.queue.to_owned(), waits: retry::waits(&kind.options) };
            self.engine().declare(&[spec]).await
        };
        cell.get_or_try_init(declare).await?;
        Ok(())
    }

    /// The failed jobs of a queue. A job that names no queue of its own is in the queue
    /// of its name.
    #[must_use]
    pub fn failed(&self, queue: impl Into<String>) -> FailedJobs {
        FailedJobs::new(Arc::clone(self.engine()), queue.into())
    }

    /// How many jobs are in a queue. A queue that does not exist has none.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses.
    pub async fn counts(&self, queue: &str) -> Result<Counts> {
        check_name("queue", queue)?;
        self.engine().counts(queue).await
    }

    /// Ends the connection. Pools on this client end too; what they had in hand is
    /// handed back. Every later call of this client or a clone fails as closed.
    pub async fn close(&self) {
        self.engine().close().await;
    }

    #[cfg(feature = "rabbitmq")]
    pub(crate) fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }
}

/// What a client needs to know of a job type.
#[derive(Debug, Clone, Copy)]
struct JobKind {
    name: &'static str,
    queue: &'static str,
    options: JobOptions,
}

impl JobKind {
    fn of<J: Job>() -> Self {
        Self { name: J::NAME, queue: queue_of::<J>(), options: J::OPTIONS }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("engine", &self.shared.engine)
            .field("namespace", &self.shared.namespace)
            .finish_non_exhaustive()
    }
}
