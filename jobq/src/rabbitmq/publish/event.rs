//! Publishing an event.

use std::sync::Arc;

use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use tokio::time::timeout;

use super::destination::Destination;
use super::publisher::Publisher;
use super::task::open_confirming;
use crate::engine::nobody_subscribes;
use crate::error::Result;
use crate::job::EventEnvelope;
use crate::period;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::message::properties::{self, Message};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::requirements::{Tiers, Wanted};
use crate::rabbitmq::topology::route::Route;
use crate::rabbitmq::topology::routing::Way;

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
        let way = Way::new(millis, End::Topic(&event.topic), &Tiers::new())?;
        self.declarer.prepare(&way).await?;
        let route = way.route(self.declarer.known().names(), End::Topic(&event.topic))?;
        let message = properties::encode_event(event, Arc::new(route))?;
        if mandatory {
            return self.publish_mandatory(message).await;
        }
        self.publisher.publish(Ok(message)).await
    }

    /// Publishes a message that must reach a queue, on a channel of its own: `lapin` gives
    /// what the broker returns to whichever confirm comes next.
    async fn publish_mandatory(&self, message: Message) -> Result<()> {
        let channel = self.broker.within("opening a channel", async {
            open_confirming(&*self.broker.up().await?).await
        });
        let channel = channel.await?;
        let limit = self.broker.timeout();
        let answer = timeout(limit, send_mandatory(&channel, &message)).await;
        let _ = channel.close(200, "published".into()).await;
        let trouble = self.broker.publishing().trouble();
        let unanswered = || Destination::of(&message).unanswered(limit, &trouble, true);
        answer.unwrap_or_else(|_| Err(unanswered()))
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
