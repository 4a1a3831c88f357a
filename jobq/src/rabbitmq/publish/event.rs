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
use crate::period;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::message::properties::{self, Message};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::requirements::{Tiers, Wanted};
use crate::rabbitmq::topology::routing::Routing;
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
        self.declarer.declare(Wanted::shared()).await?;
        let millis = period::millis(event.delay);
        let routing = Routing::new(millis, End::Topic(&event.topic), &Tiers::new())?;
        self.declarer.prepare(&routing).await?;
        let route = routing.route(self.declarer.known().names(), End::Topic(&event.topic))?;
        traces::sent_with_key(route.key.as_str());
        let message = properties::encode_event(event, Arc::new(route))?;
        if mandatory {
            return self.publish_mandatory(message).await;
        }
        self.publisher.publish(Ok(message)).await
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
            Ok(Confirmation::Ack(Some(_))) => Err(nobody_subscribes(message.route.key.as_str())),
            Ok(confirmation) => stored(&message, &confirmation),
            Err(error) => Err(not_stored(&message, error)),
        }
    }
}
