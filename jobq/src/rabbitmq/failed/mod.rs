//! Listing failed jobs, putting them back and discarding them.
//!
//! Only one process may do so at a time, or each would see a part of the jobs. The lock is an
//! exclusive queue, which ends with its connection. A call takes one [`Pass`], which bounds the
//! wait of the others.

pub(crate) mod pass;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::message::Delivery;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::{Mutex, MutexGuard};

use self::pass::{FIRST, Pass};
use crate::background;
use crate::engine::{Which, closed};
use crate::error::{ErrorKind, Result};
use crate::job::{FailedJob, JobId};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::connection::link::backoff;
use crate::rabbitmq::errors::{RESOURCE_LOCKED, code, failure};
use crate::rabbitmq::message::properties::{Message, decode, decode_failed, fresh, return_queue};
use crate::rabbitmq::publish::{Batch, Publisher};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::passive::Absent;
use crate::rabbitmq::topology::route::Route;
use crate::rabbitmq::values::short;
use crate::telemetry::Who;

/// The failed jobs of all queues.
#[derive(Debug)]
pub(crate) struct Failed {
    broker: Arc<Broker>,
    names: Names,
    absent: Arc<Absent>,
    publisher: Arc<Publisher>,
    /// Calls of one client take turns, since the broker distinguishes connections only.
    turn: Mutex<()>,
}

/// Exclusive access to the failed jobs of one queue.
struct Access<'c> {
    failed: &'c Failed,
    queue: Cow<'static, str>,
    /// The name of the queue of failed jobs.
    name: String,
    lock: String,
    up: Arc<Up>,
    /// The channel of the lock.
    channel: Channel,
    _turn: MutexGuard<'c, ()>,
}

/// An operation on failed jobs.
#[derive(Debug, Clone, Copy)]
enum Action {
    PutBack,
    Delete,
}

impl Failed {
    pub(crate) fn new(
        broker: Arc<Broker>,
        names: Names,
        absent: Arc<Absent>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self { broker, names, absent, publisher, turn: Mutex::default() }
    }

    /// The failed jobs of a queue, oldest first, at most `limit`.
    pub(crate) async fn list(&self, queue: &str, limit: usize) -> Result<Vec<FailedJob>> {
        let doing = format!("listing the failed jobs of queue `{queue}`");
        let Some(access) = self.access(queue).await? else {
            return Ok(Vec::new());
        };
        let listed = self.broker.within(&doing, async {
            let mut jobs = Vec::new();
            let mut pass = Pass::begin(&access.up, &access.name).await?;
            while (jobs.len() < limit || pass.keeps_order())
                && let Some(found) = pass.next(usize::MAX).await?
            {
                if jobs.len() < limit {
                    jobs.push(access.read(found));
                }
            }
            pass.end().await?;
            Ok(jobs)
        });
        let listed = listed.await;
        access.leave().await;
        let mut jobs = listed?;
        // Pools that publish at the same time may have changed the order.
        jobs.sort_by_key(FailedJob::failed_at);
        Ok(jobs)
    }

    /// The oldest failed job of a queue with this id.
    pub(crate) async fn find(&self, queue: &str, id: JobId) -> Result<Option<FailedJob>> {
        let doing = format!("looking for the failed job {id} of queue `{queue}`");
        let Some(access) = self.access(queue).await? else {
            return Ok(None);
        };
        let found = self.broker.within(&doing, async {
            let mut pass = Pass::begin(&access.up, &access.name).await?;
            let found = access.find(&mut pass, id).await?;
            pass.end().await?;
            Ok(found)
        });
        let found = found.await.map(|found| found.map(|found| access.read(found)));
        access.leave().await;
        found
    }

    /// Puts failed jobs back into their queue, and returns their number.
    pub(crate) async fn retry(&self, queue: &str, which: Which) -> Result<u64> {
        self.settle(queue, which, Action::PutBack).await
    }

    /// Discards failed jobs, and returns their number.
    pub(crate) async fn discard(&self, queue: &str, which: Which) -> Result<u64> {
        self.settle(queue, which, Action::Delete).await
    }

    async fn settle(&self, queue: &str, which: Which, action: Action) -> Result<u64> {
        let Some(access) = self.access(queue).await? else {
            return Ok(0);
        };
        let done = match which {
            Which::One(id) => access.settle_one(id, action).await,
            Which::All => access.settle_all(action).await,
        };
        access.leave().await;
        done
    }

    /// Takes the lock; `None` if the queue of failed jobs does not exist.
    async fn access(&self, queue: &str) -> Result<Option<Access<'_>>> {
        let (name, lock) = (self.names.failed(queue), self.names.failed_lock(queue));
        let turn = self.turn.lock().await;
        let opening = async {
            let up = self.broker.up().await?;
            let mut channel = open(&up).await?;
            if self.absent.messages_in(&up, &mut channel, &name).await?.is_none() {
                return Ok(None);
            }
            let mut waits = backoff();
            while !locked(&channel, &lock).await? {
                let wait = waits.next().unwrap_or_default();
                tokio::time::sleep(wait.min(Duration::from_millis(500))).await;
                channel = open(&up).await?;
            }
            Ok(Some((up, channel)))
        };
        let doing = format!("taking the failed jobs of queue `{queue}` in hand");
        let opened = self.broker.within(&doing, opening).await?;
        let queue = Cow::Owned(queue.to_owned());
        let access =
            |(up, channel)| Access { failed: self, queue, name, lock, up, channel, _turn: turn };
        Ok(opened.map(access))
    }
}

