//! A message on its way from its caller to the broker, and the answer on its way back.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use lapin::{Confirmation, PublisherConfirm};
use tokio::sync::OwnedSemaphorePermit;

use super::destination::Destination;
use super::open::{Ended, Fate, Open, Write};
use crate::background;
use crate::engine::closed;
use crate::error::Result;
use crate::rabbitmq::errors::{NOT_FOUND, code};
use crate::rabbitmq::lapin::cork::Work;
use crate::rabbitmq::message::properties::Message;

/// What the broker said.
#[derive(Debug)]
pub(super) enum Answer {
    Stored,
    Refused,
    /// Nothing: the channel does not confirm.
    Nothing,
    /// The channel has ended, and whether it is stored is not known.
    Failed(lapin::Error),
    /// The broker has closed the channel for this message.
    Offended(lapin::Error, Arc<Message>),
    /// The channel has ended, and the broker has never looked at it.
    Unseen(Arc<Message>),
    /// The channel has ended, and it was not told of.
    Lost,
    /// It was not sent, and never is.
    Closed,
}

/// A message, until its caller has the answer. Whoever is woken for it polls it, so that nothing
/// rests on a caller who stops to listen.
pub(super) struct Publication {
    /// Where it was sent.
    open: OnceLock<Arc<Open>>,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// Its place among the unconfirmed ones of its channel.
    place: usize,
    /// Given up with the answer.
    room: Option<OwnedSemaphorePermit>,
    caller: Option<Waker>,
}

enum Stage {
    /// Not sent, for as long as nobody takes the message to send it, or to take it back.
    Unsent(Option<Arc<Message>>),
    Writes(Write),
    Waits(PublisherConfirm),
    Answered(Answer),
    /// The caller has the answer.
    Over,
}

