//! RabbitMQ as another client sees it: plain `lapin`, without jobq.

use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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

/// The URL of a way to the broker that replaces bytes in what is sent to it by others of
/// the same number: `lapin` itself sends nothing that it could not read.
///
/// # Panics
///
/// If there is no port for it.
pub async fn garbled(url: &str, from: &'static [u8], to: &'static [u8]) -> String {
    assert_eq!(from.len(), to.len(), "frames keep their lengths");
    let broker = url.rsplit(['@', '/']).next().expect("a host and a port").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let port = listener.local_addr().expect("it has an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(&broker).await.expect("the broker is there");
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_broker, mut to_broker) = broker.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_broker, &mut to_client).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                    let sent = &mut buffer[..length];
                    if let Some(place) = sent.windows(from.len()).position(|part| part == from) {
                        sent[place..place + to.len()].copy_from_slice(to);
                    }
                    to_broker.write_all(sent).await.expect("the broker takes it");
                }
            });
        }
    });
    format!("amqp://127.0.0.1:{port}")
}
