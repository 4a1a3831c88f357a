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

    async fn enqueue(self) -> Result<JobId> {
        let id = self.id.unwrap_or_else(JobId::new);
        let sending = self.client.observer().sending_named(&self.name, &self.queue, id);
        let answer = self.send(id, &sending).instrument(sending.span()).await;
        sending.answered(&answer);
        answer.map(|()| id)
    }

    async fn send(self, id: JobId, sending: &Sending) -> Result<()> {
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
        let spec = [QueueSpec::new(self.queue.clone())];
        let mut job = Envelope::new(self.queue, payload);
        job.id = id;
        job.name = Some(self.name.into());
        job.headers = headers;
        job.enqueued_at = moments.now;
        job.delay = moments.delay;
        job.expires_at = moments.expires_at;
        job.enqueued_by = Some(Arc::clone(self.client.program()));
        let push = async {
            self.client.engine().declare(&spec).await?;
            self.client.engine().push(job).await.map(drop)
        };
        within(self.times.timeout_of_call(), push).await
    }
}

awaitable!(
    EnqueueNamed,
    EnqueueNamedFuture,
    Result<JobId>,
    enqueue,
    "The future of an [`EnqueueNamed`]."
);
