//! Visits of failed jobs, and the lock that they take.
//!
//! Only one process may look at them at a time, or each would see a part of the jobs. The lock is
//! an exclusive queue, which ends with its connection. A call takes one [pass](pass::Pass), which
//! bounds the wait of the others.

pub(crate) mod pass;
mod turns;
mod visit;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use tokio::time::Instant;

use self::turns::{Turn, Turns};
use crate::background;
use crate::engine::{Visit, Visited, Visiting};
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::connection::link::backoff;
use crate::rabbitmq::errors::{RESOURCE_LOCKED, code, failure};
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::passive::Absent;
use crate::rabbitmq::values::short;

/// The failed jobs of all queues.
#[derive(Debug)]
pub(crate) struct Failed {
    broker: Arc<Broker>,
    names: Names,
    absent: Arc<Absent>,
    publisher: Arc<Publisher>,
    turns: Turns,
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
    _turn: Turn<'c>,
}

impl Failed {
    pub(crate) fn new(
        broker: Arc<Broker>,
        names: Names,
        absent: Arc<Absent>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self { broker, names, absent, publisher, turns: Turns::default() }
    }

    /// Asks about the failed jobs of a queue, oldest first, and settles them.
    pub(crate) async fn visit(&self, queue: &str, visit: Visit) -> Result<Visited> {
        let mut visiting = Visiting::new(visit);
        match self.access(queue).await? {
            Some(access) => {
                visit::run(&access, &mut visiting).await;
                access.leave().await;
            }
            None => visiting.visited.complete = true,
        }
        visiting.result()
    }

    /// Takes the lock; `None` if the queue of failed jobs does not exist.
    async fn access(&self, queue: &str) -> Result<Option<Access<'_>>> {
        let (name, lock) = (self.names.failed(queue), self.names.failed_lock(queue));
        let (broker, limit) = (&self.broker, self.broker.timeout());
        let turn = tokio::time::timeout(limit, self.turns.take(queue)).await;
        let turn = turn.map_err(|_| in_use(queue, "another call of this client", limit))?;
        let doing = format!("locking the failed jobs of queue `{queue}`");
        let opening = async {
            let up = broker.up().await?;
            let mut channel = open(&up).await?;
            let found = self.absent.messages_in(&up, &mut channel, &name).await?;
            Ok(found.map(|_| (up, channel)))
        };
        let Some((up, mut channel)) = broker.within(&doing, opening).await? else {
            return Ok(None);
        };
        let (end, mut waits) = (Instant::now() + limit, backoff());
        loop {
            match broker.within(&doing, locked(&channel, &lock)).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    give_back(channel, &lock);
                    return Err(error);
                }
            }
            if Instant::now() >= end {
                return Err(in_use(queue, &format!("the lock `{lock}` of another client"), limit));
            }
            let wait = waits.next().unwrap_or_default();
            tokio::time::sleep(wait.min(Duration::from_millis(500))).await;
            channel = broker.within(&doing, open(&up)).await?;
        }
        let queue = Cow::Owned(queue.to_owned());
        Ok(Some(Access { failed: self, queue, name, lock, up, channel, _turn: turn }))
    }
}

/// The error of a call that has waited too long for its turn or for the lock.
fn in_use(queue: &str, awaited: &str, waited: Duration) -> Error {
    let waited = crate::period::format(waited);
    let text = format!(
        "the failed jobs of queue `{queue}` are in use: {awaited} was waited for {waited}; try again \
         when it is done"
    );
    Error::new(ErrorKind::Conflict, text)
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

/// Releases a lock that a broker may still give to this channel, after a wait that was too long. It
/// would last as long as the connection.
fn give_back(channel: Channel, lock: &str) {
    let Ok(lock) = short(lock) else { return };
    // The broker does what a channel asks for in its order.
    background::spawn(async move {
        let _ = channel.queue_delete(lock, QueueDeleteOptions::default()).await;
        let _ = channel.close(200, "given up".into()).await;
    });
}

impl Access<'_> {
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
