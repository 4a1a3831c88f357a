//! The deliveries of one channel, and the settlements that the broker is sent.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicQosOptions};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acks::Ledger;
use super::context::SettleContext;
use super::counted::Counted;
use super::verification::{Answer, Verification};
use crate::background;
use crate::guard::lock;
use crate::period;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;

/// How often finished deliveries are looked for that wait for an unfinished one before them. They
/// wait for two looks at most.
const ACK_DELAY: Duration = Duration::from_millis(15);
/// How long closing a channel may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after the last settlement was sent. RabbitMQ delays settlements while a quorum
/// queue has 32 to apply (`quorum_commands_soft_limit`), answers other requests on the channel, and
/// drops them if the channel ends: of 3,000 rejects 12 and 27 came back (measured on 3.10). It does
/// not report when they are applied.
const APPLIED: Duration = Duration::from_millis(100);
/// How long a channel stays open for them after that.
const LINGER: Duration = Duration::from_secs(5);
/// How many settlements are sent together.
const BATCH: usize = 64;

/// The number of sessions so far.
static EPOCHS: AtomicU64 = AtomicU64::new(0);

/// The sessions of one subscription.
#[derive(Debug)]
pub(crate) struct Sessions {
    context: Arc<SettleContext>,
    /// Those with settlements to send.
    sending: TaskTracker,
    /// Those whose channel is open.
    open: TaskTracker,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Sessions {
    /// Sessions whose tasks are tracked. When `closing` is cancelled, their last acknowledgements are
    /// sent at once.
    pub(crate) fn new(
        context: SettleContext,
        tasks: TaskTracker,
        closing: CancellationToken,
    ) -> Self {
        let (sending, open) = (TaskTracker::new(), TaskTracker::new());
        Self { context: Arc::new(context), sending, open, tasks, closing }
    }

    pub(crate) fn context(&self) -> &Arc<SettleContext> {
        &self.context
    }

    /// Those with settlements to send.
    pub(crate) fn sending(&self) -> &TaskTracker {
        &self.sending
    }

    /// How many channels are open.
    pub(crate) fn open_channels(&self) -> usize {
        self.open.len()
    }

    /// A session on this channel. It sends settlements until no more can come, or the connection has
    /// ended.
    pub(crate) fn begin(&self, channel: Channel, up: &ConnectionEpoch) -> Arc<Session> {
        let (at_once, received) = mpsc::unbounded_channel();
        let finished = Arc::<Finished>::default();
        let (sender_channel, unsent, over) =
            (channel.clone(), Arc::clone(&finished), up.over.clone());
        let (sending, open) = (self.sending.token(), self.open.token());
        let closing = self.closing.clone();
        let sender = async move {
            let send_all = async {
                let last = send_settlements(&sender_channel, &unsent, received, &closing).await;
                if let Some(last) = last {
                    tokio::time::sleep_until(last + APPLIED).await;
                }
                // The broker has all settlements.
                drop(sending);
                closing.run_until_cancelled(tokio::time::sleep(LINGER)).await;
            };
            // Callers that wait for unsent settlements then get an error.
            over.run_until_cancelled(send_all).await;
            drop(open);
        };
        background::spawn(self.tasks.track_future(sender));
        Arc::new(Session {
            context: Arc::clone(&self.context),
            channel,
            epoch: EPOCHS.fetch_add(1, Ordering::Relaxed),
            finished,
            at_once,
            unsettled: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            over: up.over.clone(),
            verification: Verification::start(up),
        })
    }
}

/// One channel with deliveries. It lives as long as any reference to it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) context: Arc<SettleContext>,
    pub(crate) channel: Channel,
    /// Unique among the sessions of this process.
    pub(crate) epoch: u64,
    finished: Arc<Finished>,
    /// Closed when nothing more is sent.
    at_once: mpsc::UnboundedSender<AtOnce>,
    unsettled: AtomicUsize,
    ended: AtomicBool,
    /// Cancelled when the connection has ended.
    pub(super) over: CancellationToken,
    pub(super) verification: Verification,
}

/// The deliveries to acknowledge soon. Finished ones are recorded directly, which costs less than a
/// message for each.
#[derive(Debug, Default)]
struct Finished {
    ledger: Mutex<Ledger>,
    news: Notify,
}

/// A delivery to settle at once.
#[derive(Debug)]
struct AtOnce {
    tag: u64,
    how: How,
    sent: Option<oneshot::Sender<()>>,
}

/// The settlement of a delivery.
#[derive(Debug, Clone, Copy)]
enum How {
    Delete,
    Requeue,
    DeadLetter,
}

