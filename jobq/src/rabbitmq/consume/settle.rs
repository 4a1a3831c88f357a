//! Settling a delivery: with one frame where the broker does the rest, else with a new message that
//! is confirmed before the old one is acknowledged.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use lapin::BasicProperties;
use lapin::types::ShortString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::session::Session;
use crate::background;
use crate::engine::{Receipt, Settle, Settlement, Solo};
use crate::error::{Error, Result};
use crate::guard::lock;
use crate::job::{Envelope, JobId};
use crate::period;
use crate::rabbitmq::connection::supervised::backoff;
use crate::rabbitmq::errors::stale;
use crate::rabbitmq::message::properties::{self, Changes, Message};
use crate::rabbitmq::topology::destination::{Destination, Wait};
use crate::rabbitmq::topology::levels::{End, HORIZON};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key;
use crate::repeated::{Line, Repeated};
use crate::telemetry::Who;

/// The number of returns from which a job is requeued as a new message. The broker's count of
/// returns is taken as a sign of crashes; after three the job runs solo. The broker may add a return
/// that no client sees: it takes a message back itself that a cancelled consumer did not receive.
const RETURNS: u32 = 1;

/// When to acknowledge a message that was replaced by another one.
enum Ack {
    AtOnce,
    /// Soon, one acknowledgement for many.
    WithOthers,
}

/// The solo state of a delivery.
#[derive(Debug)]
pub(crate) struct SoloState {
    pub(crate) solo: Solo,
    /// The id of the run that its consumer expects.
    pub(crate) expected: Arc<Mutex<Option<String>>>,
}

impl SoloState {
    /// Generates the id of the next run, and has the consumer expect it.
    fn expect_start(&self) -> String {
        let start = JobId::new().to_string();
        let mut expected = lock(&self.expected);
        *expected = Some(start.clone());
        start
    }
}

/// The error of a solo start of a delivery from another queue.
fn not_solo() -> Error {
    Error::invalid("only a delivery of a solo consumer can be started alone")
}

/// Settlement handle of one delivery.
#[derive(Debug)]
pub(crate) struct RabbitReceipt {
    session: Arc<Session>,
    tag: u64,
    /// The routing key with which it came.
    key: ShortString,
    envelope: Arc<Envelope>,
    properties: BasicProperties,
    /// The tier that the routing key names, if the broker may use it.
    wait: Option<u64>,
    /// The broker's count of returns.
    returns: u32,
    /// Set on a delivery of the solo queue.
    solo: Option<SoloState>,
    open: bool,
}

impl RabbitReceipt {
    /// Counts the delivery as in flight.
    pub(crate) fn new(
        session: Arc<Session>,
        (tag, key): (u64, ShortString),
        envelope: Envelope,
        properties: BasicProperties,
        wait: Option<u64>,
        returns: u32,
        solo: Option<SoloState>,
    ) -> Self {
        session.begin_delivery();
        let envelope = Arc::new(envelope);
        Self { session, tag, key, envelope, properties, wait, returns, solo, open: true }
    }
}

