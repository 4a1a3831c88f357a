//! The interface between jobq and a store of jobs.
//!
//! An engine records and decides nothing: the layer above decides which jobs run, whether and when
//! a failed attempt is retried, and when a job has failed for good. The conformance suite in the
//! module `testing` (feature `testing`) specifies each method and runs against every engine.
//!
//! **Unstable.** The trait is public only because its suite is, and may change in any version.

mod administer;
#[cfg(any(feature = "sqlite", feature = "testing"))]
mod asked;
mod certificates;
#[cfg(feature = "rabbitmq")]
mod clock_offset;
#[cfg(feature = "testing")]
pub mod conformance;
mod consumer;
mod control;
mod delivery;
mod detached;
mod diagnose;
mod durations;
mod extent;
mod figure;
mod migrated;
mod moving;
mod options;
mod part;
mod queue;
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
mod refusal;
mod relay_report;
mod report;
mod seat;
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
mod visiting;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;

pub use administer::{Administer, Counts, QueueNames, Verdict, Visit, Visited};
#[cfg(any(feature = "sqlite", feature = "testing"))]
pub(crate) use asked::{ListedConsumer, ask_each, unaccounted};
pub use certificates::{Certificates, ClientCertificate, ManagementUrl, Pem};
#[cfg(feature = "rabbitmq")]
pub(crate) use clock_offset::clock_offset_ms;
pub use consumer::{Consume, Consumer, Intake, Interruption};
pub use control::{
    Answers, Ask, Cancel, Controlled, Membership, Pause, PoolId, Question, Reply, Watched,
    WatchedOutcome,
};
pub use delivery::{Delivery, Receipt, Settle, Settlement, Solo};
pub(crate) use detached::Detached;
pub use diagnose::{About, Diagnose, Hold};
pub(crate) use durations::fractional_millis;
pub use durations::{Durations, Percentiles};
pub use extent::Extent;
pub use figure::Figure;
pub use migrated::Migrated;
pub use moving::{Admission, Admit, Depart, Departing, Disposition, Next, Scope};
pub use options::EngineOptions;
pub use part::{Part, Place};
pub use queue::{QueueName, QueueSpec};
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) use refusal::{must_be_unused, nobody_subscribes};
pub use relay_report::{PoolRelay, RelayActivity};
pub use report::{Activity, LastMinute, Passage, PoolQueue, PoolReport, RunningJob};
pub use seat::{MAX_CHANGE, MAX_CHANGES, MAX_LIST, Seat, SeatValue, Seats};
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) use seat::{check_change, check_list, check_waiting, not_held};
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) use visiting::Visiting;
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use visiting::run_to_end;

use crate::clock::Clock;
pub use crate::credentials::CredentialsSource;
use crate::error::{Error, ErrorKind, Result};
pub use crate::job::{Envelope, EventEnvelope};
use crate::job::{MAX_PAYLOAD, Priority};

/// A store of queues with jobs in them.
///
/// This trait moves jobs. An engine may also return an [`Administer`] and a [`Diagnose`]; its other
/// features are in its [`Capabilities`].
#[async_trait]
pub trait Engine: Any + fmt::Debug + Send + Sync {
    /// Declares queues for pushing and consuming. An existing queue keeps its jobs; missing waits
    /// and patterns are added.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) if something else of that name exists; an engine
    /// that cannot be reached or refuses.
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()>;

    /// Declares storage for jobs with other waits than the [`waits`](QueueSpec::waits) of their
    /// queue, up to this wait, if the engine needs it. A wait beyond the engine's limit means that
    /// limit. Does nothing by default.
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    async fn declare_delays(&self, _longest: Duration) -> Result<()> {
        Ok(())
    }

    /// Returns when the engine can store jobs, as far as it knows: it is connected, and its store takes
    /// messages. At once by default.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached within its timeout, or that takes no messages.
    async fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// Whether jobs of this priority can be pushed into a queue: somebody has declared it, with priorities
    /// if the job has one. By default it is looked for in the [parts](Administer::parts) of the queue, and
    /// `true` without an administration.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached.
    async fn has_queue(&self, queue: &str, priority: Priority) -> Result<bool> {
        let Some(administer) = self.administer() else { return Ok(true) };
        let lane = Place::of_due(priority);
        Ok(administer.parts(queue).await?.iter().any(|part| part.place == lane))
    }

