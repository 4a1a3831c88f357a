use std::fmt;
use std::time::{Duration, SystemTime};

use super::awaitable::awaitable;
use super::payload::Payload;
use super::times::{Start, Times};
use super::{Client, JobKind};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, Job, JobId};
use crate::retry;

impl Times {
    /// A job on its way, starting from now.
    fn envelope(self, kind: &JobKind, id: JobId, payload: Vec<u8>) -> Envelope {
        let moments = self.moments(kind.options.expires);
        Envelope {
            id,
            queue: kind.queue.into(),
            name: Some(kind.name.into()),
            payload,
            enqueued_at: moments.now,
            delay: moments.delay,
            retry_wait: Some(retry::first_wait(&kind.options)),
            expires_at: moments.expires_at,
            topic: None,
        }
    }
}

macro_rules! time_options {
    () => {
        /// Starts the first attempt not before this wait has passed. The last of `delay`
        /// and `at` counts. Defaults to no wait. On RabbitMQ a wait of more than 3,650
        /// days is an [invalid](crate::ErrorKind::Invalid) argument.
        pub fn delay(mut self, delay: Duration) -> Self {
            self.times.start = Start::In(delay);
            self
        }

        /// Starts the first attempt not before this time, by the clock of this process; a
        /// time that has passed is now. The last of `delay` and `at` counts. On RabbitMQ,
        /// no further away than [`delay`](Self::delay) may be.
        pub fn at(mut self, time: SystemTime) -> Self {
            self.times.start = Start::At(time);
            self
        }

        /// Starts no attempt later than this long after the first one is due, in place of
        /// the job's `expires`: the job is then failed as
        /// [`Expired`](crate::FailedReason::Expired). Defaults to the job's `expires`.
        pub fn expires_in(mut self, limit: Duration) -> Self {
            self.times.expires_in = Some(limit);
            self
        }
    };
}

/// A job to be enqueued, made by [`Client::enqueue`]. Await it.
#[derive(Debug)]
#[must_use = "a job is enqueued only when this is awaited"]
pub struct Enqueue {
    client: Client,
    kind: JobKind,
    payload: Payload,
    id: Option<JobId>,
    times: Times,
}

impl Enqueue {
    pub(super) fn new<J: Job>(client: Client, job: &J) -> Self {
        Self {
            client,
            kind: JobKind::of::<J>(),
            payload: Payload::of_job(job),
            id: None,
            times: Times::default(),
        }
    }

    time_options!();

    /// The job's id, in place of a new one. Enqueueing one id twice gives two jobs.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    async fn enqueue(self) -> Result<JobId> {
        let id = self.id.unwrap_or_else(JobId::new);
        let envelope = self.times.envelope(&self.kind, id, self.payload.0?);
        self.client.declare_kind(&self.kind).await?;
        let mut answers = self.client.engine().push(vec![envelope]).await;
        answers.pop().unwrap_or_else(|| Err(no_answer()))?;
        Ok(id)
    }
}

/// Many jobs to be enqueued, made by [`Client::enqueue_all`]. Await it.
#[derive(Debug)]
#[must_use = "the jobs are enqueued only when this is awaited"]
pub struct EnqueueAll {
    client: Client,
    kind: JobKind,
    payloads: Vec<Payload>,
    times: Times,
}

impl EnqueueAll {
    pub(super) fn new<J: Job>(client: Client, jobs: impl IntoIterator<Item = J>) -> Self {
        Self {
            client,
            kind: JobKind::of::<J>(),
            payloads: jobs.into_iter().map(|job| Payload::of_job(&job)).collect(),
            times: Times::default(),
        }
    }

    time_options!();

    async fn enqueue(self) -> Result<Vec<JobId>, EnqueueAllError> {
        let mut report = EnqueueAllError::default();
        let mut sent = Vec::with_capacity(self.payloads.len());
        let mut envelopes = Vec::with_capacity(self.payloads.len());
        for (index, payload) in self.payloads.into_iter().enumerate() {
            let id = JobId::new();
            match payload.0 {
                Ok(payload) => {
                    sent.push((index, id));
                    envelopes.push(self.times.envelope(&self.kind, id, payload));
                }
                Err(error) => report.refused.push((index, error)),
            }
        }
        let answers = match self.client.declare_kind(&self.kind).await {
            Ok(()) => self.client.engine().push(envelopes).await,
            Err(error) => vec![Err(error); envelopes.len()],
        };
        let mut answers = answers.into_iter();
        for (index, id) in sent {
            match answers.next().unwrap_or_else(|| Err(no_answer())) {
                Ok(()) => report.accepted.push((index, id)),
                Err(error) if error.maybe_enqueued() => report.unknown.push((index, error)),
                Err(error) => report.refused.push((index, error)),
            }
        }
        if report.refused.is_empty() && report.unknown.is_empty() {
            return Ok(report.accepted.into_iter().map(|(_, id)| id).collect());
        }
        report.refused.sort_by_key(|(index, _)| *index);
        Err(report)
    }
}

/// An engine that broke the contract of its `push`.
fn no_answer() -> Error {
    Error::new(ErrorKind::Refused, "the engine gave no answer for this job").but_maybe_enqueued()
}

/// What became of the jobs of an [`enqueue_all`](Client::enqueue_all) that did not
/// accept all of them. An index is the job's place among those given.
#[derive(Debug, Clone, Default)]
pub struct EnqueueAllError {
    accepted: Vec<(usize, JobId)>,
    refused: Vec<(usize, Error)>,
    unknown: Vec<(usize, Error)>,
}

impl EnqueueAllError {
    /// The jobs that are in the queue.
    #[must_use]
    pub fn accepted(&self) -> &[(usize, JobId)] {
        &self.accepted
    }

    /// The jobs that are certainly not in the queue. They can be enqueued again.
    #[must_use]
    pub fn refused(&self) -> &[(usize, Error)] {
        &self.refused
    }

    /// The jobs that may be in the queue: no answer came. Enqueueing them again may
    /// give two jobs of each.
    #[must_use]
    pub fn unknown(&self) -> &[(usize, Error)] {
        &self.unknown
    }
}

impl fmt::Display for EnqueueAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accepted, refused, unknown) =
            (self.accepted.len(), self.refused.len(), self.unknown.len());
        let total = accepted + refused + unknown;
        write!(
            f,
            "of {total} jobs {accepted} were enqueued, {refused} refused, {unknown} unknown"
        )?;
        match self.refused.first().or(self.unknown.first()) {
            Some((index, error)) => write!(f, "; the first, number {index}: {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EnqueueAllError {}

impl From<EnqueueAllError> for Error {
    fn from(error: EnqueueAllError) -> Self {
        let first = error.refused.first().or(error.unknown.first());
        let kind = first.map_or(ErrorKind::Refused, |(_, error)| error.kind());
        let told = Error::new(kind, error.to_string());
        if error.accepted.is_empty() && error.unknown.is_empty() {
            told
        } else {
            told.but_maybe_enqueued()
        }
    }
}

awaitable!(Enqueue, EnqueueFuture, Result<JobId>, enqueue, "The future of an [`Enqueue`].");
awaitable!(
    EnqueueAll,
    EnqueueAllFuture,
    Result<Vec<JobId>, EnqueueAllError>,
    enqueue,
    "The future of an [`EnqueueAll`]."
);
