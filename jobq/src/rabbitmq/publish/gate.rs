//! The channel on which is published, for as long as there is one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::open::Open;
use super::publication::{Publication, Request};
use crate::rabbitmq::connection::link::Link;
use crate::rabbitmq::message::properties::Message;

/// Where messages are sent, or told to wait.
pub(super) struct Gate {
    link: Link,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<Arc<Open>>,
    /// How many messages were handed over and not sent: who comes after them waits too.
    unsent: usize,
}

impl Gate {
    pub(super) fn new(link: Link) -> Self {
        Self { link, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, open: Arc<Open>) {
        self.state().open = Some(open);
    }

    /// Nothing is sent on this channel any more when this returns.
    pub(super) fn close(&self) {
        self.state().open = None;
    }

    /// Sends a message, or else hands it over to be sent.
    pub(super) fn pass(
        &self,
        requests: &mpsc::UnboundedSender<Request>,
        message: Arc<Message>,
        room: OwnedSemaphorePermit,
    ) -> Arc<Publication> {
        let publication = Publication::new(room);
        let mut state = self.state();
        let may_pass = state.unsent == 0 && !self.link.is_blocked();
        let open = state.open.as_ref().filter(|open| may_pass && open.is_alive());
        if let Some((open, place)) =
            open.and_then(|open| Some((open, open.place(&publication, &message)?)))
        {
            publication.send(open, place, message);
            return publication;
        }
        state.unsent += 1;
        drop(state);
        publication.keep(message);
        // If nobody receives, the request is dropped, which says so.
        let _ = requests.send(Request(Arc::clone(&publication)));
        publication
    }

    /// Sends a message that was handed over, unless it was taken back. False where there is no
    /// place for it.
    pub(super) fn send(&self, open: &Arc<Open>, request: &Request) -> bool {
        let mut state = self.state();
        let Request(publication) = request;
        let Some(message) = publication.unsent() else {
            state.unsent -= 1;
            return true;
        };
        let Some(place) = open.place(publication, &message) else {
            return false;
        };
        state.unsent -= 1;
        match publication.take() {
            Some(message) => publication.send(open, place, message),
            None => open.answered(place, None),
        }
        true
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}
