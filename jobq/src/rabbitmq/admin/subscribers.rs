//! Ending subscriptions, and deleting queues of subscribers.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Counts, QueueSpec, must_be_unused};
use crate::error::Result;
use crate::rabbitmq::admin::control::Control;
use crate::rabbitmq::admin::failed::pass::jobs_in;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::{NOT_FOUND, refusal};
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::declare::{delete, unbind};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::lookup::{count, inspect};
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing_key;

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
            let binding = Declaration::Binding { exchange, queue: bound, key: Some(key) };
            match unbind(up, &binding).await {
                // The queue or the exchange is gone, and its bindings with it.
                Err(error) if refusal(&error) != Some(NOT_FOUND) => return Err(error),
                _ => {}
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
        let [lane, _] = routing_key::other_lanes(queue);
        if inspect(&up, &self.names().work(&lane)).await?.is_some() {
            wanted.priorities.insert(queue.clone());
        }
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
        let mut deleted = 0;
        // The tiers first: their jobs would otherwise find the queue gone.
        for name in self.queues_of(&wanted, queue) {
            deleted += u64::from(delete(&up, &name).await?);
        }
        delete(&up, &self.names().seat(queue)).await?;
        self.control.forget(&up, queue).await;
        Ok(deleted)
    }

    /// Whether a queue exists.
    pub(crate) async fn exists(&self, queue: &str) -> Result<bool> {
        let up = self.broker.up().await?;
        Ok(inspect(&up, &self.names().due(queue)).await?.is_some())
    }

    /// The broker queues of a user's queue, the work queue last but one.
    fn queues_of(&self, wanted: &Wanted, queue: &str) -> Vec<String> {
        let tiers = wanted.queues.get(queue).cloned().unwrap_or_default();
        let tiers = tiers.iter().map(|millis| self.names().tier(queue, *millis));
        let names = self.names();
        let has_priorities = wanted.priorities.contains(queue);
        let lanes = has_priorities.then(|| routing_key::other_lanes(queue)).into_iter().flatten();
        let lanes = lanes.flat_map(|lane| [names.due(&lane), names.work(&lane)]);
        let others = [names.due(queue), names.solo(queue), names.work(queue), names.failed(queue)];
        tiers.chain(lanes).chain(others).collect()
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
        let (mut ready, mut waiting, mut failed_jobs, mut consumers) = (0, 0, 0, 0);
        let (work, failed) = (self.names().work_queues(queue), self.names().failed(queue));
        let solo = self.names().solo(queue);
        for name in self.queues_of(wanted, queue) {
            if name == failed {
                failed_jobs = jobs_in(up, &name).await?.unwrap_or(0);
                continue;
            }
            let Some(found) = count(up, &name).await? else { continue };
            if work.contains(&name) || name == solo {
                ready += found.ready;
                consumers += found.consumers;
            } else {
                waiting += found.ready;
            }
        }
        Ok((Counts::new(ready, waiting, failed_jobs), consumers))
    }
}
