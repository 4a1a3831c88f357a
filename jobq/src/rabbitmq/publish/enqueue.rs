//! Enqueueing jobs and publishing events: the route of each, its message, and its publish.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use lapin::Confirmation;
use tokio::time::timeout;
use tracing::Span;

use super::batch::Batch;
use super::confirm::{not_stored, send_alone, stored};
use super::error::unanswered;
use super::publisher::Publisher;
use crate::engine::{NotPushed, Pushed, Pushing, nobody_subscribes};
use crate::error::{Error, Result};
use crate::job::{Envelope, EventEnvelope};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::message::properties::{self, Message};
use crate::rabbitmq::topology::declarer::{DECLARING, Declarer};
use crate::rabbitmq::topology::destination::{Destination, Wait};
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing::Routing;
use crate::rabbitmq::topology::routing_key;

/// Publishes jobs, each by the route into its queue, and events.
#[derive(Debug)]
pub(crate) struct Enqueuer {
    broker: Arc<Broker>,
    known: Arc<Declared>,
    declarer: Arc<Declarer>,
    publisher: Arc<Publisher>,
}

impl Enqueuer {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self { broker, known: Arc::clone(declarer.known()), declarer, publisher }
    }

    /// Publishes a job. Levels that it needs are declared first.
    pub(crate) fn push(self: &Arc<Self>, job: Envelope) -> Pushing {
        match self.destination(&job) {
            Ok((to, 0)) => {
                describe(&to);
                let publishing = self.publisher.publish(properties::encode(job, to));
                Box::pin(async { publishing.await.map(|()| Pushed::new()) })
            }
            Ok((to, levels)) => {
                let this = Arc::clone(self);
                Box::pin(async move {
                    this.declare(Wanted::levels(levels)).await?;
                    describe(&to);
                    this.publisher.publish(properties::encode(job, to)).await?;
                    Ok(Pushed::new())
                })
            }
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// The message of a job, of which all is declared.
    pub(crate) async fn message(&self, job: Envelope) -> Result<Message> {
        let (to, levels) = self.destination(&job)?;
        if levels > 0 {
            self.declare(Wanted::levels(levels)).await?;
        }
        properties::encode(job, to)
    }

    async fn declare(&self, wanted: Wanted) -> Result<()> {
        self.broker.patiently(DECLARING, self.declarer.declare(wanted)).await
    }

    /// The way of a job into its queue, and how many levels it needs.
    fn destination(&self, job: &Envelope) -> Result<(Destination, u32)> {
        let lane = routing_key::lane(&job.queue, job.priority());
        let (known, end) = (&self.known, End::Queue(&lane));
        if !job.delay.is_zero() {
            let (waits, now) = ((job.delay, self.left(job)), self.broker.clock().now());
            let wait = Wait::new(known, waits, now, end, job.retry_wait)?;
            let levels = wait.levels();
            return Ok((wait.into(), levels));
        }
        if let Some(route) = known.route(&lane, job.retry_wait) {
            return Ok((route.into(), 0));
        }
        let routing = Routing::of(job, &known.tiers(&job.queue).unwrap_or_default())?;
        Ok((routing.route(known.names(), end)?.into(), 0))
    }

    /// The part of a job's delay that is left. Declaring its queue takes time.
    fn left(&self, job: &Envelope) -> Duration {
        let Some(due) = job.headers.due() else { return job.delay };
        let left = due.duration_since(self.broker.clock().now());
        left.unwrap_or_default().min(job.delay)
    }

    /// Publishes jobs. Each is encoded when it can be sent.
    pub(crate) async fn push_all(
        &self,
        jobs: &mut (dyn Iterator<Item = Envelope> + Send),
    ) -> Vec<NotPushed> {
        let mut batch = Batch::new(&self.publisher);
        let mut refused = None;
        for (index, job) in jobs.enumerate() {
            let to = match self.destination(&job) {
                Ok((to, levels)) => self.levels(levels, &mut refused).await.map(|()| to),
                Err(error) => Err(error),
            };
            if let (0, Ok(to)) = (index, &to) {
                describe(to);
            }
            batch.send(to.and_then(|to| properties::encode(job, to))).await;
        }
        batch.finish().await
    }

    /// Declares so many levels, unless declaring as many or fewer was refused before.
    async fn levels(&self, levels: u32, refused: &mut Option<(u32, Error)>) -> Result<()> {
        if levels == 0 {
            return Ok(());
        }
        if let Some((fewer, error)) = &*refused
            && levels >= *fewer
        {
            return Err(error.clone());
        }
        let declared = self.declare(Wanted::levels(levels)).await;
        declared.inspect_err(|error| *refused = Some((levels, error.clone())))
    }

    /// Publishes an event. With `mandatory` it must reach a queue.
    pub(crate) async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        let message = self.event_message(event).await?;
        describe(&message.to);
        if mandatory {
            return self.publish_mandatory(message).await;
        }
        self.publisher.publish(Ok(message)).await
    }

    /// The message of an event, of which all is declared.
    pub(crate) async fn event_message(&self, event: EventEnvelope) -> Result<Message> {
        let to = self.event_destination(&event).await?;
        properties::encode_event(event, to)
    }

    /// The way of an event to its subscribers, of which all is declared.
    async fn event_destination(&self, event: &EventEnvelope) -> Result<Destination> {
        let (known, end) = (&self.known, End::Topic(&event.topic));
        if event.delay.is_zero() {
            self.declare(Wanted::shared()).await?;
            return Ok(Routing::Now(None).route(known.names(), end)?.into());
        }
        let now = self.broker.clock().now();
        let wait = Wait::new(known, (event.delay, event.delay), now, end, None)?;
        self.declare(Wanted::levels(wait.levels())).await?;
        Ok(wait.into())
    }

    /// Publishes a message that must reach a queue, on a channel of its own: `lapin` assigns
    /// returned messages to whichever confirm comes next.
    async fn publish_mandatory(&self, message: Message) -> Result<()> {
        let up = self.broker.within("publishing an event", self.broker.up()).await?;
        let limit = self.broker.timeout();
        let Ok(answer) = timeout(limit, send_alone(&up, &message, true)).await else {
            let trouble = self.broker.publishing().trouble();
            return Err(unanswered(&message, limit, &trouble, true));
        };
        match answer? {
            Ok(Confirmation::Ack(Some(_))) => Err(nobody_subscribes(message.route().key.as_str())),
            Ok(confirmation) => stored(&message, &confirmation),
            Err(error) => Err(not_stored(&message, error)),
        }
    }
}

/// Adds the routing key to the span of the call, as far as that has a field for it.
fn describe(to: &Destination) {
    let span = Span::current();
    if !span.is_none() {
        span.record("messaging.rabbitmq.destination.routing_key", to.route().key.as_str());
    }
}
