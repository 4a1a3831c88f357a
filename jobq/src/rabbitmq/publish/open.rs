//! A channel that is published on, and what the broker has not confirmed of it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use lapin::options::BasicPublishOptions;
use lapin::{Channel, PublisherConfirm};
use slab::Slab;
use tokio_util::sync::ReusableBoxFuture;

use super::largest::Largest;
use super::offence::Offence;
use super::publication::{Answer, Publication};
use crate::rabbitmq::errors::refused;
use crate::rabbitmq::lapin::cork::Cork;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::topology::route::Route;

/// How many publishes may be unconfirmed: a confirm of many walks them all. More are hardly
/// faster (measured: docs/performance.md).
pub(super) const WINDOW: usize = 1_000;

/// Why a channel is not published on any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nobody can ask for anything any more.
    Done,
    Lost,
    /// As lost, because an exchange is missing.
    Missing,
}

/// A channel in confirm mode.
pub(super) struct Open {
    channel: Channel,
    pub(super) cork: Cork,
    unconfirmed: Mutex<Unconfirmed>,
    spare: Spare,
    largest: Arc<Largest>,
}

/// A message that was sent on a channel.
struct Sent {
    publication: Arc<Publication>,
    message: Arc<Message>,
    /// The broker looks at them in the order of their numbers.
    number: u64,
}

/// What was sent on a channel and not answered yet.
#[derive(Default)]
pub(super) struct Unconfirmed {
    sent: Slab<Sent>,
    /// How many were ever sent on it.
    count: u64,
    /// The number of the one for which the broker has closed the channel, once it has.
    offender: Option<u64>,
    pub(super) ended: Option<Ended>,
    /// What the task waits for.
    awaited: Option<(Waker, Condition)>,
}

/// What is so or not of a channel.
type Condition = fn(&Unconfirmed) -> bool;

impl Unconfirmed {
    fn has_place(&self) -> bool {
        self.sent.len() < WINDOW
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn has_place_or_ended(&self) -> bool {
        self.has_place() || self.has_ended()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
}

/// What became of a message on a channel that has ended.
pub(super) enum Fate {
    /// The broker has closed the channel for it: it is certainly not stored.
    Offender(Arc<Message>),
    /// The broker has never looked at it.
    Unseen(Arc<Message>),
    /// It may be stored.
    Unknown,
}

/// A message's way to the socket. It is large, some 1.5 KB, and over long before the broker has
/// answered.
pub(super) type Write = ReusableBoxFuture<'static, lapin::Result<PublisherConfirm>>;

/// The memory of writes that ended, for those to come.
#[derive(Clone, Default)]
pub(super) struct Spare(Arc<Mutex<Vec<Write>>>);

impl Spare {
    fn writes(&self) -> MutexGuard<'_, Vec<Write>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    pub(super) fn new(channel: Channel, cork: Cork, spare: Spare, largest: Arc<Largest>) -> Self {
        Self { channel, cork, unconfirmed: Mutex::default(), spare, largest }
    }

    pub(super) fn unconfirmed(&self) -> MutexGuard<'_, Unconfirmed> {
        self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message that is sent now may reach the broker.
    pub(super) fn is_alive(&self) -> bool {
        self.channel.status().connected()
    }

    /// The place of this one in the window, if there is room for it.
    pub(super) fn place(
        &self,
        publication: &Arc<Publication>,
        message: &Arc<Message>,
    ) -> Option<usize> {
        let mut unconfirmed = self.unconfirmed();
        if !unconfirmed.has_place() || unconfirmed.has_ended() {
            return None;
        }
        let number = unconfirmed.count;
        unconfirmed.count += 1;
        let (publication, message) = (Arc::clone(publication), Arc::clone(message));
        Some(unconfirmed.sent.insert(Sent { publication, message, number }))
    }

    /// What became of the one with this place, for which `lapin` has given this error. The
    /// broker does not say for which one it has closed the channel: it is the first that can
    /// be.
    pub(super) fn fate(&self, place: usize, error: &lapin::Error) -> Fate {
        let mut unconfirmed = self.unconfirmed();
        if let Some((code, text)) = refused(error)
            && unconfirmed.offender.is_none()
            && let Some(offence) = Offence::read(code, text)
        {
            let sent = unconfirmed.sent.iter().map(|(_, sent)| sent);
            let offenders = sent.filter(|sent| offence.is_of(&sent.message));
            unconfirmed.offender = offenders.map(|sent| sent.number).min();
            if let Offence::Size { limit } = offence {
                self.largest.learn(limit);
            }
        }
        let Some(sent) = unconfirmed.sent.get(place) else {
            return Fate::Unknown;
        };
        let message = || Arc::clone(&sent.message);
        match unconfirmed.offender {
            // It was not even sent.
            _ if matches!(error.kind(), lapin::ErrorKind::InvalidChannelState(..)) => {
                Fate::Unseen(message())
            }
            Some(offender) if sent.number == offender => Fate::Offender(message()),
            Some(offender) if sent.number > offender => Fate::Unseen(message()),
            _ => Fate::Unknown,
        }
    }

    /// The write of this message.
    pub(super) fn write(self: &Arc<Self>, message: Arc<Message>) -> Write {
        let spare = self.spare.writes().pop();
        let Some(mut write) = spare else {
            return ReusableBoxFuture::new(write(Arc::clone(self), message));
        };
        write.set(super::open::write(Arc::clone(self), message));
        write
    }

    /// Keeps the memory of a write that has ended.
    pub(super) fn keep(&self, write: Write) {
        self.spare.writes().push(write);
    }

    /// The one with this place is answered; the answer may say that the channel has ended.
    pub(super) fn answered(&self, place: usize, ended: Option<Ended>) {
        let mut unconfirmed = self.unconfirmed();
        let answered = unconfirmed.sent.try_remove(place);
        if unconfirmed.ended != Some(Ended::Missing) {
            unconfirmed.ended = ended.or(unconfirmed.ended);
        }
        let awaited = unconfirmed.awaited.take();
        match awaited {
            Some((task, is_so)) if is_so(&unconfirmed) => {
                drop(unconfirmed);
                self.cork.wake(task);
            }
            awaited => {
                unconfirmed.awaited = awaited;
                drop(unconfirmed);
            }
        }
        drop(answered);
    }

    /// Returns when this is so; for one at a time.
    pub(super) async fn until(&self, is_so: Condition) {
        poll_fn(|cx| {
            let mut unconfirmed = self.unconfirmed();
            if is_so(&unconfirmed) {
                return Poll::Ready(());
            }
            unconfirmed.awaited = Some((cx.waker().clone(), is_so));
            Poll::Pending
        })
        .await;
    }

    /// Tells all who still wait for an answer that there is none.
    pub(super) fn give_up(&self) {
        let mut unconfirmed = self.unconfirmed();
        let sent = std::mem::take(&mut unconfirmed.sent);
        drop(unconfirmed);
        sent.into_iter().for_each(|(_, sent)| sent.publication.end(Answer::Lost));
    }
}

async fn write(open: Arc<Open>, message: Arc<Message>) -> lapin::Result<PublisherConfirm> {
    let Message { route, properties, payload } = &*message;
    let (Route { exchange, key }, properties) = ((**route).clone(), properties.clone());
    let options = BasicPublishOptions::default();
    open.channel.basic_publish(exchange, key, options, payload, properties).await
}
