//! A seat that is held: a channel whose consumer has the messages of the seat's queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicQosOptions};
use lapin::{Channel, Confirmation, Consumer};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::record::{Kind, PARTS, Part, Stamp};
use super::{Shared, doing, gone};
use crate::background;
use crate::engine::{NotPushed, Seat, SeatValue};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Envelope;
use crate::rabbitmq::connection::channel::{Take, consume};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::publish::confirm::{not_stored, open_confirming, send, send_alone, stored};
use crate::rabbitmq::topology::ensure::apply_again;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::values::{fits, short};

/// How often the value is written anew: RabbitMQ 3.10 ends the channel of a consumer that has held a
/// message for half an hour.
const RENEWAL: Duration = Duration::from_secs(600);
/// All messages: those before the mark may be many.
const PREFETCH: u16 = 0;

/// A consumer of the queue, on a channel in confirm mode on which it also publishes: where the one has
/// ended, nothing comes of the other.
#[derive(Debug)]
struct Line {
    queue: String,
    /// The name of the seat's queue.
    name: String,
    up: Arc<ConnectionEpoch>,
    channel: Channel,
    consumer: Consumer,
}

/// A seat that is held.
#[derive(Debug)]
pub(super) struct Held {
    shared: Arc<Shared>,
    line: Line,
    value: SeatValue,
    /// The last stamp.
    stamp: Stamp,
    /// The messages that have the parts of the value, by their delivery tags.
    parts: [Option<u64>; PARTS.len()],
    /// Changes that were not returned yet.
    arrived: VecDeque<(u64, Vec<u8>)>,
    /// Changes that were returned, and are no part of the list yet.
    returned: Vec<u64>,
    renew_at: Instant,
}

impl Held {
    /// Waits until the broker gives this engine the messages of the seat, and reads them.
    pub(super) async fn take(
        shared: &Arc<Shared>,
        up: &Arc<ConnectionEpoch>,
        queue: &str,
    ) -> Result<Self> {
        let broker = &shared.broker;
        let mut line = broker.in_time(&doing(queue), Line::open(shared, up, queue)).await?;
        // It waits for as long as another engine holds the seat.
        let first = line.next().await?;
        let mut held = Self {
            shared: Arc::clone(shared),
            line,
            value: SeatValue::default(),
            stamp: Stamp::default(),
            parts: [None; PARTS.len()],
            arrived: VecDeque::new(),
            returned: Vec::new(),
            renew_at: Instant::now() + RENEWAL,
        };
        broker.in_time(&doing(queue), held.begin(first)).await?;
        Ok(held)
    }

    /// Reads all messages of the queue, and writes the value with a stamp that is later than all before.
    async fn begin(&mut self, first: Delivery) -> Result<()> {
        let mark = Kind::Mark(Uuid::now_v7());
        self.line.publish(mark, Vec::new()).await?;
        let (mut newest, mut old) = ([Stamp::default(); PARTS.len()], Vec::new());
        let mut next = first;
        loop {
            let (kind, tag) = (Kind::of(&next.properties), next.delivery_tag);
            match kind {
                Kind::Change => self.arrived.push_back((tag, next.data)),
                Kind::Part(part, stamp) => {
                    old.push(tag);
                    self.stamp = self.stamp.max(stamp);
                    if stamp > newest[part as usize] {
                        newest[part as usize] = stamp;
                        *self.value_of(part) = next.data;
                    }
                }
                Kind::Seed | Kind::Mark(_) | Kind::Unknown => old.push(tag),
            }
            if kind == mark {
                break;
            }
            next = self.line.next().await?;
        }
        self.stamp = Stamp { term: self.stamp.term + 1, seq: 0 };
        self.renew().await?;
        for tag in old {
            self.line.acknowledge(tag).await?;
        }
        Ok(())
    }

    fn value_of(&mut self, part: Part) -> &mut Vec<u8> {
        match part {
            Part::List => &mut self.value.list,
            Part::Position => &mut self.value.position,
        }
    }

