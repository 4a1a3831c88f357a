//! The engine for `amqp://` and `amqps://` URLs: RabbitMQ, through `lapin`.
//!
//! `wanted`, `names`, `key`, `topology`, `rotation`, `levels`, `route`, `way`, `wire`, `death`, `conflict`, `acks`, `merge`, `depth`, `address`,
//! `tls` and `unconnected` are pure; the others do what those say. Each connection is a `link`, which comes back by itself.

mod connection;
mod consume;
mod counts;
mod doctor;
mod errors;
mod events;
mod failed;
#[cfg(all(feature = "testing", feature = "sqlite"))]
pub(crate) mod invariants;
mod lapin;
mod message;
mod publish;
#[cfg(all(feature = "testing", feature = "sqlite"))]
pub(crate) mod pure;
mod stray;
pub(crate) mod topology;
mod values;

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::address::{Address, CHANNELS, FEWEST_CHANNELS};
use self::connection::link::{Link, Target};
use self::connection::tls::Tls;
use self::consume::consumer::Source;
#[cfg(feature = "management")]
use self::doctor::Management;
use self::errors::timed_out;
use self::failed::{Failed, carried_through};
use self::publish::Publisher;
use self::topology::declared::Declared;
use self::topology::ensure::{FIRST_MOMENTS, apply};
use self::topology::names::Names;
use self::topology::requirements::Wanted;
use crate::background;
use crate::engine::{
    About, Consumer, Counts, Engine, EngineOptions, NotPushed, Pushing, QueueSpec, Which, closed,
};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Finding, Report};
use crate::job::{Envelope, EventEnvelope, FailedJob, JobId, check_name, check_pattern};

pub use self::topology::declarations::Topology;

/// How many of the jobs that are run alone may be in hand: a job whose start was recorded
/// is behind all others.
const SOLO_PREFETCH: u16 = 10_000;
/// How long the last acknowledgements may take when the engine is closed.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Connects to a broker.
///
/// # Errors
///
/// A URL that is none, certificates that cannot be used, a broker that cannot be reached
/// or refuses.
pub(crate) async fn connect(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    background::handle()?;
    let address = Address::parse(url, options.timeout)?;
    let tls = Tls::new(&options.certificates, &address)?;
    let target = Arc::new(Target { address, tls, timeout: options.timeout });
    #[cfg(feature = "management")]
    let management = match &options.management {
        Some(url) => Some(Management::new(url, &target.address, &options)?),
        None => None,
    };
    let name = format!("{} (publishing)", options.connection_name);
    let publishing = if options.is_lazy {
        Link::open_lazily(Arc::clone(&target), name)
    } else {
        Link::open(Arc::clone(&target), name).await?
    };
    let names = Names::new(options.namespace.clone());
    let declared = Arc::new(Declared::new(names.clone()));
    connection::probe::watch(&publishing, &target, names.orphan());
    let publisher = Publisher::spawn(publishing.clone(), Arc::clone(&declared), options.timeout);
    Ok(Arc::new(Rabbit(Arc::new(Core {
        target,
        #[cfg(feature = "management")]
        management,
        limited: std::sync::Mutex::default(),
        options,
        names,
        declared,
        declaring: Mutex::default(),
        publishing,
        consuming: OnceCell::new(),
        publisher,
        failed: Failed::default(),
        missing: std::sync::Mutex::default(),
        closing: CancellationToken::new(),
        last_word: CancellationToken::new(),
        tasks: TaskTracker::new(),
        tellers: TaskTracker::new(),
    }))))
}

#[derive(Debug)]
struct Rabbit(Arc<Core>);

/// What the parts of the engine share.
#[derive(Debug)]
pub(crate) struct Core {
    target: Arc<Target>,
    /// Where the user gave its URL.
    #[cfg(feature = "management")]
    management: Option<Management>,
    /// The queues of which a policy was seen to lose messages.
    limited: std::sync::Mutex<HashSet<String>>,
    options: EngineOptions,
    names: Names,
    declared: Arc<Declared>,
    declaring: Mutex<()>,
    publishing: Link,
    /// Opened by the first consumer. A connection of its own, since the broker stops
    /// reading from those that publish when it is short of memory or disk.
    consuming: OnceCell<Link>,
    publisher: Arc<Publisher>,
    failed: Failed,
    /// The queues that were looked for in vain, and when.
    missing: std::sync::Mutex<HashMap<String, Instant>>,
    /// No new calls, and consumers end.
    closing: CancellationToken,
    /// Those who tell the broker what was settled end, after the consumers.
    last_word: CancellationToken,
    /// Consumers.
    tasks: TaskTracker,
    /// Those who tell the broker what was settled, and outlive the consumers.
    tellers: TaskTracker,
}