impl Session {
    /// Whether its deliveries can be settled.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
            && !self.at_once.is_closed()
            && self.channel.status().connected()
    }

    /// Counts a delivery as in flight.
    pub(crate) fn begin_delivery(&self) {
        self.unsettled.fetch_add(1, Ordering::Relaxed);
        self.context.in_flight.add();
    }

    /// Counts a delivery as in flight no longer.
    pub(crate) fn end_delivery(&self) {
        self.unsettled.fetch_sub(1, Ordering::Relaxed);
        self.context.in_flight.remove();
    }

    /// The number of its deliveries in flight.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// Asks the broker, until it has answered a question that was asked after the last suspension.
    /// Without an answer in time, the session ends.
    pub(super) async fn verify(self: Arc<Self>) {
        let _turn = self.verification.turn().await;
        while self.is_alive() && self.verification.is_needed() {
            match self.verification.ask(&self.channel, &self.over).await {
                Answer::Given => {}
                Answer::Ended => self.end(),
                Answer::Missing(limit) => {
                    tracing::warn!(
                        limit = period::format(limit),
                        "no answer from the broker after this process was suspended; resubscribing"
                    );
                    self.abandon().await;
                }
            }
        }
    }

    /// Marks the session as ended: the broker has requeued its deliveries.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Has its consumer, which was cancelled, counted while there are deliveries to settle.
    pub(crate) fn count_as_cancelled(self: &Arc<Self>, counted: &Counted) {
        let session = Arc::downgrade(self);
        counted.add_cancelled(move || session.upgrade().is_some_and(|session| session.is_alive()));
    }

    /// Ends the session and its channel, so that the broker requeues its deliveries at once.
    pub(crate) async fn abandon(&self) {
        self.end();
        let closing = self.channel.close(200, "consuming anew".into());
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }

    /// Records a delivery to acknowledge, alone or with others. False after the last
    /// acknowledgements.
    pub(crate) fn finish(&self, tag: u64) -> bool {
        let written = lock(&self.finished.ledger).finish(tag);
        self.finished.news.notify_one();
        written
    }

    /// Requeues the delivery.
    pub(crate) fn requeue(&self, tag: u64) {
        let _ = self.at_once.send(AtOnce { tag, how: How::Requeue, sent: None });
    }

    /// Requeues or dead-letters a delivery. True if it was sent.
    pub(crate) async fn nack(&self, tag: u64, requeue: bool) -> bool {
        let how = if requeue { How::Requeue } else { How::DeadLetter };
        self.at_once(tag, how).await
    }

    /// Acknowledges a delivery at once. True if it was sent. For deliveries that must not
    /// be repeated even if this process dies in the next moment.
    pub(crate) async fn acknowledge(&self, tag: u64) -> bool {
        self.at_once(tag, How::Delete).await
    }

    async fn at_once(&self, tag: u64, how: How) -> bool {
        let (sent, done) = oneshot::channel();
        let settled = AtOnce { tag, how, sent: Some(sent) };
        self.at_once.send(settled).is_ok() && done.await.is_ok()
    }
}

/// Sends the settlements that arrive, and returns the time of the last one.
async fn send_settlements(
    channel: &Channel,
    finished: &Finished,
    mut at_once: mpsc::UnboundedReceiver<AtOnce>,
    closing: &CancellationToken,
) -> Option<Instant> {
    let mut last_sent = None;
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
            // Later settlements then report that they were not sent.
            at_once.close();
            while let Ok(settled) = at_once.try_recv() {
                batch.push(settled);
            }
        }
        let mut sends = !batch.is_empty();
        send_at_once(channel, finished, &mut batch).await;
        let late = last || overdue.is_some_and(|due| Instant::now() >= due);
        let (prefix, single, has_stragglers) = {
            let mut ledger = lock(&finished.ledger);
            if last {
                ledger.close();
            }
            let prefix = ledger.prefix();
            let single = if late { ledger.stragglers() } else { BTreeSet::default() };
            (prefix, single, ledger.has_stragglers())
        };
        sends |= prefix.is_some() || !single.is_empty();
        let acks = prefix
            .map(|tag| (tag, true))
            .into_iter()
            .chain(single.into_iter().map(|tag| (tag, false)))
            .map(|(tag, multiple)| channel.basic_ack(tag, BasicAckOptions { multiple }));
        // A failed ack means a lost channel: the delivery comes again.
        join_all(acks).await;
        if sends {
            last_sent = Some(Instant::now());
        }
        overdue = match (has_stragglers, overdue) {
            (false, _) => None,
            (true, Some(due)) if !late => Some(due),
            (true, _) => Some(Instant::now() + ACK_DELAY),
        };
        if last {
            // The answer comes after the broker has read all earlier frames, so the settlements
            // hold even if the process ends now.
            let answered = channel.basic_qos(1, BasicQosOptions::default());
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, answered).await;
            return last_sent;
        }
    }
}

/// Settlements to send at once go first and completely, since an acknowledgement of a prefix covers
/// them too.
async fn send_at_once(channel: &Channel, finished: &Finished, batch: &mut Vec<AtOnce>) {
    let sending = batch.drain(..).map(|AtOnce { tag, how, sent }| async move {
        let done = match how {
            How::Delete => channel.basic_ack(tag, BasicAckOptions::default()).await,
            How::Requeue | How::DeadLetter => {
                // Never `basic.reject`, which 4.3 counts as a crash of the consumer.
                let requeue = matches!(how, How::Requeue);
                let options = BasicNackOptions { multiple: false, requeue };
                channel.basic_nack(tag, options).await
            }
        };
        (tag, sent.filter(|_| done.is_ok()))
    });
    for (tag, sent) in join_all(sending).await {
        lock(&finished.ledger).mark_sent(tag);
        if let Some(sent) = sent {
            let _ = sent.send(());
        }
    }
}
