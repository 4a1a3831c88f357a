//! Jobs that leave the broker for another engine.
//!
//! They are consumed, one queue of the broker after the other, and acknowledged once they are stored
//! elsewhere. A job that was returned before is replaced by a new message first: the broker counts
//! returns, and a job with many is suspected of crashing workers.

mod read;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicNackOptions, BasicQosOptions};
use lapin::{Channel, Consumer};
use tokio::time::timeout;

use self::read::{Kind, Place, fresh, read};
use crate::background;
use crate::engine::{Admission, Departing, Disposition, Figure, Next};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Priority;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::{Take, consume, open};
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::publish::{Batch, Publisher};
use crate::rabbitmq::topology::lookup::{Figures, count_on};
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing_key;
use crate::rabbitmq::values::short;

/// The most that is taken at a time.
const BATCH: usize = 500;
/// The size of payloads at which a batch is full.
const FULL_BYTES: usize = 16 * 1024 * 1024;
/// How long a further message is waited for.
const IDLE: Duration = Duration::from_millis(300);

const DOING: &str = "taking jobs";

/// The queues of the broker that have jobs of a queue.
fn places_of(names: &Names, queue: &str, wanted: &Wanted) -> Vec<Place> {
    let mut places = Vec::new();
    let mut add = |name, kind| places.push(Place { name, kind });
    let has_priorities = wanted.priorities.contains(queue);
    let lanes = [Priority::High, Priority::Normal, Priority::Low];
    let lanes = lanes.into_iter().filter(|lane| has_priorities || *lane == Priority::Normal);
    let lanes: Vec<_> = lanes.map(|priority| routing_key::lane(queue, priority)).collect();
    for lane in &lanes {
        add(names.work(lane), Kind::Due(lane.to_string()));
        add(names.due(lane), Kind::Due(lane.to_string()));
    }
    if wanted.solo.contains(queue) {
        add(names.solo(queue), Kind::Solo(queue.to_owned()));
    }
    for tier in wanted.queues.get(queue).iter().flat_map(|tiers| tiers.iter()) {
        add(names.tier(queue, *tier), Kind::Tier(queue.to_owned(), *tier));
    }
    add(names.failed(queue), Kind::Failed(queue.to_owned()));
    places
}

/// These level queues. The highest level comes first: a job may move on meanwhile.
fn levels(mut names: Vec<String>) -> Vec<Place> {
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.dedup();
    names.into_iter().map(|name| Place { name, kind: Kind::Level }).collect()
}

/// Jobs that are taken from these queues of the broker.
#[derive(Debug)]
pub(super) struct Leaving {
    broker: Arc<Broker>,
    known: Arc<Declared>,
    publisher: Arc<Publisher>,
    places: Vec<Place>,
    /// The next one.
    at: usize,
    /// Whether something was removed since the first one.
    has_removed: bool,
    taking: Option<Taking>,
    /// What was taken last.
    taken: Vec<u64>,
    /// Those with messages that are kept to the end.
    channels: Vec<Channel>,
}

/// A queue of the broker from which messages are taken.
#[derive(Debug)]
struct Taking {
    channel: Channel,
    consumer: Consumer,
    place: Place,
    /// Messages that came before they were wanted.
    early: VecDeque<Delivery>,
    /// How many messages stay unacknowledged.
    kept: usize,
    keeps_to_the_end: bool,
}

impl Taking {
    /// The next message, if one comes soon.
    async fn next(&mut self) -> Result<Option<Delivery>> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        let Ok(next) = timeout(IDLE, self.consumer.next()).await else { return Ok(None) };
        let message = next.ok_or_else(cancelled)?;
        message.map(Some).map_err(|error| failure(DOING, error))
    }

    /// Whether the queue has no further messages.
    async fn is_done(&mut self) -> Result<bool> {
        if self.kept >= BATCH {
            return Ok(true);
        }
        // What the consumer got arrives before the answer to a second question.
        for _ in 0..2 {
            let left = count_on(&self.channel, &self.place.name).await?;
            if left.is_some_and(|left| left.ready > 0) {
                return Ok(false);
            }
        }
        while let Some(Some(Ok(message))) = self.consumer.next().now_or_never() {
            self.early.push_back(message);
        }
        Ok(self.early.is_empty())
    }
}

