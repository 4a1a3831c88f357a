//! Publishing of messages, each confirmed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::channel_end::Refusal;
use super::confirm::{not_stored, send_alone, stored};
use super::error::{out_of_reach, too_large, unanswered};
use super::sender::{Pending, Request, Sender};
use super::size_limit::{Fit, SizeLimit};
use crate::background;
use crate::engine::closed;
use crate::error::{Error, Result};
use crate::rabbitmq::connection::patience::Patience;
use crate::rabbitmq::connection::supervised::{SupervisedConnection, backoff};
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::message::size::size_of_table;
use crate::rabbitmq::topology::memory::Declared;
use crate::repeated::{Line, Repeated};
use crate::telemetry::Who;

/// The most bytes of messages that are unsent or unconfirmed. It bounds the memory of clients whose
/// broker accepts nothing for want of memory or disk.
const MAX_IN_FLIGHT_BYTES: u32 = 64 * 1024 * 1024;
/// Memory of a message beside its content, rounded up.
const OVERHEAD: usize = 1_024;

/// How many messages of uncertain size are tried at a time, each on a channel of its own.
const TRYING: usize = 4;
/// How often an unmovable message is checked for whether it still has to be moved.
const UNMOVABLE: Duration = Duration::from_secs(10);

/// Publishes messages, each confirmed.
#[derive(Debug)]
pub(crate) struct Publisher {
    requests: mpsc::UnboundedSender<Request>,
    room: Arc<Semaphore>,
    link: SupervisedConnection,
    patience: Patience,
    pub(super) timeout: Duration,
    pub(super) size_limit: Arc<SizeLimit>,
    /// Limits concurrent tries of messages of uncertain size.
    trying: Semaphore,
}

impl Publisher {
    pub(crate) fn spawn(
        link: SupervisedConnection,
        patience: Patience,
        declared: Arc<Declared>,
        timeout: Duration,
    ) -> Arc<Self> {
        let (requests, received) = mpsc::unbounded_channel();
        let size_limit = Arc::<SizeLimit>::default();
        let (to, size) = ((link.clone(), patience.clone()), Arc::clone(&size_limit));
        background::spawn(Sender::new(to, declared, size, received).run());
        let (room, trying) =
            (Arc::new(Semaphore::new(MAX_IN_FLIGHT_BYTES as usize)), Semaphore::new(TRYING));
        Arc::new(Self { requests, room, link, patience, timeout, size_limit, trying })
    }

    /// Publishes a message. After the client's timeout the error says whether the message may be
    /// stored. If there is room it is queued at once, since a future that holds a message is large.
    pub(crate) fn publish(
        self: &Arc<Self>,
        message: Result<Message>,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let publisher = Arc::clone(self);
        let end = Instant::now() + self.timeout;
        let sent = message.map(|message| self.try_send(Arc::new(message)));
        async move {
            let mut pending = match sent? {
                Ok(pending) => pending,
                // Rare, and large.
                Err(message) => match Box::pin(publisher.send_in_time(message, end)).await? {
                    Some(pending) => pending,
                    None => return Ok(()),
                },
            };
            let answer = timeout_at(end, pending.answer()).await;
            answer.unwrap_or_else(|_| {
                Err(publisher.no_answer(&pending.message, !pending.take_back()))
            })
        }
    }

    /// Publishes the message of a job, and retries refusals and lost connections for as long as `wanted`
    /// returns true. When it is `given_up`, a message that was not sent yet is withdrawn, which is an
    /// error.
    pub(crate) async fn publish_surely(
        &self,
        message: Arc<Message>,
        who: &Who,
        wanted: impl Fn() -> bool,
        given_up: &CancellationToken,
    ) -> Result<()> {
        let mut waits = backoff();
        let (mut told, mut failed) = (false, Repeated::default());
        let Who { job, id, queue, attempt, .. } = who;
        loop {
            let error = match self.try_publish(&message, given_up).await {
                Err(error) if !error.is_closed() && wanted() && !given_up.is_cancelled() => error,
                result => return result,
            };
            if self.size_limit.exceeded_by(message.payload.len()).is_some() {
                if !std::mem::replace(&mut told, true) {
                    tracing::error!(
                        %job, %id, %queue, attempt, %error,
                        "could not move the job; it stays in place until the broker accepts it"
                    );
                }
                let changed = timeout(UNMOVABLE, self.size_limit.may_have_changed());
                let _ = given_up.run_until_cancelled(changed).await;
                continue;
            }
            if let Some(Line { more }) = failed.happens(Instant::now()) {
                tracing::warn!(
                    %job, %id, %queue, attempt, %error, more,
                    "could not move the job; it stays in place; retrying"
                );
            }
            let wait = tokio::time::sleep(waits.next().unwrap_or_default());
            given_up.run_until_cancelled(wait).await;
        }
    }

