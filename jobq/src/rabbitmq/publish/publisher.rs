//! Publishing messages, each confirmed.

use std::sync::Arc;
use std::time::Duration;

use lapin::Confirmation;
use lapin::options::BasicPublishOptions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};

use super::destination::Destination;
use super::gate::Gate;
use super::largest::{Fit, Largest};
use super::offence::Offence;
use super::publication::{Pending, Request};
use super::task::{self, open_confirming};
use crate::background;
use crate::engine::closed;
use crate::error::{Error, Result};
use crate::rabbitmq::connection::link::{Link, backoff};
use crate::rabbitmq::errors::refused;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::message::size::size_of_table;
use crate::rabbitmq::topology::declared::Declared;
use crate::rabbitmq::topology::route::Route;

/// How many bytes of messages may be on their way: not sent yet, or not confirmed.
const ROOM: u32 = 64 * 1024 * 1024;
/// What a message takes beside its content, well counted.
const OVERHEAD: usize = 1_024;

/// How many messages are tried at a time, each on a channel of its own.
const TRYING: usize = 4;
/// How often it is looked whether a message that cannot be moved is still to be.
const UNMOVABLE: Duration = Duration::from_secs(10);

/// Publishes messages, each confirmed.
#[derive(Debug)]
pub(crate) struct Publisher {
    gate: Arc<Gate>,
    requests: mpsc::UnboundedSender<Request>,
    room: Arc<Semaphore>,
    link: Link,
    pub(super) timeout: Duration,
    pub(super) largest: Arc<Largest>,
    /// Those who publish alone.
    trying: Semaphore,
}

impl Publisher {
    pub(crate) fn spawn(link: Link, declared: Arc<Declared>, timeout: Duration) -> Arc<Self> {
        let (requests, received) = mpsc::unbounded_channel();
        let (gate, largest) = (Arc::new(Gate::new(link.clone())), Arc::<Largest>::default());
        let (of_task, learned) = (Arc::clone(&gate), Arc::clone(&largest));
        background::spawn(task::run(link.clone(), declared, of_task, learned, received));
        let room = Arc::new(Semaphore::new(ROOM as usize));
        let trying = Semaphore::new(TRYING);
        Arc::new(Self { gate, requests, room, link, timeout, largest, trying })
    }

    /// Publishes a message, or says after the client's timeout what became of it. It is sent
    /// when this is called, if it can be: a future that holds a message is large.
    pub(crate) fn publish(
        self: &Arc<Self>,
        message: Result<Message>,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let publisher = Arc::clone(self);
        let end = Instant::now() + self.timeout;
        let sent = message.map(Arc::new).map(|message| {
            let is_taken = self.largest.is_taken(message.payload.len());
            if is_taken { self.try_send(message) } else { Err(message) }
        });
        async move {
            let mut pending = match sent? {
                Ok(pending) => pending,
                // Rare, and large.
                Err(message) => match Box::pin(publisher.send_in_time(message, end)).await? {
                    Some(pending) => pending,
                    None => return Ok(()),
                },
            };
            loop {
                let Ok(answer) = timeout_at(end, &mut pending).await else {
                    let sent = !pending.take_back();
                    return Err(publisher.no_answer(&pending.destination, sent));
                };
                let again = match pending.told(answer) {
                    Ok(result) => return result,
                    Err(again) => again,
                };
                let message = Arc::clone(&again.message);
                match Box::pin(publisher.send_in_time(message, end)).await? {
                    Some(next) => pending = next.after(&again),
                    None => return Ok(()),
                }
            }
        }
    }

    /// Publishes a message in any case: where the broker refuses it or the connection is
    /// lost, again and again, for as long as `wanted` says.
    pub(crate) async fn publish_surely(
        &self,
        message: Arc<Message>,
        wanted: impl Fn() -> bool,
    ) -> Result<()> {
        let mut waits = backoff();
        let mut told = false;
        loop {
            let error = match self.try_publish(&message).await {
                Err(error) if !error.is_closed() && wanted() => error,
                result => return result,
            };
            if self.largest.is_refused(message.payload.len()) {
                if !std::mem::replace(&mut told, true) {
                    tracing::error!(%error, "a job cannot be moved; it stays where it is until the broker takes it");
                }
                let _ = timeout(UNMOVABLE, self.largest.may_have_changed()).await;
                continue;
            }
            tracing::warn!(%error, "a job could not be moved; it stays where it is until it can");
            tokio::time::sleep(waits.next().unwrap_or_default()).await;
        }
    }

    /// Publishes a message, without a limit: while an alarm blocks the connection, another try
    /// would only add a copy to those that wait for its end.
    async fn try_publish(&self, message: &Arc<Message>) -> Result<()> {
        let mut was_missing = None;
        let mut message = Arc::clone(message);
        loop {
            let Some(fitting) = self.fits(&message).await? else {
                return Ok(());
            };
            let room = self.room(size(&fitting)).await?;
            let mut pending = self.send(fitting, room);
            if let Some(again) = &was_missing {
                pending = pending.after(again);
            }
            let answer = (&mut pending).await;
            match pending.told(answer) {
                Ok(result) => return result,
                Err(again) => {
                    message = Arc::clone(&again.message);
                    was_missing = Some(again);
                }
            }
        }
    }