impl Leaving {
    /// Those of a queue with these parts.
    pub(super) fn queue(
        broker: &Arc<Broker>,
        known: &Arc<Declared>,
        publisher: &Arc<Publisher>,
        (queue, parts): (&str, &Wanted),
    ) -> Self {
        Self::new(broker, known, publisher, places_of(known.names(), queue, parts))
    }

    /// Those in these level queues.
    pub(super) fn levels(
        broker: &Arc<Broker>,
        known: &Arc<Declared>,
        publisher: &Arc<Publisher>,
        names: Vec<String>,
    ) -> Self {
        Self::new(broker, known, publisher, levels(names))
    }

    fn new(
        broker: &Arc<Broker>,
        known: &Arc<Declared>,
        publisher: &Arc<Publisher>,
        places: Vec<Place>,
    ) -> Self {
        Self {
            broker: Arc::clone(broker),
            known: Arc::clone(known),
            publisher: Arc::clone(publisher),
            places,
            at: 0,
            has_removed: false,
            taking: None,
            taken: Vec::new(),
            channels: Vec::new(),
        }
    }

    /// Takes the next messages of the queue that is consumed, and returns whether there may be more.
    async fn batch(&mut self) -> Result<(Vec<Admission>, bool)> {
        let Some(taking) = &mut self.taking else { return Ok((Vec::new(), false)) };
        let (mut batch, mut bytes, mut returned) = (Vec::new(), 0, Vec::new());
        while batch.len() + returned.len() + taking.kept < BATCH && bytes < FULL_BYTES {
            let Some(message) = taking.next().await? else { break };
            let tag = message.delivery_tag;
            bytes += message.data.len();
            let (names, kind) = (self.known.names(), &taking.place.kind);
            let subscribes = |queue: &str, topic: &str| self.known.subscribes(queue, topic);
            if let Some(fresh) = fresh(names, kind, &message, subscribes)? {
                returned.push((tag, fresh));
                continue;
            }
            let now = self.broker.clock().now();
            match read(names, kind, message, subscribes, now) {
                Some(admission) => {
                    batch.push(admission);
                    self.taken.push(tag);
                }
                None => taking.kept += 1,
            }
        }
        let may_be_more = !returned.is_empty() || (batch.is_empty() && !taking.is_done().await?);
        self.replace(returned).await?;
        Ok((batch, may_be_more))
    }

    /// Publishes messages again, and removes them.
    async fn replace(&self, messages: Vec<(u64, Message)>) -> Result<()> {
        let Some(taking) = &self.taking else { return Ok(()) };
        let (tags, messages): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let mut batch = Batch::new(&self.publisher);
        for message in messages {
            batch.send(Ok(message)).await;
        }
        if let Some((_, error)) = batch.finish().await.into_iter().next() {
            return Err(error);
        }
        for tag in tags {
            acknowledge(&taking.channel, tag, false).await?;
        }
        Ok(())
    }

    /// Begins to consume a queue of the broker, if it has messages.
    async fn begin(&self, place: Place) -> Result<Option<Taking>> {
        let up = self.broker.up().await?;
        match self.known.missing_queues.figures(&up, &place.name).await? {
            None | Some(Figure::Known(Figures { ready: 0, .. })) => return Ok(None),
            Some(_) => {}
        }
        let channel = open(&up).await?;
        let (name, prefetch) = (short(&place.name)?, u16::try_from(BATCH).unwrap_or(u16::MAX));
        let consumer = consume(&channel, name, short("move")?, Take::Prefetch(prefetch)).await;
        let consumer = consumer.map_err(|error| failure(DOING, error))?;
        let early = VecDeque::new();
        Ok(Some(Taking { channel, consumer, place, early, kept: 0, keeps_to_the_end: false }))
    }

