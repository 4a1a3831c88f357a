use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use tracing::Instrument as _;

use super::Client;
use super::enqueue::time_options;
use super::observer::Sending;
use super::outgoing::What;
use super::settings::{SetHeaders, Times, within};
use crate::awaitable::awaitable;
use crate::engine::QueueSpec;
use crate::error::Result;
use crate::job::{Envelope, JobId, Payload, check_name};
use crate::outbox::Row;
use crate::period::IntoPeriod;

/// A job of a type that this program does not have, made by [`Client::enqueue_named`]. Await it.
#[derive(Debug)]
#[must_use = "a job is enqueued only when this is awaited"]
pub struct EnqueueNamed {
    client: Client,
    name: String,
    queue: String,
    payload: Payload,
    id: Option<JobId>,
    times: Times,
    headers: SetHeaders,
    location: &'static Location<'static>,
}

impl EnqueueNamed {
    #[track_caller]
    pub(super) fn new<P: Serialize + ?Sized>(
        client: Client,
        name: String,
        queue: String,
        payload: &P,
    ) -> Self {
        Self {
            location: Location::caller(),
            payload: Payload::of_named(payload, &name),
            client,
            name,
            queue,
            id: None,
            times: Times::default(),
            headers: SetHeaders::default(),
        }
    }

    time_options!();

    /// Sets the job's id. Enqueueing one id twice makes two jobs. Defaults to a new id.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let id = jobq::JobId::of_key("welcome-7");
    /// client.enqueue_named("send_welcome", "mail", &[7]).id(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The row of the job in the table `jobq_outbox`, for a transaction of your database: see
    /// [`Enqueue::row`](crate::Enqueue::row).
    ///
    /// # Errors
    ///
    /// As [`Client::enqueue_named`], as far as the broker is not needed; a [`timeout`](Self::timeout).
    pub fn row(self) -> Result<Row> {
        self.times.check_of_row()?;
        let id = self.id.unwrap_or_else(JobId::new);
        let client = self.client.clone();
        let writing = client.observer().writing(&self.queue, Some(&self.name), Some(id));
        let job = writing.span().in_scope(|| self.job(id, &writing));
        let row = job.and_then(|job| client.row(job));
        writing.written(&row);
        row
    }

    async fn enqueue(self) -> Result<JobId> {
        let id = self.id.unwrap_or_else(JobId::new);
        let sending = self.client.observer().sending_named(&self.name, &self.queue, id);
        let answer = self.send(id, &sending).instrument(sending.span()).await;
        sending.answered(&answer);
        answer.map(|()| id)
    }

    async fn send(self, id: JobId, sending: &Sending) -> Result<()> {
        let (client, timeout) = (self.client.clone(), self.times.timeout_of_call());
        let job = self.job(id, sending)?;
        let spec = [QueueSpec::new(job.queue.clone())];
        let push = async {
            client.engine().declare(&spec).await?;
            client.engine().push(job).await.map(drop)
        };
        within(timeout, push).await
    }

    fn job<C>(self, id: JobId, sending: &Sending<C>) -> Result<Envelope> {
        check_name("job", &self.name)?;
        check_name("queue", &self.queue)?;
        self.times.check()?;
        let payload = self.payload.0?;
        self.client.check_size(&payload)?;
        let mut headers = self.headers.check()?;
        if self.id.is_some() {
            headers.set_nonce();
        }
        let what = || What::Job {
            name: Cow::Owned(self.name.clone()),
            queue: Cow::Owned(self.queue.clone()),
        };
        let mut headers = self.client.hooks().call(id, what, self.location, headers)?;
        sending.add_to(&mut headers);
        let moments = self.times.moments(None, self.client.clock());
        if let Some(due) = moments.due {
            headers.set_due(due);
        }
        let mut job = Envelope::new(self.queue, payload);
        job.id = id;
        job.name = Some(self.name.into());
        job.headers = headers;
        job.enqueued_at = moments.now;
        job.delay = moments.delay;
        job.expires_at = moments.expires_at;
        job.enqueued_by = Some(Arc::clone(self.client.program()));
        Ok(job)
    }
}

awaitable!(
    EnqueueNamed,
    EnqueueNamedFuture,
    Result<JobId>,
    enqueue,
    "The future of an [`EnqueueNamed`]."
);
