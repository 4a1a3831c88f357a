//! The deliveries of one channel and what the broker is told of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicQosOptions};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::acks::Ledger;
use crate::background;
use crate::rabbitmq::connection::epoch::Up;

/// How long a finished delivery may wait for one before it.
const STRAGGLE: Duration = Duration::from_millis(15);
/// How long the end of a channel may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long whoever waits for the last settlement waits on, after it was told. RabbitMQ holds
/// settlements back while a quorum queue has 32 to apply (`quorum_commands_soft_limit`),
/// answers whatever else is asked on the channel, and forgets them where the channel ends: of
/// 3,000 rejects 12 and 27 came back (measured on 3.10). It tells nobody when they are applied.
const APPLIED: Duration = Duration::from_millis(100);
/// How long a channel is left open for them after that.
const LINGER: Duration = Duration::from_secs(5);
/// How many settlements are told together.
const BATCH: usize = 64;

/// How many sessions there were.
static EPOCHS: AtomicU64 = AtomicU64::new(0);

/// One channel with deliveries on it. It lives for as long as anybody holds one.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) channel: Channel,
    /// Tells it from every other session of this process.
    pub(crate) epoch: u64,
    finished: Arc<Finished>,
    /// It is closed when nothing is told any more.
    at_once: mpsc::UnboundedSender<AtOnce>,
    ended: AtomicBool,
}

/// The deliveries that are to be acknowledged, soon. Whoever finishes one writes that down by
/// itself, which is less than a message for each.
#[derive(Debug, Default)]
struct Finished {
    ledger: Mutex<Ledger>,
    news: Notify,
}

impl Finished {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery that the broker is to be told of at once.
#[derive(Debug)]
struct AtOnce {
    tag: u64,
    how: How,
    sent: Option<oneshot::Sender<()>>,
}

/// What the broker is to do with a delivery.
#[derive(Debug, Clone, Copy)]
enum How {
    Delete,
    GiveBack,
    DeadLetter,
}

impl Session {
    /// Tells the broker of settled deliveries until there can be none any more, or until the
    /// connection is over, or until `closing`, when the last word is sent at once. `telling` is
    /// dropped when the broker has heard it all, or cannot hear any more.
    pub(crate) fn spawn(
        channel: Channel,
        up: &Up,
        tasks: &TaskTracker,
        closing: CancellationToken,
        telling: TaskTrackerToken,
    ) -> Arc<Self> {
        let (at_once, received) = mpsc::unbounded_channel();
        let finished = Arc::<Finished>::default();
        let (of_teller, to_tell, over) = (channel.clone(), Arc::clone(&finished), up.over.clone());
        let teller = async move {
            let telling_all = async {
                let last = tell(&of_teller, &to_tell, received, &closing).await;
                if let Some(last) = last {
                    tokio::time::sleep_until(last + APPLIED).await;
                }
                drop(telling);
                closing.run_until_cancelled(tokio::time::sleep(LINGER)).await;
            };
            // Who waits for what was not told then learns that it was not.
            over.run_until_cancelled(telling_all).await;
        };
        background::spawn(tasks.track_future(teller));
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        let ended = AtomicBool::new(false);
        Arc::new(Self { channel, epoch, finished, at_once, ended })
    }

    /// Whether its deliveries can be settled.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
            && !self.at_once.is_closed()
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

    /// The delivery is to be acknowledged, alone or with others. Whether the broker is told:
    /// not after its last word.
    pub(crate) fn finish(&self, tag: u64) -> bool {
        let written = self.finished.ledger().finish(tag);
        self.finished.news.notify_one();
        written
    }

    /// The delivery goes back to its queue.
    pub(crate) fn give_back(&self, tag: u64) {
        let _ = self.at_once.send(AtOnce { tag, how: How::GiveBack, sent: None });
    }

    /// Rejects a delivery, and says whether the broker was told.
    pub(crate) async fn reject(&self, tag: u64, requeue: bool) -> bool {
        let how = if requeue { How::GiveBack } else { How::DeadLetter };
        self.at_once(tag, how).await
    }

    /// Acknowledges a delivery by itself, and says whether the broker was told: for what is
    /// not to be delivered again even if this process dies in the next moment.
    pub(crate) async fn acknowledge(&self, tag: u64) -> bool {
        self.at_once(tag, How::Delete).await
    }

