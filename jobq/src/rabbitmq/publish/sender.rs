//! The task that sends messages: it keeps a channel open, and answers each message from its own
//! confirm.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::{Channel, Confirmation, ErrorKind as Lapin};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::channel_end::{End, Refusal, Unconfirmed, ends};
use super::confirm::{self, open_confirming};
use super::error;
use super::size_limit::SizeLimit;
use crate::background;
use crate::engine::closed;
use crate::error::Result;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::patience::Patience;
use crate::rabbitmq::connection::supervised::{SupervisedConnection, backoff};
use crate::rabbitmq::errors::{NOT_FOUND, code};
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::routing::Route;
use crate::repeated::{Line, Repeated};

/// The most unconfirmed messages of a channel. `lapin` walks all that one confirm covers. More are
/// hardly faster (measured: docs/performance.md).
pub(super) const WINDOW: usize = 1_000;
/// How long to wait for the last answers of a channel that has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// The shortest life of a channel that is replaced because the broker refused a message. Before
/// 3.12.5, a channel that first publishes to a queue while the queue's leader has just died addresses
/// the dead node until it is back: all its messages are refused, and those of other channels are not.
const RENEWAL: Duration = Duration::from_secs(1);
/// How long the answers of a replaced channel are awaited.
const LINGER: Duration = Duration::from_secs(30);

/// Sends the messages that it receives.
pub(super) struct Sender {
    link: SupervisedConnection,
    patience: Patience,
    declared: Arc<Declared>,
    size_limit: Arc<SizeLimit>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Messages that the next channel sends first. Callers can still withdraw them.
    waiting: VecDeque<Request>,
}

/// Why publishing on a channel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All publishers are dropped.
    Done,
    Lost,
    /// The channel is lost because an exchange is missing.
    Missing,
    /// The broker refused a message: another channel may have none refused.
    Refused,
}

/// A message that was sent, and its answer from `lapin`.
struct Sent {
    request: Request,
    route: Arc<Route>,
    /// Its place in the order of sending.
    number: u64,
    confirm: lapin::Result<Confirmation>,
}

impl Sender {
    pub(super) fn new(
        (link, patience): (SupervisedConnection, Patience),
        declared: Arc<Declared>,
        size_limit: Arc<SizeLimit>,
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        Self { link, patience, declared, size_limit, requests, waiting: VecDeque::new() }
    }

    /// Sends until the connection is closed. The remaining requests are dropped, which reports
    /// errors to their callers.
    pub(super) async fn run(mut self) {
        let link = self.link.clone();
        let mut waits = backoff();
        let (mut unrestored, mut unopened) = (Repeated::default(), Repeated::default());
        let mut restored = None;
        while let Some(up) = self.up().await {
            if restored != Some(up.number) {
                let restoring = self.declared.restore(&up);
                let restoring = up.answer("declaring the queues again", restoring);
                if let Err(error) = restoring.await {
                    if let Some(Line { more }) = unrestored.happens(Instant::now()) {
                        tracing::error!(
                            ?error,
                            more,
                            "could not redeclare the queues on the new connection"
                        );
                    }
                    if error.is_connection() {
                        pause(&link, &up, waits.next()).await;
                        continue;
                    }
                }
                restored = Some(up.number);
            }
            let channel = match open_confirming(&up).await {
                Ok(channel) => channel,
                Err(error) => {
                    if let Some(Line { more }) = unopened.happens(Instant::now()) {
                        tracing::warn!(
                            %error, more,
                            "could not open a channel for publishing; retrying"
                        );
                    }
                    pause(&link, &up, waits.next()).await;
                    continue;
                }
            };
            let ended = self.publish_on(&up, channel).await;
            if !up.connection.status().connected() {
                // The next connection may lead to another node, or to changed settings.
                self.size_limit.forget();
            }
            match ended {
                Ended::Done => return,
                Ended::Lost | Ended::Refused => (),
                // The exchange was lost or deleted.
                Ended::Missing => restored = None,
            }
            waits = backoff();
        }
    }

    /// The connection, once there is one that the broker reads from; `None` once it is closed, or
    /// all publishers are dropped. Meanwhile the patience of callers may end.
    async fn up(&mut self) -> Option<Arc<ConnectionEpoch>> {
        let link = self.link.clone();
        let refusing = async {
            self.patience.ended().await;
            loop {
                self.refuse();
                match self.requests.recv().await {
                    Some(request) => self.waiting.push_back(request),
                    None => return,
                }
            }
        };
        tokio::select! {
            biased;
            up = link.up() => up.ok(),
            () = refusing => None,
        }
    }

