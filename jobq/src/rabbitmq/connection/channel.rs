//! Opening a channel, or using one again.

use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt as _};
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Consumer, ErrorKind as Lapin};
use tokio::time::timeout;

use super::epoch::ConnectionEpoch;
use crate::background;
use crate::error::Result;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::lapin::log::Question;

/// How many requests are sent before the first of them is answered.
const IN_FLIGHT: usize = 64;
/// How long a channel that is not wanted any more waits for its answers.
const ANSWERED: Duration = Duration::from_secs(60);

/// A request that the broker may refuse, on a channel that is used again. `asking` returns `Ok` only
/// when no further answer is under way. It must not bind: `lapin` remembers each binding, also one
/// that is made again, as long as the channel lives.
pub(crate) async fn ask<T, A: Future<Output = Result<T>>>(
    up: &ConnectionEpoch,
    doing: &str,
    asking: impl FnOnce(Channel) -> A,
) -> Result<T> {
    let channel = match up.asking.take() {
        Some(channel) => channel,
        None => open(up).await?,
    };
    let answer = ask_on(up, &channel, doing, Box::pin(asking(channel.clone()))).await?;
    up.asking.keep(channel);
    Ok(answer)
}

/// A request that the broker may refuse, on a channel of its own.
pub(crate) async fn ask_alone<T, A: Future<Output = Result<T>>>(
    up: &ConnectionEpoch,
    doing: &str,
    asking: impl FnOnce(Channel) -> A,
) -> Result<T> {
    let channel = open(up).await?;
    let answer = ask_on(up, &channel, doing, Box::pin(asking(channel.clone()))).await?;
    let _ = channel.close(200, "answered".into()).await;
    Ok(answer)
}

/// A request on this channel that the broker may refuse; the broker ends the channel then. Dropping
/// the future closes the channel.
pub(crate) async fn ask_on<T>(
    up: &ConnectionEpoch,
    channel: &Channel,
    doing: &str,
    asking: impl Future<Output = Result<T>>,
) -> Result<T> {
    let question = Some(up.questions.ask(channel.id()));
    let mut requests = Requests { channel, question, are_answered: false };
    let answer = up.answer(doing, asking).await;
    requests.are_answered = answer.is_ok();
    answer
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

/// The answers to requests that are made in this order, with many of them in flight.
pub(crate) fn pipelined<R: Future>(
    requests: impl Iterator<Item = R>,
) -> impl Stream<Item = R::Output> + Unpin {
    // Without a closure in the stream, whose lifetimes would keep it from other threads.
    stream::iter(requests.collect::<Vec<_>>()).buffered(IN_FLIGHT)
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

/// Requests on a channel. It is closed where nobody waits for their answers any more, and not before
/// they are there: `lapin` ends the connection if a close by the broker crosses its own.
///
/// A consumer whose beginning nobody waits for stays until its channel is closed.
struct Requests<'c> {
    channel: &'c Channel,
    /// Until the answers are there, the broker may refuse them.
    question: Option<Question>,
    are_answered: bool,
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        if !self.are_answered {
            let (channel, question) = (self.channel.clone(), self.question.take());
            background::spawn(async move {
                // The broker answers in order.
                let answered = channel.basic_qos(0, BasicQosOptions::default());
                let _ = timeout(ANSWERED, answered).await;
                // Another channel may have its number from the close on.
                drop(question);
                let _ = channel.close(200, "not wanted".into()).await;
            });
        }
    }
}

/// Begins to consume a queue. Dropping the future closes the channel.
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
    let mut beginning = Requests { channel, question: None, are_answered: false };
    let consumer = channel.basic_consume(queue, tag, options, arguments).await;
    beginning.are_answered = true;
    consumer
}
