use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use tracing::Instrument as _;

use super::observer::Sending;
use super::settings::{SetHeaders, Times, within};
use super::{Client, JobKind};
use crate::awaitable::awaitable;
use crate::background;
use crate::engine::Pushed;
use crate::error::Result;
use crate::job::{Envelope, Headers, Job, JobId, Payload, Priority};
use crate::outbox::Row;
use crate::period::IntoPeriod;
use crate::retry;

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
        ///
        /// ```
        /// # use jobq::{Client, job};
        /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
        /// # async fn example(client: Client) -> jobq::Result<()> {
        /// client.enqueue(Remind { user_id: 7 }).delay("1h 30m").await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn delay(mut self, delay: impl IntoPeriod) -> Self {
            self.times.delay(delay);
            self
        }

        /// Delays the first attempt until this time, by the clock of this process; a time in the
        /// past means now. The last of `delay` and `at` counts. On RabbitMQ the limit of
        /// [`delay`](Self::delay) applies.
        ///
        /// ```
        /// # use jobq::{Client, job};
        /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
        /// # async fn example(client: Client) -> jobq::Result<()> {
        /// use std::time::{Duration, SystemTime};
        ///
        /// let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
        /// client.enqueue(Remind { user_id: 7 }).at(tomorrow).await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn at(mut self, time: SystemTime) -> Self {
            self.times.at(time);
            self
        }

        /// Sets how long after the first attempt is due an attempt may start. A job that starts no
        /// attempt in time fails as [`Expired`](crate::FailedReason::Expired). Defaults to the
        /// job's `expires`.
        ///
        /// ```
        /// # use jobq::{Client, job};
        /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
        /// # async fn example(client: Client) -> jobq::Result<()> {
        /// client.enqueue(Remind { user_id: 7 }).delay("10m").expires_in("1h").await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn expires_in(mut self, limit: impl IntoPeriod) -> Self {
            self.times.expires_in(limit);
            self
        }

        /// Sets how long this call waits for the broker or the file, if that is less than the
        /// client's [`timeout`](crate::ClientBuilder::timeout): a `Duration`, or its text. It
        /// includes the declaration of the queue and, of many jobs, all of them. The error is a
        /// [timeout](crate::ErrorKind::Timeout). The job
        /// [may be enqueued](crate::Error::maybe_enqueued) nevertheless, also later, except for
        /// those of many jobs that were not taken. Zero is an [invalid](crate::ErrorKind::Invalid) argument.
        ///
        /// ```
        /// # use jobq::{Client, job};
        /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
        /// # async fn example(client: Client) -> jobq::Result<()> {
        /// client.enqueue(Remind { user_id: 7 }).timeout("2s").await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn timeout(mut self, limit: impl IntoPeriod) -> Self {
            self.times.timeout(limit);
            self
        }

        /// Sets a header, which stays with the job when an attempt is retried, the job fails, or
        /// the failed job is retried. [`JobContext::header`](crate::JobContext::header) and
        /// [`FailedJob::header`](crate::FailedJob::header) return it. A header that
        /// [`Headers::set`](crate::Headers::set) refuses is an [invalid](crate::ErrorKind::Invalid)
        /// argument. Defaults to no headers.
        ///
        /// ```
        /// # use jobq::{Client, job};
        /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
        /// # async fn example(client: Client) -> jobq::Result<()> {
        /// client.enqueue(Remind { user_id: 7 }).header("tenant", "acme").await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
            self.headers.set(name, value);
            self
        }
    };
}

pub(super) use time_options;

/// The method of a builder that sets the priority of its jobs.
macro_rules! priority_option {
    () => {
        /// Sets the priority within the queue. Defaults to the priority of the job's type. If the type
        /// lacks the key `priorities`, the call returns an [`Invalid`](crate::ErrorKind::Invalid) error
        /// and enqueues nothing.
        ///
        /// ```
        /// use jobq::{BoxError, Client, Priority, job};
        ///
        /// #[job(priorities)]
        /// async fn export(user_id: u64) -> Result<(), BoxError> {
        ///     Ok(())
        /// }
        ///
        /// # async fn example(client: Client) -> jobq::Result<()> {
        /// client.enqueue(Export { user_id: 7 }).priority(Priority::Low).await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn priority(mut self, priority: crate::Priority) -> Self {
            self.priority = Some(priority);
            self
        }
    };
}

