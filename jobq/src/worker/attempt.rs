//! One attempt of a job.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cancellation::{Cancellation, Cancelled};
use super::extensions::Extensions;
use super::state::{State, States};
use crate::client::Client;
use crate::engine::RunningJob;
use crate::job::{Envelope, JobId, Outcome};

/// One attempt of a job, for [layers](crate::WorkerPool::around) and for
/// [arguments](crate::FromAttempt). Cloning it is cheap.
#[derive(Clone)]
pub struct Attempt(Arc<Inner>);

struct Inner {
    resources: Arc<Resources>,
    envelope: Arc<Envelope>,
    job: &'static str,
    number: u32,
    max_attempts: u32,
    extensions: Extensions,
    started: OnceLock<Instant>,
    /// Created on demand: most functions do not use it.
    cancelled: OnceLock<Cancelled>,
    /// An operator cancels the job.
    is_cancel_ordered: AtomicBool,
    /// The function's own outcome, which layers may change.
    ended: OnceLock<Outcome>,
}

/// The client, the states and the shutdown of a pool, for the arguments of its functions.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) client: Client,
    pub(crate) states: States,
    /// Cancelled when the pool is shut down.
    pub(crate) shutdown: CancellationToken,
}

impl Attempt {
    /// An attempt with its number and the maximum number of attempts.
    pub(crate) fn new(
        resources: &Arc<Resources>,
        envelope: Arc<Envelope>,
        job: &'static str,
        (number, max_attempts): (u32, u32),
    ) -> Self {
        Self(Arc::new(Inner {
            resources: Arc::clone(resources),
            envelope,
            job,
            number,
            max_attempts,
            extensions: Extensions::default(),
            started: OnceLock::new(),
            cancelled: OnceLock::new(),
            is_cancel_ordered: AtomicBool::new(false),
            ended: OnceLock::new(),
        }))
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.envelope.id
    }

    /// The job's name.
    #[must_use]
    pub fn job(&self) -> &str {
        self.0.job
    }

    /// The queue of the job, without a namespace.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.envelope.queue
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// The maximum number of attempts, by the policy of this worker. The number of the attempt may
    /// exceed it if the policy was changed.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.0.max_attempts
    }

    /// When the job was enqueued, by the clock of the enqueuing client, to the second or better.
    #[must_use]
    pub fn enqueued_at(&self) -> SystemTime {
        self.0.envelope.enqueued_at
    }

    /// The current time of the [clock](crate::Clock) of the client, which tests can move.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.client().clock().now()
    }

    /// When the first attempt was due: the time of enqueueing plus the delay.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.0.envelope.due()
    }

    /// The value of a header, if the job has it: see [`Enqueue::header`](crate::Enqueue::header).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.envelope.headers.get(name)
    }

    /// The topic of the event, if the job was made from one.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.0.envelope.topic.as_deref()
    }

    /// The client that the pool was built on.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.resources.client
    }

    /// The [state](crate::WorkerPool::state) of this type, if the pool has one.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.0.resources.states.get()
    }

    /// The values that layers pass to inner layers and to arguments. Empty when the attempt begins.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.0.extensions
    }

    /// Why the attempt was asked to end; `None` if it was not.
    #[must_use]
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.0.cancelled.get().and_then(Cancelled::why)
    }

    /// Whether the attempt was asked to end: its timeout has passed, its pool is shutting down and
    /// the shutdown timeout is over, or an operator cancels the job. Its outcome is ignored, but for
    /// a success within five seconds of an operator's cancelling.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_some()
    }

    /// Cancelled when the pool is shut down.
    pub(super) fn shutdown(&self) -> &CancellationToken {
        &self.0.resources.shutdown
    }

    pub(super) fn envelope(&self) -> &Arc<Envelope> {
        &self.0.envelope
    }

    /// Records the start of the function.
    pub(super) fn start(&self) {
        let _ = self.0.started.set(Instant::now());
    }

    /// Records the function's own outcome.
    pub(super) fn function_ended(&self, outcome: &Outcome) {
        let _ = self.0.ended.set(outcome.clone());
    }

    /// The function's own outcome, if there are layers around it.
    pub(super) fn function_outcome(&self) -> Option<&Outcome> {
        self.0.ended.get()
    }

    /// When the function started.
    pub(super) fn started(&self) -> Option<Instant> {
        self.0.started.get().copied()
    }

    /// How long the function has run.
    pub(super) fn took(&self) -> Duration {
        self.0.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// The request to the attempt to end.
    pub(super) fn cancelled(&self) -> &Cancelled {
        self.0.cancelled.get_or_init(Cancelled::default)
    }

    /// The attempt in a report, with the timeout of its job.
    pub(super) fn report(&self, timeout: Option<Duration>) -> RunningJob {
        let mut running = RunningJob::new(self.id(), self.job(), self.number(), self.took());
        running.timeout = timeout;
        running
    }

    /// An operator has cancelled the attempt.
    pub(super) fn order_cancel(&self) {
        self.0.is_cancel_ordered.store(true, Ordering::Release);
    }

    /// Whether an operator has cancelled the attempt.
    pub(super) fn is_cancel_ordered(&self) -> bool {
        self.0.is_cancel_ordered.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("job", &self.0.envelope)
            .field("number", &self.0.number)
            .finish_non_exhaustive()
    }
}
