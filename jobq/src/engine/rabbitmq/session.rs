//! The deliveries of one channel and what the broker is told of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acks::Ledger;

/// How long a finished delivery may wait for one before it.
const STRAGGLE: Duration = Duration::from_millis(15);
/// How long the end of a channel may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many settlements are looked at before acknowledgements are sent.
const BATCH: usize = 64;

/// How many sessions there were.
static LIVES: AtomicU64 = AtomicU64::new(0);

/// One channel with deliveries on it. It lives for as long as anybody holds one.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) channel: Channel,
    /// Tells it from every other session of this process.
    pub(crate) life: u64,
    settled: mpsc::UnboundedSender<Settled>,
    ended: AtomicBool,
}

#[derive(Debug)]
enum Settled {
    /// To be acknowledged.
    Finished(u64),
    /// To be given back, or else to its dead-letter exchange.
    Rejected { tag: u64, requeue: bool, sent: Option<oneshot::Sender<()>> },
}

impl Session {
    /// Tells the broker of settled deliveries until there can be none any more, or until
    /// `closing`, when the last word is sent at once.
    pub(crate) fn spawn(
        channel: Channel,
        tasks: &TaskTracker,
        closing: CancellationToken,
    ) -> Arc<Self> {
        let (settled, received) = mpsc::unbounded_channel();
        tasks.spawn(tell(channel.clone(), received, closing));
        let life = LIVES.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { channel, life, settled, ended: AtomicBool::new(false) })
    }

    /// Whether its deliveries can be settled.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
            && !self.settled.is_closed()
            && self.channel.status().connected()
    }

    /// The broker has taken the deliveries back.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Ends the session and its channel, so that the broker takes back at once what was
    /// delivered through it.
    pub(crate) async fn abandon(&self) {
        self.end();
        let closing = self.channel.close(200, "consuming anew".into());
        let _ = tokio::time::timeout(FAREWELL, closing).await;
    }

    /// The delivery is to be acknowledged, alone or with others.
    pub(crate) fn finish(&self, tag: u64) {
        let _ = self.settled.send(Settled::Finished(tag));
    }

    /// The delivery goes back to its queue.
    pub(crate) fn give_back(&self, tag: u64) {
        let _ = self.settled.send(Settled::Rejected { tag, requeue: true, sent: None });
    }

    /// Rejects a delivery, and says whether the broker was told.
    pub(crate) async fn reject(&self, tag: u64, requeue: bool) -> bool {
        let (sent, told) = oneshot::channel();
        let rejected = Settled::Rejected { tag, requeue, sent: Some(sent) };
        self.settled.send(rejected).is_ok() && told.await.is_ok()
    }
}

async fn tell(
    channel: Channel,
    mut settled: mpsc::UnboundedReceiver<Settled>,
    closing: CancellationToken,
) {
    let mut ledger = Ledger::default();
    let mut batch = Vec::with_capacity(BATCH);
    let mut overdue = None;
    loop {
        let due = overdue.unwrap_or_else(Instant::now);
        let mut last = false;
        tokio::select! {
            biased;
            count = settled.recv_many(&mut batch, BATCH) => last = count == 0,
            () = tokio::time::sleep_until(due), if overdue.is_some() => (),
            () = closing.cancelled() => last = true,
        }
        reject_all(&channel, &mut ledger, &mut batch).await;
        let prefix = ledger.prefix();
        let late = last || overdue.is_some_and(|due| Instant::now() >= due);
        let single = if late { ledger.stragglers() } else { BTreeSet::default() };
        let acks = prefix
            .map(|tag| (tag, true))
            .into_iter()
            .chain(single.into_iter().map(|tag| (tag, false)))
            .map(|(tag, multiple)| channel.basic_ack(tag, BasicAckOptions { multiple }));
        // An ack that fails has lost its channel: the delivery comes again.
        join_all(acks).await;
        overdue = match (ledger.has_stragglers(), overdue) {
            (false, _) => None,
            (true, Some(due)) if !late => Some(due),
            (true, _) => Some(Instant::now() + STRAGGLE),
        };
        if last {
            return;
        }
    }
}

/// Rejections go first and whole, since an acknowledgement of a prefix covers them too.
async fn reject_all(channel: &Channel, ledger: &mut Ledger, batch: &mut Vec<Settled>) {
    let mut rejections = Vec::new();
    for settled in batch.drain(..) {
        match settled {
            Settled::Finished(tag) => ledger.finish(tag),
            Settled::Rejected { tag, requeue, sent } => {
                let options = BasicNackOptions { multiple: false, requeue };
                rejections.push(async move {
                    let told = channel.basic_nack(tag, options).await.is_ok();
                    (tag, sent.filter(|_| told))
                });
            }
        }
    }
    for (tag, sent) in join_all(rejections).await {
        ledger.tell(tag);
        if let Some(sent) = sent {
            let _ = sent.send(());
        }
    }
}

/// How many deliveries of one consumer are in somebody's hand.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    count: AtomicUsize,
    freed: Notify,
}

/// One delivery in hand.
#[derive(Debug)]
pub(crate) struct InHand(Arc<Hand>);

impl Hand {
    pub(crate) fn take(self: &Arc<Self>) -> InHand {
        self.count.fetch_add(1, Ordering::AcqRel);
        InHand(Arc::clone(self))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns after a delivery was put out of hand; for one caller.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}
