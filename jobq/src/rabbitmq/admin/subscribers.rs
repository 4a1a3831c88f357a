//! Ending subscriptions, and deleting queues of subscribers.

use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::QueueDeleteOptions;
use lapin::types::FieldTable;
use tokio::time::Instant;

use crate::engine::{Counts, QueueSpec, must_be_unused};
use crate::error::Result;
use crate::rabbitmq::admin::control::Control;
use crate::rabbitmq::admin::failed::pass;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::{NOT_FOUND, code, failure};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::lookup::{BUSY, inspect};
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::values::short;

/// How often a queue without jobs is checked for consumers, and how long between.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The queues that subscribe to events.
#[derive(Debug)]
pub(crate) struct Subscribers {
    broker: Arc<Broker>,
    declarer: Arc<Declarer>,
    control: Arc<Control>,
}

impl Subscribers {
    pub(crate) fn new(broker: Arc<Broker>, declarer: Arc<Declarer>, control: Arc<Control>) -> Self {
        Self { broker, declarer, control }
    }

    fn known(&self) -> &Declared {
        self.declarer.known()
    }

    fn names(&self) -> &Names {
        self.known().names()
    }

    /// Ends a subscription.
    pub(crate) async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()> {
        // The next connection must not bind it again.
        self.known().forget_subscription(queue, pattern);
        let up = self.broker.up().await?;
        self.unbind(&up, queue, pattern).await
    }

    async fn unbind(&self, up: &ConnectionEpoch, queue: &str, pattern: &str) -> Result<()> {
        for (exchange, bound, key) in self.names().subscription(queue, pattern) {
            let channel = open(up).await?;
            let (exchange, bound, key) = (short(exchange)?, short(bound)?, short(key)?);
            let unbound = channel.queue_unbind(bound, exchange, key, FieldTable::default()).await;
            match unbound {
                Ok(()) => drop(channel.close(200, "unbound".into()).await),
                // The queue or the exchange is gone, and its bindings with it.
                Err(error) if code(&error) == Some(NOT_FOUND) => {}
                Err(error) => {
                    let doing = format!("ending the subscription of `{queue}` to `{pattern}`");
                    return Err(failure(&doing, error));
                }
            }
        }
        Ok(())
    }

    /// Deletes a queue with all its parts.
    ///
    /// The broker deletes quorum queues without checking that they are empty, so this checks
    /// before. Jobs that arrive meanwhile are not lost: the subscriptions end first, and are
    /// restored if there are any such jobs.
    pub(crate) async fn delete(&self, spec: &QueueSpec, force: bool) -> Result<u64> {
        let queue = &spec.name;
        let _turn = self.declarer.turn().await;
        let mut wanted = self.known().part(queue).unwrap_or_default();
        wanted.add(Wanted::queues(std::slice::from_ref(spec)));
        let up = self.broker.up().await?;
        if !force {
            self.must_be_unused(&up, &wanted, queue).await?;
        }
        for (_, pattern) in &wanted.subscriptions {
            self.unbind(&up, queue, pattern).await?;
        }
        if !force && let Err(error) = self.must_be_unused(&up, &wanted, queue).await {
            // By another connection, if this one is why.
            let up = self.broker.up().await?;
            apply(&up, &self.known().topology(&wanted)).await?;
            return Err(error);
        }
        self.known().forget(queue);
        let channel = open(&up).await?;
        let mut deleted = 0;
        // The tiers first: their jobs would otherwise find the queue gone.
        for name in self.queues_of(&wanted, queue) {
            let options = QueueDeleteOptions::default();
            let gone = channel.queue_delete(short(&name)?, options).await;
            deleted += u64::from(gone.map_err(|e| failure(&format!("deleting `{name}`"), e))?);
        }
        let _ = channel.close(200, "deleted".into()).await;
        self.control.forget(&up, queue).await;
        Ok(deleted)
    }

    /// Whether a queue exists.
    pub(crate) async fn exists(&self, queue: &str) -> Result<bool> {
        let up = self.broker.up().await?;
        let mut channel = open(&up).await?;
        let found = inspect(&up, &mut channel, &self.names().due(queue)).await?;
        let _ = channel.close(200, "looked".into()).await;
        Ok(found.is_some())
    }

    /// The broker queues of a user's queue, the work queue last but one.
    fn queues_of(&self, wanted: &Wanted, queue: &str) -> Vec<String> {
        let tiers = wanted.queues.get(queue).cloned().unwrap_or_default();
        let tiers = tiers.iter().map(|millis| self.names().tier(queue, *millis));
        let names = self.names();
        let others = [names.due(queue), names.solo(queue), names.work(queue), names.failed(queue)];
        tiers.chain(others).collect()
    }

    /// An error if the queue has jobs or consumers. Some versions count a consumer briefly after
    /// its end, so consumers are checked again.
    async fn must_be_unused(
        &self,
        up: &ConnectionEpoch,
        wanted: &Wanted,
        queue: &str,
    ) -> Result<()> {
        let mut looks = LOOKS;
        loop {
            let (jobs, consumers) = self.left(up, wanted, queue).await?;
            looks -= 1;
            if consumers == 0 || !jobs.is_empty() || looks == 0 {
                return must_be_unused(queue, jobs, &[(consumers.into(), "consumers")]);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn left(
        &self,
        up: &ConnectionEpoch,
        wanted: &Wanted,
        queue: &str,
    ) -> Result<(Counts, u32)> {
        let mut channel = open(up).await?;
        let (mut ready, mut waiting, mut failed_jobs, mut consumers) = (0, 0, 0, 0);
        let (work, failed) = (self.names().work(queue), self.names().failed(queue));
        let solo = self.names().solo(queue);
        for name in self.queues_of(wanted, queue) {
            if name == failed {
                failed_jobs = pass::count(up, &mut channel, &name).await?.unwrap_or(0);
                continue;
            }
            let (count, taking) = certainly(up, &mut channel, &name).await?;
            match () {
                () if name == work || name == solo => {
                    ready += count;
                    consumers += taking;
                }
                () => waiting += count,
            }
        }
        let _ = channel.close(200, "counted".into()).await;
        Ok((Counts::new(ready, waiting, failed_jobs), consumers))
    }
}

/// The result of [`inspect`], but not a 0 of a broker that is too busy to know (see
/// [`MissingQueues::messages_in`](crate::rabbitmq::topology::lookup::MissingQueues::messages_in)). A missing
/// queue has nothing.
async fn certainly(up: &ConnectionEpoch, channel: &mut Channel, queue: &str) -> Result<(u64, u32)> {
    loop {
        let asked = Instant::now();
        match inspect(up, channel, queue).await? {
            Some((0, _)) if asked.elapsed() >= BUSY => {}
            found => return Ok(found.unwrap_or_default()),
        }
    }
}
