//! Publishing many messages without waiting for each confirm.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::publisher::Publisher;
use super::sender::{Pending, WINDOW};
use crate::engine::NotPushed;
use crate::error::Result;
use crate::rabbitmq::message::properties::Message;

/// Messages published in order, with a limited number of unconfirmed ones. The timeout covers the
/// time without progress, whatever the number of messages. After it nothing more is sent, since its
/// answer would not be awaited.
pub(crate) struct Batch<'p> {
    publisher: &'p Publisher,
    /// The number of messages so far.
    count: usize,
    /// Messages with a pending answer, with their positions.
    sent: VecDeque<(usize, Pending)>,
    failed: Vec<NotPushed>,
    /// How long to wait for the next answer or for room.
    wait_limit: Duration,
}

impl<'p> Batch<'p> {
    pub(crate) fn new(publisher: &'p Publisher) -> Self {
        let (sent, failed) = (VecDeque::new(), Vec::new());
        Self { publisher, count: 0, sent, failed, wait_limit: publisher.timeout }
    }

    /// Sends the next message once there is room for it.
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

    /// Sends a message, and returns its pending answer. `None` if the message is stored already.
    async fn send_if_it_fits(&mut self, message: Arc<Message>) -> Result<Option<Pending>> {
        if !self.publisher.size_limit.is_taken(message.payload.len()) {
            // It may be sent on another channel, and must not overtake earlier messages.
            while !self.sent.is_empty() {
                self.answer().await;
            }
        }
        if self.wait_limit.is_zero() {
            return Err(self.publisher.no_answer(&message, false));
        }
        match self.publisher.fits(&message).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => {
                if error.is_timeout() {
                    self.wait_limit = Duration::ZERO;
                }
                return Err(error);
            }
        }
        let message = match self.publisher.try_send(message) {
            Ok(pending) => return Ok(Some(pending)),
            Err(message) => message,
        };
        if let Ok(room) = timeout(self.wait_limit, self.publisher.room(&message)).await {
            return Ok(Some(self.publisher.send(message, room?)));
        }
        self.wait_limit = Duration::ZERO;
        Err(self.publisher.no_answer(&message, false))
    }

    /// Waits for the oldest answer.
    async fn answer(&mut self) {
        let Some((place, mut pending)) = self.sent.pop_front() else {
            return;
        };
        let answer = timeout(self.wait_limit, pending.answer()).await.unwrap_or_else(|_| {
            self.wait_limit = Duration::ZERO;
            Err(self.publisher.no_answer(&pending.message, !pending.take_back()))
        });
        if let Err(error) = answer {
            self.failed.push((place, error));
        }
    }

    /// Waits for the answers, and returns the messages that are not confirmed.
    pub(crate) async fn finish(mut self) -> Vec<NotPushed> {
        while !self.sent.is_empty() {
            self.answer().await;
        }
        self.failed.sort_unstable_by_key(|(place, _)| *place);
        self.failed
    }
}
