//! Looking at failed jobs, putting them back and deleting them.
//!
//! AMQP has no way to look into a queue: its messages are taken, unacknowledged, and
//! given back. Only one at a time may do so, in any process, or two would see a part
//! each; the right to it is an exclusive queue, which ends with its connection.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicNackOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::{Mutex, MutexGuard};

use super::Core;
use super::channel::open;
use super::failure::{RESOURCE_LOCKED, code, failure};
use super::link::backoff;
use super::presence::messages_in;
use super::up::Up;
use super::wire::{Message, decode, decode_failed, failed_at, fresh, home, short};
use crate::background;
use crate::engine::{Which, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{FailedJob, JobId};

/// How many jobs are looked at to find the oldest ones, and how many bytes of them. 3.10
/// puts what is given back at the end of the queue: only if all are taken and given
/// back does their order stay.
const SURVEY: usize = 1_000;
const SURVEY_SIZE: usize = 64 * 1024 * 1024;
/// How many jobs are put back or deleted together.
const CHUNK: usize = 100;

/// Those of this client take turns, since the broker tells connections apart only.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    turn: Mutex<()>,
}

/// The sole access to the failed jobs of one queue.
struct Desk<'c> {
    core: &'c Core,
    queue: Cow<'static, str>,
    /// The name of the queue with the failed jobs.
    name: String,
    lock: String,
    up: Arc<Up>,
    channel: Channel,
    /// How many of the failed jobs that there were at the start are left to take; known
    /// when the first one was taken. What a passive declare counts cannot be relied on:
    /// it is 0 where the broker is too busy to answer itself within 250 ms
    /// (`rabbit_quorum_queue:stat/1`).
    left: Option<u64>,
    _turn: MutexGuard<'c, ()>,
}

/// What is to become of failed jobs.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Back,
    Gone,
}

impl Core {
    pub(super) async fn failed_list(&self, queue: &str, limit: usize) -> Result<Vec<FailedJob>> {
        let doing = format!("listing the failed jobs of queue `{queue}`");
        let Some(mut desk) = self.desk(queue).await? else {
            return Ok(Vec::new());
        };
        let listed = self.within(&doing, async {
            let (mut jobs, mut size) = (Vec::new(), 0);
            while jobs.len() < limit || jobs.len() < SURVEY && size < SURVEY_SIZE {
                let Some(found) = desk.take().await? else {
                    break;
                };
                size += found.delivery.data.len();
                jobs.push(desk.read(found));
            }
            Ok(jobs)
        });
        let listed = listed.await;
        desk.leave().await;
        let mut jobs = listed?;
        jobs.sort_by_key(FailedJob::failed_at);
        jobs.truncate(limit);
        Ok(jobs)
    }

    pub(super) async fn failed_find(&self, queue: &str, id: JobId) -> Result<Option<FailedJob>> {
        let doing = format!("looking for the failed job {id} of queue `{queue}`");
        let Some(mut desk) = self.desk(queue).await? else {
            return Ok(None);
        };
        let found = self.within(&doing, desk.find(id)).await;
        let found = found.map(|found| found.map(|found| desk.read(found)));
        desk.leave().await;
        found
    }

    pub(super) async fn failed_retry(&self, queue: &str, which: Which) -> Result<u64> {
        self.failed_settle(queue, which, Fate::Back).await
    }

    pub(super) async fn failed_discard(&self, queue: &str, which: Which) -> Result<u64> {
        self.failed_settle(queue, which, Fate::Gone).await
    }

    async fn failed_settle(&self, queue: &str, which: Which, fate: Fate) -> Result<u64> {
        let Some(mut desk) = self.desk(queue).await? else {
            return Ok(0);
        };
        let done = match which {
            Which::One(id) => desk.settle_one(id, fate).await,
            Which::All => desk.settle_all(fate).await,
        };
        desk.leave().await;
        done
    }

