//! The consumer of a seat's queue, and the channel on which it also publishes.

use std::sync::Arc;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::BasicAckOptions;
use lapin::{Channel, Confirmation, Consumer};

use super::record::Kind;
use super::{Shared, gone, published};
use crate::background;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::{Take, consume};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::publish::confirm::{open_confirming, send};
use crate::rabbitmq::topology::names::SEAT_TAG;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::values::{fits, short};

/// All messages: those before the mark may be many. Without a prefetch, a quorum queue has one of 2,000.
const PREFETCH: u16 = u16::MAX;

/// A channel that is closed when it is dropped. `lapin` keeps one with a consumer.
#[derive(Debug)]
struct Owned(Channel);

impl Drop for Owned {
    fn drop(&mut self) {
        let channel = self.0.clone();
        background::spawn(async move { channel.close(200, "left".into()).await });
    }
}

/// A consumer of the seat's queue. It publishes to the queue on its own channel, so that a holder that
/// has lost the channel writes nothing more.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) queue: String,
    route: Route,
    pub(super) up: Arc<ConnectionEpoch>,
    channel: Owned,
    consumer: Consumer,
    /// Whether the queue was seen to be deleted, as far as a consumer can see that.
    pub(super) is_gone: bool,
}

impl Drop for Line {
    fn drop(&mut self) {
        // The consumer goes after the channel: cancelled before, it would let another engine begin while
        // the value is still this one's.
        let (channel, consumer) = (self.channel.0.clone(), self.consumer.clone());
        background::spawn(async move {
            let _ = channel.close(200, "left".into()).await;
            drop(consumer);
        });
    }
}

impl Line {
    /// Consumes the queue of a seat, and sends a message without which an empty queue has no holder.
    pub(super) async fn open(
        shared: &Shared,
        up: &Arc<ConnectionEpoch>,
        queue: &str,
    ) -> Result<Self> {
        let name = shared.names().seat(queue);
        let (channel, consumer) = match Self::consume(up, &name).await {
            Err(error) if error.is_not_found() => {
                shared.declare_again(up, queue).await?;
                Self::consume(up, &name).await?
            }
            consumed => consumed?,
        };
        let (queue, route, up) = (queue.to_owned(), shared.route(queue)?, Arc::clone(up));
        let mut line = Self { queue, route, up, channel, consumer, is_gone: false };
        match line.publish(Kind::Seed, Vec::new()).await {
            // Its binding may be gone.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                shared.declare_again(&line.up, &line.queue).await?;
                line.publish(Kind::Seed, Vec::new()).await?;
            }
            seeded => seeded?,
        }
        Ok(line)
    }

    async fn consume(up: &ConnectionEpoch, name: &str) -> Result<(Owned, Consumer)> {
        let channel = Owned(open_confirming(up).await?);
        let doing = format!("consuming queue `{name}`");
        let consuming = async {
            let take = Take::Prefetch(PREFETCH);
            let consumer = consume(&channel.0, short(name)?, fits(SEAT_TAG), take).await;
            consumer.map_err(|error| failure(&doing, error))
        };
        let consumer = up.answer(&doing, consuming).await?;
        Ok((channel, consumer))
    }

    /// The next message. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Delivery> {
        let next = tokio::select! {
            biased;
            () = self.up.over.cancelled() => None,
            next = self.consumer.next() => next,
        };
        let doing = format!("holding the seat of queue `{}`", self.queue);
        self.is_gone |= !matches!(next, Some(Ok(_))) && self.up.connection.status().connected();
        match next {
            Some(Ok(delivery)) => Ok(delivery),
            Some(Err(error)) => Err(failure(&doing, error)),
            None => {
                let text =
                    format!("{doing}: the broker ended its consumer, or the connection was lost");
                Err(Error::new(ErrorKind::Connection, text))
            }
        }
    }

    /// Publishes a message to the queue.
    pub(super) async fn publish(&mut self, kind: Kind, content: Vec<u8>) -> Result<()> {
        let message = kind.message(self.route.clone(), content);
        let publishing = async {
            match send(&self.channel.0, &message.route(), &message, true).await {
                Ok(Confirmation::Ack(Some(_))) => Err(gone(&self.queue)),
                answer => published(&message, answer),
            }
        };
        let answer = self.up.answer(&self.writing(), publishing).await;
        self.is_gone |= answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict);
        answer
    }

    pub(super) async fn acknowledge(&self, tag: u64) -> Result<()> {
        let acknowledged = self.channel.0.basic_ack(tag, BasicAckOptions::default()).await;
        acknowledged.map_err(|error| failure(&self.writing(), error))
    }

    /// Ends the consumer, and returns when the broker has heard of it.
    pub(super) async fn close(&self) {
        let _ = self.channel.0.close(200, "left".into()).await;
    }

    /// The words for writing in errors.
    fn writing(&self) -> String {
        format!("writing to the seat of queue `{}`", self.queue)
    }
}
