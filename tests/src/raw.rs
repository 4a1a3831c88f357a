//! RabbitMQ as another client sees it: plain `lapin`, without jobq.

use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

/// A connection with one channel.
#[derive(Debug)]
pub struct Raw {
    /// For what is not here.
    pub channel: Channel,
    _connection: Connection,
}

impl Raw {
    /// Connects.
    pub async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default())
            .await
            .expect("the broker takes connections");
        let channel = connection.create_channel().await.expect("and channels");
        let options = ConfirmSelectOptions::default();
        channel.confirm_select(options).await.expect("with confirms");
        Self { channel, _connection: connection }
    }

    /// Publishes a message, which the broker must confirm.
    pub async fn publish(
        &self,
        exchange: &str,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) {
        let options = BasicPublishOptions::default();
        let confirm = self
            .channel
            .basic_publish(exchange.into(), key.into(), options, body, properties)
            .await
            .expect("it is sent")
            .await
            .expect("it is answered");
        assert!(confirm.is_ack(), "{confirm:?}");
    }

    /// The properties of the first message of a queue, which stays there.
    pub async fn peek(&self, queue: &str) -> Option<BasicProperties> {
        let options = BasicGetOptions::default();
        let message = self.channel.basic_get(queue.into(), options).await;
        let message = message.expect("there is such a queue")?;
        let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        message.nack(options).await.expect("it is given back");
        Some(message.delivery.properties)
    }

    /// Deletes a queue.
    pub async fn delete(&self, queue: &str) {
        let options = QueueDeleteOptions::default();
        let deleted = self.channel.queue_delete(queue.into(), options).await;
        deleted.expect("it is deleted");
    }
}

/// A table of headers.
pub fn headers<'k>(entries: impl IntoIterator<Item = (&'k str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert(ShortString::from(key), value);
    }
    table
}

/// A text as the value of a header.
#[must_use]
pub fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// The header of a message.
#[must_use]
pub fn header<'p>(properties: &'p BasicProperties, key: &str) -> Option<&'p AMQPValue> {
    properties.headers().as_ref()?.inner().get(key)
}
