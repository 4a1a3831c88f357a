//! Publishing, each message confirmed, by all callers on one channel.
//!
//! A caller publishes by itself as long as there is a channel with a place in its window: the
//! frames of a message are queued when its publish is first polled, and a change of thread
//! before that would only tear apart what could be sent together. What is sent is handed
//! over to one [`task`], so that nothing rests on a caller who stops to listen, and so
//! is what cannot be sent yet.
//!
//! What is on its way has a room of limited size, so that a broker which takes nothing,
//! for want of memory, of disk or of itself, costs its clients no memory without end: who
//! finds no room waits for it.

mod destination;
mod gate;
mod request;
mod task;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

pub(crate) use self::destination::Destination;
use self::gate::{Gate, WINDOW};
use self::request::{Pending, Reply, Request};
pub(crate) use self::task::open_confirming;
use super::declare::Declared;
use super::link::{Link, backoff};
use super::size::size_of_table;
use super::wire::Message;
use crate::background;
use crate::engine::closed;
use crate::error::{Error, ErrorKind, Result};

/// How many bytes of messages may be on their way: not sent yet, or not confirmed.
const ROOM: u32 = 64 * 1024 * 1024;
/// What a message takes beside its content, well counted.
const OVERHEAD: usize = 1_024;

/// Publishes messages, each confirmed.
#[derive(Debug, Clone)]
pub(crate) struct Publisher {
    gate: Arc<Gate>,
    requests: mpsc::UnboundedSender<Request>,
    room: Arc<Semaphore>,
    link: Link,
    timeout: Duration,
}

impl Publisher {
    pub(crate) fn spawn(link: Link, declared: Arc<Declared>, timeout: Duration) -> Self {
        let (requests, received) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate::new(link.clone()));
        background::spawn(task::run(link.clone(), declared, Arc::clone(&gate), received));
        Self { gate, requests, room: Arc::new(Semaphore::new(ROOM as usize)), link, timeout }
    }

    /// Publishes a message, or says after the client's timeout what became of it. It is sent
    /// when this is called, if it can be: a future that holds a message is large.
    pub(crate) fn publish(
        &self,
        message: Result<Message>,
    ) -> impl Future<Output = Result<()>> + Send {
        let mut patience = Patience::new(self.timeout);
        let sent = message.map(|message| self.try_send(message, &patience));
        async move {
            let pending = match sent? {
                Ok(pending) => pending,
                Err(message) => self.send_in_time(message, &mut patience).await?,
            };
            self.answer_by(patience.end, pending).await
        }
    }

    /// Publishes messages, and answers in their order. The time without progress counts,
    /// however many they are. No more of them are made than may be unconfirmed.
    pub(crate) async fn publish_all(
        &self,
        messages: impl IntoIterator<Item = Result<Message>, IntoIter: Send>,
    ) -> Vec<Result<()>> {
        let mut patience = Patience::new(self.timeout);
        let messages = messages.into_iter();
        let count = messages.size_hint().0;
        let mut sent = VecDeque::with_capacity(count.min(WINDOW));
        let mut answers = Vec::with_capacity(count);
        for message in messages {
            if sent.len() == WINDOW
                && let Some(first) = sent.pop_front()
            {
                answers.push(self.answer_in_time(first, &mut patience).await);
            }
            sent.push_back(match message.map(|message| self.try_send(message, &patience)) {
                Ok(Ok(pending)) => Ok(pending),
                Ok(Err(message)) => self.send_in_time(message, &mut patience).await,
                Err(error) => Err(error),
            });
        }
        for pending in sent {
            answers.push(self.answer_in_time(pending, &mut patience).await);
        }
        answers
    }

    /// Publishes a message in any case: where the broker refuses it or the connection is
    /// lost, again and again, for as long as `wanted` says.
    pub(crate) async fn publish_surely(
        &self,
        message: Arc<Message>,
        wanted: impl Fn() -> bool,
    ) -> Result<()> {
        let mut waits = backoff();
        loop {
            // Without a limit: while an alarm blocks the connection, another try would
            // only add a copy to those that wait for its end.
            let room = self.room(size(&message)).await?;
            let copy = Message::clone(&message);
            let error = match self.send(copy, room).answer().await {
                Err(error) if error.kind() != ErrorKind::Closed && wanted() => error,
                result => return result,
            };
            tracing::warn!(%error, "a job could not be moved; it stays where it is until it can");
            tokio::time::sleep(waits.next().unwrap_or_default()).await;
        }
    }

    /// So much room, as soon as there is.
    async fn room(&self, size: u32) -> Result<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).acquire_many_owned(size);
        room.await.map_err(|_| closed())
    }

    /// Sends a message, or hands it over to be sent; even if the answer is not asked for.
    fn send(&self, message: Message, room: OwnedSemaphorePermit) -> Pending {
        let destination = Destination::of(&message);
        let (reply, answer) = Reply::new(room);
        let ticket = self.gate.pass(&self.requests, message, reply);
        Pending { destination, ticket, answer }
    }

    /// [`send`](Self::send), if there is time and room.
    fn try_send(
        &self,
        message: Message,
        patience: &Patience,
    ) -> std::result::Result<Pending, Box<Message>> {
        let room = || Arc::clone(&self.room).try_acquire_many_owned(size(&message));
        match (!patience.is_over).then(room) {
            Some(Ok(room)) => Ok(self.send(message, room)),
            _ => Err(Box::new(message)),
        }
    }

    /// [`send`](Self::send), as soon as there is room. It is not sent where time is up, since
    /// the answer would not be waited for.
    async fn send_in_time(
        &self,
        message: Box<Message>,
        patience: &mut Patience,
    ) -> Result<Pending> {
        match timeout_at(patience.end, self.room(size(&message))).await {
            Ok(room) if patience.renew() => Ok(self.send(*message, room?)),
            _ => Err(self.no_answer(&Destination::of(&message), false)),
        }
    }

    async fn answer_in_time(&self, sent: Result<Pending>, patience: &mut Patience) -> Result<()> {
        let answer = self.answer_by(patience.end, sent?).await;
        patience.renew();
        answer
    }

    async fn answer_by(&self, end: Instant, mut pending: Pending) -> Result<()> {
        match timeout_at(end, &mut pending.answer).await {
            Ok(answer) => pending.told(answer.ok()),
            Err(_) => Err(self.no_answer(&pending.destination, !pending.take_back())),
        }
    }

    fn no_answer(&self, destination: &Destination, sent: bool) -> Error {
        destination.unanswered(self.timeout, &self.link.trouble(), sent)
    }
}

/// How long there may be no progress.
struct Patience {
    limit: Duration,
    end: Instant,
    is_over: bool,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, end: Instant::now() + limit, is_over: false }
    }

    /// There was progress, unless it comes too late: then it is none, and false.
    fn renew(&mut self) -> bool {
        let now = Instant::now();
        self.is_over |= now >= self.end;
        if !self.is_over {
            self.end = now + self.limit;
        }
        !self.is_over
    }
}

/// The bytes for which a message is on its way. One that is larger than all the room takes
/// it all.
fn size(message: &Message) -> u32 {
    let headers = message.properties.headers().as_ref().map_or(0, size_of_table);
    u32::try_from(OVERHEAD + headers + message.payload.len()).unwrap_or(ROOM).min(ROOM)
}
