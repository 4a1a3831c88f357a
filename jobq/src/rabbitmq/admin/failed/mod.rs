//! Visits of failed jobs, and the lock that they take.
//!
//! Only one process may look at them at a time, or each would see a part of the jobs, so it takes a
//! [lock]. A call takes one [pass](pass::Pass), which bounds the wait of the others.

mod lock;
pub(crate) mod pass;
mod turns;
mod visit;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::lock::Lock;
use self::turns::{Turn, Turns};
use crate::engine::{Visit, Visited, Visiting};
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::backoff;
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::queue_types::QueueTypes;

/// The failed jobs of all queues.
#[derive(Debug)]
pub(crate) struct Failed {
    broker: Arc<Broker>,
    known: Arc<Declared>,
    publisher: Arc<Publisher>,
    queue_types: Arc<QueueTypes>,
    turns: Turns,
}

/// Exclusive access to the failed jobs of one queue.
struct Access<'c> {
    failed: &'c Failed,
    queue: Cow<'static, str>,
    /// The name of the queue of failed jobs.
    name: String,
    lock: Lock,
    up: Arc<ConnectionEpoch>,
    _turn: Turn<'c>,
}

impl Failed {
    pub(crate) fn new(
        broker: Arc<Broker>,
        known: Arc<Declared>,
        publisher: Arc<Publisher>,
        queue_types: Arc<QueueTypes>,
    ) -> Self {
        Self { broker, known, publisher, queue_types, turns: Turns::default() }
    }

    /// Asks about the failed jobs of a queue, oldest first, and settles them.
    pub(crate) async fn visit(&self, queue: &str, visit: Visit) -> Result<Visited> {
        let mut visiting = Visiting::new(visit);
        match self.access(queue).await? {
            Some(access) => {
                visit::run(&access, &mut visiting).await;
                access.lock.release(self.broker.timeout(), queue).await;
            }
            None => visiting.missing(),
        }
        visiting.result()
    }

    /// Takes the lock; `None` if the queue of failed jobs does not exist.
    async fn access(&self, queue: &str) -> Result<Option<Access<'_>>> {
        let name = self.known.names().failed(queue);
        let (broker, limit) = (&self.broker, self.broker.timeout());
        let turn = tokio::time::timeout(limit, self.turns.take(queue)).await;
        let turn = turn.map_err(|_| in_use(queue, "another call of this client", limit))?;
        let doing = format!("locking the failed jobs of queue `{queue}`");
        let opening = async {
            let up = broker.up().await?;
            if !self.known.missing_queues.has_queue(&up, &name).await? {
                return Ok(None);
            }
            let kind = self.queue_types.temporary(up.version.as_deref()).await;
            let lock = Lock::new(self.known.names(), queue, kind, open(&up).await?);
            Ok(Some((up, lock)))
        };
        let Some((up, mut lock)) = broker.within(&doing, opening).await? else {
            return Ok(None);
        };
        let (end, mut waits) = (Instant::now() + limit, backoff());
        loop {
            match broker.within(&doing, lock.take()).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    self.queue_types.learn(&error).await;
                    lock.give_back();
                    return Err(error);
                }
            }
            if Instant::now() >= end {
                let of_another = format!("the lock `{}` of another client", lock.name());
                return Err(in_use(queue, &of_another, limit));
            }
            let wait = waits.next().unwrap_or_default();
            tokio::time::sleep(wait.min(Duration::from_millis(500))).await;
            lock.reopen(broker.within(&doing, open(&up)).await?);
        }
        let queue = Cow::Owned(queue.to_owned());
        Ok(Some(Access { failed: self, queue, name, lock, up, _turn: turn }))
    }
}

/// The error of a call that has waited too long for its turn or for the lock.
fn in_use(queue: &str, awaited: &str, waited: Duration) -> Error {
    let waited = crate::period::format(waited);
    let text = format!(
        "the failed jobs of queue `{queue}` are in use: waited {waited} for {awaited}; try again \
         when it is done"
    );
    Error::new(ErrorKind::Conflict, text)
}
