//! RabbitMQ as another client sees it: plain `lapin`, without jobq.

use std::sync::Arc;

use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions,
    ConfirmSelectOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
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
        Self::connect_trusting(url, None).await
    }

    /// Connects to a broker with a certificate of this CA.
    pub async fn connect_trusting(url: &str, authority: Option<String>) -> Self {
        let properties = ConnectionProperties::default();
        let trusted = OwnedTLSConfig { identity: None, cert_chain: authority };
        let runtime = lapin::runtime::default_runtime().expect("a test has a runtime");
        let connection = Connection::connect_with_config(url, properties, trusted, runtime)
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

    /// The properties of the last message of a queue, where all stay.
    pub async fn peek_last(&self, queue: &str) -> BasicProperties {
        let mut taken = Vec::new();
        let options = BasicGetOptions::default;
        while let Some(message) =
            self.channel.basic_get(queue.into(), options()).await.expect("there is such a queue")
        {
            taken.push(message.delivery);
        }
        let last = taken.last().expect("it has a message");
        let (tag, found) = (last.delivery_tag, last.properties.clone());
        let options = BasicNackOptions { requeue: true, multiple: true };
        self.channel.basic_nack(tag, options).await.expect("they are given back");
        found
    }

    /// A queue of this connection's own that is bound to an exchange by this key: its name.
    pub async fn tap(&self, exchange: &str, key: &str) -> String {
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare("".into(), options, FieldTable::default()).await;
        let queue = queue.expect("it is declared").name().to_string();
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let (name, exchange) = (queue.as_str().into(), exchange.into());
        let bound = self.channel.queue_bind(name, exchange, key.into(), options, none).await;
        bound.expect("it is bound");
        queue
    }

    /// The routing key of the first message of a queue, which is taken out.
    pub async fn take(&self, queue: &str) -> Option<String> {
        let options = BasicGetOptions { no_ack: true };
        let message = self.channel.basic_get(queue.into(), options).await;
        message.expect("there is such a queue").map(|message| message.routing_key.to_string())
    }

    /// Consumes from a queue, under this tag.
    pub async fn consume(&self, queue: &str, tag: &str) -> Consumer {
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = self.channel.basic_consume(queue.into(), tag.into(), options, none).await;
        consumer.expect("there is such a queue")
    }

    /// Declares a durable quorum queue with these further arguments.
    pub async fn declare_quorum(&self, queue: &str, arguments: &[(&str, i32)]) {
        let kind = ("x-queue-type", text("quorum"));
        let arguments = arguments.iter().map(|(key, number)| (*key, AMQPValue::LongInt(*number)));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let arguments = headers(arguments.chain([kind]));
        let declared = self.channel.queue_declare(queue.into(), options, arguments).await;
        declared.expect("it is declared");
    }

    /// Binds a queue to an exchange.
    pub async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let bound =
            self.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none);
        bound.await.expect("it is bound");
    }

    /// Deletes an exchange.
    pub async fn delete_exchange(&self, exchange: &str) {
        let options = ExchangeDeleteOptions::default();
        let deleted = self.channel.exchange_delete(exchange.into(), options).await;
        deleted.expect("it is deleted");
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
pub async fn garbled(url: &str, from: impl Into<Vec<u8>>, to: impl Into<Vec<u8>>) -> String {
    let (from, to): (Arc<[u8]>, Arc<[u8]>) = (from.into().into(), to.into().into());
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
            let (from, to) = (Arc::clone(&from), Arc::clone(&to));
            tokio::spawn(async move {
                let mut length = PROTOCOL;
                // Frame by frame, so that none is cut where its bytes are to be found.
                while let Ok(mut frame) = read(&mut from_client, length).await {
                    if let Some(place) = frame.windows(from.len()).position(|part| *part == *from) {
                        frame[place..place + to.len()].copy_from_slice(&to);
                    }
                    to_broker.write_all(&frame).await?;
                    length = 0;
                }
                to_broker.shutdown().await
            });
        }
    });
    format!("amqp://127.0.0.1:{port}")
}

/// The bytes that a connection begins with.
const PROTOCOL: usize = 8;

/// So many bytes; a frame where it is 0.
pub(crate) async fn read(from: &mut OwnedReadHalf, length: usize) -> std::io::Result<Vec<u8>> {
    let mut read = vec![0; if length == 0 { 7 } else { length }];
    from.read_exact(&mut read).await?;
    if length == 0 {
        let size = [read[3], read[4], read[5], read[6]];
        let head = read.len();
        read.resize(head + u32::from_be_bytes(size) as usize + 1, 0);
        from.read_exact(&mut read[head..]).await?;
    }
    Ok(read)
}

/// Lists in lists, so many deep, and as much text: the values of a header of one length,
/// as bytes with their types. The first cannot be sent by `lapin`, which runs out of
/// stack, so [`garbled`] is to put it in the place of the other.
#[must_use]
pub fn deep(levels: u32) -> (Vec<u8>, AMQPValue) {
    let lists = (0..=levels).rev().flat_map(|left| {
        let [a, b, c, d] = (left * 5).to_be_bytes();
        [b'A', a, b, c, d]
    });
    let text = "d".repeat(levels as usize * 5);
    (lists.collect(), AMQPValue::LongString(text.into()))
}
