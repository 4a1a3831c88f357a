//! One attempt, as layers, the arguments of its function and whoever waits for its end see it.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::extensions::Extensions;
use super::state::{State, States};
use crate::client::Client;
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
    /// Made when somebody asks for it: most functions do not.
    cancelled: OnceLock<CancellationToken>,
    /// How the function ended, where layers may say otherwise.
    ended: OnceLock<Outcome>,
}

/// The client and the states of a pool, for the arguments of its functions.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) client: Client,
    pub(crate) states: States,
}

impl Attempt {
    /// The attempt of this number of a job, of so many at most.
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

    /// The queue that the job came from, as its user named it.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.envelope.queue
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// How many attempts the job has in all, by the policy of this worker. The attempt may be a
    /// later one, after the policy was changed.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.0.max_attempts
    }

    /// When the job was enqueued, by the clock of the client that did, in whole seconds at least.
    #[must_use]
    pub fn enqueued_at(&self) -> SystemTime {
        self.0.envelope.enqueued_at
    }

    /// When the first attempt was due: when the job was enqueued, and its delay after that.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.0.envelope.due()
    }

    /// The value of a header, if the job has it: see [`Enqueue::header`](crate::Enqueue::header).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.envelope.headers.get(name)
    }

    /// The topic of the event that the job was made from, if it was.
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

    /// The values that layers leave for the layers inside them and for arguments. There are none
    /// when the attempt begins.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.0.extensions
    }

    /// Whether the attempt is cancelled: its timeout has passed, or its pool is shutting down and
    /// the shutdown timeout is over. Its outcome does not count any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.get().is_some_and(CancellationToken::is_cancelled)
    }

    pub(super) fn envelope(&self) -> &Arc<Envelope> {
        &self.0.envelope
    }

    /// Its function starts now.
    pub(super) fn start(&self) {
        let _ = self.0.started.set(Instant::now());
    }

    /// The function itself has ended.
    pub(super) fn function_ended(&self, outcome: &Outcome) {
        let _ = self.0.ended.set(outcome.clone());
    }

    /// How the function itself ended, where there are layers around it.
    pub(super) fn function_outcome(&self) -> Option<&Outcome> {
        self.0.ended.get()
    }

    /// How long it has run.
    pub(super) fn took(&self) -> Duration {
        self.0.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Cancelled when its outcome does not count any more.
    pub(super) fn cancelled(&self) -> &CancellationToken {
        self.0.cancelled.get_or_init(CancellationToken::new)
    }

    /// Returns when it has run for this long.
    pub(super) async fn timed_out(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return pending().await };
        let mut from = Instant::now();
        loop {
            let Some(end) = from.checked_add(limit) else { return pending().await };
            sleep_until(end).await;
            // The function may have waited for a thread before it started.
            from = match self.0.started.get() {
                Some(started) if *started <= from => return,
                Some(started) => *started,
                None => Instant::now(),
            };
        }
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
