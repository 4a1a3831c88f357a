//! Declaring: what jobq needs exists afterwards, or an error says why not.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures_util::stream::{FuturesOrdered, StreamExt as _, TryStreamExt as _};
use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongInt, ShortString};
use lapin::{Channel, ErrorKind as Lapin, ExchangeKind, Queue};

use super::failure::failure;
use super::names::Names;
use super::topology::{Argument, Arguments, By, Declaration, Topology};
use super::up::Up;
use super::wanted::{Tiers, Wanted};
use super::wire::short;
use crate::error::Result;

/// A broker that is killed in the first moments of a quorum queue's life may not be able
/// to recover it, so nothing is sent before they are over.
pub(crate) const FIRST_MOMENTS: Duration = Duration::from_secs(1);

/// How many declarations are sent before the first of them is answered.
const IN_FLIGHT: usize = 64;

/// What was declared, to declare it again on the next connection.
#[derive(Debug)]
pub(crate) struct Declared {
    names: Names,
    known: RwLock<Wanted>,
}

impl Declared {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, known: RwLock::default() }
    }

    fn known(&self) -> RwLockReadGuard<'_, Wanted> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Wanted> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tiers of a queue that was declared.
    pub(crate) fn tiers(&self, queue: &str) -> Option<Arc<Tiers>> {
        self.known().queues.get(queue).cloned()
    }

    /// What a queue that was declared needs.
    pub(crate) fn part(&self, queue: &str) -> Option<Wanted> {
        self.known().part(queue)
    }

    /// All that was declared.
    pub(crate) fn all(&self) -> Wanted {
        self.known().clone()
    }

    /// Whether there is nothing new in this.
    pub(crate) fn covers(&self, wanted: &Wanted) -> bool {
        self.known().covers(wanted)
    }

    /// Remembers what was declared.
    pub(crate) fn add(&self, declared: Wanted) {
        self.change().add(declared);
    }

    /// Forgets a subscription that was ended.
    pub(crate) fn forget_subscription(&self, queue: &str, pattern: &str) {
        self.change().subscriptions.remove(&(queue.to_owned(), pattern.to_owned()));
    }

    /// Forgets a queue that was deleted.
    pub(crate) fn forget(&self, queue: &str) {
        self.change().remove(queue);
    }

    /// What this needs.
    pub(crate) fn topology(&self, wanted: &Wanted) -> Topology {
        Topology::new(&self.names, wanted)
    }

    /// Declares everything that was declared before, on a new connection.
    pub(crate) async fn restore(&self, up: &Up) -> Result<()> {
        let known = self.all();
        if !known.shared {
            return Ok(());
        }
        if apply(up, &self.topology(&known)).await? {
            tracing::warn!("the broker had lost queues; they were declared again, without jobs");
            tokio::time::sleep(FIRST_MOMENTS).await;
        }
        Ok(())
    }
}

/// Declares all of this, and says whether a queue was made for it.
///
/// There are hundreds of declarations, and until all are answered nothing is published
/// after a lost connection; so many are sent before the first answer comes. The broker
/// does them in their order.
///
/// # Errors
///
/// A conflict with what exists, a refusal, a lost connection.
pub(crate) async fn apply(up: &Up, topology: &Topology) -> Result<bool> {
    let mut channel = open(up).await?;
    let declarations = topology.declarations();
    let queues = declarations.iter().filter_map(|declaration| match declaration {
        Declaration::Queue { name, .. } => Some(name.as_str()),
        _ => None,
    });
    // One queue that is missing says enough.
    let created = !all_exist(&channel, queues).await?;
    if created {
        channel = open(up).await?;
    }
    let mut sent = FuturesOrdered::new();
    for declaration in declarations {
        if sent.len() == IN_FLIGHT {
            sent.try_next().await?;
        }
        sent.push_back(declare(&channel, declaration));
    }
    while sent.try_next().await?.is_some() {}
    Ok(created)
}

