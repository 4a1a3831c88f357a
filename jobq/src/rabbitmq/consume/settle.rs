//! Settling a delivery: one frame where the broker can do the rest, else a new message,
//! confirmed, before the old one is acknowledged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lapin::BasicProperties;
use tokio_util::task::TaskTracker;

use super::session::{InFlight, Session};
use crate::background;
use crate::engine::{Receipt, Settle, Settlement, Solo};
use crate::error::{Error, Result};
use crate::job::{Envelope, JobId};
use crate::period;
use crate::rabbitmq::errors::stale;
use crate::rabbitmq::message::properties::{self, Changes, Message};
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::levels::{End, HORIZON};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::route::Route;
use crate::rabbitmq::topology::routing::Way;
use crate::rabbitmq::topology::routing_key;

/// From how many returns on a job is handed back as a new message. Each one that the broker counts
/// makes the worker's death likelier in its eyes; after three the job runs alone.
const RETURNS: u32 = 2;
/// How long a job is kept that cannot be made to wait.
const REFUSED: Duration = Duration::from_secs(1);

/// When the broker learns that a message has been replaced by another one.
enum Ack {
    AtOnce,
    /// Soon: one acknowledgement is for many.
    WithOthers,
}

/// What a delivery knows of being run alone.
#[derive(Debug)]
pub(crate) struct SoloState {
    pub(crate) solo: Solo,
    /// The start that its consumer waits for.
    pub(crate) expected: Arc<Mutex<Option<String>>>,
}

impl SoloState {
    /// Has the consumer wait for a start of its own, and tells which.
    fn expect_start(&self) -> String {
        let start = JobId::new().to_string();
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        *expected = Some(start.clone());
        start
    }
}

/// The error of starting alone what was not delivered so.
fn not_alone() -> Error {
    Error::invalid("only a delivery of `consume_solo` can be started alone")
}

/// Where the deliveries of a session come from and go back to. They share it, since each count
/// of who uses what is a word of memory that several processors write.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) declarer: Arc<Declarer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) session: Arc<Session>,
    pub(crate) queue: &'static str,
    pub(crate) in_flight: Arc<InFlight>,
    /// What is handed back as new messages.
    pub(crate) tasks: TaskTracker,
}

impl Origin {
    fn names(&self) -> &Names {
        self.declarer.known().names()
    }
}

/// The right and the duty to settle one delivery.
#[derive(Debug)]
pub(crate) struct RabbitReceipt {
    origin: Arc<Origin>,
    tag: u64,
    envelope: Arc<Envelope>,
    properties: BasicProperties,
    /// The tier that the message itself names, where the broker may choose by it.
    wait: Option<u64>,
    /// How often it came back, as the broker counts.
    returns: u32,
    /// Set on a delivery of the queue of jobs that are run alone.
    solo: Option<SoloState>,
    open: bool,
}

impl RabbitReceipt {
    /// Of a delivery that is in hand from now on.
    pub(crate) fn new(
        origin: &Arc<Origin>,
        tag: u64,
        envelope: Envelope,
        properties: BasicProperties,
        wait: Option<u64>,
        returns: u32,
        solo: Option<SoloState>,
    ) -> Self {
        origin.in_flight.add();
        let (origin, envelope) = (Arc::clone(origin), Arc::new(envelope));
        Self { origin, tag, envelope, properties, wait, returns, solo, open: true }
    }
}

impl Drop for RabbitReceipt {
    fn drop(&mut self) {
        if self.open && self.is_returned_as_new() {
            let released = Box::new(self.take());
            background::spawn(self.origin.tasks.track_future(async move {
                if let Err(error) = released.release().await {
                    tracing::debug!(%error, "a job was not handed back; the broker delivers it again");
                }
            }));
        } else if self.open {
            self.origin.session.give_back(self.tag);
        }
        self.origin.in_flight.remove();
    }
}

#[async_trait]
impl Receipt for RabbitReceipt {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    async fn settle(mut self: Box<Self>, settle: Settle) -> Result<()> {
        let Settle { attempt, settlement, .. } = settle;
        if self.is_stale() {
            return Err(stale(self.origin.queue));
        }
        let used = attempt.saturating_sub(1);
        // What publishes is boxed: its futures are large, and most jobs need none of them.
        match settlement {
            Settlement::Complete => self.acknowledge(Ack::WithOthers).await,
            Settlement::Release => match &self.solo {
                // That start was none.
                Some(SoloState { solo: Solo { starts, started: true }, .. }) => {
                    let changes = Changes::solo(used, starts.saturating_sub(1), None);
                    Box::pin(self.to_solo(changes)).await
                }
                _ if self.is_returned_as_new() => Box::pin(self.release()).await,
                _ => self.reject(true).await,
            },
            Settlement::Isolate => Box::pin(self.to_solo(Changes::solo(used, 0, None))).await,
            Settlement::Start => {
                let Some(state) = &self.solo else {
                    return Err(not_alone());
                };
                let start = state.expect_start();
                let starts = state.solo.starts.saturating_add(1);
                Box::pin(self.to_solo(Changes::solo(used, starts, Some(&start)))).await
            }
            // Never a reject: 4.3 counts those as crashes.
            Settlement::Retry(wait) if self.broker_can_retry(wait) => self.reject(false).await,
            Settlement::Retry(wait) => Box::pin(self.wait(attempt, period::millis(wait))).await,
            Settlement::Snooze(wait) => Box::pin(self.wait(used, period::millis(wait))).await,
            Settlement::Fail { reason, error, attempts } => {
                let changes = Changes::failed(reason, &error, attempts);
                let exchange = self.origin.names().failed_jobs();
                let route = Route::new(exchange, self.origin.queue.to_string())?;
                Box::pin(self.replace(route, changes, Ack::WithOthers)).await
            }
        }
    }