impl Drop for RabbitReceipt {
    fn drop(&mut self) {
        if self.open && self.is_returned_as_new() {
            let released = Box::new(self.take());
            background::spawn(self.session.context.tasks.track_future(async move {
                let Who { job, id, queue, attempt, .. } = released.who();
                if let Err(error) = released.release().await {
                    tracing::debug!(
                        %job, %id, %queue, attempt, %error,
                        "could not return the job to its queue; the broker redelivers it"
                    );
                }
            }));
        } else if self.open {
            self.session.requeue(self.tag);
        }
        self.session.end_delivery();
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
            return Err(stale(self.session.context.queue));
        }
        let used = attempt.saturating_sub(1);
        // Publishing futures are boxed: they are large, and most jobs need none.
        match settlement {
            Settlement::Complete => self.acknowledge(Ack::WithOthers).await,
            Settlement::Release => match &self.solo {
                // Undoes the start.
                Some(SoloState { solo: Solo { starts, started: true }, .. }) => {
                    let changes = Changes::solo(used, starts.saturating_sub(1), None);
                    Box::pin(self.to_solo(changes)).await
                }
                _ if self.is_returned_as_new() => Box::pin(self.release()).await,
                _ => self.nack(true).await,
            },
            Settlement::Isolate => Box::pin(self.to_solo(Changes::solo(used, 0, None))).await,
            Settlement::Start => {
                let Some(state) = &self.solo else {
                    return Err(not_solo());
                };
                let start = state.expect_start();
                let starts = state.solo.starts.saturating_add(1);
                Box::pin(self.to_solo(Changes::solo(used, starts, Some(&start)))).await
            }
            Settlement::Retry(wait) if self.broker_can_retry(wait) => self.nack(false).await,
            Settlement::Retry(wait) => Box::pin(self.wait(attempt, period::millis(wait))).await,
            Settlement::Snooze(wait) => Box::pin(self.wait(used, period::millis(wait))).await,
            Settlement::Fail { reason, error, attempts } => {
                let changes =
                    Changes::failed(reason, &error, attempts, self.session.context.clock.now());
                let exchange = self.session.context.names().failed_jobs();
                let route = Route::new(exchange, self.session.context.queue.to_string())?;
                Box::pin(self.replace(route, changes, Ack::WithOthers)).await
            }
        }
    }

    fn is_stale(&self) -> bool {
        !self.open || !self.session.is_alive()
    }

    fn verification(&self) -> Option<BoxFuture<'static, ()>> {
        let session = &self.session;
        session.verification.is_needed().then(|| Arc::clone(session).verify().boxed())
    }

    fn route(&self) -> Option<&str> {
        Some(self.key.as_str())
    }

    fn epoch(&self) -> u64 {
        self.session.epoch
    }
}

impl RabbitReceipt {
    fn who(&self) -> Who {
        Who::of_job(&self.envelope, self.session.context.queue)
    }