    /// Gets the sole access; `None` where no such queue has ever had failed jobs.
    async fn desk(&self, queue: &str) -> Result<Option<Desk<'_>>> {
        let (name, lock) = (self.names.failed(queue), self.names.failed_lock(queue));
        let turn = self.failed.turn.lock().await;
        let opening = async {
            let up = self.publishing.up().await?;
            let mut channel = open(&up).await?;
            if self.look(&up, &mut channel, &name).await?.is_none() {
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
        let opened = self.within(&doing, opening).await?;
        Ok(opened.map(|(up, channel)| Desk {
            core: self,
            queue: Cow::Owned(queue.to_owned()),
            name,
            lock,
            up,
            channel,
            left: None,
            _turn: turn,
        }))
    }
}

/// Tries to get the lock; where another connection has it, the channel has ended.
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

impl Desk<'_> {
    /// The next of the jobs that there were at the start.
    async fn take(&mut self) -> Result<Option<BasicGetMessage>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let taken = self.channel.basic_get(short(&self.name)?, BasicGetOptions::default()).await;
        let taken = taken.map_err(|error| failure("taking a failed job", error))?;
        self.left = Some(match (&taken, self.left) {
            (Some(first), None) => first.message_count.into(),
            (Some(_), Some(left)) => left - 1,
            (None, _) => 0,
        });
        Ok(taken)
    }

    fn read(&self, found: BasicGetMessage) -> FailedJob {
        let delivery = found.delivery;
        decode_failed(&self.core.names, self.queue.clone(), &delivery.properties, delivery.data)
    }

    /// The oldest job with this id.
    async fn find(&mut self, id: JobId) -> Result<Option<BasicGetMessage>> {
        let mut found: Option<(_, BasicGetMessage)> = None;
        let (mut taken, mut size) = (0, 0);
        while found.is_none() || taken < SURVEY && size < SURVEY_SIZE {
            let Some(message) = self.take().await? else {
                break;
            };
            taken += 1;
            size += message.delivery.data.len();
            if self.id(&message) == Some(id) {
                let failed_at = failed_at(&message.delivery.properties);
                if found.as_ref().is_none_or(|(oldest, _)| failed_at < *oldest) {
                    found = Some((failed_at, message));
                }
            }
        }
        Ok(found.map(|(_, message)| message))
    }

    fn id(&self, message: &BasicGetMessage) -> Option<JobId> {
        let properties = &message.delivery.properties;
        let read = decode(&self.core.names, self.queue.clone(), properties, Vec::new());
        read.has_id.then_some(read.envelope.id)
    }

    async fn settle_one(&mut self, id: JobId, fate: Fate) -> Result<u64> {
        let doing = format!("looking for the failed job {id} of queue `{}`", self.queue);
        let core = self.core;
        match core.within(&doing, self.find(id)).await? {
            Some(found) => self.settle(vec![found], fate).await,
            None => Ok(0),
        }
    }

    async fn settle_all(&mut self, fate: Fate) -> Result<u64> {
        let core = self.core;
        let doing = format!("taking the failed jobs of queue `{}`", self.queue);
        let mut done = 0;
        loop {
            let chunk = core.within(&doing, async {
                let mut chunk = Vec::new();
                while chunk.len() < CHUNK
                    && let Some(message) = self.take().await?
                {
                    chunk.push(message);
                }
                Ok(chunk)
            });
            let chunk = chunk.await?;
            if chunk.is_empty() {
                return Ok(done);
            }
            done += self.settle(chunk, fate).await?;
        }
    }

    /// Puts jobs back or deletes them. A job that could not be put back stays failed.
    async fn settle(&mut self, jobs: Vec<BasicGetMessage>, fate: Fate) -> Result<u64> {
        let mut settled = 0;
        let mut failed = None;
        let tags: Vec<_> = jobs.iter().map(|job| job.delivery_tag).collect();
        let mut stay = match fate {
            Fate::Gone => Vec::new(),
            Fate::Back => {
                let mut batch = self.core.publisher.batch();
                for job in jobs {
                    batch.send(self.back(job)).await;
                }
                batch.finish().await
            }
        }
        .into_iter()
        .peekable();
        for (place, tag) in tags.into_iter().enumerate() {
            if let Some((_, error)) = stay.next_if(|(stays, _)| *stays == place) {
                failed = Some(error);
                continue;
            }
            let acknowledged = self.channel.basic_ack(tag, BasicAckOptions::default());
            acknowledged.await.map_err(|error| failure("removing a failed job", error))?;
            settled += 1;
        }
        failed.map_or(Ok(settled), Err)
    }

    /// The message that puts a job back.
    fn back(&self, job: BasicGetMessage) -> Result<Message> {
        let delivery = job.delivery;
        let names = &self.core.names;
        let read = decode(names, self.queue.clone(), &delivery.properties, Vec::new());
        Ok(Message {
            exchange: short(&names.jobs())?,
            key: home(&delivery.properties, &self.queue),
            properties: fresh(&delivery.properties, read.envelope.id),
            payload: delivery.data,
        })
    }

    /// Gives back what was taken and not settled, and the access. What fails here ends
    /// with the channel or the connection, which gives back as well.
    async fn leave(mut self) {
        let leaving = async {
            // Tag 0 is all that was taken and not settled, even if that is nothing.
            let options = BasicNackOptions { multiple: true, requeue: true };
            let given = self.channel.basic_nack(0, options).await;
            given.map_err(|error| failure("giving failed jobs back", error))?;
            // The answer comes after the jobs were given back.
            messages_in(&self.up, &mut self.channel, &self.name).await?;
            let unlocked =
                self.channel.queue_delete(short(&self.lock)?, QueueDeleteOptions::default()).await;
            unlocked.map_err(|error| failure("giving up the lock", error))?;
            Ok::<_, Error>(())
        };
        let left = tokio::time::timeout(self.core.options.timeout, leaving).await;
        if let Ok(Err(error)) = left
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, queue = &*self.queue, "the failed jobs were not left in order");
        }
        let closing = self.channel.close(200, "done".into());
        let _ = tokio::time::timeout(self.core.options.timeout, closing).await;
    }
}

/// Carries a call through, whether or not its caller goes on waiting: what it has taken
/// in hand must be given back.
pub(super) async fn carried_through<T: Send + 'static>(
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    background::spawn(call).await.unwrap_or_else(|_| Err(closed()))
}
