//! Declaring: what jobq needs exists afterwards, or an error says why not.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongInt, ShortString};
use lapin::{Channel, ErrorKind as Lapin, ExchangeKind};

use super::failure::{NOT_FOUND, code, failure};
use super::link::Up;
use super::topology::{Argument, Arguments, By, Declaration, Names, Tiers, Topology, WAIT_HEADER};
use super::wire::short;
use crate::error::Result;

/// A broker that is killed in the first moments of a quorum queue's life may not be able
/// to recover it, so nothing is sent before they are over.
pub(crate) const FIRST_MOMENTS: Duration = Duration::from_secs(1);

/// What is to be declared beside what all queues share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The queues with their tiers.
    pub(crate) queues: BTreeMap<String, Arc<Tiers>>,
    /// Whether the levels are wanted.
    pub(crate) levels: bool,
}

impl Wanted {
    /// The levels alone.
    pub(crate) fn levels() -> Self {
        Self { levels: true, ..Self::default() }
    }

    /// One queue with its tiers.
    pub(crate) fn queue(queue: &str, tiers: Arc<Tiers>) -> Self {
        Self { queues: [(queue.to_owned(), tiers)].into(), levels: false }
    }
}

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

    /// The tiers of a queue that was declared.
    pub(crate) fn tiers(&self, queue: &str) -> Option<Arc<Tiers>> {
        self.known().queues.get(queue).cloned()
    }

    /// Whether there is nothing new in this.
    pub(crate) fn covers(&self, wanted: &Wanted) -> bool {
        let known = self.known();
        let has = |(queue, tiers): (&String, &Arc<Tiers>)| {
            known.queues.get(queue).is_some_and(|declared| tiers.is_subset(declared))
        };
        (known.levels || !wanted.levels) && wanted.queues.iter().all(has)
    }

    /// Remembers what was declared.
    pub(crate) fn add(&self, declared: Wanted) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.levels |= declared.levels;
        for (queue, tiers) in declared.queues {
            let known = known.queues.entry(queue).or_default();
            *known = Arc::new(known.union(&tiers).copied().collect());
        }
    }

    /// What this needs.
    pub(crate) fn topology(&self, wanted: &Wanted) -> Topology {
        let queues = wanted.queues.iter().map(|(queue, tiers)| (queue.as_str(), &**tiers));
        Topology::new(&self.names, queues, wanted.levels)
    }

    /// Declares everything that was declared before, on a new connection.
    pub(crate) async fn restore(&self, up: &Up) -> Result<()> {
        let known = self.known().clone();
        if known == Wanted::default() {
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
/// # Errors
///
/// A conflict with what exists, a refusal, a lost connection.
pub(crate) async fn apply(up: &Up, topology: &Topology) -> Result<bool> {
    let mut channel = open(up).await?;
    let mut created = false;
    for declaration in topology.declarations() {
        // One queue that is missing says enough.
        if let Declaration::Queue { name, .. } = declaration
            && !created
            && messages_in(up, &mut channel, name).await?.is_none()
        {
            created = true;
        }
        declare(&channel, declaration).await?;
    }
    Ok(created)
}

/// A new channel.
///
/// `lapin` keeps the number of a channel that the broker has closed unusable for as long
/// as the connection lives, and gives the old error when it comes round to it. There are
/// some two thousand numbers, so the next one is tried, and when none is left the
/// connection is replaced.
pub(crate) async fn open(up: &Up) -> Result<Channel> {
    let mut opened = up.connection.create_channel().await;
    while matches!(&opened, Err(error) if error.is_amqp_soft_error()) {
        opened = up.connection.create_channel().await;
    }
    if matches!(&opened, Err(error) if matches!(error.kind(), Lapin::ChannelsLimitReached)) {
        tracing::warn!("no channel is left on the connection; it is replaced");
        let _ = up.connection.close(200, "out of channels".into()).await;
    }
    opened.map_err(|error| failure("opening a channel", error))
}

/// How many messages are ready in a queue; `None` where there is no such queue. The
/// channel is another one afterwards if so, since the broker closes it.
pub(crate) async fn messages_in(
    up: &Up,
    channel: &mut Channel,
    queue: &str,
) -> Result<Option<u64>> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    match channel.queue_declare(short(queue)?, passive, FieldTable::default()).await {
        Ok(queue) => Ok(Some(queue.message_count().into())),
        Err(error) if code(&error) == Some(NOT_FOUND) => {
            *channel = open(up).await?;
            Ok(None)
        }
        Err(error) => Err(failure(&format!("looking for queue `{queue}`"), error)),
    }
}

async fn declare(channel: &Channel, declaration: &Declaration) -> Result<()> {
    let done = match declaration {
        Declaration::Exchange { name, kind, alternate } => {
            let kind = match *kind {
                "fanout" => ExchangeKind::Fanout,
                "headers" => ExchangeKind::Headers,
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
            let (key, arguments) = match by {
                By::All => (ShortString::default(), FieldTable::default()),
                By::Key(key) => (short(key)?, FieldTable::default()),
                By::Wait(wait) => {
                    let mut arguments = FieldTable::default();
                    arguments.insert(short("x-match")?, text("all"));
                    arguments.insert(short(WAIT_HEADER)?, text(wait));
                    (ShortString::default(), arguments)
                }
            };
            let (queue, exchange) = (short(queue)?, short(exchange)?);
            channel.queue_bind(queue, exchange, key, QueueBindOptions::default(), arguments).await
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
