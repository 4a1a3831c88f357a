//! Clients: they enqueue jobs and publish events.

pub(crate) mod builder;
mod doctor;
mod enqueue;
mod enqueue_all;
mod enqueue_named;
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
pub use enqueue::{Enqueue, EnqueueFuture};
pub use enqueue_all::{EnqueueAll, EnqueueAllError, EnqueueAllFuture};
pub use enqueue_named::{EnqueueNamed, EnqueueNamedFuture};
pub use outgoing::Outgoing;
#[cfg(feature = "testing")]
pub(crate) use payload::Payload;
pub use publish::{Publish, PublishFuture};
pub use subscriber::{DeleteSubscriber, DeleteSubscriberFuture};
pub use times::IntoPeriod;

use self::kind::JobKind;
pub(crate) use self::outgoing::Hooks;
use crate::admin::{Admin, FailedJobs};
use crate::background;
use crate::clock::Clock;
use crate::engine::{Administer, Counts, Engine, administration};
use crate::error::{Error, Result};
use crate::job::{Event, Headers, Job, check_name, check_pattern, origin};
use crate::metrics::ClientMetrics;
use crate::traces::{Sending, Sent, Traces};

/// A connection to a RabbitMQ broker or to an embedded file. It enqueues jobs, and a
/// [`WorkerPool`](crate::WorkerPool) is built on it.
///
/// Cloning it is cheap, and all clones share the connection. Use one client per program.
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
    traces: Option<Traces>,
    /// The engine's size limit of a payload, in bytes.
    largest_payload: usize,
    clock: Clock,
    metrics: ClientMetrics,
    declared: Mutex<Declared>,
}