    /// Writes both parts anew.
    async fn renew(&mut self) -> Result<()> {
        for part in PARTS {
            let content = self.value_of(part).clone();
            self.write(part, content).await?;
        }
        self.renew_at = Instant::now() + RENEWAL;
        Ok(())
    }

    /// Writes a part, and keeps its message in the place of the one before.
    async fn write(&mut self, part: Part, content: Vec<u8>) -> Result<()> {
        self.stamp.seq += 1;
        let kind = Kind::Part(part, self.stamp);
        self.line.publish(kind, content.clone()).await?;
        loop {
            let next = self.line.next().await?;
            if Kind::of(&next.properties) != kind {
                self.arrive(next).await?;
                continue;
            }
            if let Some(before) = self.parts[part as usize].replace(next.delivery_tag) {
                self.line.acknowledge(before).await?;
            }
            *self.value_of(part) = content;
            return Ok(());
        }
    }

    /// Keeps a change. Anything else is a seed, or late.
    async fn arrive(&mut self, delivery: Delivery) -> Result<()> {
        match Kind::of(&delivery.properties) {
            Kind::Change => {
                self.arrived.push_back((delivery.delivery_tag, delivery.data));
                Ok(())
            }
            _ => self.line.acknowledge(delivery.delivery_tag).await,
        }
    }

    /// Asks the broker on the channel of the seat, and fails if that has ended: a process that was
    /// stopped for long goes on without knowing it.
    async fn look(&mut self) -> Result<()> {
        let asking = async {
            let asked = self.line.channel.basic_qos(PREFETCH, BasicQosOptions::default()).await;
            asked.map_err(|error| failure("looking for a seat", error))
        };
        self.line.up.answer("looking for a seat", asking).await?;
        while let Some(next) = self.line.consumer.next().now_or_never() {
            let next = self.line.delivered(next)?;
            self.arrive(next).await?;
        }
        Ok(())
    }

    /// Publishes jobs on a channel of their own, since one that the broker refuses may end it, and
    /// returns the errors of those that were refused.
    async fn push(&self, jobs: Vec<Envelope>) -> Result<Vec<NotPushed>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut messages = Vec::with_capacity(jobs.len());
        for job in jobs {
            messages.push(self.shared.enqueuer.message(job).await);
        }
        let up = &self.line.up;
        let channel = open_confirming(up).await?;
        let sending = messages.iter().map(|message| async {
            let message = message.as_ref().map_err(Clone::clone)?;
            Ok::<_, Error>(send(&channel, &message.route(), message, false).await)
        });
        let answers = join_all(sending).await;
        background::spawn(async move { channel.close(200, "published".into()).await });
        let mut refused = Vec::new();
        for (place, (answer, message)) in answers.into_iter().zip(&messages).enumerate() {
            let answer = match (answer, message) {
                // Another job may have ended the channel.
                (Ok(Err(error)), Ok(message)) if error.is_amqp_soft_error() => {
                    published(message, send_alone(up, message, false).await?)
                }
                (Ok(answer), Ok(message)) => published(message, answer),
                (Err(error), _) => Err(error),
                (_, Err(error)) => Err(error.clone()),
            };
            match answer {
                Err(error) if error.is_connection() => return Err(error),
                Err(error) => refused.push((place, error)),
                Ok(()) => {}
            }
        }
        Ok(refused)
    }

    /// Does work for no longer than a call may take.
    async fn in_time<T>(
        shared: Arc<Shared>,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        shared.broker.in_time("writing to a seat", work).await
    }
}

#[async_trait]
impl Seat for Held {
    fn value(&self) -> &SeatValue {
        &self.value
    }

