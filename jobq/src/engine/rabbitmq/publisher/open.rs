//! A channel that is published on, and what the broker has not confirmed of it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use lapin::options::BasicPublishOptions;
use lapin::{Channel, PublisherConfirm};
use slab::Slab;
use tokio_util::sync::ReusableBoxFuture;

use super::publication::{Answer, Publication};
use crate::engine::rabbitmq::cork::Cork;
use crate::engine::rabbitmq::wire::Message;

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
}

/// What was sent on a channel and not answered yet.
#[derive(Default)]
pub(super) struct Unconfirmed {
    publications: Slab<Arc<Publication>>,
    pub(super) ended: Option<Ended>,
    /// What the task waits for.
    awaited: Option<(Waker, Condition)>,
}

/// What is so or not of a channel.
type Condition = fn(&Unconfirmed) -> bool;

impl Unconfirmed {
    fn has_place(&self) -> bool {
        self.publications.len() < WINDOW
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn has_place_or_ended(&self) -> bool {
        self.has_place() || self.has_ended()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.publications.is_empty()
    }
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
    pub(super) fn new(channel: Channel, cork: Cork, spare: Spare) -> Self {
        Self { channel, cork, unconfirmed: Mutex::default(), spare }
    }

    pub(super) fn unconfirmed(&self) -> MutexGuard<'_, Unconfirmed> {
        self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message that is sent now may reach the broker.
    pub(super) fn is_alive(&self) -> bool {
        self.channel.status().connected()
    }

    /// The place of this one in the window, if there is room for it.
    pub(super) fn place(&self, publication: &Arc<Publication>) -> Option<usize> {
        let mut unconfirmed = self.unconfirmed();
        let is_free = unconfirmed.has_place() && !unconfirmed.has_ended();
        is_free.then(|| unconfirmed.publications.insert(Arc::clone(publication)))
    }

    /// The write of this message.
    pub(super) fn write(self: &Arc<Self>, message: Message) -> Write {
        let spare = self.spare.writes().pop();
        let Some(mut write) = spare else {
            return ReusableBoxFuture::new(write(Arc::clone(self), message));
        };
        write.set(self::write(Arc::clone(self), message));
        write
    }

    /// Keeps the memory of a write that has ended.
    pub(super) fn keep(&self, write: Write) {
        self.spare.writes().push(write);
    }

    /// The one with this place is answered; the answer may say that the channel has ended.
    pub(super) fn answered(&self, place: usize, ended: Option<Ended>) {
        let mut unconfirmed = self.unconfirmed();
        let answered = unconfirmed.publications.try_remove(place);
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
        let publications = std::mem::take(&mut unconfirmed.publications);
        drop(unconfirmed);
        publications.into_iter().for_each(|(_, publication)| publication.end(Answer::Lost));
    }
}

async fn write(open: Arc<Open>, message: Message) -> lapin::Result<PublisherConfirm> {
    let Message { exchange, key, properties, payload } = message;
    let options = BasicPublishOptions::default();
    open.channel.basic_publish(exchange, key, options, &payload, properties).await
}
