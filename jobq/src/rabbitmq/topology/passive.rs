//! Passive declarations: looking for queues and exchanges without declaring them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind, Queue};
use tokio::time::Instant;

use super::declarations::Declaration;
use crate::engine::Read;
use crate::error::Result;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::errors::{ACCESS_REFUSED, failure, refusal};
use crate::rabbitmq::values::short;

/// How long a missing queue is not looked for again.
const MISSING: Duration = Duration::from_secs(5);
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
pub(crate) async fn look(up: &Up, channel: &Channel, places: &[&Declaration]) -> Result<Seen> {
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
    up: &Up,
    channel: &mut Channel,
    queue: &str,
) -> Result<Option<u64>> {
    let found = inspect(up, channel, queue).await?;
    Ok(found.map(|(messages, _)| messages))
}

/// The numbers of ready messages and of consumers of a queue; `None` if there is no such queue. In
/// that case `channel` is replaced, since the broker closes it.
pub(crate) async fn inspect(
    up: &Up,
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

/// The queues that were missing, and when.
///
/// Looking for a queue that does not exist costs a channel number for the life of the connection,
/// so one that was missing a moment ago is assumed to be missing still.
#[derive(Debug, Default)]
pub(crate) struct Absent(Mutex<HashMap<String, Instant>>);

impl Absent {
    fn queues(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_missing(&self, queue: &str, lasts: Duration) -> bool {
        self.queues().get(queue).is_some_and(|asked| asked.elapsed() < lasts)
    }

    /// Records that a queue was missing.
    pub(crate) fn add(&self, queue: &str, asked: Instant) {
        let mut queues = self.queues();
        queues.retain(|_, asked| asked.elapsed() < LONG_MISSING);
        queues.insert(queue.to_owned(), asked);
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
        self.is_missing(queue, LONG_MISSING)
    }

    /// The numbers of ready messages and of consumers of a queue, if it exists.
    ///
    /// A broker that is too busy to know, or that finds no leader of the queue, returns 0 after
    /// 250 ms (`rabbit_quorum_queue:stat/1`). It is asked again, and then the numbers are unknown.
    pub(crate) async fn figures(
        &self,
        up: &Up,
        channel: &mut Channel,
        queue: &str,
    ) -> Result<Option<Read<Figures>>> {
        if self.is_missing(queue, MISSING) {
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
                    return Ok(Some(Read::Known(Figures { ready, consumers })));
                }
                Err(error) if error.is_connection() => return Err(error),
                Err(error) => {
                    *channel = open(up).await?;
                    return Ok(Some(Read::unknown(error.to_string())));
                }
            }
        }
        Ok(Some(Read::unknown(UNSURE)))
    }

    /// The number of ready messages in a queue, if it exists.
    ///
    /// A broker that is too busy to know within 250 ms returns 0 (`rabbit_quorum_queue:stat/1`), so
    /// a 0 that took so long is requested again.
    pub(crate) async fn messages_in(
        &self,
        up: &Up,
        channel: &mut Channel,
        queue: &str,
    ) -> Result<Option<u64>> {
        if self.is_missing(queue, MISSING) {
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
        let absent = Absent::default();
        absent.add("mail@solo", Instant::now());
        for (seconds, is_missing, was_missing) in
            [(4, true, true), (2, false, true), (590, false, true), (5, false, false)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let found = (absent.is_missing("mail@solo", MISSING), absent.was_missing("mail@solo"));
            assert_eq!(found, (is_missing, was_missing), "{seconds}");
        }
        absent.add("other", Instant::now());
        assert_eq!(absent.queues().len(), 1, "what is too old is forgotten");
        absent.clear();
        assert!(!absent.was_missing("other"));
    }
}
