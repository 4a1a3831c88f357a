//! A seat that is held: a channel whose consumer has the messages of the seat's queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lapin::message::Delivery;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::line::Line;
use super::record::{Kind, PARTS, Part, Stamp};
use super::{Shared, doing, published};
use crate::background;
use crate::engine::{NotPushed, Seat, SeatValue, check_change, check_list, not_held};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Envelope;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::publish::confirm::{open_confirming, send, send_alone};

/// How often the value is written anew: RabbitMQ 3.10 ends the channel of a consumer that has held a
/// message for half an hour.
const RENEWAL: Duration = Duration::from_secs(600);
/// How long the broker need not be asked again whether the seat is held.
const FRESH: Duration = Duration::from_secs(3);

/// The most jobs that are published at once.
const AT_ONCE: usize = 500;

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
    /// When the broker last sent what this holder had published.
    heard: Instant,
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
        // It waits for as long as another engine holds the seat, and asks anew now and then: a broker may
        // forget a consumer.
        let Ok(first) = timeout(RENEWAL, line.next()).await else {
            let text = format!("{}: another engine holds it", doing(queue));
            return Err(Error::new(ErrorKind::Connection, text));
        };
        let first = first?;
        let mut held = Self {
            shared: Arc::clone(shared),
            line,
            value: SeatValue::default(),
            stamp: Stamp::default(),
            parts: [None; PARTS.len()],
            arrived: VecDeque::new(),
            returned: Vec::new(),
            renew_at: Instant::now() + RENEWAL,
            heard: Instant::now(),
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
                Kind::Seed | Kind::Mark(_) | Kind::Unknown => self.line.acknowledge(tag).await?,
            }
            if kind == mark {
                break;
            }
            next = self.line.next().await?;
        }
        self.stamp = Stamp { term: self.stamp.term.saturating_add(1), seq: 0 };
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
            *self.value_of(part) = content;
            self.heard = Instant::now();
            if let Some(before) = self.parts[part as usize].replace(next.delivery_tag) {
                self.line.acknowledge(before).await?;
            }
            return Ok(());
        }
    }

    /// Keeps a change. A part with a later stamp is another holder's, who was the holder meanwhile: it is
    /// left for the next one. All else is out of date.
    async fn arrive(&mut self, delivery: Delivery) -> Result<()> {
        match Kind::of(&delivery.properties) {
            Kind::Change => {
                self.arrived.push_back((delivery.delivery_tag, delivery.data));
                Ok(())
            }
            Kind::Part(_, stamp) if stamp > self.stamp => Err(not_held(&self.line.queue)),
            _ => self.line.acknowledge(delivery.delivery_tag).await,
        }
    }

    /// Fails if another engine holds the seat: a process that was stopped, or whose node was cut off,
    /// may not have heard of it. A message that the queue gives back to this consumer proves that it
    /// does not.
    async fn look(&mut self) -> Result<()> {
        if self.heard.elapsed() < FRESH { Ok(()) } else { self.ask().await }
    }

    /// Publishes a message, and waits until it comes back.
    async fn ask(&mut self) -> Result<()> {
        let mark = Kind::Mark(Uuid::now_v7());
        self.line.publish(mark, Vec::new()).await?;
        loop {
            let next = self.line.next().await?;
            if Kind::of(&next.properties) == mark {
                self.heard = Instant::now();
                return self.line.acknowledge(next.delivery_tag).await;
            }
            self.arrive(next).await?;
        }
    }

    /// Writes the value anew, if that is due.
    async fn keep(&mut self) -> Result<()> {
        if Instant::now() < self.renew_at { Ok(()) } else { self.renew().await }
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
            let answer = match (answer, message) {
                // The broker could not store it just now.
                (Err(error), Ok(message)) if error.maybe_enqueued() && !error.is_connection() => {
                    published(message, send_alone(up, message, false).await?)
                }
                (answer, _) => answer,
            };
            match answer {
                Err(error) if error.is_connection() || error.is_timeout() || error.is_closed() => {
                    return Err(error);
                }
                Err(error) => refused.push((place, error)),
                Ok(()) => {}
            }
        }
        Ok(refused)
    }
}

impl Drop for Held {
    /// Writes the value of a queue that was deleted into the one that takes its place. Whoever holds that
    /// meanwhile sees the later stamp, and the next holder has the value.
    fn drop(&mut self) {
        if !self.line.is_gone || self.value == SeatValue::default() {
            return;
        }
        let (shared, queue, stamp) =
            (Arc::clone(&self.shared), self.line.queue.clone(), self.stamp);
        let value = std::mem::take(&mut self.value);
        background::spawn(async move {
            let parts = [(Part::List, value.list), (Part::Position, value.position)];
            let parts = parts.map(|(part, content)| (Kind::Part(part, stamp), content));
            if let Err(error) = shared.restore(&queue, parts).await {
                tracing::debug!(queue, %error, "could not restore the value of a seat");
            }
        });
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
                    let shared = Arc::clone(&self.shared);
                    in_time(&shared, self.renew()).await?;
                }
            }
        }
    }

    async fn write_list(&mut self, list: Vec<u8>) -> Result<()> {
        check_list(&list)?;
        let shared = Arc::clone(&self.shared);
        let writing = async {
            self.keep().await?;
            self.write(Part::List, list).await?;
            for tag in std::mem::take(&mut self.returned) {
                self.line.acknowledge(tag).await?;
            }
            Ok(())
        };
        in_time(&shared, Box::pin(writing)).await
    }

    async fn advance(&mut self, jobs: Vec<Envelope>, position: Vec<u8>) -> Result<Vec<NotPushed>> {
        check_change(&position)?;
        let shared = Arc::clone(&self.shared);
        let looking = async {
            self.keep().await?;
            self.look().await
        };
        in_time(&shared, Box::pin(looking)).await?;
        let (mut refused, mut pushed) = (Vec::new(), 0);
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            let some: Vec<_> = jobs.by_ref().take(AT_ONCE).collect();
            let count = some.len();
            let of_these = in_time(&shared, Box::pin(self.push(some))).await?;
            refused.extend(of_these.into_iter().map(|(place, error)| (pushed + place, error)));
            pushed += count;
        }
        in_time(&shared, Box::pin(self.write(Part::Position, position))).await?;
        Ok(refused)
    }

    async fn leave(mut self: Box<Self>) {
        let shared = Arc::clone(&self.shared);
        let leaving = async {
            // Of many acknowledgements the broker holds some back, and drops those when the channel ends. When
            // the first answer is there, it has sent them, and when the second is, they are applied.
            self.ask().await?;
            self.ask().await?;
            // The end of the connection ends the channel, too.
            self.line.close().await;
            Ok(())
        };
        let _ = in_time(&shared, Box::pin(leaving)).await;
    }
}

/// Does work for no longer than a call may take.
async fn in_time<T>(shared: &Shared, work: impl Future<Output = Result<T>>) -> Result<T> {
    shared.broker.in_time("writing to a seat", work).await
}
