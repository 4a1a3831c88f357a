//! Passive declarations: looking for queues and exchanges without declaring them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, FuturesOrdered, StreamExt as _};
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind, Queue};
use tokio::time::Instant;

use super::plan::{Declaration, ExchangeType};
use crate::engine::Figure;
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::{open, to_ask};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::{ACCESS_REFUSED, failure, refusal};
use crate::rabbitmq::values::short;

/// How long a missing queue is not looked for again.
const MISSING: Duration = Duration::from_secs(5);
/// The longest such time of a queue that has been missing for longer: it is looked for again after
/// as long as it has been missing.
const STILL_MISSING: Duration = Duration::from_secs(60);
/// The same for a queue that is not expected to be there soon.
const LONG_MISSING: Duration = Duration::from_secs(600);
/// The most passive declarations in flight.
const IN_FLIGHT: usize = 64;
/// A slower answer is not the queue's own, but the broker's after its internal timeout.
pub(crate) const BUSY: Duration = Duration::from_millis(200);

/// How often a queue is looked at whose figures may be wrong.
const LOOKS: u32 = 3;
const UNSURE: &str = "its queue has no leader, or the broker is too busy to count";

/// The figures of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Messages that no consumer holds.
    pub(crate) ready: u64,
    pub(crate) consumers: u32,
}

/// The result of looking for several queues and exchanges. Unless all exist, the broker has closed
/// the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    All,
    /// The position of the first missing one.
    Missing(usize),
    /// The position of the first one that this user may not look for. RabbitMQ 4.3 shows a queue
    /// only to users who may write, read or configure it, and 3.10 and 4.0 to all.
    Forbidden(usize),
}

/// Looks for these queues and exchanges.
pub(crate) async fn look(
    up: &ConnectionEpoch,
    channel: &Channel,
    places: &[&Declaration],
) -> Result<Seen> {
    let _question = up.questions.ask(channel.id());
    let mut sent = FuturesOrdered::new();
    let mut answered = 0;
    for place in places {
        if sent.len() == IN_FLIGHT {
            if let Some(seen) = seen(answered, sent.next().await)? {
                return Ok(seen);
            }
            answered += 1;
        }
        sent.push_back(look_for(channel, place));
    }
    while !sent.is_empty() {
        if let Some(seen) = seen(answered, sent.next().await)? {
            return Ok(seen);
        }
        answered += 1;
    }
    Ok(Seen::All)
}

fn seen(place: usize, found: Option<Result<()>>) -> Result<Option<Seen>> {
    match found {
        Some(Err(error)) if error.is_not_found() => Ok(Some(Seen::Missing(place))),
        Some(Err(error)) if refusal(&error) == Some(ACCESS_REFUSED) => {
            Ok(Some(Seen::Forbidden(place)))
        }
        Some(Err(error)) => Err(error),
        Some(Ok(())) | None => Ok(None),
    }
}

async fn look_for(channel: &Channel, place: &Declaration) -> Result<()> {
    match place {
        Declaration::Queue { name, .. } => look_for_queue(channel, name).await.map(|_| ()),
        Declaration::Exchange { name, .. } => {
            let options =
                ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let (kind, none) = (ExchangeKind::Direct, FieldTable::default());
            let found = channel.exchange_declare(short(name)?, kind, options, none).await;
            found.map_err(|error| failure(&format!("looking for exchange `{name}`"), error))
        }
        // AMQP has no passive declaration of bindings.
        Declaration::Binding { .. } | Declaration::ExchangeBinding { .. } => Ok(()),
    }
}

async fn look_for_queue(channel: &Channel, queue: &str) -> Result<Queue> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(short(queue)?, passive, FieldTable::default()).await;
    found.map_err(|error| failure(&format!("looking for queue `{queue}`"), error))
}