    /// The message, if the broker takes one of its size as far as is known. `None` where it has
    /// been stored already.
    pub(super) async fn fits(&self, message: &Arc<Message>) -> Result<Option<Arc<Message>>> {
        let size = message.payload.len();
        match self.largest.fit(size) {
            Fit::Fits => Ok(Some(Arc::clone(message))),
            Fit::TooLarge(limit) => Err(Destination::of(message).too_large(size, limit)),
            Fit::Try => self.try_alone(message).await,
        }
    }

    /// [`publish_alone`](Self::publish_alone), a few at a time: those that wait may know more
    /// afterwards.
    async fn try_alone(&self, message: &Arc<Message>) -> Result<Option<Arc<Message>>> {
        let mut sent = false;
        let trying = async {
            let _turn = self.trying.acquire().await.map_err(|_| closed())?;
            if self.largest.is_taken(message.payload.len()) {
                return Ok(Some(Arc::clone(message)));
            }
            let _room = self.room(size(message)).await?;
            match self.publish_alone(message, &mut sent).await {
                // It is declared again for who publishes to it with the others.
                Err(error) if error.is_not_found() => Ok(Some(Arc::clone(message))),
                published => published.map(|()| None),
            }
        };
        let tried = timeout(self.timeout, trying).await;
        tried.unwrap_or_else(|_| Err(self.no_answer(&Destination::of(message), sent)))
    }

    /// Publishes a message on a channel of its own, for one that the broker may refuse: it
    /// ends the channel then, and with it whatever else is on its way there.
    async fn publish_alone(&self, message: &Message, sent: &mut bool) -> Result<()> {
        let destination = Destination::of(message);
        let channel = open_confirming(&*self.link.up().await?).await?;
        let Message { route, properties, payload } = message;
        let (Route { exchange, key }, properties) = ((**route).clone(), properties.clone());
        let options = BasicPublishOptions::default();
        *sent = true;
        let published = channel.basic_publish(exchange, key, options, payload, properties).await;
        let answer = match published {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        };
        let result = match answer {
            Ok(Confirmation::Ack(_)) => {
                self.largest.took(payload.len());
                Ok(())
            }
            Ok(Confirmation::Nack(_)) => Err(destination.refused()),
            Ok(Confirmation::NotRequested) => Err(destination.unconfirmed()),
            // Nothing else is on the channel.
            Err(error) if error.is_amqp_soft_error() => {
                let offence = refused(&error).and_then(|(code, text)| Offence::read(code, text));
                if let Some(Offence::Size { limit }) = offence {
                    self.largest.learn(limit);
                }
                Err(destination.offended(error, payload.len()))
            }
            Err(error) => Err(destination.lost().because(error)),
        };
        let _ = channel.close(200, "published".into()).await;
        result
    }

    /// So much room, as soon as there is.
    pub(super) async fn room(&self, size: u32) -> Result<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).acquire_many_owned(size);
        room.await.map_err(|_| closed())
    }

    /// Sends a message, or hands it over to be sent; even if the answer is not asked for.
    pub(super) fn send(&self, message: Arc<Message>, room: OwnedSemaphorePermit) -> Pending {
        let destination = Destination::of(&message);
        Pending::new(destination, self.gate.pass(&self.requests, message, room))
    }

    /// [`send`](Self::send), if there is room.
    pub(super) fn try_send(
        &self,
        message: Arc<Message>,
    ) -> std::result::Result<Pending, Arc<Message>> {
        match Arc::clone(&self.room).try_acquire_many_owned(size(&message)) {
            Ok(room) => Ok(self.send(message, room)),
            Err(_) => Err(message),
        }
    }

    /// [`send`](Self::send), as soon as there is room. It is not sent where time is up, since
    /// the answer would not be waited for. `None` where it has been stored already.
    async fn send_in_time(&self, message: Arc<Message>, end: Instant) -> Result<Option<Pending>> {
        let Some(message) = self.fits(&message).await? else {
            return Ok(None);
        };
        match timeout_at(end, self.room(size(&message))).await {
            Ok(room) if Instant::now() < end => Ok(Some(self.send(message, room?))),
            _ => Err(self.no_answer(&Destination::of(&message), false)),
        }
    }

    pub(super) fn no_answer(&self, destination: &Destination, sent: bool) -> Error {
        destination.unanswered(self.timeout, &self.link.trouble(), sent)
    }
}

/// The bytes for which a message is on its way. One that is larger than all the room takes
/// it all.
pub(super) fn size(message: &Message) -> u32 {
    let headers = message.properties.headers().as_ref().map_or(0, size_of_table);
    u32::try_from(OVERHEAD + headers + message.payload.len()).unwrap_or(ROOM).min(ROOM)
}
