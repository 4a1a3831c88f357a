//! The channel on which is published, for as long as there is one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
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
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// How many messages were handed over and not sent: who comes after them waits too.
    unsent: usize,
    /// What callers have sent, and the task does not listen for yet.
    sent: Vec<Sending>,
    /// The places of publishes that ended. They are large, and one is needed for each.
    spare: Vec<Place>,
}

pub(super) type Place = ReusableBoxFuture<'static, Sent>;

/// A channel in confirm mode, with the places for what it has not confirmed.
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
        Self { link, state: Mutex::default() }
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
            state.send(&open, message, reply, room);
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
            state.send(open, message, request.reply, room);
        }
    }

    /// What was sent since it was last asked for.
    pub(super) fn sent(&self, into: &mut Vec<Sending>) {
        into.append(&mut self.state().sent);
    }

    /// Takes back the places of what has ended.
    pub(super) fn reuse(&self, places: &mut Vec<Place>) {
        self.state().spare.append(places);
    }
}

impl State {
    /// Queues the frames of a message. The task is woken when they are written, and finds
    /// it among what was sent, since this state is locked until it is there.
    fn send(&mut self, open: &Open, message: Message, reply: Reply, room: OwnedSemaphorePermit) {
        let publish = publish(Arc::clone(&open.channel), message, reply, room);
        let mut place = match self.spare.pop() {
            Some(mut place) => {
                place.set(publish);
                place
            }
            None => ReusableBoxFuture::new(publish),
        };
        let first = place.poll(&mut Context::from_waker(&open.task));
        if first.is_ready() {
            open.task.wake_by_ref();
        }
        self.sent.push(Sending { place: Some(place), ended: first });
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

/// A message on its way. It gives its place back when it has ended.
pub(super) struct Sending {
    place: Option<Place>,
    /// How it ended before anybody listened.
    ended: Poll<Sent>,
}

impl Future for Sending {
    type Output = (Sent, Option<Place>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let sending = &mut *self;
        let ended = match (&mut sending.place, sending.ended) {
            (Some(place), Poll::Pending) => place.poll(cx),
            (_, ended) => ended,
        };
        ended.map(|sent| (sent, sending.place.take()))
    }
}

async fn publish(
    channel: Arc<Channel>,
    message: Message,
    reply: Reply,
    _room: OwnedSemaphorePermit,
) -> Sent {
    let Message { exchange, key, properties, payload } = message;
    let options = BasicPublishOptions::default();
    let confirmed = match channel.basic_publish(exchange, key, options, &payload, properties).await
    {
        Ok(confirm) => confirm.await,
        Err(error) => Err(error),
    };
    let (answer, sent) = match confirmed {
        Ok(Confirmation::Ack(_)) => (Answer::Stored, Sent::Answered),
        Ok(Confirmation::Nack(_)) => (Answer::Refused, Sent::Answered),
        Ok(Confirmation::NotRequested) => (Answer::Nothing, Sent::Lost),
        Err(error) if code(&error) == Some(NOT_FOUND) => (Answer::Failed(error), Sent::Missing),
        Err(error) => (Answer::Failed(error), Sent::Lost),
    };
    reply.give(answer);
    sent
}
