//! Settling a delivery: one frame where the broker can do the rest, else a new message,
//! confirmed, before the old one is acknowledged.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lapin::BasicProperties;

use super::Core;
use super::failure::stale;
use super::levels::HORIZON;
use super::session::{InHand, Session};
use super::way::Way;
use super::wire::{self, Changes, Message, short};
use crate::engine::{Receipt, Settlement};
use crate::error::{ErrorKind, Result};
use crate::job::{Envelope, JobId};
use crate::period;

/// How long a job is kept that cannot be made to wait.
const REFUSED: Duration = Duration::from_secs(1);

/// The right and the duty to settle one delivery.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) core: Arc<Core>,
    pub(crate) session: Arc<Session>,
    pub(crate) tag: u64,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) properties: BasicProperties,
    /// The text of `jobq-wait`, where the broker may choose the tier by it.
    pub(crate) wait: Option<String>,
    pub(crate) open: bool,
    pub(crate) _in_hand: InHand,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            self.session.give_back(self.tag);
        }
    }
}

#[async_trait]
impl Receipt for Ticket {
    async fn settle(
        mut self: Box<Self>,
        envelope: Envelope,
        attempt: u32,
        settlement: Settlement,
    ) -> Result<()> {
        if self.is_stale() {
            return Err(stale(&self.queue));
        }
        let used = attempt.saturating_sub(1);
        match settlement {
            Settlement::Complete => {
                self.open = false;
                self.session.finish(self.tag);
                Ok(())
            }
            Settlement::Release => self.reject(true).await,
            // Never a reject: 4.3 counts those as crashes.
            Settlement::Retry(wait) if self.broker_can_retry(wait) => self.reject(false).await,
            Settlement::Retry(wait) => self.wait(envelope, attempt, period::millis(wait)).await,
            Settlement::Snooze(wait) => self.wait(envelope, used, period::millis(wait)).await,
            Settlement::Fail { reason, error, attempts } => {
                let changes = Changes::failed(reason, &error, attempts);
                let address = (self.core.names.failed_jobs(), self.queue.to_string());
                self.replace(envelope.id, envelope.payload, &address, changes).await
            }
        }
    }

    fn is_stale(&self) -> bool {
        !self.session.is_alive()
    }

    fn life(&self) -> u64 {
        self.session.life
    }
}

impl Ticket {
    /// Whether the message itself names the tier, and the tier is there.
    fn broker_can_retry(&self, wait: Duration) -> bool {
        let millis = period::millis(wait);
        let tiers = self.core.declared.tiers(&self.queue);
        self.wait.as_ref().is_some_and(|text| *text == millis.to_string())
            && tiers.is_some_and(|tiers| tiers.contains(&millis))
    }

    async fn reject(mut self: Box<Self>, requeue: bool) -> Result<()> {
        self.open = false;
        if self.session.reject(self.tag, requeue).await { Ok(()) } else { Err(stale(&self.queue)) }
    }

    /// Publishes the job again, to be delivered after the wait.
    async fn wait(self: Box<Self>, job: Envelope, attempts: u32, millis: u64) -> Result<()> {
        let tiers = self.core.declared.tiers(&self.queue).unwrap_or_default();
        // It must wait somewhere, so the longest wait takes the place of a longer one.
        let way = Way::new(millis.min(HORIZON), &self.queue, &tiers)?;
        if let Err(error) = self.core.prepare(&way).await {
            // The job is given back now and would come again at once.
            tokio::time::sleep(REFUSED).await;
            return Err(error);
        }
        let address = way.address(&self.core.names, &self.queue);
        let changes = Changes::wait(attempts, way.wait());
        self.replace(job.id, job.payload, &address, changes).await
    }

    /// Publishes the message as another one, then acknowledges this one. Once begun it
    /// is carried through, whether or not anybody waits for it.
    async fn replace(
        mut self: Box<Self>,
        id: JobId,
        payload: Vec<u8>,
        (exchange, key): &(String, String),
        changes: Changes,
    ) -> Result<()> {
        let message = Arc::new(Message {
            exchange: short(exchange)?,
            key: short(key)?,
            properties: wire::again(&self.properties, id, changes),
            payload,
        });
        let replacing = tokio::spawn(async move {
            let alive = || self.session.is_alive();
            let published = self.core.publisher.publish_surely(message, alive).await;
            match published {
                Ok(()) => {
                    self.open = false;
                    self.session.finish(self.tag);
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::Closed => Err(error),
                Err(error) => Err(stale(&self.queue).because(error)),
            }
        });
        match replacing.await {
            Ok(result) => result,
            Err(_) => Err(crate::engine::closed()),
        }
    }
}