    /// Answers the waiting messages whose callers do not wait any longer for the broker.
    fn refuse(&mut self) {
        let trouble = self.link.trouble();
        for request in std::mem::take(&mut self.waiting) {
            if request.is_patient {
                self.waiting.push_back(request);
            } else {
                let error = error::out_of_reach(&request.message, &self.patience, &trouble);
                request.answer(Err(error));
            }
        }
    }

    /// Publishes on a channel until it ends.
    async fn publish_on(&mut self, up: &ConnectionEpoch, channel: Channel) -> Ended {
        let channel = Arc::new(channel);
        let link = self.link.clone();
        let mut lost = pin!(link.lost(up.number));
        let mut sent = FuturesUnordered::new();
        let (opened, mut count, mut failed) = (Instant::now(), 0, Vec::new());
        let mut received = Vec::with_capacity(WINDOW);
        let ended = loop {
            let blocked = !self.waiting.is_empty() && link.is_blocked();
            let is_over = blocked && self.patience.has_ended();
            if is_over {
                self.refuse();
            }
            while !blocked
                && sent.len() < WINDOW
                && let Some(request) = self.waiting.pop_front()
            {
                if request.claim() {
                    sent.push(send(Arc::clone(&channel), request, count));
                    count += 1;
                }
            }
            tokio::select! {
                biased;
                Some(next) = sent.next() => match answer(next) {
                    Answer::Stored => (),
                    Answer::Refused if opened.elapsed() < RENEWAL => (),
                    Answer::Refused => {
                        background::spawn(last_answers(sent));
                        return Ended::Refused;
                    }
                    Answer::Missing(unconfirmed) => {
                        failed.push(unconfirmed);
                        break Ended::Lost;
                    }
                },
                // At most one window at a time: received messages can be withdrawn, but wait.
                received_now = self.requests.recv_many(&mut received, WINDOW),
                    if is_over || self.waiting.is_empty() =>
                {
                    if received_now == 0 {
                        break Ended::Done;
                    }
                    self.waiting.extend(received.drain(..));
                }
                () = relief(&link, &self.patience, is_over), if blocked => (),
                () = &mut lost => break Ended::Lost,
            }
        };
        let last_answers = async {
            while let Some(sent) = sent.next().await {
                if let Answer::Missing(unconfirmed) = answer(sent) {
                    failed.push(unconfirmed);
                }
            }
        };
        let _ = timeout(LAST_ANSWERS, last_answers).await;
        if self.settle(failed) { Ended::Missing } else { ended }
    }

    /// Answers the unconfirmed messages, or queues those again that the broker has certainly not
    /// stored. True if an exchange is missing.
    fn settle(&mut self, mut failed: Vec<Unanswered>) -> bool {
        failed.sort_unstable_by_key(|message| message.number);
        let refusal = failed.iter().find_map(|message| Refusal::of(&message.error));
        if let Some(Refusal::Size { limit }) = refusal {
            self.size_limit.learn(limit);
        }
        let unconfirmed = |Unanswered { request, route, error, .. }: &Unanswered| Unconfirmed {
            was_sent: !matches!(error.kind(), Lapin::InvalidChannelState(..)),
            may_be_refused: refusal
                .as_ref()
                .is_some_and(|it| it.may_be_of(route, &request.message.payload)),
        };
        let ends = ends(&failed.iter().map(unconfirmed).collect::<Vec<_>>());
        let is_missing = |error: &lapin::Error| code(error) == Some(NOT_FOUND);
        let any_is_missing = failed.iter().any(|message| is_missing(&message.error));
        let mut again = Vec::new();
        for (Unanswered { mut request, error, .. }, end) in failed.into_iter().zip(ends) {
            let message = &request.message;
            match end {
                End::Unknown => {
                    let error = error::lost(message).with_source(error);
                    request.answer(Err(error));
                }
                // The exchange is declared again before anything else is sent.
                End::Refused if is_missing(&error) && !request.was_missing => {
                    request.was_missing = true;
                    again.push(request);
                }
                End::Refused => {
                    let error = error::refused(message, error);
                    request.answer(Err(error));
                }
                End::Unseen => match self.size_limit.exceeded_by(message.payload.len()) {
                    Some(limit) => {
                        let error = error::too_large(message, limit);
                        request.answer(Err(error));
                    }
                    None => again.push(request),
                },
            }
        }
        for request in again.into_iter().rev().filter(Request::unclaim) {
            self.waiting.push_front(request);
        }
        any_is_missing
    }
}