pub(super) use priority_option;

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
    priority: Option<Priority>,
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
            priority: None,
        }
    }

    time_options!();

    priority_option!();

    /// Sets the job's id. Enqueueing one id twice makes two jobs. Defaults to a new id.
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// use jobq::JobId;
    ///
    /// client.enqueue(Remind { user_id: 7 }).id(JobId::of_key("remind-7")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    async fn enqueue(mut self) -> Result<JobId> {
        let id = self.id.unwrap_or_else(JobId::new);
        let sending = self.client.observer().sending(&self.kind, id);
        let span = sending.span();
        let job = span.in_scope(|| self.job(id, &sending));
        let pushing = job.and_then(|job| span.in_scope(|| self.push(job)));
        let answer = match pushing {
            Ok(pushing) => within(self.times.timeout_of_call(), pushing).instrument(span).await,
            Err(error) => Err(error),
        };
        let answer = answer.map(drop);
        sending.answered(&answer);
        answer.map(|()| id)
    }

    /// The row of the job in the table `jobq_outbox`, for a transaction of your database: the job is
    /// enqueued after the commit, by a [relay](crate::relay), with this call's hooks, headers and trace.
    /// The module [`outbox`](crate::outbox) has the statement that inserts it. The broker is not asked:
    /// the queue must exist when the relay sends the job.
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let row = client.enqueue(Remind { user_id: 7 }).delay("10m").row()?;
    /// assert_eq!(row.queue.as_deref(), Some("remind"));
    /// assert_eq!(row.payload, br#"{"user_id":7}"#);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::enqueue`], as far as the broker is not needed; a [`timeout`](Self::timeout).
    pub fn row(mut self) -> Result<Row> {
        self.kind.check()?;
        self.times.check_of_row()?;
        let id = self.id.unwrap_or_else(JobId::new);
        let writing =
            self.client.observer().writing(self.kind.queue, Some(self.kind.name), Some(id));
        let job = writing.span().in_scope(|| self.job(id, &writing));
        let row = job.and_then(|job| self.client.row(job));
        writing.written(&row);
        row
    }

    /// The envelope of the job. What the builder holds moves into it.
    fn job<C>(&mut self, id: JobId, sending: &Sending<C>) -> Result<Envelope> {
        let Self { client, kind, times, .. } = self;
        times.check()?;
        let priority = kind.priority(self.priority)?;
        let payload = std::mem::replace(&mut self.payload.0, Ok(Vec::new()))?;
        client.check_size(&payload)?;
        let mut headers = std::mem::take(&mut self.headers).check()?;
        if self.id.is_some() {
            headers.set_nonce();
        }
        // Hooks run in the program's runtime.
        let mut headers = client.hooks().call(id, || kind.outgoing(), self.location, headers)?;
        headers.set_priority(priority);
        sending.add_to(&mut headers);
        Ok(envelope((kind, times), client, id, payload, headers))
    }

    /// The call of the engine. It is made before it is awaited, so that the future that is moved about
    /// for each job has no room for the job.
    fn push(&self, job: Envelope) -> Result<BoxFuture<'_, Result<Pushed>>> {
        let (client, kind) = (&self.client, &self.kind);
        if client.has_declared(kind) {
            let _entered = background::enter()?;
            return Ok(client.engine().push(job));
        }
        Ok(Box::pin(async move {
            client.declare_kind(kind).await?;
            client.engine().push(job).await
        }))
    }
}

awaitable!(Enqueue, EnqueueFuture, Result<JobId>, enqueue, "The future of an [`Enqueue`].");
