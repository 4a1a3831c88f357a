//! Publishing, each message confirmed, by all callers on one channel.
//!
//! A caller publishes by itself as long as there is a channel with a place in its window: the
//! frames of a message are queued when its publish is first polled, and a change of thread
//! before that would only tear apart what could be sent together. What cannot be sent yet is
//! handed over to one [`task`]. What was sent is gone on with by the thread of the connection
//! when it has written it, and when it has read the answer: a change of thread for that
//! would have it send what comes next in smaller pieces, and nothing rests on a caller who stops
//! to listen.
//!
//! What is on its way has a room of limited size, so that a broker which takes nothing,
//! for want of memory, of disk or of itself, costs its clients no memory without end: who
//! finds no room waits for it.

mod batch;
mod destination;
mod gate;
mod open;
mod publication;
mod task;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use self::batch::Batch;
pub(crate) use self::destination::Destination;
use self::gate::Gate;
use self::publication::{Pending, Request};
pub(crate) use self::task::open_confirming;
use super::declared::Declared;
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
#[derive(Debug)]
pub(crate) struct Publisher {
    gate: Arc<Gate>,
    requests: mpsc::UnboundedSender<Request>,
    room: Arc<Semaphore>,
    link: Link,
    timeout: Duration,
}

impl Publisher {
    pub(crate) fn spawn(link: Link, declared: Arc<Declared>, timeout: Duration) -> Arc<Self> {
        let (requests, received) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate::new(link.clone()));
        background::spawn(task::run(link.clone(), declared, Arc::clone(&gate), received));
        let room = Arc::new(Semaphore::new(ROOM as usize));
        Arc::new(Self { gate, requests, room, link, timeout })
    }

    /// Publishes a message, or says after the client's timeout what became of it. It is sent
    /// when this is called, if it can be: a future that holds a message is large.
    pub(crate) fn publish(
        self: &Arc<Self>,
        message: Result<Message>,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let publisher = Arc::clone(self);
        let end = Instant::now() + self.timeout;
        let sent = message.map(|message| self.try_send(message));
        async move {
            let mut pending = match sent? {
                Ok(pending) => pending,
                // Rare, and large.
                Err(message) => Box::pin(publisher.send_in_time(message, end)).await?,
            };
            match timeout_at(end, &mut pending).await {
                Ok(answer) => pending.told(answer),
                Err(_) => Err(publisher.no_answer(&pending.destination, !pending.take_back())),
            }
        }
    }

    /// For publishing many messages.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch::new(self)
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
            let mut pending = self.send(copy, room);
            let answer = (&mut pending).await;
            let error = match pending.told(answer) {
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
        Pending::new(destination, self.gate.pass(&self.requests, message, room))
    }

    /// [`send`](Self::send), if there is room.
    fn try_send(&self, message: Message) -> std::result::Result<Pending, Box<Message>> {
        match Arc::clone(&self.room).try_acquire_many_owned(size(&message)) {
            Ok(room) => Ok(self.send(message, room)),
            Err(_) => Err(Box::new(message)),
        }
    }

    /// [`send`](Self::send), as soon as there is room. It is not sent where time is up, since
    /// the answer would not be waited for.
    async fn send_in_time(&self, message: Box<Message>, end: Instant) -> Result<Pending> {
        match timeout_at(end, self.room(size(&message))).await {
            Ok(room) if Instant::now() < end => Ok(self.send(*message, room?)),
            _ => Err(self.no_answer(&Destination::of(&message), false)),
        }
    }

    fn no_answer(&self, destination: &Destination, sent: bool) -> Error {
        destination.unanswered(self.timeout, &self.link.trouble(), sent)
    }
}

/// The bytes for which a message is on its way. One that is larger than all the room takes
/// it all.
fn size(message: &Message) -> u32 {
    let headers = message.properties.headers().as_ref().map_or(0, size_of_table);
    u32::try_from(OVERHEAD + headers + message.payload.len()).unwrap_or(ROOM).min(ROOM)
}
