//! A message that a caller hands to the [`sender`](super::sender), and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::error;
use crate::engine::closed;
use crate::error::Result;
use crate::rabbitmq::message::properties::Message;

/// A message to send. Dropped without an answer, it tells the caller so.
pub(super) struct Request {
    pub(super) message: Arc<Message>,
    /// Whether its exchange was missing before.
    pub(super) was_missing: bool,
    claimed: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<()>>,
    _room: OwnedSemaphorePermit,
}

impl Request {
    /// A message that holds this room until it is answered, and its answer.
    pub(super) fn new(message: Arc<Message>, room: OwnedSemaphorePermit) -> (Self, Pending) {
        let (answer, receiver) = oneshot::channel();
        let claimed = Arc::<AtomicBool>::default();
        let pending = Pending {
            message: Arc::clone(&message),
            claimed: Arc::clone(&claimed),
            answer: receiver,
        };
        (Self { message, was_missing: false, claimed, answer, _room: room }, pending)
    }

    /// Claims the message for sending. False where the caller has taken it back.
    pub(super) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Gives the claim up: the broker has certainly not stored the message. False where nobody
    /// waits for the answer any more.
    pub(super) fn unclaim(&self) -> bool {
        self.claimed.store(false, Ordering::Release);
        !self.answer.is_closed()
    }

    pub(super) fn answer(self, answer: Result<()>) {
        let _ = self.answer.send(answer);
    }
}

/// The answer to a message, for its caller. The message is sent even if this is dropped.
pub(super) struct Pending {
    pub(super) message: Arc<Message>,
    claimed: Arc<AtomicBool>,
    answer: oneshot::Receiver<Result<()>>,
}

impl Pending {
    /// The answer, for one call.
    pub(super) async fn answer(&mut self) -> Result<()> {
        (&mut self.answer).await.unwrap_or_else(|_| {
            let was_sent = self.claimed.load(Ordering::Acquire);
            Err(if was_sent { error::lost(&self.message) } else { closed() })
        })
    }

    /// Takes the message back unless it was sent. True where it never is.
    pub(super) fn take_back(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}