/// Whether there are all these queues. If not, the broker closes the channel.
async fn all_exist<'q>(channel: &Channel, queues: impl Iterator<Item = &'q str>) -> Result<bool> {
    let mut sent = FuturesOrdered::new();
    for queue in queues {
        if sent.len() == IN_FLIGHT && !exists(sent.next().await)? {
            return Ok(false);
        }
        sent.push_back(look_for(channel, queue));
    }
    while !sent.is_empty() {
        if !exists(sent.next().await)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn exists(found: Option<Result<Queue>>) -> Result<bool> {
    match found {
        Some(Err(error)) if error.is_not_found() => Ok(false),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(true),
    }
}

async fn look_for(channel: &Channel, queue: &str) -> Result<Queue> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(short(queue)?, passive, FieldTable::default()).await;
    found.map_err(|error| failure(&format!("looking for queue `{queue}`"), error))
}

/// A new channel.
///
/// `lapin` keeps the number of a channel that the broker has closed unusable for as long
/// as the connection lives, and gives the old error when it comes round to it. There are
/// some two thousand numbers, so the next one is tried, and when none is left the
/// connection is replaced.
pub(crate) async fn open(up: &Up) -> Result<Channel> {
    let doing = "opening a channel";
    let opening = async {
        let mut opened = up.connection.create_channel().await;
        while matches!(&opened, Err(error) if error.is_amqp_soft_error()) {
            opened = up.connection.create_channel().await;
        }
        if matches!(&opened, Err(error) if matches!(error.kind(), Lapin::ChannelsLimitReached)) {
            tracing::warn!("no channel is left on the connection; it is replaced");
            let _ = up.connection.close(200, "out of channels".into()).await;
        }
        opened.map_err(|error| failure(doing, error))
    };
    up.answer(doing, opening).await
}

/// How many messages are ready in a queue, as [`inspect`] tells.
pub(crate) async fn messages_in(
    up: &Up,
    channel: &mut Channel,
    queue: &str,
) -> Result<Option<u64>> {
    let found = inspect(up, channel, queue).await?;
    Ok(found.map(|(messages, _)| messages))
}

/// How many messages are ready in a queue, and how many consumers it has; `None` where
/// there is no such queue. The channel is another one afterwards if so, since the broker
/// closes it.
pub(crate) async fn inspect(
    up: &Up,
    channel: &mut Channel,
    queue: &str,
) -> Result<Option<(u64, u32)>> {
    match look_for(channel, queue).await {
        Ok(queue) => Ok(Some((queue.message_count().into(), queue.consumer_count()))),
        Err(error) if error.is_not_found() => {
            *channel = open(up).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(crate) async fn declare(channel: &Channel, declaration: &Declaration) -> Result<()> {
    let done = match declaration {
        Declaration::Exchange { name, kind, alternate } => {
            let kind = match *kind {
                "fanout" => ExchangeKind::Fanout,
                "topic" => ExchangeKind::Topic,
                _ => ExchangeKind::Direct,
            };
            let options =
                ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let mut arguments = FieldTable::default();
            if let Some(alternate) = alternate {
                arguments.insert(short("alternate-exchange")?, text(alternate));
            }
            channel.exchange_declare(short(name)?, kind, options, arguments).await
        }
        Declaration::Queue { name, arguments } => {
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let declared = channel.queue_declare(short(name)?, options, table(arguments)?).await;
            declared.map(|_| ())
        }
        Declaration::Binding { exchange, queue, by } => {
            let key = match by {
                By::All => ShortString::default(),
                By::Key(key) => short(key)?,
            };
            let (queue, exchange) = (short(queue)?, short(exchange)?);
            let (options, none) = (QueueBindOptions::default(), FieldTable::default());
            channel.queue_bind(queue, exchange, key, options, none).await
        }
        Declaration::Passage { from, to, key } => {
            let (from, to, options) = (short(from)?, short(to)?, ExchangeBindOptions::default());
            channel.exchange_bind(to, from, short(key)?, options, FieldTable::default()).await
        }
    };
    done.map_err(|error| failure(&format!("declaring {declaration}"), error))
}

fn table(arguments: &Arguments) -> Result<FieldTable> {
    let mut table = FieldTable::default();
    for (key, value) in arguments {
        let value = match value {
            Argument::Text(value) => text(value),
            Argument::Truth(value) => AMQPValue::Boolean(*value),
            // The width does not matter to the broker.
            Argument::Number(number) => LongInt::try_from(*number)
                .map_or(AMQPValue::LongLongInt(*number), AMQPValue::LongInt),
        };
        table.insert(short(key)?, value);
    }
    Ok(table)
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}