    fn lane(&self) -> Cow<'static, str> {
        routing_key::lane(self.session.context.queue, self.envelope.priority())
    }

    /// Whether the message itself names the tier, and the tier exists.
    fn broker_can_retry(&self, wait: Duration) -> bool {
        let millis = period::millis(wait);
        let tiers = self.session.context.declarer.known().tiers(self.session.context.queue);
        self.wait == Some(millis) && tiers.is_some_and(|tiers| tiers.contains(&millis))
    }

    /// Whether the job is requeued as a new message, whose count of returns starts at 0. While
    /// nothing can be published, it is requeued as it is. So is one that the broker may have given to
    /// another consumer: a new message would run it again.
    fn is_returned_as_new(&self) -> bool {
        self.returns >= RETURNS
            && self.solo.is_none()
            && !self.is_stale()
            && !self.session.verification.is_needed()
            && self.session.context.publisher.is_up()
    }

    /// Moves the handle out, and leaves nothing to settle here.
    fn take(&mut self) -> Self {
        let (envelope, properties) =
            (Arc::clone(&self.envelope), std::mem::take(&mut self.properties));
        self.open = false;
        self.session.begin_delivery();
        let session = Arc::clone(&self.session);
        let (tag, key) = (self.tag, std::mem::take(&mut self.key));
        let (wait, returns) = (self.wait, self.returns);
        Self { session, tag, key, envelope, properties, wait, returns, solo: None, open: true }
    }

    /// Requeues the job as a new message.
    async fn release(self: Box<Self>) -> Result<()> {
        let lane = self.lane();
        let wait = self.envelope.retry_wait.map(period::millis);
        let route =
            Route::new(self.session.context.names().jobs(), routing_key::write(&lane, wait))?;
        let changes = Changes::next(self.envelope.attempts);
        self.replace(route, changes, Ack::WithOthers).await
    }

    /// Publishes the job to the solo queue.
    async fn to_solo(self: Box<Self>, changes: Changes) -> Result<()> {
        let wanted = self
            .session
            .context
            .declarer
            .known()
            .part(self.session.context.queue)
            .map(Wanted::with_solo);
        if let Some(wanted) = wanted {
            self.session.context.declarer.declare(wanted).await?;
        }
        let exchange = self.session.context.names().jobs();
        let route = Route::new(exchange, Names::solo_key(self.session.context.queue))?;
        // It may crash this process in the next moment, and must not exist twice.
        self.replace(route, changes, Ack::AtOnce).await
    }

    /// Acknowledges the message, with others if `ack` allows it. That of a solo run goes at once: the
    /// next one may crash this process, and an unacknowledged start would count as a crash.
    async fn acknowledge(&mut self, ack: Ack) -> Result<()> {
        self.open = false;
        let session = &self.session;
        let sent = if self.solo.is_none() && matches!(ack, Ack::WithOthers) {
            session.finish(self.tag)
        } else {
            session.acknowledge(self.tag).await
        };
        self.recorded(sent)
    }

    async fn nack(mut self: Box<Self>, requeue: bool) -> Result<()> {
        self.open = false;
        let sent = self.session.nack(self.tag, requeue).await;
        self.recorded(sent)
    }

    /// An error if the broker was not sent the settlement: it redelivers the job.
    fn recorded(&self, sent: bool) -> Result<()> {
        if sent { Ok(()) } else { Err(stale(self.session.context.queue)) }
    }

    /// Publishes the job again, to be delivered after the wait.
    async fn wait(self: Box<Self>, attempts: u32, millis: u64) -> Result<()> {
        // A wait beyond the limit is cut to the longest one.
        let millis = Duration::from_millis(millis.min(HORIZON));
        let (known, lane) = (self.session.context.declarer.known(), self.lane());
        let now = self.session.context.clock.now();
        let wait = Wait::new(known, (millis, millis), now, End::Queue(&lane), None)?;
        let (mut waits, mut failed) = (backoff(), Repeated::default());
        while let Err(error) = self.session.context.declarer.prepare(&wait).await {
            // The job has run, so it is kept while this worker owns it, whatever the broker refuses.
            if error.is_closed() || self.is_stale() {
                return Err(error);
            }
            if let Some(Line { more }) = failed.happens(Instant::now()) {
                let Who { job, id, queue, attempt, .. } = self.who();
                tracing::warn!(
                    %job, %id, %queue, attempt, %error, more,
                    "could not delay the job; retrying"
                );
            }
            tokio::time::sleep(waits.next().unwrap_or_default()).await;
        }
        let to = Destination::from(wait);
        let changes = Changes::next(attempts).wait_until(to.until());
        self.replace(to, changes, Ack::WithOthers).await
    }

    /// Publishes the message as a new one, then acknowledges the old one. If the caller is dropped,
    /// this completes once the message was sent; otherwise the message is withdrawn, and the old one
    /// requeued.
    async fn replace(
        mut self: Box<Self>,
        to: impl Into<Destination>,
        changes: Changes,
        ack: Ack,
    ) -> Result<()> {
        let who = self.who();
        let properties = properties::again(&self.properties, (&who, &self.envelope), changes);
        // The attempt may still share it.
        let payload = match Arc::get_mut(&mut self.envelope) {
            Some(envelope) => std::mem::take(&mut envelope.payload),
            None => self.envelope.payload.clone(),
        };
        let message = Arc::new(Message { to: to.into(), properties, payload });
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        let replacing = background::spawn(async move {
            let alive = || self.session.is_alive();
            let publisher = &self.session.context.publisher;
            match publisher.publish_surely(message, &who, alive, &given_up).await {
                Ok(()) => self.acknowledge(ack).await,
                Err(error) if error.is_closed() => Err(error),
                Err(error) => {
                    // As it is: its payload is with the message that was not sent.
                    self.open = false;
                    self.session.requeue(self.tag);
                    Err(stale(self.session.context.queue).with_source(error))
                }
            }
        });
        match replacing.await {
            Ok(result) => result,
            Err(_) => Err(crate::engine::closed()),
        }
    }
}