    /// Stores a job in its queue, which must have been declared. It is durable when the [`Pushing`]
    /// returns `Ok`. The push may begin at the call, and goes on if the future is dropped.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses. If the job may be stored nevertheless,
    /// [`Error::maybe_enqueued`] is `true`.
    fn push(&self, job: Envelope) -> Pushing;

    /// Stores jobs as [`push`](Self::push) does, in their order and much faster than one after the
    /// other, and returns the errors with the positions of their jobs, in ascending order. All
    /// other jobs are durable.
    ///
    /// The iterator is polled for a job when there is room for it, and always to its end, so that
    /// any number of jobs needs little memory.
    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed>;

    /// Stores an event: each queue that subscribes to its topic gets a job, durable when this
    /// returns `Ok`. If the event has a delay, these are the queues that subscribe at its end. Not
    /// called if the engine has no [events](Capabilities::events).
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if the event is `mandatory` and no queue subscribes
    /// to its topic; otherwise as [`push`](Self::push).
    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()>;

    /// Starts a consumer of a declared queue, oldest due job first. An engine that loses its
    /// connection reconnects by itself, and the consumer goes on.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if the queue does not exist; an engine that cannot
    /// be reached or refuses.
    async fn consume(&self, what: Consume) -> Result<Consumer>;

    /// The features beyond the traits that it returns.
    fn capabilities(&self) -> Capabilities;

    /// The name of its messaging system in traces, as OpenTelemetry's conventions have it. Defaults
    /// to `jobq`.
    fn system(&self) -> &'static str {
        "jobq"
    }

    /// The clock by which its clients enqueue and its pools run jobs. Defaults to the system's.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// The administration, if the engine has one.
    fn administer(&self) -> Option<&dyn Administer> {
        None
    }

    /// The diagnosis of its store, if the engine has one.
    fn diagnose(&self) -> Option<&dyn Diagnose> {
        None
    }

    /// The seats of its queues, if the engine has them.
    fn seats(&self) -> Option<&dyn Seats> {
        None
    }

    /// Takes what other engines have stored, if the engine can.
    fn admit(&self) -> Option<&dyn Admit> {
        None
    }

    /// Hands its jobs to other engines, if the engine can.
    fn depart(&self) -> Option<&dyn Depart> {
        None
    }

    /// Closes the engine: consumers and seats end, jobs in flight are released, calls fail with
    /// [`Closed`](crate::ErrorKind::Closed).
    async fn close(&self);
}

/// The future of a [`push`](Engine::push). It does not borrow from the engine.
pub type Pushing = Pin<Box<dyn Future<Output = Result<Pushed>> + Send>>;

/// The result of a successful push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {}

impl Pushed {
    /// A job stored as it was pushed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// A job of [`Engine::push_all`] that is not certainly stored: its position among the jobs and the
/// error.
pub type NotPushed = (usize, Error);

/// The features of an engine that have no trait of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether it supports solo runs: it accepts [`Settlement::Isolate`], and
    /// [consumes](Engine::consume) such jobs.
    pub solo: bool,
    /// Whether it supports events and subscriptions.
    pub events: bool,
    /// The size limit of a payload, in bytes.
    pub largest_payload: usize,
}

impl Capabilities {
    /// Neither solo runs nor events, and payloads of at most [`MAX_PAYLOAD`].
    #[must_use]
    pub fn new() -> Self {
        Self { solo: false, events: false, largest_payload: MAX_PAYLOAD }
    }

    /// Adds solo runs.
    #[must_use]
    pub fn solo(mut self) -> Self {
        self.solo = true;
        self
    }

    /// Adds events.
    #[must_use]
    pub fn events(mut self) -> Self {
        self.events = true;
        self
    }

    /// Sets the size limit of a payload, in bytes.
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
            "this engine does not support administration, such as counts, failed jobs and \
             subscriptions; use an engine that provides `Administer`",
        )
    })
}

/// Returns an error if an engine has no events.
pub(crate) fn check_events(engine: &dyn Engine) -> Result<()> {
    if engine.capabilities().events {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this engine does not support events; enqueue a job for each subscriber, or use another \
         engine",
    ))
}

/// The error of every call after [`Engine::close`].
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the client is closed; keep it open for as long as it is in use")
}