    async fn at_once(&self, tag: u64, how: How) -> bool {
        let (sent, told) = oneshot::channel();
        let settled = AtOnce { tag, how, sent: Some(sent) };
        self.at_once.send(settled).is_ok() && told.await.is_ok()
    }
}

/// Tells the broker of what comes, and says when it was last told of something.
async fn tell(
    channel: &Channel,
    finished: &Finished,
    mut at_once: mpsc::UnboundedReceiver<AtOnce>,
    closing: &CancellationToken,
) -> Option<Instant> {
    let mut last_told = None;
    let mut batch = Vec::with_capacity(BATCH);
    let mut overdue = None;
    loop {
        let due = overdue.unwrap_or_else(Instant::now);
        let mut last = false;
        tokio::select! {
            biased;
            count = at_once.recv_many(&mut batch, BATCH) => last = count == 0,
            () = finished.news.notified() => (),
            () = tokio::time::sleep_until(due), if overdue.is_some() => (),
            () = closing.cancelled() => last = true,
        }
        if last {
            // Who settles from now on learns that nobody is told.
            at_once.close();
            while let Ok(settled) = at_once.try_recv() {
                batch.push(settled);
            }
        }
        let mut tells = !batch.is_empty();
        tell_at_once(channel, finished, &mut batch).await;
        let late = last || overdue.is_some_and(|due| Instant::now() >= due);
        let (prefix, single, has_stragglers) = {
            let mut ledger = finished.ledger();
            if last {
                ledger.close();
            }
            let prefix = ledger.prefix();
            let single = if late { ledger.stragglers() } else { BTreeSet::default() };
            (prefix, single, ledger.has_stragglers())
        };
        tells |= prefix.is_some() || !single.is_empty();
        let acks = prefix
            .map(|tag| (tag, true))
            .into_iter()
            .chain(single.into_iter().map(|tag| (tag, false)))
            .map(|(tag, multiple)| channel.basic_ack(tag, BasicAckOptions { multiple }));
        // An ack that fails has lost its channel: the delivery comes again.
        join_all(acks).await;
        if tells {
            last_told = Some(Instant::now());
        }
        overdue = match (has_stragglers, overdue) {
            (false, _) => None,
            (true, Some(due)) if !late => Some(due),
            (true, _) => Some(Instant::now() + STRAGGLE),
        };
        if last {
            // Answered after all that was sent before it: a process that ends now settles
            // what it was about to.
            let heard = channel.basic_qos(1, BasicQosOptions::default());
            let _ = tokio::time::timeout(FAREWELL, heard).await;
            return last_told;
        }
    }
}

/// What is told at once goes first and whole, since an acknowledgement of a prefix covers
/// it too.
async fn tell_at_once(channel: &Channel, finished: &Finished, batch: &mut Vec<AtOnce>) {
    let telling = batch.drain(..).map(|AtOnce { tag, how, sent }| async move {
        let told = match how {
            How::Delete => channel.basic_ack(tag, BasicAckOptions::default()).await,
            How::GiveBack | How::DeadLetter => {
                let requeue = matches!(how, How::GiveBack);
                let options = BasicNackOptions { multiple: false, requeue };
                channel.basic_nack(tag, options).await
            }
        };
        (tag, sent.filter(|_| told.is_ok()))
    });
    for (tag, sent) in join_all(telling).await {
        finished.ledger().tell(tag);
        if let Some(sent) = sent {
            let _ = sent.send(());
        }
    }
}

/// The number of deliveries of one consumer that are in flight, and its limit.
#[derive(Debug)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    limit: AtomicU16,
    freed: Notify,
}

impl InFlight {
    pub(crate) fn new(limit: u16) -> Self {
        let (count, freed) = (AtomicUsize::new(0), Notify::new());
        Self { count, limit: AtomicU16::new(limit), freed }
    }

    pub(crate) fn limit(&self) -> u16 {
        self.limit.load(Ordering::SeqCst)
    }

    /// For whoever asks [`is_full`](Self::is_full), before it asks again.
    pub(crate) fn set_limit(&self, limit: u16) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count.load(Ordering::SeqCst) >= usize::from(self.limit())
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one delivery less, and wakes whoever waits because the limit was reached.
    pub(crate) fn remove(&self) {
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        if before >= usize::from(self.limit()) {
            self.freed.notify_one();
        }
    }

    /// Returns when there is room after the limit was reached; for one caller.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}