/// The job types whose queue was declared, with the queue and the origin of their jobs.
type Declared = BTreeMap<TypeId, (&'static str, Arc<str>)>;

impl Client {
    /// Connects to the engine of the URL, with the default settings:
    ///
    /// * `amqp://user:password@host:5672/vhost` or `amqps://...`: a RabbitMQ broker; the vhost
    ///   defaults to `/`, the port to 5672, or to 5671 with TLS,
    /// * `amqp://user:password@a:5672,b:5672,c/vhost`: several nodes of one cluster,
    /// * `sqlite://jobs.db` (relative) or `sqlite:///var/lib/shop/jobs.db`: a file,
    ///   which is created if it is missing,
    /// * `sqlite::memory:`: in the memory of this process, for tests.
    ///
    /// Of several nodes a random one is tried first, then each of the others once. If a node fails,
    /// its clients and pools reconnect to the next one, and declare their queues there. Each node
    /// has its share of the [timeout](ClientBuilder::timeout) to answer, or `?connection_timeout=`
    /// in milliseconds. If one node refuses the user, the others are not tried. The nodes must form
    /// one cluster: separate brokers have different jobs.
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

    /// Connects to the URL in the environment variable `JOBQ_URL`, or to `sqlite://jobq.db` if it
    /// is not set or empty, and logs the absolute path of that file. See
    /// [`ClientBuilder::from_env`] for other variables.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn from_env() -> Result<Self> {
        ClientBuilder::from_env()?.connect().await
    }

    /// A builder for a client with other settings.
    pub fn builder(url: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(url.as_ref())
    }

    /// A client on an engine of your own. Unstable, as [`Engine`] is.
    #[must_use]
    pub fn on_engine(engine: Arc<dyn Engine>, namespace: impl Into<String>) -> Self {
        Self::new(engine, namespace.into(), &builder::program(), Hooks::default(), None)
    }

    /// [`on_engine`](Self::on_engine), with hooks.
    #[cfg(feature = "testing")]
    pub(crate) fn with_hooks(engine: Arc<dyn Engine>, namespace: &str, hooks: Hooks) -> Self {
        Self::new(engine, namespace.to_owned(), &builder::program(), hooks, None)
    }

    fn new(
        engine: Arc<dyn Engine>,
        namespace: String,
        program: &str,
        hooks: Hooks,
        traces: Option<Traces>,
    ) -> Self {
        let (program, declared) = (program.into(), Mutex::default());
        let (largest_payload, clock) = (engine.capabilities().largest_payload, engine.clock());
        let metrics = ClientMetrics::new();
        Self {
            shared: Arc::new(Shared {
                engine,
                namespace,
                program,
                hooks,
                traces,
                largest_payload,
                clock,
                metrics,
                declared,
            }),
        }
    }

    /// Enqueues a job. Set its options, then await it:
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
    /// When it returns `Ok`, the job is stored durably: it runs at least once, or becomes a [failed
    /// job](Self::failed).
    ///
    /// # Errors
    ///
    /// A payload that cannot be written as JSON or is larger than
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD); an engine that cannot be reached, refuses or does not
    /// support the options. [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) tells whether
    /// the job may be in the queue nevertheless.
    // By value, since enqueueing consumes the job.
    #[allow(clippy::needless_pass_by_value)]
    #[track_caller]
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue {
        Enqueue::new(self.clone(), &job)
    }

    /// Enqueues many jobs of one type, much faster than one after the other. Awaiting it returns
    /// the ids in the order of the jobs.
    ///
    /// The iterator makes the next jobs while the previous ones are sent, so that a million jobs
    /// are never in memory at once:
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
    /// The iterator runs in the calling task and blocks it while it makes a job.
    ///
    /// # Errors
    ///
    /// An [`EnqueueAllError`] if any job was not accepted. It lists by index the jobs that were
    /// accepted, refused, and possibly accepted: the call is not atomic.
    #[track_caller]
    pub fn enqueue_all<'j, J, I>(&self, jobs: I) -> EnqueueAll<'j>
    where
        J: Job,
        I: IntoIterator<Item = J, IntoIter: Send + 'j>,
    {
        EnqueueAll::new(self.clone(), jobs)
    }

    /// Enqueues a job whose type this program does not have, by its name and its queue: for tools
    /// and gateways. Set its options, then await it:
    ///
    /// ```
    /// # use jobq::Client;
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let payload = serde_json::json!({"user_id": 7, "email": "ann@example.com"});
    /// client.enqueue_named("send_welcome", "send_welcome", &payload).delay("10m").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The queue is declared if it does not exist. Nothing checks that a worker knows the job or
    /// can read its payload: a job that no worker knows fails as
    /// [`UnknownJob`](crate::FailedReason::UnknownJob), and one with another payload as
    /// [`UnreadablePayload`](crate::FailedReason::UnreadablePayload). The policy of retries is that
    /// of the worker; an `expires` of the job does not apply. Where the program has the type,
    /// [`enqueue`](Self::enqueue) is faster.
    ///
    /// # Errors
    ///
    /// An invalid name of the job or the queue; otherwise as [`enqueue`](Self::enqueue).
    #[track_caller]
    pub fn enqueue_named<P: Serialize + ?Sized>(
        &self,
        name: impl Into<String>,
        queue: impl Into<String>,
        payload: &P,
    ) -> EnqueueNamed {
        EnqueueNamed::new(self.clone(), name.into(), queue.into(), payload)
    }

    /// Publishes an event. Every job that subscribes to its topic (`#[job(on = ...)]`) gets a copy
    /// in its own queue, with its own attempts, retries and failed jobs. Set its options, then
    /// await it:
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
    /// When it returns `Ok`, the event is stored durably for each subscriber at that time. A
    /// subscription exists from the first [`declare`](Self::declare) of its job or the first start
    /// of its pool: make that a step of the deployment. An event without subscribers is an error
    /// only if it is [`mandatory`](Publish::mandatory).
    ///
    /// # Errors
    ///
    /// An invalid topic (valid are 1 to 200 bytes, words with single dots between them, without
    /// white space, `*` and `#`); an event that cannot be written as JSON or is larger than
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD); an engine that cannot be reached or refuses.
    /// [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) tells whether the event may have
    /// been published nevertheless.
    #[track_caller]
    pub fn publish<E: Serialize + ?Sized>(&self, topic: impl Into<String>, event: &E) -> Publish {
        Publish::new(self.clone(), topic.into(), event)
    }

    /// [Publishes](Self::publish) an event under the topic of its type.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    #[track_caller]
    pub fn publish_event<E: Event>(&self, event: &E) -> Publish {
        self.publish(E::TOPIC, event)
    }

    /// Ends the subscription of a job to a pattern that its code no longer has. Declaring adds
    /// subscriptions and never ends one, since old and new workers run side by side during a
    /// deployment; call this when no old worker runs any more. Jobs already in the queue stay.
    /// Ending a subscription that does not exist does nothing.
    ///
    /// # Errors
    ///
    /// An invalid pattern; an engine that cannot be reached or refuses.
    pub async fn unsubscribe<J: Job>(&self, pattern: &str) -> Result<()> {
        check_pattern(pattern)?;
        let kind = JobKind::of::<J>();
        kind.check()?;
        background::call(self.administration()?.unsubscribe(kind.queue, pattern)).await?;
        self.forget(&kind);
        Ok(())
    }

    /// Deletes a subscriber for good: its subscriptions, its queue, its tiers and its failed jobs.
    /// It refuses while there are jobs or pools, unless [forced](DeleteSubscriber::force). Awaiting
    /// it returns the number of deleted jobs. Call it when no worker and no client uses the job any
    /// more: a pool that starts or a client that declares creates the subscriber again.
    ///
    /// On RabbitMQ three kinds of jobs are not seen: jobs in flight in a pool that is shutting
    /// down, jobs in the delay levels, and overdue retries that the broker has not passed on yet.
    /// Jobs in the levels become failed jobs of `orphan` when their wait is over. The retries are
    /// deleted: after a crash of the broker, or after the queue was full, wait three minutes. A
    /// tier for a wait of an earlier version of the job's `delay` remains, empty.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if it has jobs or is consumed: nothing has changed
    /// then; an engine that cannot be reached or refuses.
    pub fn delete_subscriber<J: Job>(&self) -> DeleteSubscriber {
        DeleteSubscriber::new(self.clone(), JobKind::of::<J>())
    }

    /// Declares the queue of a job type, with its subscriptions. The first
    /// [`enqueue`](Self::enqueue) does it, too; call this to do it when a program is deployed or
    /// started.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses;
    /// [`Conflict`](crate::ErrorKind::Conflict) if something that is not a queue of jobq has the
    /// queue's name.
    pub async fn declare<J: Job>(&self) -> Result<()> {
        self.declare_kind(&JobKind::of::<J>()).await.map(drop)
    }

    /// Declares the queues for jobs with a [delay](Enqueue::delay), and for retries whose wait
    /// grows or is set at run time. The first such job does it, too: on RabbitMQ that takes a
    /// second or two, since there are more than a hundred queues. A namespace needs it once;
    /// calling it again changes nothing. On SQLite it does nothing.
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    pub async fn declare_delays(&self) -> Result<()> {
        background::call(self.engine().declare_delays()).await
    }

    /// Declares the queue of a job type unless this client has done so, and returns the origin of
    /// its jobs.
    async fn declare_kind(&self, kind: &JobKind) -> Result<Arc<str>> {
        if let Some(origin) = self.origin(kind) {
            return Ok(origin);
        }
        kind.check()?;
        // Several callers may do so at once, each with its own timeout.
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

    /// Forgets the declaration, so that the next job declares the queue again.
    fn forget(&self, kind: &JobKind) {
        self.declared().retain(|_, (queue, _)| *queue != kind.queue);
    }

    /// The failed jobs of a queue. The queue of a job defaults to the job's name.
    #[must_use]
    pub fn failed(&self, queue: impl Into<String>) -> FailedJobs {
        FailedJobs::new(Arc::clone(self.engine()), queue.into())
    }

    /// The administration of queues and pools.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(Arc::clone(self.engine()))
    }

    /// The numbers of jobs in a queue; all 0 if it does not exist.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses.
    pub async fn counts(&self, queue: &str) -> Result<Counts> {
        check_name("queue", queue)?;
        background::call(self.administration()?.counts(queue)).await
    }

    /// Looks for settings of the broker or the file that weaken the guarantees of jobq: versions,
    /// timeouts, queues that are not jobq's, alarms, disks; with the URL of the management API
    /// ([`ClientBuilder::management`]) also policies, bindings and nodes. It changes nothing. Add
    /// jobs and queues, then await it:
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
    /// It examines the added queues and those that this client and its pools declared; with the
    /// management API, all queues of the namespace. On RabbitMQ it opens a connection of its own
    /// and publishes one message that reaches no queue.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses. A failed single check is a
    /// finding, [`Unchecked`](crate::FindingKind::Unchecked).
    pub fn doctor(&self) -> Doctor {
        Doctor::new(self.clone(), Vec::new())
    }

    /// Closes the connection. Pools on this client end too, and their jobs in flight are released.
    /// Every later call of this client or a clone fails as [`Closed`](crate::ErrorKind::Closed).
    pub async fn close(&self) {
        let closing = async {
            self.engine().close().await;
            Ok::<_, Error>(())
        };
        // A forked process has nothing to close.
        let _ = background::call(closing).await;
    }

    fn administration(&self) -> Result<&dyn Administer> {
        administration(&**self.engine())
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Returns an error if a payload exceeds the engine's limit.
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

    fn metrics(&self) -> &ClientMetrics {
        &self.shared.metrics
    }

    /// The traces, if the client has a propagation.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.shared.traces.as_ref()
    }

    /// Begins the span of a call that sends, if the client has a propagation.
    fn sending(&self, sent: &Sent<'_>) -> Option<Sending> {
        self.traces().map(|traces| traces.send(sent))
    }

    /// Adds the context of a call that sends to the headers of a job.
    fn add_context(&self, sending: Option<&Sending>, headers: &mut Headers) {
        if let (Some(traces), Some(sending)) = (self.traces(), sending) {
            traces.add_context(sending, headers);
        }
    }

    fn program(&self) -> &Arc<str> {
        &self.shared.program
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
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