    /// Publishes a message without a timeout: while an alarm blocks the connection, a second try
    /// would only add another copy to those that wait for its end.
    async fn try_publish(
        &self,
        message: &Arc<Message>,
        given_up: &CancellationToken,
    ) -> Result<()> {
        let withdrawn = || self.no_answer(message, false);
        let sending = async {
            if !self.fits(message).await? {
                return Ok(None);
            }
            let room = self.room(message).await?;
            Ok(Some(self.send_surely(Arc::clone(message), room)))
        };
        let sent = given_up.run_until_cancelled(sending).await;
        let Some(mut pending) = sent.unwrap_or_else(|| Err(withdrawn()))? else {
            return Ok(());
        };
        if let Some(answer) = given_up.run_until_cancelled(pending.answer()).await {
            return answer;
        }
        // What was sent may be stored.
        if pending.take_back() { Err(withdrawn()) } else { pending.answer().await }
    }

    /// Whether the message is still to be sent with the others. False if it is stored already.
    pub(super) async fn fits(&self, message: &Arc<Message>) -> Result<bool> {
        match self.size_limit.fit(message.payload.len()) {
            Fit::Fits => Ok(true),
            Fit::TooLarge(limit) => Err(too_large(message, limit)),
            Fit::Try => self.try_alone(message).await.map(|is_stored| !is_stored),
        }
    }

    /// [`publish_alone`](Self::publish_alone), a few at a time: those that wait may learn the limit
    /// from the first. True if the message is stored.
    async fn try_alone(&self, message: &Arc<Message>) -> Result<bool> {
        let mut sent = false;
        let trying = async {
            let _turn = self.trying.acquire().await.map_err(|_| closed())?;
            if self.size_limit.is_taken(message.payload.len()) {
                return Ok(false);
            }
            let _room = self.room(message).await?;
            match self.publish_alone(message, &mut sent).await {
                // The publish with the others declares the exchange again.
                Err(error) if error.is_not_found() => Ok(false),
                published => published.map(|()| true),
            }
        };
        let tried = timeout(self.timeout, trying).await;
        tried.unwrap_or_else(|_| Err(self.no_answer(message, sent)))
    }

    /// Publishes a message that may exceed the size limit, on a channel of its own: a refusal ends
    /// the channel and all that is in flight on it.
    async fn publish_alone(&self, message: &Message, sent: &mut bool) -> Result<()> {
        let up = tokio::select! {
            biased;
            up = self.link.up() => up?,
            () = self.patience.ended() => {
                return Err(out_of_reach(message, &self.patience, &self.link.trouble()));
            }
        };
        *sent = true;
        match send_alone(&up, message, false).await? {
            Ok(confirmation) => {
                stored(message, &confirmation)?;
                self.size_limit.took(message.payload.len());
                Ok(())
            }
            Err(error) => {
                if let Some(Refusal::Size { limit }) = Refusal::of(&error) {
                    self.size_limit.learn(limit);
                }
                Err(not_stored(message, error))
            }
        }
    }

    /// Waits for room for a message.
    pub(super) async fn room(&self, message: &Message) -> Result<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).acquire_many_owned(size(message));
        room.await.map_err(|_| closed())
    }

    /// Queues a message for sending. It is sent even if the answer is dropped.
    pub(super) fn send(&self, message: Arc<Message>, room: OwnedSemaphorePermit) -> Pending {
        let (request, pending) = Request::new(message, room);
        self.request(request);
        pending
    }

    /// [`send`](Self::send), for a message that waits for as long as its caller does.
    fn send_surely(&self, message: Arc<Message>, room: OwnedSemaphorePermit) -> Pending {
        let (mut request, pending) = Request::new(message, room);
        request.is_patient = true;
        self.request(request);
        pending
    }

    fn request(&self, request: Request) {
        // Without a receiver the request is dropped, which reports the error.
        let _ = self.requests.send(request);
    }

    /// [`send`](Self::send), if there is room and the message is certainly small enough.
    pub(super) fn try_send(
        &self,
        message: Arc<Message>,
    ) -> std::result::Result<Pending, Arc<Message>> {
        if !self.size_limit.is_taken(message.payload.len()) {
            return Err(message);
        }
        match Arc::clone(&self.room).try_acquire_many_owned(size(&message)) {
            Ok(room) => Ok(self.send(message, room)),
            Err(_) => Err(message),
        }
    }

    /// [`send`](Self::send), once there is room. After the timeout the message is not sent, since
    /// its answer would not be awaited. `None` if it is stored already.
    async fn send_in_time(&self, message: Arc<Message>, end: Instant) -> Result<Option<Pending>> {
        if !self.fits(&message).await? {
            return Ok(None);
        }
        match timeout_at(end, self.room(&message)).await {
            Ok(room) if Instant::now() < end => Ok(Some(self.send(message, room?))),
            _ => Err(self.no_answer(&message, false)),
        }
    }

    /// Whether a message can be sent now.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    pub(super) fn no_answer(&self, message: &Message, sent: bool) -> Error {
        unanswered(message, self.timeout, &self.link.trouble(), sent)
    }
}

/// The bytes of room that a message takes, at most all of them.
fn size(message: &Message) -> u32 {
    let headers = message.properties.headers().as_ref().map_or(0, size_of_table);
    u32::try_from(OVERHEAD + headers + message.payload.len())
        .unwrap_or(MAX_IN_FLIGHT_BYTES)
        .min(MAX_IN_FLIGHT_BYTES)
}
