//! Events: publishing them, and ending what subscribes to them.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation};
use tokio::time::{Instant, timeout};

use crate::engine::{Counts, QueueSpec, must_be_unused, nobody_subscribes};
use crate::error::Result;
use crate::job::EventEnvelope;
use crate::period;
use crate::rabbitmq::Core;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::errors::{NOT_FOUND, code, failure};
use crate::rabbitmq::failed::pass;
use crate::rabbitmq::message::properties::{self, Message};
use crate::rabbitmq::publish::{Destination, open_confirming};
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::passive::BUSY;
use crate::rabbitmq::topology::passive::inspect;
use crate::rabbitmq::topology::requirements::{Tiers, Wanted};
use crate::rabbitmq::topology::route::Route;
use crate::rabbitmq::topology::routing::Way;
use crate::rabbitmq::values::short;

/// How often a queue is looked at that has nothing but consumers, and how long between.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

impl Core {
    pub(crate) async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        self.declare(Wanted::shared()).await?;
        let millis = period::millis(event.delay);
        let way = Way::new(millis, End::Topic(&event.topic), &Tiers::new())?;
        self.prepare(&way).await?;
        let route = way.route(&self.names, End::Topic(&event.topic))?;
        let message = properties::encode_event(event, Arc::new(route))?;
        if mandatory {
            return self.publish_mandatory(message).await;
        }
        self.publisher.publish(Ok(message)).await
    }

    /// Publishes a message that must reach a queue, on a channel of its own: `lapin` gives
    /// what the broker returns to whichever confirm comes next.
    async fn publish_mandatory(&self, message: Message) -> Result<()> {
        let channel = self.within("opening a channel", async {
            open_confirming(&*self.publishing.up().await?).await
        });
        let channel = channel.await?;
        let limit = self.options.timeout;
        let answer = timeout(limit, send_mandatory(&channel, &message)).await;
        let _ = channel.close(200, "published".into()).await;
        let trouble = self.publishing.trouble();
        let unanswered = || Destination::of(&message).unanswered(limit, &trouble, true);
        answer.unwrap_or_else(|_| Err(unanswered()))
    }

    pub(crate) async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()> {
        // The next connection must not bind it again.
        self.declared.forget_subscription(queue, pattern);
        let up = self.publishing.up().await?;
        self.unbind(&up, queue, pattern).await
    }

    async fn unbind(&self, up: &Up, queue: &str, pattern: &str) -> Result<()> {
        for (exchange, bound, key) in self.names.subscription(queue, pattern) {
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

    /// Deletes a queue with all that belongs to it.
    ///
    /// The broker deletes quorum queues without looking whether they are empty, so that is
    /// asked before. What comes in between is not lost sight of: the subscriptions end
    /// first, and if anything came until then they are restored.
    pub(crate) async fn delete(&self, spec: &QueueSpec, force: bool) -> Result<u64> {
        let queue = &spec.name;
        let _turn = self.declaring.lock().await;
        let mut wanted = self.declared.part(queue).unwrap_or_default();
        wanted.add(Wanted::queues(std::slice::from_ref(spec)));
        let up = self.publishing.up().await?;
        if !force {
            self.must_be_unused(&up, &wanted, queue).await?;
        }
        for (_, pattern) in &wanted.subscriptions {
            self.unbind(&up, queue, pattern).await?;
        }
        if !force && let Err(error) = self.must_be_unused(&up, &wanted, queue).await {
            apply(&up, &self.declared.topology(&wanted)).await?;
            return Err(error);
        }
        self.declared.forget(queue);
        let channel = open(&up).await?;
        let mut deleted = 0;
        // The tiers first: what they hold would find its queue gone.
        for name in self.queues_of(&wanted, queue) {
            let options = QueueDeleteOptions::default();
            let gone = channel.queue_delete(short(&name)?, options).await;
            deleted += u64::from(gone.map_err(|e| failure(&format!("deleting `{name}`"), e))?);
        }
        let _ = channel.close(200, "deleted".into()).await;
        Ok(deleted)
    }

    /// The queues on the broker that belong to a user's queue, the work queue last but one.
    fn queues_of(&self, wanted: &Wanted, queue: &str) -> Vec<String> {
        let tiers = wanted.queues.get(queue).cloned().unwrap_or_default();
        let tiers = tiers.iter().map(|millis| self.names.tier(queue, *millis));
        let names = &self.names;
        let others = [names.due(queue), names.solo(queue), names.work(queue), names.failed(queue)];
        tiers.chain(others).collect()
    }

    /// Refuses where the queue has jobs or consumers. Some versions count a consumer for a
    /// moment longer than it is there, so one that could be gone is looked for again.
    async fn must_be_unused(&self, up: &Up, wanted: &Wanted, queue: &str) -> Result<()> {
        let mut looks = LOOKS;
        loop {
            let (jobs, consumers) = self.left(up, wanted, queue).await?;
            looks -= 1;
            if consumers == 0 || !jobs.is_empty() || looks == 0 {
                return must_be_unused(queue, jobs, (consumers.into(), "consumers"));
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn left(&self, up: &Up, wanted: &Wanted, queue: &str) -> Result<(Counts, u32)> {
        let mut channel = open(up).await?;
        let (mut jobs, mut waiting, mut consumers) = (Counts::new(0, 0, 0), 0, 0);
        let (work, failed) = (self.names.work(queue), self.names.failed(queue));
        let solo = self.names.solo(queue);
        for name in self.queues_of(wanted, queue) {
            if name == failed {
                jobs.failed = pass::count(up, &mut channel, &name).await?.unwrap_or(0);
                continue;
            }
            let (count, taking) = certainly(up, &mut channel, &name).await?;
            match () {
                () if name == work || name == solo => {
                    jobs.ready += count;
                    consumers += taking;
                }
                () => waiting += count,
            }
        }
        let _ = channel.close(200, "counted".into()).await;
        Ok((Counts { waiting: Some(waiting), ..jobs }, consumers))
    }
}

/// What a queue has, as [`inspect`] tells it, but not a 0 that the broker says because it
/// is too busy to know (see [`Core::look`]). A queue that does not exist has nothing.
async fn certainly(up: &Up, channel: &mut Channel, queue: &str) -> Result<(u64, u32)> {
    loop {
        let asked = Instant::now();
        match inspect(up, channel, queue).await? {
            Some((0, _)) if asked.elapsed() >= BUSY => {}
            found => return Ok(found.unwrap_or_default()),
        }
    }
}

async fn send_mandatory(channel: &Channel, message: &Message) -> Result<()> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let Route { exchange, key } = (*message.route).clone();
    let properties = message.properties.clone();
    let sent = channel.basic_publish(exchange, key, options, &message.payload, properties).await;
    let confirmed = match sent {
        Ok(confirm) => confirm.await,
        Err(error) => Err(error),
    };
    match confirmed.map_err(|error| Destination::of(message).lost().because(error))? {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) => Err(nobody_subscribes(message.route.key.as_str())),
        Confirmation::Nack(_) => Err(Destination::of(message).refused()),
        Confirmation::NotRequested => Err(Destination::of(message).lost()),
    }
}
