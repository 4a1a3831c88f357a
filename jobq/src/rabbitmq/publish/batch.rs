//! Many messages, each sent before the ones before it are confirmed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::publisher::Publisher;
use super::request::Pending;
use super::sender::WINDOW;
use crate::engine::NotPushed;
use crate::error::Result;
use crate::rabbitmq::message::properties::Message;

/// Messages that are published one after the other, no more of them at once than may be
/// unconfirmed. The time without progress counts, however many they are: when it is up, nothing
/// more is sent, since the answer would not be waited for.
pub(crate) struct Batch<'p> {
    publisher: &'p Publisher,
    /// How many there were.
    count: usize,
    /// Those whose answers are awaited, with their places.
    sent: VecDeque<(usize, Pending)>,
    failed: Vec<NotPushed>,
    /// How long to wait for what comes next.
    patience: Duration,
}

impl<'p> Batch<'p> {
    pub(crate) fn new(publisher: &'p Publisher) -> Self {
        let (sent, failed) = (VecDeque::new(), Vec::new());
        Self { publisher, count: 0, sent, failed, patience: publisher.timeout }
    }

    /// Sends the next message, as soon as there is room for it.
    pub(crate) async fn send(&mut self, message: Result<Message>) {
        if self.sent.len() == WINDOW {
            self.answer().await;
        }
        let place = self.count;
        self.count += 1;
        let sent = match message {
            Ok(message) => self.send_if_it_fits(Arc::new(message)).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(Some(pending)) => self.sent.push_back((place, pending)),
            Ok(None) => {}
            Err(error) => self.failed.push((place, error)),
        }
    }

    /// The answer to await. `None` where the message has been stored already.
    async fn send_if_it_fits(&mut self, message: Arc<Message>) -> Result<Option<Pending>> {
        if !self.publisher.size_limit.is_taken(message.payload.len()) {
            // It may go another way, and is not to overtake those before it.
            while !self.sent.is_empty() {
                self.answer().await;
            }
        }
        if !self.publisher.fits(&message).await? {
            return Ok(None);
        }
        if self.patience.is_zero() {
            return Err(self.publisher.no_answer(&message, false));
        }
        let message = match self.publisher.try_send(message) {
            Ok(pending) => return Ok(Some(pending)),
            Err(message) => message,
        };
        if let Ok(room) = timeout(self.patience, self.publisher.room(&message)).await {
            return Ok(Some(self.publisher.send(message, room?)));
        }
        self.patience = Duration::ZERO;
        Err(self.publisher.no_answer(&message, false))
    }

    /// Waits for the oldest answer.
    async fn answer(&mut self) {
        let Some((place, mut pending)) = self.sent.pop_front() else {
            return;
        };
        let answer = timeout(self.patience, pending.answer()).await.unwrap_or_else(|_| {
            self.patience = Duration::ZERO;
            Err(self.publisher.no_answer(&pending.message, !pending.take_back()))
        });
        if let Err(error) = answer {
            self.failed.push((place, error));
        }
    }

    /// Waits for the answers, and gives the messages that are not confirmed.
    pub(crate) async fn finish(mut self) -> Vec<NotPushed> {
        while !self.sent.is_empty() {
            self.answer().await;
        }
        self.failed.sort_unstable_by_key(|(place, _)| *place);
        self.failed
    }
}
