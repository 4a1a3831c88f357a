//! What waits for the writer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

use super::Failure;
use super::feed::Feed;
use super::settle::Settling;
use super::store::Store;
use crate::engine::closed;
use crate::error::Result;

/// One thing for the writer to do.
pub(super) enum Command {
    /// An operation on the store, done within a transaction.
    Call(Box<dyn Call>),
    /// The end of a delivery, recorded within a transaction.
    Settle(Settling),
    /// A consumer to feed from now on.
    Start(Feed),
    /// How much that feed may have in hand.
    Prefetch(u64, u16),
    /// A consumer to feed no more.
    Stop(u64, Option<oneshot::Sender<()>>),
    /// The end.
    Close(Option<oneshot::Sender<()>>),
}

/// An operation whose caller waits for the commit.
pub(super) trait Call: Send {
    /// Does it, and keeps what came of it.
    fn run(&mut self, store: &mut Store<'_>) -> rusqlite::Result<()>;

    /// Tells the caller, after the commit or what came instead of it.
    fn answer(self: Box<Self>, failure: Option<&Failure>);
}

struct Request<F, T> {
    work: F,
    found: Option<T>,
    answer: oneshot::Sender<Result<T, Failure>>,
}

impl<F, T> Call for Request<F, T>
where
    F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn run(&mut self, store: &mut Store<'_>) -> rusqlite::Result<()> {
        self.found = Some((self.work)(store)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failure: Option<&Failure>) {
        let answer = match (failure, self.found) {
            (None, Some(found)) => Ok(found),
            (Some(failure), _) => Err(failure.clone()),
            (None, None) => Err(Failure::Lost),
        };
        // A caller that gave up does not matter: what it asked for is done.
        let _ = self.answer.send(answer);
    }
}

/// The way to the writer.
#[derive(Clone)]
pub(super) struct Inbox(Arc<Shared>);

struct Shared {
    commands: Sender<Command>,
    /// The number of the engine's lease; no number is 0.
    owner: AtomicI64,
    feeds: AtomicU64,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("owner", &self.0.owner).finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn new() -> (Self, Receiver<Command>) {
        let (commands, receiver) = channel();
        let (owner, feeds) = (AtomicI64::new(0), AtomicU64::new(0));
        (Self(Arc::new(Shared { commands, owner, feeds })), receiver)
    }

    /// Sends a command; an error where the engine was closed.
    pub(super) fn send(&self, command: Command) -> Result<()> {
        self.0.commands.send(command).map_err(|_| closed())
    }

    /// Has an operation done, and tells what came of it when it is committed. It is begun when
    /// this is called, whether or not anybody waits for it.
    pub(super) fn call<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let answer = self.try_call(work);
        async move { answer.await.map_err(|failure| failure.error()) }
    }

    /// [`call`](Self::call), for those who need the failure more than once.
    pub(super) fn try_call<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let request = Request { work, found: None, answer };
        let sent = self.send(Command::Call(Box::new(request)));
        async move {
            sent.map_err(|_| Failure::Closed)?;
            answered.await.unwrap_or(Err(Failure::Lost))
        }
    }

    /// A number for a new feed.
    pub(super) fn feed_number(&self) -> u64 {
        self.0.feeds.fetch_add(1, Ordering::Relaxed)
    }

    /// The number under which jobs are in hand now; deliveries of another are stale.
    pub(super) fn owner(&self) -> i64 {
        self.0.owner.load(Ordering::Acquire)
    }

    pub(super) fn set_owner(&self, owner: Option<i64>) {
        self.0.owner.store(owner.unwrap_or(0), Ordering::Release);
    }
}
