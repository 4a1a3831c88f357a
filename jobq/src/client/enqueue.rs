use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tracing::Instrument as _;

use super::payload::Payload;
use super::times::{IntoPeriod, Times};
use super::{Client, JobKind};
use crate::background;
use crate::engine::Pushing;
use crate::error::{Error, Result};
use crate::job::{Envelope, Headers, Job, JobId};
use crate::metrics::Call;
use crate::retry;
use crate::traces::{Sending, Sent};

/// The headers of a builder, or the first error.
#[derive(Debug, Clone, Default)]
pub(super) struct SetHeaders {
    headers: Headers,
    problem: Option<Error>,
}

impl SetHeaders {
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        if let Err(error) = self.headers.set(name, value) {
            self.problem.get_or_insert(error);
        }
    }

    pub(super) fn check(self) -> Result<Headers> {
        self.problem.map_or(Ok(self.headers), Err)
    }
}

/// The envelope of a job, with times from now.
pub(super) fn envelope(
    (kind, times): (&JobKind, &Times),
    client: &Client,
    id: JobId,
    payload: Vec<u8>,
    mut headers: Headers,
) -> Envelope {
    let moments = times.moments(kind.options.expires, client.clock());
    if let Some(due) = moments.due {
        headers.set_due(due);
    }
    Envelope {
        id,
        queue: kind.queue.into(),
        name: Some(kind.name.into()),
        payload,
        content_encoding: None,
        headers,
        attempts: 0,
        enqueued_at: moments.now,
        delay: moments.delay,
        retry_wait: Some(retry::first_wait(kind.options)),
        expires_at: moments.expires_at,
        topic: None,
        enqueued_by: Some(Arc::clone(client.program())),
    }
}

/// The methods of a builder that set the times and the headers of its jobs.
macro_rules! time_options {
    () => {
        /// Delays the first attempt by this wait: a `Duration`, or its text, such as `"10m"`. The
        /// last of `delay` and `at` counts. Defaults to no wait. A text that is no duration, and on
        /// RabbitMQ a wait of more than 3,650 days, are [invalid](crate::ErrorKind::Invalid)
        /// arguments.
        pub fn delay(mut self, delay: impl IntoPeriod) -> Self {
            self.times.delay(delay);
            self
        }

        /// Delays the first attempt until this time, by the clock of this process; a time in the
        /// past means now. The last of `delay` and `at` counts. On RabbitMQ the limit of
        /// [`delay`](Self::delay) applies.
        pub fn at(mut self, time: SystemTime) -> Self {
            self.times.at(time);
            self
        }

        /// Sets how long after the first attempt is due an attempt may start. A job that starts no
        /// attempt in time fails as [`Expired`](crate::FailedReason::Expired). Defaults to the
        /// job's `expires`.
        pub fn expires_in(mut self, limit: impl IntoPeriod) -> Self {
            self.times.expires_in(limit);
            self
        }

        /// Sets a header, which stays with the job when it is retried, fails or is put back.
        /// [`JobContext::header`](crate::JobContext::header) and
        /// [`FailedJob::header`](crate::FailedJob::header) return it. A header that
        /// [`Headers::set`](crate::Headers::set) refuses is an [invalid](crate::ErrorKind::Invalid)
        /// argument. Defaults to no headers.
        pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
            self.headers.set(name, value);
            self
        }
    };
}

pub(super) use time_options;

/// A job to be enqueued, made by [`Client::enqueue`]. Await it.
#[derive(Debug)]
#[must_use = "a job is enqueued only when this is awaited"]
pub struct Enqueue {
    client: Client,
    kind: JobKind,
    payload: Payload,
    id: Option<JobId>,
    times: Times,
    headers: SetHeaders,
    location: &'static Location<'static>,
}

impl Enqueue {
    #[track_caller]
    pub(super) fn new<J: Job>(client: Client, job: &J) -> Self {
        Self {
            location: Location::caller(),
            client,
            kind: JobKind::of::<J>(),
            payload: Payload::of_job(job),
            id: None,
            times: Times::default(),
            headers: SetHeaders::default(),
        }
    }