impl Core {
    /// Waits for an answer for no longer than the options say.
    async fn within<T>(&self, doing: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.options.timeout;
        if self.closing.is_cancelled() {
            return Err(closed());
        }
        let out_of_time = |_| Err(timed_out(doing, limit, &self.publishing.trouble()));
        timeout(limit, work).await.unwrap_or_else(out_of_time)
    }

    async fn declare(&self, wanted: Wanted) -> Result<()> {
        if self.closing.is_cancelled() {
            return Err(closed());
        }
        if self.declared.covers(&wanted) {
            return Ok(());
        }
        // The wait for those who declare too is a part of the time that it may take.
        let declared = self.within("declaring queues", async {
            let turn = self.declaring.lock().await;
            if self.declared.covers(&wanted) {
                return Ok(None);
            }
            self.missing.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.check_channels(&wanted).await?;
            let topology = self.declared.topology(&wanted);
            Ok(Some((turn, self.apply_surely(&topology).await?)))
        });
        let Some((_turn, created)) = declared.await? else {
            return Ok(());
        };
        if created {
            tokio::time::sleep(FIRST_MOMENTS).await;
        }
        self.declared.add(wanted);
        Ok(())
    }

    /// An error where a connection has too few channels for the queues that pools consume:
    /// without it, they would take turns with losing theirs.
    async fn check_channels(&self, wanted: &Wanted) -> Result<()> {
        let mut all = self.declared.all();
        all.add(wanted.clone());
        let needed = usize::from(FEWEST_CHANNELS) + 2 * all.solo.len();
        let allowed = self.publishing.up().await?.connection.configuration().channel_max();
        if needed <= usize::from(allowed) {
            return Ok(());
        }
        let text = format!(
            "a connection has at most {allowed} channels, and this client needs {needed} of them; \
             {CHANNELS}: raise `channel_max`, in the URL or in rabbitmq.conf, or divide the queues \
             among several clients"
        );
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// [`apply`], on the next connection too.
    async fn apply_surely(&self, topology: &Topology) -> Result<bool> {
        loop {
            let up = self.publishing.up().await?;
            match apply(&up, topology).await {
                Err(error) if error.is_connection() => {
                    tracing::warn!(%error, "declaring again on the next connection");
                    // A channel that ended alone leaves the connection as it is.
                    let pause = Duration::from_millis(200);
                    let _ = timeout(pause, self.publishing.lost(up.generation)).await;
                }
                done => return done,
            }
        }
    }

    /// The connection for consuming. Whoever opens it also begins to move
    /// strays, and to look for what is missing.
    async fn consuming(self: &Arc<Self>) -> Result<Link> {
        let opening = async {
            let name = format!("{} (consuming)", self.options.connection_name);
            let link = Link::open(Arc::clone(&self.target), name).await?;
            connection::probe::watch(&link, &self.target, self.names.orphan());
            let strays = stray::run(Arc::clone(self), link.clone());
            background::spawn(self.tasks.track_future(strays));
            background::spawn(self.tasks.track_future(topology::upkeep::run(Arc::clone(self))));
            Ok(link)
        };
        self.consuming.get_or_try_init(|| opening).await.cloned()
    }

    async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        let _ = timeout(LAST_WORD, self.tasks.wait()).await;
        self.last_word.cancel();
        self.tellers.close();
        let _ = timeout(LAST_WORD, self.tellers.wait()).await;
        if let Some(consuming) = self.consuming.get() {
            consuming.close().await;
        }
        self.publishing.close().await;
    }
}