    fn is_stale(&self) -> bool {
        !self.open || !self.origin.session.is_alive()
    }

    fn epoch(&self) -> u64 {
        self.origin.session.epoch
    }
}

impl RabbitReceipt {
    /// Whether the message itself names the tier, and the tier is there.
    fn broker_can_retry(&self, wait: Duration) -> bool {
        let millis = period::millis(wait);
        let tiers = self.origin.declarer.known().tiers(self.origin.queue);
        self.wait == Some(millis) && tiers.is_some_and(|tiers| tiers.contains(&millis))
    }

    /// Whether the job is handed back as a new message, which has not come back so far.
    fn is_returned_as_new(&self) -> bool {
        self.returns >= RETURNS && self.solo.is_none() && !self.is_stale()
    }

    /// This one, of which nothing is left to settle here.
    fn take(&mut self) -> Self {
        let (envelope, properties) =
            (Arc::clone(&self.envelope), std::mem::take(&mut self.properties));
        self.open = false;
        self.origin.in_flight.add();
        let origin = Arc::clone(&self.origin);
        let (tag, wait, returns) = (self.tag, self.wait, self.returns);
        Self { origin, tag, envelope, properties, wait, returns, solo: None, open: true }
    }

    /// Hands the job back as a new message.
    async fn release(self: Box<Self>) -> Result<()> {
        let queue = self.origin.queue;
        let wait = self.envelope.retry_wait.map(period::millis);
        let route = Route::new(self.origin.names().jobs(), routing_key::write(queue, wait))?;
        let changes = Changes::next(self.envelope.attempts);
        self.replace(route, changes, Ack::WithOthers).await
    }

    /// Publishes the job to where it is run alone.
    async fn to_solo(self: Box<Self>, changes: Changes) -> Result<()> {
        let wanted = self.origin.declarer.known().part(self.origin.queue).map(Wanted::with_solo);
        if let Some(wanted) = wanted {
            self.origin.declarer.declare(wanted).await?;
        }
        let exchange = self.origin.names().jobs();
        let route = Route::new(exchange, Names::solo_key(self.origin.queue))?;
        // It may take this process down in the next moment, and is to have one life.
        self.replace(route, changes, Ack::AtOnce).await
    }

    /// Has the broker delete the message. The next job that is run alone may take this
    /// process down at once, and a start of this one would be counted that had its end.
    async fn acknowledge(&mut self, ack: Ack) -> Result<()> {
        self.open = false;
        let session = &self.origin.session;
        let told = if self.solo.is_none() && matches!(ack, Ack::WithOthers) {
            session.finish(self.tag)
        } else {
            session.acknowledge(self.tag).await
        };
        self.recorded(told)
    }

    async fn reject(mut self: Box<Self>, requeue: bool) -> Result<()> {
        self.open = false;
        let told = self.origin.session.reject(self.tag, requeue).await;
        self.recorded(told)
    }

    /// An error where the broker is not told of the settlement: it gives the job again.
    fn recorded(&self, told: bool) -> Result<()> {
        if told { Ok(()) } else { Err(stale(self.origin.queue)) }
    }

    /// Publishes the job again, to be delivered after the wait.
    async fn wait(self: Box<Self>, attempts: u32, millis: u64) -> Result<()> {
        let tiers = self.origin.declarer.known().tiers(self.origin.queue).unwrap_or_default();
        // It must wait somewhere, so the longest wait takes the place of a longer one.
        let end = End::Queue(self.origin.queue);
        let way = Way::new(millis.min(HORIZON), end, &tiers)?;
        while let Err(error) = self.origin.declarer.prepare(&way).await {
            // A job that was given back now would come again at once.
            tokio::time::sleep(REFUSED).await;
            // It has run, so it is kept for as long as it is this worker's: a busy broker takes
            // longer to make the levels than anybody waits.
            if self.is_stale() || !(error.is_connection() || error.is_timeout()) {
                return Err(error);
            }
            tracing::warn!(queue = self.origin.queue, %error, "a job cannot be made to wait yet");
        }
        let route = way.route(self.origin.names(), end)?;
        self.replace(route, Changes::next(attempts), Ack::WithOthers).await
    }

    /// Publishes the message as another one, then acknowledges this one. Once begun it
    /// is carried through, whether or not anybody waits for it.
    async fn replace(mut self: Box<Self>, route: Route, changes: Changes, ack: Ack) -> Result<()> {
        let properties = properties::again(&self.properties, self.envelope.id, changes);
        // The attempt may still have a share of it.
        let payload = match Arc::get_mut(&mut self.envelope) {
            Some(envelope) => std::mem::take(&mut envelope.payload),
            None => self.envelope.payload.clone(),
        };
        let message = Arc::new(Message { route: Arc::new(route), properties, payload });
        let replacing = background::spawn(async move {
            let alive = || self.origin.session.is_alive();
            let published = self.origin.publisher.publish_surely(message, alive).await;
            match published {
                Ok(()) => self.acknowledge(ack).await,
                Err(error) if error.is_closed() => Err(error),
                Err(error) => Err(stale(self.origin.queue).because(error)),
            }
        });
        match replacing.await {
            Ok(result) => result,
            Err(_) => Err(crate::engine::closed()),
        }
    }
}
