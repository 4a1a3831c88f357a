//! Commands for the writer.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::TryFutureExt as _;
use tokio::sync::oneshot;

use super::failure::Failure;
use super::feeds::Feeds;
use super::store::{Need, Store};
use crate::engine::closed;
use crate::error::Result;
use crate::job::{FailedReason, JobId};
use crate::suspension::SuspensionWatch;
use crate::telemetry::Who;

/// The pause between two tries to read the lease.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// A command for the writer.
pub(super) enum Command {
    /// An operation on the store, run in a transaction.
    Call(Box<dyn Call>),
    /// A settlement, recorded in a transaction.
    Settle(Settling),
    /// A change of the consumers, made at once.
    Change(Box<dyn FnOnce(&mut Feeds) + Send>),
    /// Closes the engine.
    Close(Option<oneshot::Sender<()>>),
}

/// An operation whose caller waits for the commit.
pub(super) trait Call: Send {
    /// What the operation needs of the file.
    fn need(&self) -> Need;

    /// Runs the operation, and keeps its result.
    fn run(&mut self, store: &mut Store<'_>) -> rusqlite::Result<()>;

    /// Answers the caller, after the commit or a failure.
    fn answer(self: Box<Self>, failure: Option<&Failure>);
}

/// The identity of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// The row of the job.
    pub(super) seq: i64,
    /// The job. If it was deleted in the meantime, a later one may have its row.
    pub(super) id: JobId,
    /// The owner of the delivery. A job with another owner is left alone.
    pub(super) owner: i64,
    /// The feed that delivered it.
    pub(super) feed: u64,
}

/// The change of a settlement.
#[derive(Debug)]
pub(super) enum Act {
    Complete,
    Release,
    /// Delivers the job again, with no crashes counted, after a wait that began at `since`.
    Again {
        wait: Duration,
        since: Instant,
        attempts: i64,
    },
    /// Marks the job for a solo run.
    Isolate,
    /// Adds to the number of solo starts.
    Start {
        starts: i64,
    },
    Fail {
        reason: FailedReason,
        error: String,
        attempts: u32,
        /// The name of the job, which its row may lack.
        name: Option<Cow<'static, str>>,
    },
}

/// A settlement to be written.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) claim: Claim,
    pub(super) act: Act,
    /// The waiting caller, if any.
    pub(super) answer: Option<oneshot::Sender<Result<()>>>,
    /// Whether the owner still held the job when it was written.
    pub(super) held: bool,
    /// The completed job that its owner did not hold any more, if it is still in the file.
    pub(super) lost: Option<Who>,
}

impl Settling {
    pub(super) fn new(claim: Claim, act: Act) -> Self {
        Self { claim, act, answer: None, held: true, lost: None }
    }
}

struct Request<F, T> {
    work: F,
    need: Need,
    found: Option<T>,
    answer: oneshot::Sender<Result<T, Failure>>,
}

impl<F, T> Call for Request<F, T>
where
    F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn need(&self) -> Need {
        self.need
    }

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
        // The operation is done even if the caller gave up.
        let _ = self.answer.send(answer);
    }
}

/// The handle of the writer.
#[derive(Clone)]
pub(super) struct Inbox(Arc<Shared>);

struct Shared {
    commands: Sender<Command>,
    /// The number of the engine's lease; 0 without one.
    owner: AtomicI64,
    /// Suspensions in which the lease may have run out; none before the first consumer.
    suspensions: OnceLock<Arc<SuspensionWatch>>,
    numbers: AtomicU64,
    /// Whether enqueueing and taking jobs migrates the file.
    migrates: bool,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("owner", &self.0.owner).finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn new(migrates: bool) -> (Self, Receiver<Command>) {
        let (commands, receiver) = channel();
        let (owner, numbers) = (AtomicI64::new(0), AtomicU64::new(0));
        let suspensions = OnceLock::new();
        let shared = Shared { commands, owner, suspensions, numbers, migrates };
        (Self(Arc::new(shared)), receiver)
    }

    /// Sends a command; an error if the engine was closed.
    pub(super) fn send(&self, command: Command) -> Result<()> {
        self.0.commands.send(command).map_err(|_| closed())
    }

    /// Changes the consumers; an error if the engine was closed.
    pub(super) fn change(&self, change: impl FnOnce(&mut Feeds) + Send + 'static) -> Result<()> {
        self.send(Command::Change(Box::new(change)))
    }

    /// Runs an operation, and returns its result when it is committed. It is sent at once, even if
    /// the future is not polled.
    pub(super) fn call<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.try_call(work).map_err(|failure| failure.error())
    }

    /// [`call`](Self::call) for an operation that changes nothing in the file: it waits for no other
    /// process that writes, and none waits for it, unless this engine takes jobs.
    pub(super) fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.request(work, Need::Look).map_err(|failure| failure.error())
    }

    /// [`call`](Self::call) for an operation of a program that enqueues or takes jobs: the file gets
    /// the newest schema before, unless this client keeps the schema.
    pub(super) fn run<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.try_run(work).map_err(|failure| failure.error())
    }

    /// [`run`](Self::run), for callers that need the failure more than once.
    pub(super) fn try_run<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.request(work, if self.0.migrates { Need::Newest } else { Need::Change })
    }

    /// [`call`](Self::call), for callers that need the failure more than once.
    pub(super) fn try_call<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.request(work, Need::Change)
    }

    fn request<T, F>(
        &self,
        work: F,
        need: Need,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        F: FnMut(&mut Store<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let request = Request { work, need, found: None, answer };
        let sent = self.send(Command::Call(Box::new(request)));
        async move {
            sent.map_err(|_| Failure::Closed)?;
            answered.await.unwrap_or(Err(Failure::Lost))
        }
    }

    /// A number for a new feed.
    pub(super) fn number(&self) -> u64 {
        self.0.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The current owner number of this engine; deliveries of another are stale.
    pub(super) fn owner(&self) -> i64 {
        self.0.owner.load(Ordering::Acquire)
    }

    /// Watches for suspensions in which a lease of this length may run out.
    pub(super) fn watch_suspensions(&self, lease: Duration) {
        self.0.suspensions.get_or_init(|| SuspensionWatch::start(lease / 2));
    }

    /// Whether the lease may have run out during a suspension, and was not read since.
    pub(super) fn is_uncertain(&self) -> bool {
        self.0.suspensions.get().is_some_and(|suspensions| suspensions.is_unanswered())
    }

    /// Has the lease read, until that was done after the last suspension, or the engine is closed.
    pub(super) async fn verify(self) {
        while self.is_uncertain() {
            let Some(suspensions) = self.0.suspensions.get() else { return };
            let asked = suspensions.count();
            match self.try_call(|_| Ok(())).await {
                Ok(()) => suspensions.answer(asked),
                Err(failure) if failure.is_final() => return,
                Err(_) => tokio::time::sleep(BETWEEN_ATTEMPTS).await,
            }
        }
    }

    pub(super) fn set_owner(&self, owner: Option<i64>) {
        self.0.owner.store(owner.unwrap_or(0), Ordering::Release);
    }
}
