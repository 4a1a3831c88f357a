//! Publishing an event.

use std::sync::Arc;

use lapin::Confirmation;
use tokio::time::timeout;

use super::confirm::{not_stored, send_alone, stored};
use super::error::unanswered;
use super::publisher::Publisher;
use crate::engine::nobody_subscribes;
use crate::error::Result;
use crate::job::EventEnvelope;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::message::properties::{self, Message};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::route::Destination;
use crate::rabbitmq::topology::routing::Routing;
use crate::rabbitmq::topology::wait::Wait;
use crate::traces;

/// Publishes events.
#[derive(Debug)]
pub(crate) struct Events {
    broker: Arc<Broker>,
    declarer: Arc<Declarer>,
    publisher: Arc<Publisher>,
}

impl Events {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self { broker, declarer, publisher }
    }

    pub(crate) async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        let to = self.destination(&event).await?;
        traces::sent_with_key(to.route().key.as_str());
        let message = properties::encode_event(event, to)?;
        if mandatory {
            return self.publish_mandatory(message).await;
        }
        self.publisher.publish(Ok(message)).await
    }

    /// The way of an event to its subscribers, of which all is declared.
    async fn destination(&self, event: &EventEnvelope) -> Result<Destination> {
        let (known, end) = (self.declarer.known(), End::Topic(&event.topic));
        if event.delay.is_zero() {
            self.declarer.declare(Wanted::shared()).await?;
            return Ok(Routing::Now(None).route(known.names(), end)?.into());
        }
        let wait = Wait::new(known, (event.delay, event.delay), end, None)?;
        self.declarer.declare(Wanted::levels(wait.levels())).await?;
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