    async fn next_change(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some((tag, change)) = self.arrived.pop_front() {
                self.returned.push(tag);
                return Ok(change);
            }
            let renew_at = self.renew_at;
            tokio::select! {
                next = self.line.next() => {
                    let next = next?;
                    self.arrive(next).await?;
                }
                () = sleep_until(renew_at) => {
                    Self::in_time(Arc::clone(&self.shared), self.renew()).await?;
                }
            }
        }
    }

    async fn write_list(&mut self, list: Vec<u8>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let writing = async {
            self.write(Part::List, list).await?;
            for tag in std::mem::take(&mut self.returned) {
                self.line.acknowledge(tag).await?;
            }
            Ok(())
        };
        Self::in_time(shared, writing).await
    }

    async fn advance(&mut self, jobs: Vec<Envelope>, position: Vec<u8>) -> Result<Vec<NotPushed>> {
        let shared = Arc::clone(&self.shared);
        let advancing = async {
            self.look().await?;
            let refused = self.push(jobs).await?;
            self.write(Part::Position, position).await?;
            Ok(refused)
        };
        Self::in_time(shared, Box::pin(advancing)).await
    }

    async fn leave(self: Box<Self>) {
        // The end of the connection ends the channel, too.
        let closing = self.line.channel.close(200, "left".into());
        let _ = self.shared.broker.in_time("leaving a seat", async { Ok(closing.await) }).await;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let channel = self.channel.clone();
        background::spawn(async move { channel.close(200, "left".into()).await });
    }
}

impl Line {
    /// Consumes the queue of a seat, and sends a message without which an empty queue has no holder.
    async fn open(shared: &Shared, up: &Arc<ConnectionEpoch>, queue: &str) -> Result<Self> {
        let name = shared.names().seat(queue);
        let (channel, consumer) = match Self::consume(up, &name).await {
            Err(error) if error.is_not_found() => {
                let wanted = Wanted::seat(queue);
                apply_again(up, &shared.declarer.known().topology(&wanted)).await?;
                Self::consume(up, &name).await?
            }
            consumed => consumed?,
        };
        let (queue, up) = (queue.to_owned(), Arc::clone(up));
        let line = Self { queue, name, up, channel, consumer };
        line.publish(Kind::Seed, Vec::new()).await?;
        Ok(line)
    }

    async fn consume(up: &ConnectionEpoch, name: &str) -> Result<(Channel, Consumer)> {
        let channel = open_confirming(up).await?;
        let doing = format!("consuming queue `{name}`");
        let consuming = async {
            let take = Take::Prefetch(PREFETCH);
            let consumer = consume(&channel, short(name)?, fits("seat"), take).await;
            consumer.map_err(|error| failure(&doing, error))
        };
        let consumer = up.answer(&doing, consuming).await?;
        Ok((channel, consumer))
    }

    /// The next message. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Delivery> {
        let next = tokio::select! {
            biased;
            () = self.up.over.cancelled() => None,
            next = self.consumer.next() => next,
        };
        self.delivered(next)
    }

    /// What the consumer gave, or the error of its end.
    fn delivered(&self, next: Option<lapin::Result<Delivery>>) -> Result<Delivery> {
        let doing = format!("holding the seat of queue `{}`", self.queue);
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
    async fn publish(&self, kind: Kind, content: Vec<u8>) -> Result<()> {
        let message = kind.message(self.name.clone(), content)?;
        let publishing = async {
            match send(&self.channel, &message.route(), &message, true).await {
                Ok(Confirmation::Ack(Some(_))) => Err(gone(&self.queue)),
                answer => published(&message, answer),
            }
        };
        self.up.answer("writing to a seat", publishing).await
    }

    async fn acknowledge(&self, tag: u64) -> Result<()> {
        let acknowledged = self.channel.basic_ack(tag, BasicAckOptions::default()).await;
        acknowledged.map_err(|error| failure("writing to a seat", error))
    }
}

/// The broker's answer to a publish.
fn published(message: &Message, answer: lapin::Result<Confirmation>) -> Result<()> {
    match answer {
        Ok(confirmation) => stored(message, &confirmation),
        Err(error) => Err(not_stored(message, error)),
    }
}