impl Publication {
    /// A message that takes so much room, before it is [sent](Self::send) or [kept](Self::keep).
    pub(super) fn new(room: OwnedSemaphorePermit) -> Arc<Self> {
        let unsent = Stage::Unsent(None);
        let state = State { stage: unsent, place: 0, room: Some(room), caller: None };
        Arc::new(Self { open: OnceLock::new(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the message of this until it can be sent.
    pub(super) fn keep(&self, message: Arc<Message>) {
        self.state().stage = Stage::Unsent(Some(message));
    }

    /// The message, if it was not sent.
    pub(super) fn unsent(&self) -> Option<Arc<Message>> {
        match &self.state().stage {
            Stage::Unsent(message) => message.clone(),
            _ => None,
        }
    }

    /// The message, if it was not sent. Who takes it sends it, or it never is.
    pub(super) fn take(&self) -> Option<Arc<Message>> {
        match &mut self.state().stage {
            Stage::Unsent(message) => message.take(),
            _ => None,
        }
    }

    /// Queues the frames of the message of this on a channel on which it has a place.
    pub(super) fn send(self: &Arc<Self>, open: &Arc<Open>, place: usize, message: Arc<Message>) {
        let mut state = self.state();
        (state.stage, state.place) = (Stage::Writes(open.write(message)), place);
        drop(state);
        // This is the first time, since it is sent once.
        let _ = self.open.set(Arc::clone(open));
        Arc::clone(self).go_on();
    }

    /// Tells the caller who still waits for an answer that there is none.
    pub(super) fn end(&self, answer: Answer) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Answered(_) | Stage::Over) {
            return;
        }
        let (caller, room) = state.answer(answer);
        drop(state);
        drop(room);
        if let Some(caller) = caller {
            caller.wake();
        }
    }
}

impl State {
    /// Keeps the answer for the caller, who is to be woken, and gives up the room.
    fn answer(&mut self, answer: Answer) -> (Option<Waker>, Option<OwnedSemaphorePermit>) {
        self.stage = Stage::Answered(answer);
        (self.caller.take(), self.room.take())
    }

    /// The broker's answer to what was sent.
    fn poll(&mut self, open: &Open, cx: &mut Context<'_>) -> Poll<lapin::Result<Confirmation>> {
        if let Stage::Writes(write) = &mut self.stage {
            let confirm = ready!(write.poll(cx))?;
            if let Stage::Writes(write) = std::mem::replace(&mut self.stage, Stage::Waits(confirm))
            {
                open.keep(write);
            }
        }
        match &mut self.stage {
            Stage::Waits(confirm) => Pin::new(confirm).poll(cx),
            _ => Poll::Pending,
        }
    }
}

/// It is polled when it was written, and when it was answered.
impl Work for Publication {
    fn go_on(self: Arc<Self>) {
        let Some(open) = self.open.get() else {
            return;
        };
        let waker = Waker::from(Arc::clone(&self));
        let mut state = self.state();
        let Poll::Ready(answer) = state.poll(open, &mut Context::from_waker(&waker)) else {
            return;
        };
        let (answer, ended) = match answer {
            Ok(Confirmation::Ack(_)) => (Answer::Stored, None),
            Ok(Confirmation::Nack(_)) => (Answer::Refused, None),
            Ok(Confirmation::NotRequested) => (Answer::Nothing, Some(Ended::Lost)),
            Err(error) => {
                let is_missing = code(&error) == Some(NOT_FOUND);
                let ended = if is_missing { Ended::Missing } else { Ended::Lost };
                let answer = match open.fate(state.place, &error) {
                    Fate::Offender(message) => Answer::Offended(error, message),
                    Fate::Unseen(message) => Answer::Unseen(message),
                    Fate::Unknown => Answer::Failed(error),
                };
                (answer, Some(ended))
            }
        };
        let ((caller, room), place) = (state.answer(answer), state.place);
        drop(state);
        drop(room);
        open.answered(place, ended);
        if let Some(caller) = caller {
            open.cork.wake(caller);
        }
    }
}

/// `lapin` may hold locks meanwhile that going on would need.
impl Wake for Publication {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_held = self.open.get().is_some_and(|open| open.cork.hold(self));
        if !is_held {
            let publication = Arc::clone(self);
            background::spawn(async move { publication.go_on() });
        }
    }
}

/// A message that is to be sent by the task. Its caller is told if that cannot be any more.
pub(super) struct Request(pub(super) Arc<Publication>);

impl Drop for Request {
    fn drop(&mut self) {
        if self.0.take().is_some() {
            self.0.end(Answer::Closed);
        }
    }
}

/// The answer to a message, for its caller.
pub(super) struct Pending {
    pub(super) destination: Destination,
    publication: Arc<Publication>,
    /// Whether its exchange was missing before.
    again: bool,
}

/// A message that the broker has certainly not stored, and that is to be sent again.
pub(super) struct Again {
    pub(super) message: Arc<Message>,
    /// Whether that is so because its exchange was missing.
    pub(super) was_missing: bool,
}

impl Pending {
    pub(super) fn new(destination: Destination, publication: Arc<Publication>) -> Self {
        Self { destination, publication, again: false }
    }

    /// The answer to a message that is sent again.
    pub(super) fn after(mut self, again: &Again) -> Self {
        self.again = again.was_missing;
        self
    }

    /// What this answer says to the caller, or the message that is to be sent again.
    pub(super) fn told(&self, answer: Answer) -> std::result::Result<Result<()>, Again> {
        let destination = &self.destination;
        Ok(Err(match answer {
            Answer::Stored => return Ok(Ok(())),
            Answer::Refused => destination.refused(),
            Answer::Nothing => destination.unconfirmed(),
            Answer::Unseen(message) => {
                return Err(Again { message, was_missing: self.again });
            }
            // It is declared again before anything else is sent.
            Answer::Offended(error, message) if code(&error) == Some(NOT_FOUND) && !self.again => {
                return Err(Again { message, was_missing: true });
            }
            Answer::Offended(error, message) => destination.offended(error, message.payload.len()),
            Answer::Failed(error) => destination.lost().because(error),
            Answer::Lost => destination.lost(),
            Answer::Closed => closed(),
        }))
    }

    /// Whether the message was not sent. It never is then.
    pub(super) fn take_back(&self) -> bool {
        self.publication.take().is_some()
    }
}

impl Future for Pending {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.publication.state();
        if matches!(state.stage, Stage::Answered(_))
            && let Stage::Answered(answer) = std::mem::replace(&mut state.stage, Stage::Over)
        {
            return Poll::Ready(answer);
        }
        match &mut state.caller {
            Some(caller) => caller.clone_from(cx.waker()),
            caller => *caller = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
