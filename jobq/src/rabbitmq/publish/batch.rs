//! Many messages, each sent before the ones before it are confirmed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::destination::Destination;
use super::open::WINDOW;
use super::publication::{Again, Pending};
use super::publisher::{Publisher, size};
use crate::engine::NotPushed;
use crate::error::{Error, Result};
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

    /// The answer that is to be awaited, if it is not there already.
    async fn send_if_it_fits(&mut self, message: Arc<Message>) -> Result<Option<Pending>> {
        if !self.publisher.largest.is_taken(message.payload.len()) {
            // It may go another way, and is not to overtake those before it.
            while !self.sent.is_empty() {
                self.answer().await;
            }
        }
        match self.publisher.fits(&message).await? {
            Some(message) => self.send_in_time(message).await.map(Some),
            None => Ok(None),
        }
    }

    async fn send_in_time(&mut self, message: Arc<Message>) -> Result<Pending> {
        let publisher = self.publisher;
        if self.patience.is_zero() {
            return Err(publisher.no_answer(&Destination::of(&message), false));
        }
        let message = match publisher.try_send(message) {
            Ok(pending) => return Ok(pending),
            Err(message) => message,
        };
        match timeout(self.patience, publisher.room(size(&message))).await {
            Ok(room) => Ok(publisher.send(message, room?)),
            Err(_) => Err(self.no_progress(&Destination::of(&message), false)),
        }
    }

    /// Waits for the oldest answer. Messages that the broker has not looked at are sent again
    /// in their order, before any other.
    async fn answer(&mut self) {
        let mut again = Vec::new();
        self.answer_oldest(&mut again).await;
        if again.is_empty() {
            return;
        }
        while !self.sent.is_empty() {
            self.answer_oldest(&mut again).await;
        }
        for (place, again) in again {
            match self.send_in_time(Arc::clone(&again.message)).await {
                Ok(pending) => self.sent.push_back((place, pending.after(&again))),
                Err(error) => self.failed.push((place, error)),
            }
        }
    }

    async fn answer_oldest(&mut self, again: &mut Vec<(usize, Again)>) {
        let Some((place, mut pending)) = self.sent.pop_front() else {
            return;
        };
        let told = match timeout(self.patience, &mut pending).await {
            Ok(answer) => pending.told(answer),
            Err(_) => Ok(Err(self.no_progress(&pending.destination, !pending.take_back()))),
        };
        match told {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.failed.push((place, error)),
            Err(unseen) => again.push((place, unseen)),
        }
    }

    fn no_progress(&mut self, destination: &Destination, sent: bool) -> Error {
        self.patience = Duration::ZERO;
        self.publisher.no_answer(destination, sent)
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
