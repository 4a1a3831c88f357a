//! The engine for `amqp://` and `amqps://` URLs: RabbitMQ, through `lapin`.
//!
//! `topology`, `levels`, `way`, `wire`, `death`, `conflict`, `acks` and `address` are pure; the others do
//! what those say. Each connection is a `link`, which comes back by itself.

mod acks;
mod address;
mod conflict;
mod consumer;
mod death;
mod declare;
mod failed;
mod failure;
mod levels;
mod link;
mod live;
mod orphan;
mod publisher;
mod session;
mod settle;
mod size;
pub(crate) mod topology;
mod way;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lapin::Channel;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::address::Address;
use self::declare::{Declared, FIRST_MOMENTS, Wanted, apply, messages_in, open};
use self::failed::Failed;
use self::failure::timed_out;
use self::link::{Link, Up};
use self::publisher::Publisher;
use self::topology::{Names, Tiers, tiers};
use self::way::Way;
use self::wire::Message;
use super::{Consumer, Counts, Engine, EngineOptions, QueueSpec, Which, closed};
use crate::error::Result;
use crate::job::{Envelope, FailedJob, JobId, check_name};
use crate::period;

/// An answer that takes longer is not one of the queue itself, but what the broker says
/// after it waited for that in vain.
const BUSY: Duration = Duration::from_millis(200);
/// How long a queue that was missing is not looked for again.
const MISSING: Duration = Duration::from_secs(5);
/// How long the last acknowledgements may take when the engine is closed.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Connects to a broker.
///
/// # Errors
///
/// A URL that is none, a broker that cannot be reached or refuses.
pub(crate) async fn connect(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    let address = Arc::new(Address::parse(url, options.timeout)?);
    let name = format!("{} (publishing)", options.connection_name);
    let publishing = Link::open(Arc::clone(&address), name, options.timeout).await?;
    let names = Names::new(options.namespace.clone());
    let declared = Arc::new(Declared::new(names.clone()));
    let publisher = Publisher::spawn(publishing.clone(), Arc::clone(&declared), options.timeout);
    Ok(Arc::new(Rabbit(Arc::new(Core {
        address,
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
struct Core {
    address: Arc<Address>,
    options: EngineOptions,
    names: Names,
    declared: Arc<Declared>,
    declaring: Mutex<()>,
    publishing: Link,
    /// Opened by the first consumer. A connection of its own, since the broker stops
    /// reading from those that publish when it is short of memory or disk.
    consuming: OnceCell<Link>,
    publisher: Publisher,
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
        timeout(limit, work).await.unwrap_or_else(|_| Err(timed_out(doing, limit)))
    }

    async fn declare(&self, wanted: Wanted) -> Result<()> {
        if self.closing.is_cancelled() {
            return Err(closed());
        }
        if self.declared.covers(&wanted) {
            return Ok(());
        }
        let _turn = self.declaring.lock().await;
        if self.declared.covers(&wanted) {
            return Ok(());
        }
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let topology = self.declared.topology(&wanted);
        let created = self.within("declaring queues", async {
            loop {
                let up = self.publishing.up().await?;
                match apply(&up, &topology).await {
                    Err(error) if error.is_connection() => {
                        tracing::warn!(%error, "declaring again on the next connection");
                        // A channel that ended alone leaves the connection as it is.
                        let pause = Duration::from_millis(200);
                        let _ = timeout(pause, self.publishing.lost(up.generation)).await;
                    }
                    done => return done,
                }
            }
        });
        if created.await? {
            tokio::time::sleep(FIRST_MOMENTS).await;
        }
        self.declared.add(wanted);
        Ok(())
    }

    /// Declares what this way leads through and may not be there yet.
    async fn prepare(&self, way: &Way) -> Result<()> {
        match way {
            Way::Levels(_) => self.declare(Wanted::levels()).await,
            Way::Now | Way::Tier(_) => Ok(()),
        }
    }

    /// The messages that enqueue these jobs, in their order.
    async fn messages(&self, jobs: Vec<Envelope>) -> Vec<Result<Message>> {
        let way = |job: &Envelope| {
            let tiers = self.declared.tiers(&job.queue).unwrap_or_default();
            Way::new(period::millis(job.delay), &job.queue, &tiers)
        };
        let ways: Vec<_> = jobs.iter().map(way).collect();
        let in_levels = |way: &&Way| matches!(way, Way::Levels(_));
        let prepared = match ways.iter().flatten().find(in_levels) {
            Some(way) => self.prepare(way).await,
            None => Ok(()),
        };
        let message = |(job, way): (Envelope, Result<Way>)| {
            let way = way?;
            match &prepared {
                Err(error) if in_levels(&&way) => Err(error.clone()),
                _ => wire::encode(&self.names, job, &way),
            }
        };
        jobs.into_iter().zip(ways).map(message).collect()
    }

    /// The connection for consuming. Whoever opens it also begins to move strays.
    async fn consuming(self: &Arc<Self>) -> Result<Link> {
        let opening = async {
            let name = format!("{} (consuming)", self.options.connection_name);
            let address = Arc::clone(&self.address);
            let link = Link::open(address, name, self.options.timeout).await?;
            self.tasks.spawn(orphan::run(Arc::clone(self), link.clone()));
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

    /// How many messages are ready in a queue, if it exists.
    ///
    /// Every question after a queue that does not exist costs a channel number for the
    /// life of the connection, so one that was missing a moment ago still is.
    ///
    /// A broker that is too busy to know within 250 ms says 0 (`rabbit_quorum_queue:stat/1`),
    /// so a 0 that took so long is asked for again.
    async fn look(&self, up: &Up, channel: &mut Channel, queue: &str) -> Result<Option<u64>> {
        let missing = || self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing().get(queue).is_some_and(|asked| asked.elapsed() < MISSING) {
            return Ok(None);
        }
        loop {
            let asked = Instant::now();
            let count = messages_in(up, channel, queue).await?;
            match count {
                None => {
                    let mut missing = missing();
                    missing.retain(|_, asked| asked.elapsed() < MISSING);
                    missing.insert(queue.to_owned(), asked);
                }
                Some(0) if asked.elapsed() >= BUSY => continue,
                Some(_) => {}
            }
            return Ok(count);
        }
    }

    async fn counts(&self, queue: &str) -> Result<Counts> {
        let up = self.publishing.up().await?;
        let mut channel = open(&up).await?;
        let names = &self.names;
        let mut waiting = 0;
        for millis in self.declared.tiers(queue).unwrap_or_default().iter() {
            let tier = names.tier(queue, *millis);
            waiting += self.look(&up, &mut channel, &tier).await?.unwrap_or(0);
        }
        let ready = self.look(&up, &mut channel, &names.work(queue)).await?;
        let failed = self.look(&up, &mut channel, &names.failed(queue)).await?;
        Ok(Counts::new(ready.unwrap_or(0), waiting, failed.unwrap_or(0)))
    }
}

/// Carries a call through, whether or not its caller goes on waiting: what it has taken
/// in hand must be given back.
async fn carried_through<T: Send + 'static>(
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(call).await.unwrap_or_else(|_| Err(closed()))
}

#[async_trait]
impl Engine for Rabbit {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        let mut wanted: BTreeMap<String, Tiers> = BTreeMap::new();
        for queue in queues {
            check_name("queue", &queue.name)?;
            wanted.entry(queue.name.clone()).or_default().extend(tiers(&queue.waits));
        }
        let queues = wanted.into_iter().map(|(queue, tiers)| (queue, Arc::new(tiers))).collect();
        self.0.declare(Wanted { queues, levels: false }).await
    }

    async fn push(&self, jobs: Vec<Envelope>) -> Vec<Result<()>> {
        let core = &self.0;
        if core.closing.is_cancelled() {
            return jobs.iter().map(|_| Err(closed())).collect();
        }
        let messages = core.messages(jobs).await;
        let publish = |message: Result<Message>| Ok(core.publisher.send(Arc::new(message?)));
        let sent: Vec<_> = messages.into_iter().map(publish).collect();
        let mut answers = Vec::with_capacity(sent.len());
        for pending in sent {
            answers.push(match pending {
                // The time without progress counts, however many jobs there are.
                Ok(pending) => pending.answer_until(Instant::now() + core.options.timeout).await,
                Err(error) => Err(error),
            });
        }
        answers
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Consumer> {
        check_name("queue", queue)?;
        let starting = async {
            let link = self.0.consuming().await?;
            consumer::consume(&self.0, link, queue, prefetch).await
        };
        self.0.within(&format!("consuming queue `{queue}`"), starting).await
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

    async fn close(&self) {
        self.0.close().await;
    }
}

impl Drop for Rabbit {
    /// An engine that nobody can ask any more ends, though nobody closed it.
    fn drop(&mut self) {
        let core = Arc::clone(&self.0);
        core.closing.cancel();
        // Without a runtime there are no tasks left that could be ended.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { core.close().await });
        }
    }
}
