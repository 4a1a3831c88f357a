//! The seam between jobq and what stores the jobs.
//!
//! An engine records what it is told and decides nothing: which jobs run, whether and
//! when a failed attempt is repeated, what is failed for good, is all decided above
//! it. The conformance suite in the module `testing` (feature `testing`) states
//! what is expected of each method and runs against every engine.
//!
//! **Unstable.** The trait is public so that its suite can be, and may change in any
//! version.

mod administer;
mod certificates;
mod consumer;
mod delivery;
mod detached;
mod diagnose;
mod options;
mod queue;
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
mod refusal;

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;

pub use administer::{Administer, Counts, Which};
pub use certificates::{Certificates, ClientCertificate, ManagementUrl};
pub use consumer::{Consume, Consumer, Intake, Interruption};
pub use delivery::{Delivery, Receipt, Settle, Settlement, Solo};
pub(crate) use detached::Detached;
pub use diagnose::{About, Diagnose, Hold};
pub use options::EngineOptions;
pub use queue::{QueueName, QueueSpec};
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use refusal::{must_be_unused, nobody_subscribes};

use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, EventEnvelope, MAX_PAYLOAD};

/// A store of queues with jobs in them.
///
/// What moves jobs is here. That an engine gives [`Administer`] or [`Diagnose`] is the capability;
/// what is no trait of its own is among its [`Capabilities`].
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Makes queues ready for pushing and consuming. A queue that exists is left as it
    /// is, with its jobs; waits and patterns that it does not have yet are added.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) where something of that name exists
    /// that is no such queue; an engine that cannot be reached or refuses.
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()>;

    /// Makes ready what jobs wait in whose wait no queue's [`waits`](QueueSpec::waits) name, where
    /// an engine needs that.
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    async fn declare_delays(&self) -> Result<()> {
        Ok(())
    }

    /// Stores a job in its queue, which must have been declared. It is durable when the
    /// [`Pushing`] gives `Ok`. That may begin when this is called, and does not end where the
    /// answer is not waited for.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses. The error of a job that may be stored all
    /// the same says so ([`Error::maybe_enqueued`]).
    fn push(&self, job: Envelope) -> Pushing;

    /// Stores jobs as [`push`](Self::push) does, in their order and much faster than one after
    /// the other, and tells which of them got an error: by their place, in ascending order. All
    /// others are durable.
    ///
    /// The iterator is asked for a job when there is room for it, and to its end in any case, so
    /// that jobs without number need not be in memory at once.
    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed>;

    /// Stores an event: each queue that subscribes to its topic gets a job, durable when
    /// this returns `Ok`. Where the event has a delay, these are the queues that subscribe
    /// when it is over. Not called where the engine has no [events](Capabilities::events).
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) where the event is `mandatory` and no
    /// queue subscribes to its topic; as [`push`](Self::push).
    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()>;

    /// Starts to take jobs from a declared queue, oldest due job first. Where the engine loses
    /// its connection, it comes back by itself, and the consumer goes on.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) where the queue does not exist; an
    /// engine that cannot be reached or refuses.
    async fn consume(&self, what: Consume) -> Result<Consumer>;

    /// What it can do beside the traits that it gives.
    fn capabilities(&self) -> Capabilities;

    /// Its administration, if it has one.
    fn administer(&self) -> Option<&dyn Administer> {
        None
    }

    /// What it knows of its store's health, if anything.
    fn diagnose(&self) -> Option<&dyn Diagnose> {
        None
    }

    /// Ends the engine: consumers end, jobs in hand are handed back, calls fail with
    /// [`Closed`](crate::ErrorKind::Closed).
    async fn close(&self);
}

/// The answer to a [`push`](Engine::push). It knows the engine by itself, so that who waits for
/// it need not keep anything else.
pub type Pushing = Pin<Box<dyn Future<Output = Result<Pushed>> + Send>>;

/// A job that is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {}

impl Pushed {
    /// A job that is stored as it was pushed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// A job of [`Engine::push_all`] that is not certainly stored: its place among the others, and why.
pub type NotPushed = (usize, Error);

/// What an engine can do that is no trait of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether it can have a job run alone: it takes [`Settlement::Isolate`], and
    /// [consumes](Engine::consume) such jobs.
    pub solo: bool,
    /// Whether it has events and subscriptions.
    pub events: bool,
    /// The most bytes of a payload.
    pub largest_payload: usize,
}

impl Capabilities {
    /// Neither solo runs nor events, and payloads of at most [`MAX_PAYLOAD`].
    #[must_use]
    pub fn new() -> Self {
        Self { solo: false, events: false, largest_payload: MAX_PAYLOAD }
    }

    /// With solo runs.
    #[must_use]
    pub fn solo(mut self) -> Self {
        self.solo = true;
        self
    }

    /// With events.
    #[must_use]
    pub fn events(mut self) -> Self {
        self.events = true;
        self
    }

    /// With payloads of at most so many bytes.
    #[must_use]
    pub fn largest_payload(mut self, bytes: usize) -> Self {
        self.largest_payload = bytes;
        self
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Self::new()
    }
}

/// The administration of an engine.
///
/// # Errors
///
/// An engine without one.
pub(crate) fn administration(engine: &dyn Engine) -> Result<&dyn Administer> {
    engine.administer().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "this engine has no administration: no counts, failed jobs and subscriptions to look \
             at; use one that gives `Administer`",
        )
    })
}

/// Refuses events where an engine has none.
pub(crate) fn check_events(engine: &dyn Engine) -> Result<()> {
    if engine.capabilities().events {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this engine has no events; enqueue a job for each subscriber, or use another engine",
    ))
}

/// The error of every call after [`Engine::close`].
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the client is closed; keep it open for as long as it is used")
}
