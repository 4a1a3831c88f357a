//! A message between its caller and the publisher's task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::destination::Destination;
use crate::engine::closed;
use crate::engine::rabbitmq::failure::{ACCESS_REFUSED, code, failure};
use crate::engine::rabbitmq::wire::Message;
use crate::error::Result;

/// A message that is to be sent as soon as that can be.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) ticket: Arc<Ticket>,
    pub(super) reply: Reply,
}

/// What became of the publish of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Answered,
    /// The channel has ended.
    Lost,
    /// As lost, because an exchange is missing.
    Missing,
}

/// What the broker said.
#[derive(Debug)]
pub(super) enum Answer {
    Stored,
    Refused,
    /// Nothing: the channel does not confirm.
    Nothing,
    /// The channel has ended.
    Failed(lapin::Error),
}

/// The way back to the caller.
#[derive(Debug)]
pub(super) struct Reply {
    answer: oneshot::Sender<Answer>,
    /// Given up by the publisher alone: a message that was taken back leaves its request.
    _room: OwnedSemaphorePermit,
}

impl Reply {
    pub(super) fn new(room: OwnedSemaphorePermit) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        (Self { answer, _room: room }, answered)
    }

    pub(super) fn give(self, answer: Answer) {
        // A caller who is gone has asked for no answer.
        let _ = self.answer.send(answer);
    }
}

/// A message for as long as it is not sent. Its caller may take it back, and then it never
/// is, nor kept; after it was sent, nobody knows until the answer comes.
#[derive(Debug)]
pub(super) struct Ticket(Mutex<Option<Message>>);

impl Ticket {
    pub(super) fn new(message: Message) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(message))))
    }

    fn place(&self) -> MutexGuard<'_, Option<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Option<Message> {
        self.place().take()
    }
}

/// A message of which the answer is awaited.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) destination: Destination,
    /// None where it was sent at once.
    pub(super) ticket: Option<Arc<Ticket>>,
    pub(super) answer: oneshot::Receiver<Answer>,
}

impl Pending {
    /// The broker's answer, whenever it comes.
    pub(super) async fn answer(mut self) -> Result<()> {
        let answer = (&mut self.answer).await;
        self.told(answer.ok())
    }

    /// What this answer says to the caller; there is none where the publisher has ended.
    pub(super) fn told(&self, answer: Option<Answer>) -> Result<()> {
        let destination = &self.destination;
        Err(match answer {
            Some(Answer::Stored) => return Ok(()),
            Some(Answer::Refused) => destination.refused(),
            Some(Answer::Nothing) => destination.unconfirmed(),
            // The channel has ended with it, and another message may have been meant.
            Some(Answer::Failed(error)) if code(&error) == Some(ACCESS_REFUSED) => {
                failure(&destination.to_string(), error).but_maybe_enqueued()
            }
            Some(Answer::Failed(error)) => destination.lost().because(error),
            None if self.take_back() => closed(),
            None => destination.lost(),
        })
    }

    /// Whether the message was not sent. It never is then.
    pub(super) fn take_back(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.take().is_some())
    }
}
