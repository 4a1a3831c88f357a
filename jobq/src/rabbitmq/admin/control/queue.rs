//! The control queue of one connection epoch.

use std::sync::Arc;
use std::time::Duration;

use lapin::{BasicProperties, Channel, Confirmation, Consumer};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::wire::{ALL, Message, address_key, echo_pattern, pool_key};
use crate::engine::PoolId;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::{Take, ask_on, consume, open};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties;
use crate::rabbitmq::publish::confirm::{open_confirming, send};
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::declare::{declare_all, declare_temporary, delete, unbind};
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
        let (doing, consuming) = ("opening the control queue", Box::pin(opened.consume(pools)));
        let consumer = ask_on(&opened.up, &opened.channel, doing, consuming).await?;
        Ok((opened, consumer))
    }

    async fn consume(&self, pools: &[PoolId]) -> Result<Consumer> {
        let queue = TemporaryQueue::control(&self.names, self.address, self.kind);
        declare_temporary(&self.channel, &queue).await?;
        let queue = short(queue.name)?;
        let own = [ALL.to_owned(), address_key(self.address)];
        let keys = own.into_iter().chain(pools.iter().copied().map(pool_key));
        self.bind(keys.map(|key| (self.names.control(), key)).chain([self.echo()])).await?;
        // Without acknowledgements, since a stopped client with a prefetch got one of five orders.
        let consumer = consume(&self.channel, queue, short("control")?, Take::NoAck).await;
        consumer.map_err(|error| failure("opening the control queue", error))
    }

    fn binding(&self, (exchange, key): (String, String)) -> Declaration {
        let queue = self.names.control_queue(self.address);
        Declaration::Binding { exchange, queue, key: Some(key) }
    }

    /// Binds the queue to these exchanges by these keys.
    pub(super) async fn bind(
        &self,
        sources: impl IntoIterator<Item = (String, String)>,
    ) -> Result<()> {
        let bindings: Vec<_> = sources.into_iter().map(|source| self.binding(source)).collect();
        declare_all(&self.up, &bindings, || ()).await
    }

    fn echo(&self) -> (String, String) {
        (self.names.control_echo(), echo_pattern(self.address))
    }

    /// Makes the way back of questions for pauses, if it is not there.
    pub(super) async fn bind_echo(&self) -> Result<()> {
        self.bind([self.echo()]).await
    }

    /// Binds the queue for a further pool.
    pub(super) async fn add(&self, pool: PoolId) -> Result<()> {
        self.bind([(self.names.control(), pool_key(pool))]).await
    }

    /// Ends the binding of a pool.
    pub(super) async fn remove(&self, pool: PoolId) {
        let binding = self.binding((self.names.control(), pool_key(pool)));
        if let Err(error) = unbind(&self.up, &binding).await {
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
        let queue = self.names.control_queue(self.address);
        if let Err(error) = delete(&self.up, &queue).await {
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
    ask_on(up, &channel, doing, Box::pin(publishing)).await?;
    // A new channel would wait for each queue that does not answer before it sends to the next.
    up.telling.keep(channel);
    Ok(())
}
