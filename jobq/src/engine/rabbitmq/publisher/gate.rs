//! The channel on which is published, for as long as there is one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation, PublisherConfirm};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::ReusableBoxFuture;

use super::request::{Answer, Reply, Request, Sent, Ticket};
use crate::engine::rabbitmq::failure::{NOT_FOUND, code};
use crate::engine::rabbitmq::link::Link;
use crate::engine::rabbitmq::wire::Message;

/// How many publishes may be unconfirmed: a confirm of many walks them all. More are hardly
/// faster (measured: docs/performance.md).
pub(super) const WINDOW: usize = 1_000;

/// Where messages are sent, or told to wait.
pub(super) struct Gate {
    link: Link,
    state: Mutex<State>,
    spare: Spare,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// How many messages were handed over and not sent: who comes after them waits too.
    unsent: usize,
    /// What callers have sent, and the task does not listen for yet.
    sent: Vec<Sending>,
}

/// A message's way to the socket. It is large, some 1.5 KB, and over long before the broker has
/// answered.
type Write = ReusableBoxFuture<'static, lapin::Result<PublisherConfirm>>;

/// The memory of writes that ended, for those to come.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Write>>>);

impl Spare {
    fn writes(&self) -> MutexGuard<'_, Vec<Write>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The write of this message.
    fn write(&self, channel: Arc<Channel>, message: Message) -> Write {
        let spare = self.writes().pop();
        let Some(mut place) = spare else {
            return ReusableBoxFuture::new(write(channel, message));
        };
        place.set(write(channel, message));
        place
    }
}

/// A channel in confirm mode, with the places in its window.
#[derive(Clone)]
pub(super) struct Open {
    channel: Arc<Channel>,
    window: Arc<Semaphore>,
    /// Of the task that listens for the answers.
    task: Waker,
}

impl Open {
    pub(super) fn new(channel: Channel, task: Waker) -> Self {
        Self { channel: Arc::new(channel), window: Arc::new(Semaphore::new(WINDOW)), task }
    }

    /// Whether a message that is sent now may reach the broker.
    pub(super) fn is_alive(&self) -> bool {
        self.channel.status().connected()
    }

    /// A place in the window, if there is one.
    pub(super) fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.window).try_acquire_owned().ok()
    }
}

impl Gate {
    pub(super) fn new(link: Link) -> Self {
        Self { link, state: Mutex::default(), spare: Spare::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, open: Open) {
        self.state().open = Some(open);
    }

    /// Nothing is sent on this channel any more when this returns.
    pub(super) fn close(&self) {
        self.state().open = None;
    }

    /// Sends a message, or else hands it over to be sent; then it has a ticket.
    pub(super) fn pass(
        &self,
        requests: &mpsc::UnboundedSender<Request>,
        message: Message,
        reply: Reply,
    ) -> Option<Arc<Ticket>> {
        let mut state = self.state();
        let may_pass = state.unsent == 0 && !self.link.is_blocked();
        let open = state.open.as_ref().filter(|open| may_pass && open.is_alive());
        if let Some((open, room)) = open.and_then(|open| Some((open.clone(), open.room()?))) {
            state.send(&open, &self.spare, message, Due { reply, _place: room });
            return None;
        }
        state.unsent += 1;
        drop(state);
        let ticket = Ticket::new(message);
        // If nobody receives, the reply is dropped, which says so.
        let _ = requests.send(Request { ticket: Arc::clone(&ticket), reply });
        Some(ticket)
    }

    /// Sends a message that was handed over, unless it was taken back.
    pub(super) fn send(&self, open: &Open, request: Request, room: OwnedSemaphorePermit) {
        let mut state = self.state();
        state.unsent -= 1;
        if let Some(message) = request.ticket.take() {
            let due = Due { reply: request.reply, _place: room };
            state.send(open, &self.spare, message, due);
        }
    }

    /// What was sent since it was last asked for; `into` is empty.
    pub(super) fn sent(&self, into: &mut Vec<Sending>) {
        std::mem::swap(into, &mut self.state().sent);
    }
}

impl State {
    /// Queues the frames of a message. The task is woken when they are written, and finds
    /// it among what was sent, since this state is locked until it is there.
    fn send(&mut self, open: &Open, spare: &Spare, message: Message, due: Due) {
        let mut write = spare.write(Arc::clone(&open.channel), message);
        let stage = match write.poll(&mut Context::from_waker(&open.task)) {
            Poll::Pending => Stage::Writes(write),
            Poll::Ready(written) => {
                open.task.wake_by_ref();
                spare.writes().push(write);
                Stage::Written(written)
            }
        };
        self.sent.push(Sending { spare: spare.clone(), stage, due: Some(due) });
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

async fn write(channel: Arc<Channel>, message: Message) -> lapin::Result<PublisherConfirm> {
    let Message { exchange, key, properties, payload } = message;
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange, key, options, &payload, properties).await
}

/// A message on its way, until the broker has answered.
pub(super) struct Sending {
    spare: Spare,
    stage: Stage,
    /// None once it was answered.
    due: Option<Due>,
}

enum Stage {
    Writes(Write),
    Written(lapin::Result<PublisherConfirm>),
}

/// What ends with the answer.
struct Due {
    reply: Reply,
    /// In the window.
    _place: OwnedSemaphorePermit,
}

impl Sending {
    fn poll_confirm(&mut self, cx: &mut Context<'_>) -> Poll<lapin::Result<Confirmation>> {
        if let Stage::Writes(write) = &mut self.stage {
            let written = ready!(write.poll(cx));
            let over = std::mem::replace(&mut self.stage, Stage::Written(written));
            if let Stage::Writes(write) = over {
                self.spare.writes().push(write);
            }
        }
        match &mut self.stage {
            Stage::Written(Ok(confirm)) => Pin::new(confirm).poll(cx),
            Stage::Written(Err(error)) => Poll::Ready(Err(error.clone())),
            Stage::Writes(_) => Poll::Pending,
        }
    }
}

impl Future for Sending {
    type Output = Sent;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Sent> {
        let (answer, sent) = match ready!(self.poll_confirm(cx)) {
            Ok(Confirmation::Ack(_)) => (Answer::Stored, Sent::Answered),
            Ok(Confirmation::Nack(_)) => (Answer::Refused, Sent::Answered),
            Ok(Confirmation::NotRequested) => (Answer::Nothing, Sent::Lost),
            Err(error) if code(&error) == Some(NOT_FOUND) => (Answer::Failed(error), Sent::Missing),
            Err(error) => (Answer::Failed(error), Sent::Lost),
        };
        if let Some(due) = self.due.take() {
            due.reply.give(answer);
        }
        Poll::Ready(sent)
    }
}