/// Waits until the broker reads again, or the patience of callers ends, unless it has ended.
async fn relief(link: &SupervisedConnection, patience: &Patience, has_ended: bool) {
    tokio::select! {
        () = link.unblocked() => {}
        () = patience.ended(), if !has_ended => {}
    }
}

async fn send(channel: Arc<Channel>, request: Request, number: u64) -> Sent {
    let route = request.message.route();
    let confirm = confirm::send(&channel, &route, &request.message, false).await;
    Sent { request, route, number, confirm }
}

/// An unanswered message of a channel that has ended.
struct Unanswered {
    request: Request,
    route: Arc<Route>,
    number: u64,
    error: lapin::Error,
}

/// The answer of the broker to a message.
enum Answer {
    Stored,
    Refused,
    /// The channel has ended without one.
    Missing(Unanswered),
}

/// Answers a message, unless its channel has ended.
fn answer(sent: Sent) -> Answer {
    let Sent { request, route, number, confirm } = sent;
    match confirm {
        Ok(confirmation) => {
            let answer = confirm::stored(&request.message, &confirmation);
            let is_stored = answer.is_ok();
            request.answer(answer);
            if is_stored { Answer::Stored } else { Answer::Refused }
        }
        Err(error) => Answer::Missing(Unanswered { request, route, number, error }),
    }
}

/// Answers the messages of a channel that is replaced, which ends with them.
async fn last_answers(mut sent: FuturesUnordered<impl Future<Output = Sent>>) {
    let answers = async {
        while let Some(sent) = sent.next().await {
            if let Answer::Missing(Unanswered { request, error, .. }) = answer(sent) {
                let lost = error::lost(&request.message).with_source(error);
                request.answer(Err(lost));
            }
        }
    };
    let _ = timeout(LINGER, answers).await;
}

async fn pause(link: &SupervisedConnection, up: &ConnectionEpoch, wait: Option<Duration>) {
    let _ = timeout(wait.unwrap_or_default(), link.lost(up.number)).await;
}

/// A message to send. Dropping it without an answer reports an error to the caller.
pub(super) struct Request {
    pub(super) message: Arc<Message>,
    /// Whether its exchange was missing at an earlier try.
    pub(super) was_missing: bool,
    /// Whether it waits for the broker for as long as its caller does.
    pub(super) is_patient: bool,
    claimed: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<()>>,
    _room: OwnedSemaphorePermit,
}

impl Request {
    /// A request that holds this room until it is answered, and its pending answer.
    pub(super) fn new(message: Arc<Message>, room: OwnedSemaphorePermit) -> (Self, Pending) {
        let (answer, receiver) = oneshot::channel();
        let claimed = Arc::<AtomicBool>::default();
        let pending = Pending {
            message: Arc::clone(&message),
            claimed: Arc::clone(&claimed),
            answer: receiver,
        };
        let request =
            Self { message, was_missing: false, is_patient: false, claimed, answer, _room: room };
        (request, pending)
    }

    /// Claims the message for sending. False if the caller has withdrawn it.
    pub(super) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Releases the claim of a message that the broker has certainly not stored. False if the
    /// caller no longer waits.
    pub(super) fn unclaim(&self) -> bool {
        self.claimed.store(false, Ordering::Release);
        !self.answer.is_closed()
    }

    pub(super) fn answer(self, answer: Result<()>) {
        let _ = self.answer.send(answer);
    }
}

/// The pending answer to a message. The message is sent even if this is dropped.
pub(super) struct Pending {
    pub(super) message: Arc<Message>,
    claimed: Arc<AtomicBool>,
    answer: oneshot::Receiver<Result<()>>,
}

impl Pending {
    /// Waits for the answer; for one call.
    pub(super) async fn answer(&mut self) -> Result<()> {
        (&mut self.answer).await.unwrap_or_else(|_| {
            let was_sent = self.claimed.load(Ordering::Acquire);
            Err(if was_sent { error::lost(&self.message) } else { closed() })
        })
    }

    /// Withdraws the message. False if it was sent.
    pub(super) fn take_back(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}
