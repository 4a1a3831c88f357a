//! Clients: they enqueue jobs and publish events.

mod access;
mod administer;
pub(crate) mod builder;
mod close;
mod declare;
mod doctor;
mod enqueue;
mod enqueue_all;
mod enqueue_named;
mod environment;
mod observer;
pub(crate) mod open;
mod outgoing;
#[cfg(feature = "schedules")]
mod periodic;
mod publish;
#[cfg(feature = "schedules")]
mod schedule;
mod settings;
mod subscriber;

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use builder::ClientBuilder;
pub use doctor::{Doctor, DoctorFuture, doctor};
pub use enqueue::{Enqueue, EnqueueFuture};
pub use enqueue_all::{EnqueueAll, EnqueueAllError, EnqueueAllFuture};
pub use enqueue_named::{EnqueueNamed, EnqueueNamedFuture};
pub use outgoing::Outgoing;
pub use publish::{IntoTopic, Publish, PublishFuture};
#[cfg(feature = "schedules")]
pub use schedule::{ScheduleJob, ScheduleJobFuture};
pub use subscriber::{DeleteSubscriber, DeleteSubscriberFuture};

use self::declare::{Declared, JobKind};
use self::observer::Observer;
pub(crate) use self::outgoing::Hooks;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::job::{Envelope, Event, EventEnvelope, Job, program};
use crate::outbox::Row;
use crate::traces::Traces;

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
    observer: Observer,
    /// The engine's size limit of a payload, in bytes.
    largest_payload: usize,
    clock: Clock,
    declared: RwLock<Declared>,
    /// Cancelled when the client was closed.
    closed: CancellationToken,
    /// Tells relays of rows that are made.
    rows: watch::Sender<()>,
}

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
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// let client = jobq::Client::connect("amqp://ann:secret@mq-1,mq-2,mq-3/shop").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A URL of another form; a broker that cannot be reached or refuses, with the reason of
    /// each node; a file that cannot be used.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// A builder for a client with other settings.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = jobq::Client::builder("sqlite::memory:").timeout("5s").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(url.as_ref())
    }

    /// A client on an engine of your own. Unstable, as [`Engine`] is.
    ///
    /// ```
    /// # fn example(engine: std::sync::Arc<dyn jobq::engine::Engine>) {
    /// let client = jobq::Client::with_engine(engine, "shop");
    /// # }
    /// ```
    #[must_use]
    pub fn with_engine(engine: Arc<dyn Engine>, namespace: impl Into<String>) -> Self {
        Self::from_parts(engine, namespace.into(), &program(), Hooks::default(), None)
    }

    /// [`with_engine`](Self::with_engine), with hooks.
    #[cfg(feature = "testing")]
    pub(crate) fn with_hooks(engine: Arc<dyn Engine>, namespace: &str, hooks: Hooks) -> Self {
        Self::from_parts(engine, namespace.to_owned(), &program(), hooks, None)
    }

    fn from_parts(
        engine: Arc<dyn Engine>,
        namespace: String,
        program: &str,
        hooks: Hooks,
        traces: Option<Traces>,
    ) -> Self {
        let (program, declared) = (program.into(), RwLock::default());
        let (largest_payload, clock) = (engine.capabilities().largest_payload, engine.clock());
        Self {
            shared: Arc::new(Shared {
                engine,
                namespace,
                program,
                hooks,
                observer: Observer::new(traces),
                largest_payload,
                clock,
                declared,
                closed: CancellationToken::new(),
                rows: watch::Sender::new(()),
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
    /// A payload that cannot be written as JSON, that its type could not read from there
    /// ([checked](crate::JobOptions::unchecked) unless the job is `unchecked`), or that is larger than
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD); an engine that cannot be reached, refuses or does not
    /// support the options. [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) tells whether
    /// the job may be in the queue nevertheless.
    // By value, since enqueueing consumes the job.
    #[allow(clippy::needless_pass_by_value)]
    #[track_caller]
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue {
        Enqueue::new(self.clone(), &job)
    }

    /// Enqueues many jobs of one type, much faster than one after the other. Jobs of two types take
    /// two calls. Awaiting it returns the ids in the order of the jobs.
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
    /// only if it is [`mandatory`](Publish::mandatory). Nothing checks that a subscriber can read the
    /// event: if it cannot, its job fails as
    /// [`UnreadablePayload`](crate::FailedReason::UnreadablePayload).
    ///
    /// # Errors
    ///
    /// An invalid topic (valid are 1 to 200 bytes, words with single dots between them, without
    /// white space, `*` and `#`); an event that cannot be written as JSON or is larger than
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD); an engine that cannot be reached or refuses.
    /// [`Error::maybe_enqueued`](crate::Error::maybe_enqueued) tells whether the event may have
    /// been published nevertheless.
    #[track_caller]
    pub fn publish<E: Serialize + ?Sized>(&self, topic: impl IntoTopic, event: &E) -> Publish {
        Publish::new(self.clone(), topic.into(), event)
    }

    /// [Publishes](Self::publish) an event under the topic of its type.
    ///
    /// ```
    /// #[derive(serde::Serialize, jobq::Event)]
    /// #[event(topic = "user.created")]
    /// struct UserCreated {
    ///     user_id: u64,
    /// }
    ///
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.publish_event(&UserCreated { user_id: 7 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    #[track_caller]
    pub fn publish_event<E: Event>(&self, event: &E) -> Publish {
        self.publish(E::TOPIC, event)
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
            "the payload has {size} bytes, more than this engine's limit of {largest}; store the \
             data elsewhere and send a reference to it"
        )))
    }

    fn hooks(&self) -> &Hooks {
        &self.shared.hooks
    }

    fn observer(&self) -> &Observer {
        &self.shared.observer
    }

    /// The traces, if the client has a propagation.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.shared.observer.traces()
    }

    pub(crate) fn program(&self) -> &Arc<str> {
        &self.shared.program
    }

    /// The row of a job, whose transaction commits soon.
    fn row(&self, job: Envelope) -> Result<Row> {
        self.shared.rows.send_replace(());
        Row::of_job(self.namespace(), job)
    }

    /// The row of an event, whose transaction commits soon.
    fn row_of_event(&self, event: EventEnvelope, now: SystemTime) -> Result<Row> {
        self.shared.rows.send_replace(());
        Row::of_event(self.namespace(), event, now)
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    /// Changes with each row that this client makes.
    pub(crate) fn rows(&self) -> watch::Receiver<()> {
        self.shared.rows.subscribe()
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