    /// Ends the consumer. What it got meanwhile is given back.
    async fn finish(&mut self) -> Result<()> {
        let Some(Taking { channel, mut consumer, early, keeps_to_the_end, .. }) =
            self.taking.take()
        else {
            return Ok(());
        };
        if !keeps_to_the_end {
            return channel.close(200, "done".into()).await.map_err(|error| failure(DOING, error));
        }
        let tag = consumer.tag();
        let ended = channel.basic_cancel(tag, BasicCancelOptions::default()).await;
        ended.map_err(|error| failure(DOING, error))?;
        let rest = std::iter::from_fn(|| consumer.next().now_or_never()??.ok());
        for message in early.into_iter().chain(rest) {
            give_back(&channel, message.delivery_tag).await?;
        }
        self.channels.push(channel);
        Ok(())
    }

    async fn try_next(&mut self) -> Result<Next> {
        loop {
            let (batch, may_be_more) = self.batch().await?;
            if !batch.is_empty() {
                return Ok(Next::Taken(batch));
            }
            if may_be_more {
                continue;
            }
            self.finish().await?;
            match self.places.get(self.at).cloned() {
                Some(place) => {
                    self.at += 1;
                    self.taking = self.begin(place).await?;
                }
                None if !std::mem::take(&mut self.has_removed) => {
                    self.at = 0;
                    return Ok(Next::Empty);
                }
                None => self.at = 0,
            }
        }
    }
}

#[async_trait]
impl Departing for Leaving {
    async fn next(&mut self) -> Result<Next> {
        let dispositions = vec![Disposition::Returned; self.taken.len()];
        self.settle(dispositions).await?;
        self.try_next().await
    }

    async fn settle(&mut self, dispositions: Vec<Disposition>) -> Result<()> {
        let taken = std::mem::take(&mut self.taken);
        let Some(taking) = &mut self.taking else { return Ok(()) };
        let all_gone = taking.kept == 0
            && dispositions.iter().all(|disposition| *disposition == Disposition::Removed);
        if let (true, Some(last)) = (all_gone, taken.last()) {
            acknowledge(&taking.channel, *last, true).await?;
            self.has_removed = true;
        } else {
            for (tag, disposition) in taken.into_iter().zip(dispositions) {
                match disposition {
                    Disposition::Removed => {
                        acknowledge(&taking.channel, tag, false).await?;
                        self.has_removed = true;
                    }
                    Disposition::Returned => give_back(&taking.channel, tag).await?,
                    Disposition::Kept => {
                        taking.kept += 1;
                        taking.keeps_to_the_end = true;
                    }
                }
            }
        }
        // The broker answers in order: it has the acknowledgements then.
        let prefetch = u16::try_from(BATCH).unwrap_or(u16::MAX);
        let answered = taking.channel.basic_qos(prefetch, BasicQosOptions::default()).await;
        answered.map_err(|error| failure("removing jobs", error))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let taking = self.taking.take().map(|taking| taking.channel);
        for channel in self.channels.drain(..).chain(taking) {
            background::spawn(async move {
                let _ = channel.close(200, "done".into()).await;
            });
        }
    }
}

async fn acknowledge(channel: &Channel, tag: u64, multiple: bool) -> Result<()> {
    let acknowledged = channel.basic_ack(tag, BasicAckOptions { multiple }).await;
    acknowledged.map_err(|error| failure("removing jobs", error))
}

async fn give_back(channel: &Channel, tag: u64) -> Result<()> {
    let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
    let nacked = channel.basic_nack(tag, options).await;
    nacked.map_err(|error| failure("giving jobs back", error))
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Connection, "taking jobs failed: the broker cancelled the consumer")
}
