//! Enqueueing jobs and publishing events.

mod awaitable;
pub(crate) mod builder;
mod doctor;
mod enqueue;
mod environment;
mod kind;
pub(crate) mod open;
mod outgoing;
mod payload;
mod publish;
mod subscriber;
mod times;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

pub use builder::ClientBuilder;
pub use doctor::{Doctor, DoctorFuture, doctor};
pub use enqueue::{Enqueue, EnqueueAll, EnqueueAllError, EnqueueAllFuture, EnqueueFuture};
pub use outgoing::Outgoing;
pub use publish::{Publish, PublishFuture};
pub use subscriber::{DeleteSubscriber, DeleteSubscriberFuture};
pub use times::IntoPeriod;

use self::kind::JobKind;
use self::outgoing::Hooks;
use crate::admin::FailedJobs;
use crate::background;
use crate::engine::{Administer, Counts, Engine, administration};
use crate::error::{Error, Result};
use crate::job::{Event, Job, check_name, check_pattern, origin};

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
    /// The name of this program.
    program: Arc<str>,
    hooks: Hooks,
    /// The most bytes of a payload that the engine takes.
    largest_payload: usize,
    declared: Mutex<Declared>,
}

/// The job types whose queue was declared, so that it is declared once: the queue of each, and the
/// origin of its jobs.
type Declared = BTreeMap<TypeId, (&'static str, Arc<str>)>;

impl Client {
    /// Connects to the engine that the URL names, with the default settings:
    ///
    /// * `amqp://user:password@host:5672/vhost` or `amqps://...`: a RabbitMQ broker; without
    ///   a path the vhost `/`, without a port 5672 or with TLS 5671,
    /// * `amqp://user:password@a:5672,b:5672,c/vhost`: several nodes of one cluster,
    /// * `sqlite://jobs.db` (relative) or `sqlite:///var/lib/shop/jobs.db`: a file,
    ///   which is made if it is missing,
    /// * `sqlite::memory:`: in the memory of this process, for tests.
    ///
    /// Of several nodes any takes the connection: a random one is tried first, then each of
    /// the others once. Where a node dies, its clients and pools go on at the next one, and
    /// declare there what they use. Each node has its share of the
    /// [timeout](ClientBuilder::timeout) to answer, or what `?connection_timeout=` states in
    /// milliseconds. A user whom one node refuses is not tried at the others. The nodes must
    /// be those of one cluster: brokers that do not know each other have different jobs.
    ///
    /// In a user name, password or vhost write `/` as `%2F`, `@` as `%40`, `:` as `%3A`, `?`
    /// as `%3F`, `#` as `%23` and `%` as `%25`.
    ///
    /// # Errors
    ///
    /// A URL of another form; a broker that cannot be reached or refuses, with the reason of
    /// each node; a file that cannot be used.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Connects to the URL in the environment variable `JOBQ_URL`, or, if it is not set
    /// or empty, to `sqlite://jobq.db`, and logs the absolute path of that file. What else
    /// the environment may state: [`ClientBuilder::from_env`].
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
        Self::new(engine, namespace.into(), &builder::program(), Hooks::default())
    }

    fn new(engine: Arc<dyn Engine>, namespace: String, program: &str, hooks: Hooks) -> Self {
        let (program, declared) = (program.into(), Mutex::default());
        let largest_payload = engine.capabilities().largest_payload;
        let shared = Shared { engine, namespace, program, hooks, largest_payload, declared };
        Self { shared: Arc::new(shared) }
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
    /// The iterator is asked for the next jobs while those before them are sent, so that a
    /// million of them are never in memory at once:
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let ids = client.enqueue_all((1..=1_000_000).map(|user_id| Remind { user_id })).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It runs in your task, which does nothing else while the iterator makes a job.
    ///
    /// # Errors
    ///
    /// If any job was not accepted: an [`EnqueueAllError`] that lists by index which
    /// were, which were not and which may have been. It is not all or nothing.
    pub fn enqueue_all<'j, J, I>(&self, jobs: I) -> EnqueueAll<'j>
    where
        J: Job,
        I: IntoIterator<Item = J, IntoIter: Send + 'j>,
    {
        EnqueueAll::new(self.clone(), jobs)
    }

    /// Publishes an event. Every job that subscribes to its topic (`#[job(on = ...)]`)
    /// gets a copy in its own queue, with its own attempts, retries and failed jobs. Await
    /// the result; its options come before that:
    ///
    /// ```
    /// # use jobq::Client;
    /// # use std::time::Duration;
    /// #[derive(serde::Serialize)]
    /// struct UserCreated {
    ///     user_id: u64,
    /// }
    ///
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let event = UserCreated { user_id: 7 };
    /// client.publish("user.created", &event).expires_in(Duration::from_secs(3_600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns `Ok`, the event is stored durably for each subscriber that there
    /// was. A subscription exists from the first [`declare`](Self::declare) of its job on,
    /// or the first start of its pool: make that a step of the deploy. An event that
    /// nobody subscribes to is no error unless it is [`mandatory`](Publish::mandatory).
    ///
    /// # Errors
    ///
    /// A topic that is none: 1 to 200 bytes, words with single dots between them, without
    /// white space, `*` and `#`; an event that cannot be written as JSON or is larger than
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD); an engine that cannot be reached or refuses.
    /// [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) tells whether the event may
    /// have been published all the same.
    pub fn publish<E: Serialize + ?Sized>(&self, topic: impl Into<String>, event: &E) -> Publish {
        Publish::new(self.clone(), topic.into(), event)
    }

    /// [Publishes](Self::publish) an event under the topic of its type.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub fn publish_event<E: Event>(&self, event: &E) -> Publish {
        self.publish(E::TOPIC, event)
    }

    /// Ends the subscription of a job to a pattern: one that its code has named before and
    /// names no more. Declaring adds subscriptions and never ends one, since old and new
    /// workers run side by side while a program is deployed; call this when none of the
    /// old ones runs any more. What the subscription has brought stays in the queue. A
    /// subscription that does not exist has ended already.
    ///
    /// # Errors
    ///
    /// A pattern that is none; an engine that cannot be reached or refuses.
    pub async fn unsubscribe<J: Job>(&self, pattern: &str) -> Result<()> {
        check_pattern(pattern)?;
        let kind = JobKind::of::<J>();
        kind.check()?;
        background::call(self.administration()?.unsubscribe(kind.queue, pattern)).await?;
        self.forget(&kind);
        Ok(())
    }

    /// Deletes a subscriber for good: its subscriptions, its queue, its tiers and its
    /// failed jobs. It refuses while there are jobs or pools, unless
    /// [forced](DeleteSubscriber::force). Await the result: the number of jobs that were
    /// deleted. Call it when no worker and no client uses the job any more: a pool that
    /// starts or a client that declares brings the subscriber back.
    ///
    /// On RabbitMQ jobs in the hands of a pool that is shutting down, jobs in the delay
    /// levels, and overdue retries that the broker has not passed on yet cannot be seen.
    /// Those in the levels are found among the failed jobs of `orphan` when their wait is
    /// over. The retries are deleted: after a crash of the broker, or after the queue was
    /// full, wait three minutes. A tier for a wait that the job's `delay` named in an
    /// earlier version stays behind, empty.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) where it has jobs or is consumed, and then
    /// nothing has changed; an engine that cannot be reached or refuses.
    pub fn delete_subscriber<J: Job>(&self) -> DeleteSubscriber {
        DeleteSubscriber::new(self.clone(), JobKind::of::<J>())
    }

    /// Makes the queue of a job type ready, with its subscriptions.
    /// [`enqueue`](Self::enqueue) does it the first time; calling it when a program is deployed or started moves that moment.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses;
    /// [`Conflict`](crate::ErrorKind::Conflict) where something of the queue's name
    /// exists that is no queue of jobq.
    pub async fn declare<J: Job>(&self) -> Result<()> {
        self.declare_kind(&JobKind::of::<J>()).await.map(drop)
    }

    /// Makes ready what jobs with a [delay](Enqueue::delay) wait in, and retries whose wait
    /// grows or is stated at run time. The first such job does it otherwise: on RabbitMQ that
    /// takes a second or two, since there are more than a hundred queues. A namespace needs it
    /// once; calling it again changes nothing. On SQLite there is nothing to do.
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    pub async fn declare_delays(&self) -> Result<()> {
        background::call(self.engine().declare_delays()).await
    }

    /// Declares the queue of a job type if this client has not, and gives the origin of its jobs.
    async fn declare_kind(&self, kind: &JobKind) -> Result<Arc<str>> {
        if let Some(origin) = self.origin(kind) {
            return Ok(origin);
        }
        kind.check()?;
        // Several callers may do so at once, each with a time limit of its own.
        background::call(self.engine().declare(&[kind.spec()])).await?;
        let origin = origin(self.program(), kind.type_name);
        self.declared().insert(kind.type_id, (kind.queue, Arc::clone(&origin)));
        Ok(origin)
    }

    /// The origin of the jobs of a type whose queue this client has declared.
    fn origin(&self, kind: &JobKind) -> Option<Arc<str>> {
        self.declared().get(&kind.type_id).map(|(_, origin)| Arc::clone(origin))
    }

    fn declared(&self) -> MutexGuard<'_, Declared> {
        self.shared.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job in the queue of this type has it declared again.
    fn forget(&self, kind: &JobKind) {
        self.declared().retain(|_, (queue, _)| *queue != kind.queue);
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
        background::call(self.administration()?.counts(queue)).await
    }

    /// Looks for settings of the broker or the file that weaken what jobq promises: versions,
    /// timeouts, queues that are not jobq's, alarms, disks; and through the management API,
    /// where its URL was given ([`ClientBuilder::management`]), policies, bindings and nodes.
    /// Nothing is changed. Await the result; what it is to look at comes before that:
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let report = client.doctor().job::<Remind>().queue("mail").await?;
    /// for finding in report.errors() {
    ///     eprintln!("{finding}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It looks at the queues that are named, and those that this client and its pools
    /// declared; with the management API at all queues of the namespace. On RabbitMQ it
    /// opens a connection of its own and publishes one message that reaches no queue.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses. What cannot be looked
    /// at alone is a finding, [`Unchecked`](crate::FindingKind::Unchecked).
    pub fn doctor(&self) -> Doctor {
        Doctor::new(self.clone(), Vec::new())
    }

    /// Ends the connection. Pools on this client end too; what they had in hand is
    /// handed back. Every later call of this client or a clone fails as closed.
    pub async fn close(&self) {
        let closing = async {
            self.engine().close().await;
            Ok::<_, Error>(())
        };
        // A process that was forked has nothing to close.
        let _ = background::call(closing).await;
    }

    fn administration(&self) -> Result<&dyn Administer> {
        administration(&**self.engine())
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Refuses a payload that is larger than the engine takes.
    fn check_size(&self, payload: &[u8]) -> Result<()> {
        let (size, largest) = (payload.len(), self.shared.largest_payload);
        if size <= largest {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the payload has {size} bytes, and this engine takes {largest}; store the data \
             elsewhere and send where to find it"
        )))
    }

    fn hooks(&self) -> &Hooks {
        &self.shared.hooks
    }

    fn program(&self) -> &Arc<str> {
        &self.shared.program
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
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