/// Tries to take the lock. If another connection has it, the channel has ended.
async fn locked(channel: &Channel, lock: &str) -> Result<bool> {
    let options = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    arguments.insert(short("x-queue-type")?, AMQPValue::LongString("classic".into()));
    match channel.queue_declare(short(lock)?, options, arguments).await {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some(RESOURCE_LOCKED) => Ok(false),
        Err(error) => Err(failure(&format!("declaring the lock `{lock}`"), error)),
    }
}

impl Access<'_> {
    fn read(&self, found: Delivery) -> FailedJob {
        decode_failed(&self.failed.names, self.queue.clone(), &found.properties, found.data)
    }

    /// The oldest job with this id.
    async fn find(&self, pass: &mut Pass<'_>, id: JobId) -> Result<Option<Delivery>> {
        let mut found = None;
        while (found.is_none() || pass.keeps_order())
            && let Some(message) = pass.next(usize::MAX).await?
        {
            if found.is_none() && self.id(&message) == Some(id) {
                found = Some(message);
            }
        }
        Ok(found)
    }

    fn id(&self, message: &Delivery) -> Option<JobId> {
        let read = decode(&self.failed.names, self.queue.clone(), &message.properties, Vec::new());
        read.has_id.then_some(read.envelope.id)
    }

    async fn settle_one(&self, id: JobId, action: Action) -> Result<u64> {
        let doing = format!("looking for the failed job {id} of queue `{}`", self.queue);
        let looking = self.failed.broker.within(&doing, async {
            let mut pass = Pass::begin(&self.up, &self.name).await?;
            let found = self.find(&mut pass, id).await?;
            Ok((pass, found))
        });
        let (mut pass, found) = looking.await?;
        let settled = match found {
            Some(found) => self.settle(&mut pass, vec![found], false, action).await,
            None => Ok(0),
        };
        pass.end().await?;
        settled
    }

    async fn settle_all(&self, action: Action) -> Result<u64> {
        let broker = &self.failed.broker;
        let doing = format!("taking the failed jobs of queue `{}`", self.queue);
        let mut pass = broker.within(&doing, Pass::begin(&self.up, &self.name)).await?;
        let mut done = 0;
        let result = loop {
            let taking = broker.within(&doing, async {
                let mut chunk = Vec::new();
                while let Some(message) = pass.next(FIRST - chunk.len()).await? {
                    chunk.push(message);
                }
                Ok(chunk)
            });
            let settled = match taking.await {
                Ok(chunk) if chunk.is_empty() => break Ok(()),
                Ok(chunk) => self.settle(&mut pass, chunk, true, action).await,
                Err(error) => Err(error),
            };
            match settled {
                Ok(settled) => done += settled,
                Err(error) => break Err(error),
            }
        };
        pass.end().await?;
        result.map(|()| done)
    }

    /// Puts jobs back or discards them. A job that could not be put back stays failed. `all` if all
    /// jobs taken before are gone.
    async fn settle(
        &self,
        pass: &mut Pass<'_>,
        jobs: Vec<Delivery>,
        all: bool,
        action: Action,
    ) -> Result<u64> {
        let mut tags: Vec<_> = jobs.iter().map(|job| job.delivery_tag).collect();
        let stay = match action {
            Action::Delete => Vec::new(),
            Action::PutBack => {
                let mut batch = Batch::new(&self.failed.publisher);
                for job in jobs {
                    batch.send(self.back(job)).await;
                }
                batch.finish().await
            }
        };
        for (place, _) in stay.iter().rev() {
            tags.remove(*place);
        }
        pass.remove(&tags, all && stay.is_empty()).await?;
        match stay.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(tags.len() as u64),
        }
    }

    /// The message with which a job is put back.
    fn back(&self, delivery: Delivery) -> Result<Message> {
        let names = &self.failed.names;
        let read = decode(names, self.queue.clone(), &delivery.properties, Vec::new());
        Ok(Message {
            route: Arc::new(Route {
                exchange: short(names.jobs())?,
                key: return_queue(&delivery.properties, &self.queue),
            }),
            properties: fresh(&delivery.properties, &Who::of_job(&read.envelope, &self.queue)),
            payload: delivery.data,
        })
    }

    /// Releases the lock. After an error the end of the connection releases it.
    async fn leave(self) {
        let unlocking = async {
            let options = QueueDeleteOptions::default();
            let unlocked = self.channel.queue_delete(short(&self.lock)?, options).await;
            unlocked.map_err(|error| failure("giving up the lock", error))
        };
        let left = tokio::time::timeout(self.failed.broker.timeout(), unlocking).await;
        if let Ok(Err(error)) = left
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, queue = &*self.queue, "the lock of the failed jobs was not given up");
        }
        let closing = self.channel.close(200, "done".into());
        let _ = tokio::time::timeout(self.failed.broker.timeout(), closing).await;
    }
}

/// Runs a call to its end even if the caller is dropped, since it must requeue the jobs that it
/// holds.
pub(crate) async fn run_to_end<T: Send + 'static>(
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    background::spawn(call).await.unwrap_or_else(|_| Err(closed()))
}
