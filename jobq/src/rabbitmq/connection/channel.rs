//! Opening a channel, or using one again.

use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Consumer, ErrorKind as Lapin};

use super::epoch::ConnectionEpoch;
use crate::error::Result;
use crate::rabbitmq::errors::failure;

/// A channel to ask questions on. Whoever has all answers [keeps](super::idle::Idle::keep) it in
/// [`ConnectionEpoch::asking`].
pub(crate) async fn to_ask(up: &ConnectionEpoch) -> Result<Channel> {
    match up.asking.take() {
        Some(channel) => Ok(channel),
        None => open(up).await,
    }
}

/// A new channel.
///
/// `lapin` never reuses the number of a channel that the broker has closed, and returns the old
/// error for it. There are some two thousand numbers, so the next one is tried, and the connection
/// is replaced when none is left.
pub(crate) async fn open(up: &ConnectionEpoch) -> Result<Channel> {
    let doing = "opening a channel";
    let opening = async {
        let mut opened = up.connection.create_channel().await;
        while matches!(&opened, Err(error) if error.is_amqp_soft_error()) {
            opened = up.connection.create_channel().await;
        }
        if matches!(&opened, Err(error) if matches!(error.kind(), Lapin::ChannelsLimitReached)) {
            tracing::warn!("connection is out of channels; replacing it");
            let _ = up.connection.close(200, "out of channels".into()).await;
        }
        opened.map_err(|error| failure(doing, error))
    };
    up.answer(doing, opening).await
}

/// Which messages a consumer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// At most so many that are not settled.
    Prefetch(u16),
    /// [`Prefetch`](Self::Prefetch), and none for which another consumer of the queue has room.
    Last(u16),
    /// All, without settlements.
    NoAck,
}

/// The priority of a consumer that comes after all others.
const LAST: i32 = -100;

/// Begins to consume a queue.
pub(crate) async fn consume(
    channel: &Channel,
    queue: ShortString,
    tag: ShortString,
    take: Take,
) -> lapin::Result<Consumer> {
    let mut arguments = FieldTable::default();
    if let Take::Last(_) = take {
        arguments.insert("x-priority".into(), AMQPValue::LongInt(LAST));
    }
    if let Take::Prefetch(prefetch) | Take::Last(prefetch) = take {
        // Never global: quorum queues refuse it, and the connection ends.
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
    }
    let no_ack = take == Take::NoAck;
    let options = BasicConsumeOptions { no_ack, ..BasicConsumeOptions::default() };
    channel.basic_consume(queue, tag, options, arguments).await
}