#[async_trait]
impl Engine for Rabbit {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        for queue in queues {
            check_name("queue", &queue.name)?;
            queue.patterns.iter().try_for_each(|pattern| check_pattern(pattern))?;
        }
        self.0.declare(Wanted::queues(queues)).await
    }

    async fn declare_delays(&self) -> Result<()> {
        self.0.declare(Wanted::levels()).await
    }

    fn push(&self, job: Envelope) -> Pushing {
        if self.0.closing.is_cancelled() {
            return Box::pin(ready(Err(closed())));
        }
        match self.0.push_at_once(job) {
            Ok(publishing) => Box::pin(publishing),
            Err(job) => {
                let core = Arc::clone(&self.0);
                Box::pin(async move { core.push_later(job).await })
            }
        }
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        if self.0.closing.is_cancelled() {
            return jobs.map(|_| closed()).enumerate().collect();
        }
        self.0.push_all(jobs).await
    }

    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        if self.0.closing.is_cancelled() {
            return Err(closed());
        }
        self.0.publish(event, mandatory).await
    }

    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()> {
        check_name("queue", queue)?;
        let doing = format!("ending the subscription of queue `{queue}` to `{pattern}`");
        self.0.within(&doing, self.0.unsubscribe(queue, pattern)).await
    }

    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64> {
        check_name("queue", &queue.name)?;
        let doing = format!("deleting queue `{}`", queue.name);
        self.0.within(&doing, self.0.delete(queue, force)).await
    }

    async fn consume(&self, queue: &'static str, prefetch: u16) -> Result<Consumer> {
        check_name("queue", queue)?;
        let doing = format!("consuming queue `{queue}`");
        let starting = async {
            let link = self.0.consuming().await?;
            consume::consumer::consume(&self.0, link, queue, prefetch, Source::Work).await
        };
        self.0.within(&doing, starting).await
    }

    async fn consume_solo(&self, queue: &'static str) -> Result<Consumer> {
        check_name("queue", queue)?;
        let doing = format!("consuming the jobs of queue `{queue}` that are run alone");
        let starting = async {
            let link = self.0.consuming().await?;
            let source = Source::Solo(Arc::default());
            consume::consumer::consume(&self.0, link, queue, SOLO_PREFETCH, source).await
        };
        self.0.within(&doing, starting).await
    }

    async fn about(&self) -> About {
        let version = connection::server_properties::version(&self.0.target).await;
        let mut about = About::new(format!("RabbitMQ {}", version.as_deref().unwrap_or("?")));
        about.hold = connection::server_properties::hold(version.as_deref());
        about
    }

    fn missing(&self) -> Option<Error> {
        self.0.declared.missing()
    }

    async fn counts(&self, queue: &str) -> Result<Counts> {
        check_name("queue", queue)?;
        self.0.within(&format!("counting the jobs of queue `{queue}`"), self.0.counts(queue)).await
    }

    async fn failed_list(&self, queue: &str, limit: usize) -> Result<Vec<FailedJob>> {
        check_name("queue", queue)?;
        let (core, queue) = (Arc::clone(&self.0), queue.to_owned());
        carried_through(async move { core.failed_list(&queue, limit).await }).await
    }

    async fn failed_find(&self, queue: &str, id: JobId) -> Result<Option<FailedJob>> {
        check_name("queue", queue)?;
        let (core, queue) = (Arc::clone(&self.0), queue.to_owned());
        carried_through(async move { core.failed_find(&queue, id).await }).await
    }

    async fn failed_retry(&self, queue: &str, which: Which) -> Result<u64> {
        check_name("queue", queue)?;
        let (core, queue) = (Arc::clone(&self.0), queue.to_owned());
        carried_through(async move { core.failed_retry(&queue, which).await }).await
    }

    async fn failed_discard(&self, queue: &str, which: Which) -> Result<u64> {
        check_name("queue", queue)?;
        let (core, queue) = (Arc::clone(&self.0), queue.to_owned());
        carried_through(async move { core.failed_discard(&queue, which).await }).await
    }

    async fn examine(&self, queues: &[QueueSpec]) -> Result<Report> {
        self.0.examine(queues).await
    }

    async fn examine_policies(&self, queues: &[QueueSpec]) -> Result<Vec<Finding>> {
        self.0.examine_policies(queues).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

impl Drop for Rabbit {
    /// An engine that nobody can ask any more ends, though nobody closed it.
    fn drop(&mut self) {
        let core = Arc::clone(&self.0);
        core.closing.cancel();
        background::spawn(async move { core.close().await });
    }
}