/// The number of ready messages in a queue, as [`inspect`] returns it.
pub(crate) async fn messages_in(
    up: &ConnectionEpoch,
    channel: &mut Channel,
    queue: &str,
) -> Result<Option<u64>> {
    let found = inspect(up, channel, queue).await?;
    Ok(found.map(|(messages, _)| messages))
}

/// The numbers of ready messages and of consumers of a queue; `None` if there is no such queue. In
/// that case `channel` is replaced, since the broker closes it.
pub(crate) async fn inspect(
    up: &ConnectionEpoch,
    channel: &mut Channel,
    queue: &str,
) -> Result<Option<(u64, u32)>> {
    let question = up.questions.ask(channel.id());
    let found = look_for_queue(channel, queue).await;
    drop(question);
    match found {
        Ok(queue) => Ok(Some((queue.message_count().into(), queue.consumer_count()))),
        Err(error) if error.is_not_found() => {
            *channel = open(up).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The number of ready messages in all these queues, which exist.
pub(crate) async fn ready_in_all(
    up: &ConnectionEpoch,
    channel: &mut Channel,
    queues: Vec<String>,
) -> Result<Figure<u64>> {
    let question = up.questions.ask(channel.id());
    let look = |queue: String| {
        let channel = channel.clone();
        async move { look_for_queue(&channel, &queue).await }
    };
    let mut answers = stream::iter(queues.into_iter().map(look)).buffered(IN_FLIGHT);
    // The broker answers one after the other.
    let (mut sum, mut last) = (0, Instant::now());
    let counted = loop {
        let (answer, took) = (answers.next().await, last.elapsed());
        last = Instant::now();
        match answer {
            None => break Ok(Figure::Known(sum)),
            Some(Ok(queue)) if queue.message_count() == 0 && took >= BUSY => {
                break Ok(Figure::unknown(UNSURE));
            }
            Some(Ok(queue)) => sum += u64::from(queue.message_count()),
            Some(Err(error)) if error.is_connection() => return Err(error),
            Some(Err(error)) => break Err(error),
        }
    };
    drop(answers);
    drop(question);
    match counted {
        Ok(counted @ Figure::Known(_)) => Ok(counted),
        // Answers may be under way, or the broker has closed the channel.
        Ok(unknown) => {
            *channel = open(up).await?;
            Ok(unknown)
        }
        Err(error) => {
            *channel = open(up).await?;
            Ok(Figure::unknown(error.to_string()))
        }
    }
}

/// The queues and exchanges that were missing, and when.
///
/// Looking for a queue that does not exist costs a channel number for the life of the connection,
/// so one that was missing a moment ago is assumed to be missing still.
#[derive(Debug, Default)]
pub(crate) struct MissingQueues(Mutex<HashMap<String, Missing>>);

/// When a missing queue was looked for.
#[derive(Debug, Clone, Copy)]
struct Missing {
    first: Instant,
    last: Instant,
}

impl MissingQueues {
    fn queues(&self) -> MutexGuard<'_, HashMap<String, Missing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_missing(&self, queue: &str) -> bool {
        self.queues().get(queue).is_some_and(|Missing { first, last }| {
            last.elapsed() < (*last - *first).clamp(MISSING, STILL_MISSING)
        })
    }

    /// Records that a queue was missing.
    pub(crate) fn add(&self, queue: &str, asked: Instant) {
        let mut queues = self.queues();
        queues.retain(|_, missing| missing.last.elapsed() < LONG_MISSING);
        let first = queues.get(queue).map_or(asked, |missing| missing.first);
        queues.insert(queue.to_owned(), Missing { first, last: asked });
    }

    /// Forgets that a queue was missing.
    pub(crate) fn forget(&self, queue: &str) {
        self.queues().remove(queue);
    }

    /// Forgets which queues were missing.
    pub(crate) fn clear(&self) {
        self.queues().clear();
    }

    /// Whether a queue that is not expected was missing at the last look, ten minutes ago at most.
    pub(crate) fn was_missing(&self, queue: &str) -> bool {
        self.queues().get(queue).is_some_and(|missing| missing.last.elapsed() < LONG_MISSING)
    }

    /// The numbers of ready messages and of consumers of a queue, if it exists.
    ///
    /// A broker that is too busy to know, or that finds no leader of the queue, returns 0 after
    /// 250 ms (`rabbit_quorum_queue:stat/1`). It is asked again, and then the numbers are unknown.
    pub(crate) async fn figures(
        &self,
        up: &ConnectionEpoch,
        channel: &mut Channel,
        queue: &str,
    ) -> Result<Option<Figure<Figures>>> {
        if self.is_missing(queue) {
            return Ok(None);
        }
        for _ in 0..LOOKS {
            let asked = Instant::now();
            match inspect(up, channel, queue).await {
                Ok(None) => {
                    self.add(queue, asked);
                    return Ok(None);
                }
                Ok(Some((0, _))) if asked.elapsed() >= BUSY => {}
                Ok(Some((ready, consumers))) => {
                    self.forget(queue);
                    return Ok(Some(Figure::Known(Figures { ready, consumers })));
                }
                Err(error) if error.is_connection() => return Err(error),
                Err(error) => {
                    *channel = open(up).await?;
                    return Ok(Some(Figure::unknown(error.to_string())));
                }
            }
        }
        Ok(Some(Figure::unknown(UNSURE)))
    }

    /// Whether there is this exchange; also if this user may not look for it.
    pub(crate) async fn has_exchange(&self, broker: &Broker, name: &str) -> Result<bool> {
        if self.is_missing(name) {
            return Ok(false);
        }
        let (up, asked) = (broker.up().await?, Instant::now());
        let channel = to_ask(&up).await?;
        let (name, kind, alternate) = (name.to_owned(), ExchangeType::Topic, None);
        let exchange = Declaration::Exchange { name, kind, alternate };
        match look(&up, &channel, &[&exchange]).await? {
            Seen::All => up.asking.keep(channel),
            Seen::Forbidden(_) => {}
            Seen::Missing(_) => {
                self.add(exchange.name(), asked);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of ready messages in a queue, if it exists.
    ///
    /// A broker that is too busy to know within 250 ms returns 0 (`rabbit_quorum_queue:stat/1`), so
    /// a 0 that took so long is requested again.
    pub(crate) async fn messages_in(
        &self,
        up: &ConnectionEpoch,
        channel: &mut Channel,
        queue: &str,
    ) -> Result<Option<u64>> {
        if self.is_missing(queue) {
            return Ok(None);
        }
        loop {
            let asked = Instant::now();
            let count = messages_in(up, channel, queue).await?;
            match count {
                None => self.add(queue, asked),
                Some(0) if asked.elapsed() >= BUSY => continue,
                Some(_) => {}
            }
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_not_expected_is_missing_for_longer() {
        let absent = MissingQueues::default();
        absent.add("mail@solo", Instant::now());
        for (seconds, is_missing, was_missing) in
            [(4, true, true), (2, false, true), (590, false, true), (5, false, false)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let found = (absent.is_missing("mail@solo"), absent.was_missing("mail@solo"));
            assert_eq!(found, (is_missing, was_missing), "{seconds}");
        }
        absent.add("other", Instant::now());
        assert_eq!(absent.queues().len(), 1, "what is too old is forgotten");
        absent.clear();
        assert!(!absent.was_missing("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_stays_missing_is_looked_for_less_often() {
        let (absent, start) = (MissingQueues::default(), Instant::now());
        let mut looks = Vec::new();
        for seconds in 0..300 {
            if !absent.is_missing("mail") {
                looks.push(seconds);
                absent.add("mail", Instant::now());
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(looks, [0, 5, 10, 20, 40, 80, 140, 200, 260], "{:?}", start.elapsed());
        absent.forget("mail");
        absent.add("mail", Instant::now());
        tokio::time::advance(MISSING).await;
        assert!(!absent.is_missing("mail"), "one that was there meanwhile begins anew");
    }
}
