//! Passive declarations: looking for queues and exchanges without declaring them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream::StreamExt as _;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind, Queue};
use tokio::time::Instant;

use super::declaration::{Declaration, ExchangeType};
use crate::engine::Figure;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::lock;
use crate::rabbitmq::connection::channel::{ask, pipelined};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::{failure, is_forbidden};
use crate::rabbitmq::values::short;

/// How long a missing queue is not looked for again.
const RECHECK_MIN: Duration = Duration::from_secs(5);
/// The longest such time of a queue that has been missing for longer: it is looked for again after
/// as long as it has been missing.
const RECHECK_MAX: Duration = Duration::from_secs(60);
/// How long it is remembered that a queue was missing, and the same for a queue that is not expected
/// to be there soon.
const REMEMBERED: Duration = Duration::from_secs(600);
/// A slower answer is not the queue's own, but the broker's after its internal timeout.
const BUSY: Duration = Duration::from_millis(200);

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

/// The result of looking for several queues and exchanges.
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
pub(crate) async fn look(up: &ConnectionEpoch, places: &[&Declaration]) -> Result<Seen> {
    let looking = |channel: Channel| async move {
        let requests = places.iter().map(|place| look_for(&channel, place));
        let mut answers = pipelined(requests).enumerate();
        while let Some((place, found)) = answers.next().await {
            match found {
                Ok(()) => {}
                Err(error) if error.is_not_found() => return Ok(Seen::Missing(place)),
                Err(error) if is_forbidden(&error) => return Ok(Seen::Forbidden(place)),
                Err(error) => return Err(error),
            }
        }
        Ok(Seen::All)
    };
    ask(up, "looking for queues", looking).await
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

/// The figures in an answer that took this long. A broker that is too busy to know, or that finds no
/// leader of the queue, returns 0 after 250 ms (`rabbit_quorum_queue:stat/1`).
fn figures(queue: &Queue, took: Duration) -> Figure<Figures> {
    if queue.message_count() == 0 && took >= BUSY {
        return Figure::unknown(UNSURE);
    }
    let (ready, consumers) = (queue.message_count().into(), queue.consumer_count());
    Figure::Known(Figures { ready, consumers })
}

async fn inspect_on(channel: &Channel, queue: &str) -> Result<Option<Figure<Figures>>> {
    let asked = Instant::now();
    match look_for_queue(channel, queue).await {
        Ok(queue) => Ok(Some(figures(&queue, asked.elapsed()))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The figures of a queue on this channel, asked for until the broker knows them; `None` if there is
/// no such queue. Then the broker has closed the channel.
pub(crate) async fn count_on(channel: &Channel, queue: &str) -> Result<Option<Figures>> {
    loop {
        match inspect_on(channel, queue).await? {
            None => return Ok(None),
            Some(Figure::Known(figures)) => return Ok(Some(figures)),
            Some(Figure::Unknown(_)) => {}
        }
    }
}

/// The figures of a queue; `None` if there is no such queue.
pub(crate) async fn inspect(up: &ConnectionEpoch, queue: &str) -> Result<Option<Figure<Figures>>> {
    let inspecting = |channel: Channel| async move { inspect_on(&channel, queue).await };
    ask(up, "looking for a queue", inspecting).await
}

/// [`inspect`], repeated until the broker knows the figures.
pub(crate) async fn count(up: &ConnectionEpoch, queue: &str) -> Result<Option<Figures>> {
    let counting = |channel: Channel| async move { count_on(&channel, queue).await };
    ask(up, "counting messages", counting).await
}

/// The number of ready messages in all these queues, which exist.
pub(crate) async fn ready_in_all(up: &ConnectionEpoch, queues: Vec<String>) -> Result<Figure<u64>> {
    let counting = |channel: Channel| async move {
        let mut answers = pipelined(queues.iter().map(|queue| look_for_queue(&channel, queue)));
        // The broker answers one after the other.
        let (mut sum, mut last) = (0, Instant::now());
        while let Some(answer) = answers.next().await {
            match figures(&answer?, last.elapsed()) {
                Figure::Known(Figures { ready, .. }) => sum += ready,
                // Further answers are under way.
                Figure::Unknown(why) => return Err(Error::new(ErrorKind::Timeout, why)),
            }
            last = Instant::now();
        }
        Ok(sum)
    };
    ask(up, "counting messages", counting).await.map(Figure::Known).or_else(unknown)
}

/// A figure that is unknown for this error, unless that is of the connection.
fn unknown<T>(error: Error) -> Result<Figure<T>> {
    if error.is_connection() { Err(error) } else { Ok(Figure::unknown(error.to_string())) }
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
    fn is_missing(&self, queue: &str) -> bool {
        lock(&self.0).get(queue).is_some_and(|Missing { first, last }| {
            last.elapsed() < (*last - *first).clamp(RECHECK_MIN, RECHECK_MAX)
        })
    }

    /// Records that a queue was missing.
    pub(crate) fn add(&self, queue: &str, asked: Instant) {
        let mut queues = lock(&self.0);
        queues.retain(|_, missing| missing.last.elapsed() < REMEMBERED);
        let first = queues.get(queue).map_or(asked, |missing| missing.first);
        queues.insert(queue.to_owned(), Missing { first, last: asked });
    }

    /// Forgets that a queue was missing.
    pub(crate) fn forget(&self, queue: &str) {
        lock(&self.0).remove(queue);
    }

    /// Forgets which queues were missing.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Whether a queue that is not expected was missing at the last look, ten minutes ago at most.
    pub(crate) fn was_missing(&self, queue: &str) -> bool {
        lock(&self.0).get(queue).is_some_and(|missing| missing.last.elapsed() < REMEMBERED)
    }

    /// The figures of a queue, if it exists. A broker that does not know them is asked again, and then
    /// they are unknown.
    pub(crate) async fn figures(
        &self,
        up: &ConnectionEpoch,
        queue: &str,
    ) -> Result<Option<Figure<Figures>>> {
        if self.is_missing(queue) {
            return Ok(None);
        }
        for _ in 0..LOOKS {
            let asked = Instant::now();
            match inspect(up, queue).await {
                Ok(None) => {
                    self.add(queue, asked);
                    return Ok(None);
                }
                Ok(Some(Figure::Unknown(_))) => {}
                Ok(known) => {
                    self.forget(queue);
                    return Ok(known);
                }
                Err(error) => return unknown(error).map(Some),
            }
        }
        Ok(Some(Figure::unknown(UNSURE)))
    }

    /// Whether there is this exchange; also if this user may not look for it.
    pub(crate) async fn has_exchange(&self, up: &ConnectionEpoch, name: &str) -> Result<bool> {
        let (name, kind, alternate) = (name.to_owned(), ExchangeType::Topic, None);
        let exchange = Declaration::Exchange { name, kind, alternate };
        let looking = async { Ok(!matches!(look(up, &[&exchange]).await?, Seen::Missing(_))) };
        self.exists(exchange.name(), looking).await
    }

    /// Whether there is this queue.
    pub(crate) async fn has_queue(&self, up: &ConnectionEpoch, name: &str) -> Result<bool> {
        self.exists(name, async { Ok(inspect(up, name).await?.is_some()) }).await
    }

    async fn exists(
        &self,
        name: &str,
        looking: impl Future<Output = Result<bool>>,
    ) -> Result<bool> {
        if self.is_missing(name) {
            return Ok(false);
        }
        let asked = Instant::now();
        let exists = looking.await?;
        if !exists {
            self.add(name, asked);
        }
        Ok(exists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_not_expected_is_missing_for_longer() {
        let missing = MissingQueues::default();
        missing.add("mail@solo", Instant::now());
        for (seconds, is_missing, was_missing) in
            [(4, true, true), (2, false, true), (590, false, true), (5, false, false)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let found = (missing.is_missing("mail@solo"), missing.was_missing("mail@solo"));
            assert_eq!(found, (is_missing, was_missing), "{seconds}");
        }
        missing.add("other", Instant::now());
        assert_eq!(lock(&missing.0).len(), 1, "what is too old is forgotten");
        missing.clear();
        assert!(!missing.was_missing("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_stays_missing_is_looked_for_less_often() {
        let (missing, start) = (MissingQueues::default(), Instant::now());
        let mut looks = Vec::new();
        for seconds in 0..300 {
            if !missing.is_missing("mail") {
                looks.push(seconds);
                missing.add("mail", Instant::now());
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(looks, [0, 5, 10, 20, 40, 80, 140, 200, 260], "{:?}", start.elapsed());
        missing.forget("mail");
        missing.add("mail", Instant::now());
        tokio::time::advance(RECHECK_MIN).await;
        assert!(!missing.is_missing("mail"), "one that was there meanwhile begins anew");
    }
}
