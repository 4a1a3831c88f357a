//! The control queue of one connection epoch.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{QueueBindOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Consumer};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::wire::{ALL, Message, address_key, echo_pattern, pool_key};
use crate::engine::PoolId;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::{Take, consume, open};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties;
use crate::rabbitmq::publish::confirm::{open_confirming, send};
use crate::rabbitmq::topology::declare::declare_temporary;
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::Topology;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::temporary::{QueueType, TemporaryQueue};
use crate::rabbitmq::values::short;

/// How long a message to all clients waits for its confirm. On a cluster, the queue of a client whose
/// node does not answer confirms nothing for a minute; the others have the message by then.
const UNCONFIRMED: Duration = Duration::from_secs(1);

/// A control queue, of one connection. Its name is never used again: a broker may still be deleting
/// the queue of an ended connection.
#[derive(Debug)]
pub(super) struct ControlQueue {
    pub(super) up: Arc<ConnectionEpoch>,
    pub(super) address: Uuid,
    kind: QueueType,
    /// Cancelled when nothing arrives any more.
    pub(super) over: CancellationToken,
    channel: Channel,
    names: Names,
}

impl ControlQueue {
    /// Declares a control queue with the bindings of these pools, and consumes it.
    ///
    /// # Errors
    ///
    /// A missing permission; a lost connection.
    pub(super) async fn open(
        up: Arc<ConnectionEpoch>,
        names: &Names,
        kind: QueueType,
        pools: &[PoolId],
    ) -> Result<(Self, Consumer)> {
        apply(&up, &Topology::of_control(names)).await?;
        let channel = open(&up).await?;
        let (names, over) = (names.clone(), CancellationToken::new());
        let opened = Self { up, address: Uuid::now_v7(), kind, over, channel, names };
        let consumer = opened.up.answer("opening the control queue", opened.consume(pools));
        let consumer = consumer.await?;
        Ok((opened, consumer))
    }

    async fn consume(&self, pools: &[PoolId]) -> Result<Consumer> {
        let _question = self.up.questions.ask(self.channel.id());
        let queue = TemporaryQueue::control(&self.names, self.address, self.kind);
        declare_temporary(&self.channel, &queue).await?;
        let queue = short(queue.name)?;
        let control = self.names.control();
        self.bind(&control, ALL).await?;
        self.bind(&control, &address_key(self.address)).await?;
        self.bind(&self.names.control_echo(), &echo_pattern(self.address)).await?;
        for pool in pools {
            self.bind(&control, &pool_key(*pool)).await?;
        }
        // Without acknowledgements, since a stopped client with a prefetch got one of five orders.
        let consumer = consume(&self.channel, queue, short("control")?, Take::NoAck).await;
        consumer.map_err(|error| failure("opening the control queue", error))
    }

    async fn bind(&self, exchange: &str, key: &str) -> Result<()> {
        self.bind_on(&self.channel, exchange, key).await
    }

    async fn bind_on(&self, channel: &Channel, exchange: &str, key: &str) -> Result<()> {
        let queue = short(self.names.control_queue(self.address))?;
        let (exchange, key, options) = (short(exchange)?, short(key)?, QueueBindOptions::default());
        let bound = channel.queue_bind(queue, exchange, key, options, FieldTable::default());
        bound.await.map_err(|error| failure("binding the control queue", error))
    }

    /// Binds the queue for probes, on a channel that a refusal may end.
    pub(super) async fn hear(&self, channel: &Channel, exchange: &str, key: &str) -> Result<()> {
        let _question = self.up.questions.ask(channel.id());
        let binding = self.bind_on(channel, exchange, key);
        self.up.answer("binding the control queue", binding).await
    }

    /// Makes the way back of questions for pauses, if it is not there.
    pub(super) async fn bind_echo(&self) -> Result<()> {
        let (echo, key) = (self.names.control_echo(), echo_pattern(self.address));
        self.up.answer("binding the control queue", self.bind(&echo, &key)).await
    }

    /// Binds the queue for a further pool.
    pub(super) async fn add(&self, pool: PoolId) -> Result<()> {
        let (control, key) = (self.names.control(), pool_key(pool));
        self.up.answer("binding the control queue", self.bind(&control, &key)).await
    }

    /// Ends the binding of a pool.
    pub(super) async fn remove(&self, pool: PoolId) {
        let unbinding = async {
            let queue = short(self.names.control_queue(self.address))?;
            let (control, key) = (short(self.names.control())?, short(pool_key(pool))?);
            let unbound = self.channel.queue_unbind(queue, control, key, FieldTable::default());
            unbound.await.map_err(|error| failure("unbinding the control queue", error))
        };
        if let Err(error) = self.up.answer("unbinding the control queue", unbinding).await {
            tracing::debug!(
                %error,
                "could not remove the binding of a stopped pool; it stays until the client closes"
            );
        }
    }

    /// Deletes a queue that would outlive its connection.
    pub(super) async fn delete(&self) {
        if self.kind == QueueType::Classic {
            return;
        }
        let deleting = async {
            let queue = short(self.names.control_queue(self.address))?;
            let deleted = self.channel.queue_delete(queue, QueueDeleteOptions::default()).await;
            deleted.map_err(|error| failure("deleting the control queue", error))
        };
        if let Err(error) = self.up.answer("deleting the control queue", deleting).await {
            tracing::debug!(%error, "could not delete the control queue; it expires in a minute");
        }
    }
}

/// Publishes messages of control, each confirmed before the next is sent.
pub(super) async fn publish(
    up: &ConnectionEpoch,
    messages: &[(String, String, &Message)],
) -> Result<()> {
    let doing = "sending a control message";
    let channel = match up.telling.take() {
        Some(channel) => channel,
        None => open_confirming(up).await?,
    };
    let _question = up.questions.ask(channel.id());
    let publishing = async {
        for (exchange, key, message) in messages {
            let message = properties::Message {
                to: Route::new(exchange.clone(), key.clone())?.into(),
                properties: BasicProperties::default().with_content_type("application/json".into()),
                payload: message.write(),
            };
            let route = message.route();
            let sending = send(&channel, &route, &message, false);
            let limit = if key == ALL { UNCONFIRMED } else { Duration::MAX };
            let Ok(sent) = timeout(limit, sending).await else { continue };
            match sent.map_err(|error| failure(doing, error))? {
                // Not taken for a client at a node that is dead or cut off (RabbitMQ 4): the others
                // have it.
                Confirmation::Nack(_) if key == ALL => {}
                Confirmation::Nack(_) => {
                    let text = format!("{doing} failed: the broker refused it (basic.nack)");
                    return Err(Error::new(ErrorKind::Connection, text));
                }
                Confirmation::Ack(_) | Confirmation::NotRequested => {}
            }
        }
        Ok(())
    };
    up.answer(doing, publishing).await?;
    // A new channel would wait for each queue that does not answer before it sends to the next.
    up.telling.keep(channel);
    Ok(())
}