    time_options!();

    /// Sets the job's id. Enqueueing one id twice makes two jobs. Defaults to a new id.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The envelope of the job, or the first error.
    fn envelope(&mut self, id: JobId, sending: Option<&Sending>) -> Result<Envelope> {
        self.times.check()?;
        let payload = std::mem::replace(&mut self.payload.0, Ok(Vec::new()))?;
        self.client.check_size(&payload)?;
        let mut headers = std::mem::take(&mut self.headers).check()?;
        if self.id.is_some() {
            headers.set_nonce();
        }
        let mut headers =
            self.client.hooks().call(id, || self.kind.outgoing(), self.location, headers)?;
        self.client.add_context(sending, &mut headers);
        Ok(envelope((&self.kind, &self.times), &self.client, id, payload, headers))
    }

    /// Begins to push the job, in a span if the client has traces.
    fn begin(&mut self) -> Result<(JobId, Pushing)> {
        let id = self.id.unwrap_or_else(JobId::new);
        let sent = Sent { to: self.kind.queue, job: Some(self.kind.name), id: Some(id) };
        let Some(sending) = self.client.sending(&sent) else {
            return Ok((id, self.begin_in(id, None)?));
        };
        let begun = sending.span.in_scope(|| self.begin_in(id, Some(&sending)));
        let pushing = begun.inspect_err(|error| sending.failed(error))?;
        let traced = async move {
            let pushed = pushing.instrument(sending.span.clone()).await;
            pushed.inspect_err(|error| sending.failed(error))
        };
        Ok((id, Box::pin(traced)))
    }

    fn begin_in(&mut self, id: JobId, sending: Option<&Sending>) -> Result<Pushing> {
        // Hooks run in the program's runtime.
        let envelope = self.envelope(id, sending)?;
        let _entered = background::enter()?;
        Ok(self.push(envelope))
    }

    fn push(&self, envelope: Envelope) -> Pushing {
        if self.client.has_declared(&self.kind) {
            return self.client.engine().push(envelope);
        }
        let (client, kind) = (self.client.clone(), self.kind);
        Box::pin(async move {
            client.declare_kind(&kind).await?;
            client.engine().push(envelope).await
        })
    }
}

impl IntoFuture for Enqueue {
    type Output = Result<JobId>;
    type IntoFuture = EnqueueFuture;

    fn into_future(self) -> EnqueueFuture {
        EnqueueFuture { new: Some(self), begun: None, call: None }
    }
}

/// The future of an [`Enqueue`].
#[must_use = "futures do nothing unless awaited"]
pub struct EnqueueFuture {
    /// Taken at the first poll, so that polling after a panic returns an error.
    new: Option<Enqueue>,
    begun: Option<(JobId, Pushing)>,
    call: Option<Call>,
}

impl EnqueueFuture {
    fn poll_uncounted(&mut self, cx: &mut Context<'_>) -> Poll<Result<JobId>> {
        if let Some(mut enqueue) = self.new.take() {
            let JobKind { type_id, queue, name, .. } = enqueue.kind;
            self.call = Some(enqueue.client.metrics().enqueue(type_id, queue, name));
            self.begun = Some(enqueue.begin()?);
        }
        let _entered = background::enter()?;
        match &mut self.begun {
            Some((id, pushing)) => pushing.as_mut().poll(cx).map_ok(|_| *id),
            None => Poll::Ready(Err(Error::invalid(
                "an enqueue was polled again after it had panicked; enqueue the job anew",
            ))),
        }
    }
}

impl Future for EnqueueFuture {
    type Output = Result<JobId>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<JobId>> {
        let polled = self.poll_uncounted(cx);
        if let (Poll::Ready(result), Some(call)) = (&polled, &mut self.call) {
            call.ended(result.as_ref().err());
        }
        polled
    }
}

impl fmt::Debug for EnqueueFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueFuture").field("new", &self.new).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn polling_after_a_panic_returns_an_error() {
        let mut lost = EnqueueFuture { new: None, begun: None, call: None };
        let polled = Pin::new(&mut lost).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(error)) if error.is_invalid()));
    }
}
