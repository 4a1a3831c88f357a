//! Deliveries: from the writer to a consumer, and their settlements back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::claim::Claimed;
use super::feeds::{self, Feed, Feeds};
use super::inbox::{Act, Claim, Command, Inbox, Settling};
use super::lane::Lane;
use super::settle::stale;
use crate::engine::{
    Consume, Consumer, Delivery, Intake, Pause, Receipt, Settle, Settlement, Solo, closed,
};
use crate::error::Result;
use crate::job::Envelope;

/// The pause between two attempts to commit the last settlements of a consumer.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// Starts a consumer of the queue with this number, which may be paused: of its solo jobs, or of each
/// of its lanes.
pub(super) fn start(
    inbox: &Inbox,
    (queue, lanes, pause): (i64, Vec<Lane>, Option<Pause>),
    what: &Consume,
) -> Result<Consumer> {
    let Consume { queue: name, prefetch, solo, pool, only_job } = *what;
    let (prefetch, lanes) = if solo { (1, vec![Lane::All]) } else { (prefetch, lanes) };
    let (deliveries, receiver) = mpsc::unbounded_channel();
    let (mut feeds, mut told) = (Vec::new(), Vec::new());
    for lane in lanes {
        let (pauses, receiver) = watch::channel(pause.clone());
        told.push(receiver);
        feeds.push(Feed {
            id: inbox.number(),
            name: name.as_str(),
            lane,
            consumer: feeds::Consumer { name: Uuid::now_v7().to_string(), queue, pool },
            solo,
            only_job,
            started: None,
            prefetch: usize::from(prefetch),
            in_flight: 0,
            next_due: Some(i64::MIN),
            is_paused: false,
            deliveries: deliveries.clone(),
            pauses,
        });
    }
    let intake = FeedIntake {
        feeds: feeds.iter().map(|feed| (feed.id, feed.consumer.name.clone())).collect(),
        // They are told in this order.
        pauses: told.pop().ok_or_else(closed)?,
        inbox: inbox.clone(),
    };
    inbox.change(move |all| feeds.into_iter().for_each(|feed| all.start(feed)))?;
    Ok(Consumer::new(receiver, Box::new(intake)))
}

/// Sends a job to its consumer. If the consumer is gone, dropping the delivery releases the job.
pub(super) fn deliver(feed: &mut Feed, inbox: &Inbox, owner: i64, job: Claimed) {
    let claim = Claim { seq: job.seq, id: job.envelope.id, owner, feed: feed.id };
    let started = feed.started.take() == Some(job.seq);
    let attempt = job.envelope.attempts.saturating_add(1);
    let (mut envelope, inbox) = (job.envelope, inbox.clone());
    envelope.name = envelope.name.or(feed.only_job.map(Cow::Borrowed));
    let envelope = Arc::new(envelope);
    let receipt = FeedReceipt { envelope, claim: Some(claim), started, inbox };
    let mut delivery = Delivery::new(attempt, Box::new(receipt)).due_at(Some(job.due));
    delivery.crashes = job.crashes;
    delivery.solo = job.starts.map(|starts| Solo { starts, started });
    feed.in_flight += 1;
    let _ = feed.deliveries.send(Ok(delivery));
}

/// The consumer's side of a feed.
#[derive(Debug)]
struct FeedIntake {
    /// The feeds of the lanes, with their names in reports.
    feeds: Vec<(u64, String)>,
    pauses: watch::Receiver<Option<Pause>>,
    inbox: Inbox,
}

#[async_trait]
impl Intake for FeedIntake {
    async fn set_prefetch(&self, prefetch: u16) {
        let (ids, (done, changed)) = (self.ids(), oneshot::channel());
        let change = move |feeds: &mut Feeds| {
            for id in ids {
                if let Some(feed) = feeds.find(id) {
                    feed.set_prefetch(prefetch);
                }
            }
            let _ = done.send(());
        };
        if self.inbox.change(change).is_ok() && prefetch == 0 {
            // Without an answer the engine was closed.
            let _ = changed.await;
        }
    }

    async fn stop(&self) {
        let (ids, (done, stopped)) = (self.ids(), oneshot::channel());
        let stop = move |feeds: &mut Feeds| {
            feeds.stop(&ids);
            let _ = done.send(());
        };
        if self.inbox.change(stop).is_ok() {
            // Without an answer the engine was closed.
            let _ = stopped.await;
        }
    }

    fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.pauses.clone()
    }

    fn names(&self) -> Vec<String> {
        match *self.pauses.borrow() {
            Some(_) => Vec::new(),
            None => self.feeds.iter().map(|(_, name)| name.clone()).collect(),
        }
    }

    fn has_priorities(&self) -> bool {
        self.feeds.len() > 1
    }

    async fn settled(&self) {
        // Committed together with everything sent before it, and with what failed before.
        while let Err(failure) = self.inbox.try_call(|_| Ok(())).await
            && !failure.is_final()
        {
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
    }
}

impl FeedIntake {
    fn ids(&self) -> Vec<u64> {
        self.feeds.iter().map(|(id, _)| *id).collect()
    }
}

impl Drop for FeedIntake {
    fn drop(&mut self) {
        let ids = self.ids();
        let _ = self.inbox.change(move |feeds| feeds.stop(&ids));
    }
}

#[derive(Debug)]
struct FeedReceipt {
    envelope: Arc<Envelope>,
    /// Taken out when it is settled.
    claim: Option<Claim>,
    /// Whether the start of a solo run was recorded for this delivery.
    started: bool,
    inbox: Inbox,
}

#[async_trait]
impl Receipt for FeedReceipt {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    async fn settle(mut self: Box<Self>, settle: Settle) -> Result<()> {
        let Some(claim) = self.claim.take().filter(|claim| claim.owner == self.inbox.owner())
        else {
            return Err(stale());
        };
        let mut settling = match settle.settlement {
            // Undoes the recorded start.
            Settlement::Release if self.started => Settling::new(claim, Act::Start { starts: -1 }),
            settlement => Settling::new(claim, Act::new(settlement, &self.envelope)),
        };
        // These two need no answer: losing them only runs the job again.
        if matches!(settling.act, Act::Complete | Act::Release) {
            return self.inbox.send(Command::Settle(settling));
        }
        let (answer, answered) = oneshot::channel();
        settling.answer = Some(answer);
        self.inbox.send(Command::Settle(settling))?;
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    fn is_stale(&self) -> bool {
        self.claim.is_none_or(|claim| claim.owner != self.inbox.owner())
    }

    fn verification(&self) -> Option<BoxFuture<'static, ()>> {
        self.inbox.is_uncertain().then(|| self.inbox.clone().verify().boxed())
    }

    fn epoch(&self) -> u64 {
        self.claim.map_or(0, |claim| claim.owner.unsigned_abs())
    }
}

impl Drop for FeedReceipt {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            let _ = self.inbox.send(Command::Settle(Settling::new(claim, Act::Release)));
        }
    }
}
