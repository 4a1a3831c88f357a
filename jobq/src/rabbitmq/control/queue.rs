//! The control queue of one connection epoch.

use std::sync::Arc;

use lapin::options::{BasicConsumeOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Consumer};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::wire::{ALL, Message, address_key, echo_pattern, pool_key};
use crate::engine::PoolId;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties;
use crate::rabbitmq::publish::confirm::{open_confirming, send};
use crate::rabbitmq::topology::declarations::Topology;
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::route::Route;
use crate::rabbitmq::values::{long, short};

/// The most messages in a control queue. The oldest are dropped.
const MAX_LENGTH: i32 = 1_000;
/// How long a message waits for its client, in milliseconds: nobody waits longer for an answer.
const TTL: i32 = 10_000;
/// After how many milliseconds without a consumer it is deleted.
const UNUSED: i32 = 60_000;

/// A control queue, exclusive to one connection. Its name is never used again: a broker may still
/// be deleting the queue of an ended connection.
#[derive(Debug)]
pub(super) struct ControlQueue {
    pub(super) up: Arc<Up>,
    pub(super) address: Uuid,
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
        up: Arc<Up>,
        names: &Names,
        pools: &[PoolId],
    ) -> Result<(Self, Consumer)> {
        apply(&up, &Topology::of_control(names)).await?;
        let channel = open(&up).await?;
        let (names, over) = (names.clone(), CancellationToken::new());
        let opened = Self { up, address: Uuid::now_v7(), over, channel, names };
        let consumer = opened.up.answer("opening the control queue", opened.consume(pools));
        let consumer = consumer.await?;
        Ok((opened, consumer))
    }

    async fn consume(&self, pools: &[PoolId]) -> Result<Consumer> {
        let _question = self.up.questions.ask(self.channel.id());
        let doing = |error| failure("opening the control queue", error);
        let mut arguments = FieldTable::default();
        arguments.insert(short("x-queue-type")?, long("classic"));
        arguments.insert(short("x-max-length")?, AMQPValue::LongInt(MAX_LENGTH));
        arguments.insert(short("x-message-ttl")?, AMQPValue::LongInt(TTL));
        // Without it, a queue whose opening is given up stays as long as its connection.
        arguments.insert(short("x-expires")?, AMQPValue::LongInt(UNUSED));
        let options = QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..QueueDeclareOptions::default()
        };
        let queue = short(self.names.control_queue(self.address))?;
        let declared = self.channel.queue_declare(queue.clone(), options, arguments).await;
        declared.map_err(doing)?;
        let control = self.names.control();
        self.bind(&control, ALL).await?;
        self.bind(&control, &address_key(self.address)).await?;
        self.bind(&self.names.control_echo(), &echo_pattern(self.address)).await?;
        for pool in pools {
            self.bind(&control, &pool_key(*pool)).await?;
        }
        // Without acknowledgements, since a stopped client with a prefetch got one of five orders.
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let none = FieldTable::default();
        self.channel.basic_consume(queue, short("control")?, options, none).await.map_err(doing)
    }

    async fn bind(&self, exchange: &str, key: &str) -> Result<()> {
        let queue = short(self.names.control_queue(self.address))?;
        let (exchange, key, options) = (short(exchange)?, short(key)?, QueueBindOptions::default());
        let bound = self.channel.queue_bind(queue, exchange, key, options, FieldTable::default());
        bound.await.map_err(|error| failure("binding the control queue", error))
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
            tracing::debug!(%error, "the binding of an ended pool stays until its client ends");
        }
    }
}

/// Publishes messages of control, each confirmed before the next is sent.
pub(super) async fn publish(up: &Up, messages: &[(String, String, &Message)]) -> Result<()> {
    let doing = "sending a message of control";
    let channel = match up.telling.take() {
        Some(channel) => channel,
        None => open_confirming(up).await?,
    };
    let _question = up.questions.ask(channel.id());
    let publishing = async {
        for (exchange, key, message) in messages {
            let message = properties::Message {
                route: Arc::new(Route::new(exchange.clone(), key.clone())?),
                properties: BasicProperties::default().with_content_type("application/json".into()),
                payload: message.write(),
            };
            match send(&channel, &message, false).await.map_err(|error| failure(doing, error))? {
                // Not taken for a client at a node that is dead or cut off (RabbitMQ 4): the others
                // have it.
                Confirmation::Nack(_) if key == ALL => {}
                Confirmation::Nack(_) => {
                    let text = format!("{doing} failed: the broker did not take it");
                    return Err(Error::new(ErrorKind::Connection, text));
                }
                Confirmation::Ack(_) | Confirmation::NotRequested => {}
            }
        }
        Ok(())
    };
    up.answer(doing, publishing).await?;
    up.telling.keep(channel);
    Ok(())
}
