use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use tracing::Instrument as _;

use super::Client;
use super::observer::Sending;
use super::outgoing::What;
use super::settings::{SetHeaders, Times, within};
use crate::awaitable::awaitable;
use crate::engine::check_events;
use crate::error::{Error, Result};
use crate::job::{EventEnvelope, JobId, Payload, check_topic};
use crate::outbox::Row;
use crate::period::IntoPeriod;

/// The topic of [`Client::publish`]: any text, such as a `&str` or a `String`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a topic",
    label = "expected a topic, such as `\"user.created\"`",
    note = "`client.publish_event(&event)` publishes an event under the topic of its type"
)]
pub trait IntoTopic: Into<String> {}

#[diagnostic::do_not_recommend]
impl<T: Into<String>> IntoTopic for T {}

/// An event to be published, made by [`Client::publish`]. Awaiting it returns the id of the jobs
/// made from the event.
///
/// ```
/// use jobq::{Client, JobId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// # let client = Client::connect("sqlite::memory:").await?;
/// let event = serde_json::json!({"user_id": 7});
/// let publish = client.publish("user.created", &event).delay("10m").expires_in("1h");
/// let id = publish.header("tenant", "acme").id(JobId::of_key("user-7")).await?;
/// assert_eq!(id, JobId::of_key("user-7"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an event is published only when this is awaited"]
pub struct Publish {
    client: Client,
    topic: String,
    payload: Payload,
    id: Option<JobId>,
    times: Times,
    headers: SetHeaders,
    mandatory: bool,
    location: &'static Location<'static>,
}

impl Publish {
    #[track_caller]
    pub(super) fn new<E: Serialize + ?Sized>(client: Client, topic: String, event: &E) -> Self {
        let payload = Payload::of_event(event, &topic);
        let (times, headers) = (Times::default(), SetHeaders::default());
        Self {
            client,
            topic,
            payload,
            id: None,
            times,
            headers,
            mandatory: false,
            location: Location::caller(),
        }
    }

    /// Delivers the event after this wait, a `Duration` or its text, such as `"10m"`, to the
    /// subscribers at that time. The last of `delay` and `at` counts. Defaults to no wait. A text
    /// that is no duration, and on RabbitMQ a wait of more than 3,650 days, are
    /// [invalid](crate::ErrorKind::Invalid) arguments.
    pub fn delay(mut self, delay: impl IntoPeriod) -> Self {
        self.times.delay(delay);
        self
    }

    /// Delivers the event at this time, by the clock of this process; a time in the past means now.
    /// The last of `delay` and `at` counts. On RabbitMQ the limit of [`delay`](Self::delay)
    /// applies.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// use std::time::{Duration, SystemTime};
    ///
    /// let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    /// client.publish("sale.begins", &7).at(tomorrow).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(mut self, time: SystemTime) -> Self {
        self.times.at(time);
        self
    }

    /// Sets how long after the event reaches a subscriber an attempt may start, instead of the
    /// `expires` of the subscriber. A job that starts no attempt in time fails as
    /// [`Expired`](crate::FailedReason::Expired). Defaults to the `expires` of each subscriber.
    pub fn expires_in(mut self, limit: impl IntoPeriod) -> Self {
        self.times.expires_in(limit);
        self
    }

    /// Sets how long this call waits for the broker or the file, if less than the client's timeout:
    /// see [`Enqueue::timeout`](crate::Enqueue::timeout).
    pub fn timeout(mut self, limit: impl IntoPeriod) -> Self {
        self.times.timeout(limit);
        self
    }

    /// Returns an error, [`NotFound`](crate::ErrorKind::NotFound), if no job subscribes to the
    /// topic. On RabbitMQ each mandatory event needs a channel of its own and costs many times as
    /// much as another event. An event with a delay, whose subscribers are not known yet, is an
    /// [invalid](crate::ErrorKind::Invalid) argument.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = jobq::Client::connect("sqlite::memory:").await?;
    /// let published = client.publish("user.created", &7).mandatory().await;
    /// assert!(published.is_err_and(|error| error.is_not_found())); // nobody subscribes
    /// # Ok(())
    /// # }
    /// ```
    pub fn mandatory(mut self) -> Self {
        self.mandatory = true;
        self
    }

    /// Sets a header of each job made from the event: see
    /// [`Enqueue::header`](crate::Enqueue::header).
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Sets the id of the jobs made from the event. Defaults to a new id.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The row of the event in the table `jobq_outbox`, for a transaction of your database: see
    /// [`Enqueue::row`](crate::Enqueue::row). The event reaches the subscribers of the time at which a
    /// relay publishes it.
    ///
    /// # Errors
    ///
    /// As [`Client::publish`], as far as the broker is not needed; a [`timeout`](Self::timeout); a
    /// [`mandatory`](Self::mandatory) event.
    pub fn row(self) -> Result<Row> {
        self.times.check_of_row()?;
        if self.mandatory {
            return Err(Error::invalid(format!(
                "event `{}` is mandatory, but its subscribers are not known until a relay publishes \
                 it; leave `mandatory` out",
                self.topic
            )));
        }
        let id = self.id.unwrap_or_else(JobId::new);
        let client = self.client.clone();
        let writing = client.observer().writing(&self.topic, None, Some(id));
        let row = writing.span().in_scope(|| {
            let (event, now) = self.event(id, &writing)?;
            client.row_of_event(event, now)
        });
        writing.written(&row);
        row
    }

    async fn publish(self) -> Result<JobId> {
        let id = self.id.unwrap_or_else(JobId::new);
        let sending = self.client.observer().sending_event(&self.topic, id);
        let answer = self.send(id, &sending).instrument(sending.span()).await;
        sending.answered(&answer);
        answer.map(|()| id)
    }

    async fn send(self, id: JobId, sending: &Sending) -> Result<()> {
        let (client, timeout) = (self.client.clone(), self.times.timeout_of_call());
        let mandatory = self.mandatory;
        let (event, _) = self.event(id, sending)?;
        let engine = client.engine();
        check_events(&**engine)?;
        within(timeout, engine.publish(event, mandatory)).await
    }

    /// The event, and the time at which it was made.
    fn event<C>(self, id: JobId, sending: &Sending<C>) -> Result<(EventEnvelope, SystemTime)> {
        check_topic(&self.topic)?;
        self.times.check()?;
        let payload = self.payload.0?;
        self.client.check_size(&payload)?;
        let mut headers = self.headers.check()?;
        if self.mandatory && !self.times.is_now() {
            return Err(Error::invalid(format!(
                "event `{}` is mandatory and has a delay, but its subscribers are not known until \
                 the delay ends; leave one of them out",
                self.topic
            )));
        }
        if self.id.is_some() {
            headers.set_nonce();
        }
        let what = || What::Event { topic: self.topic.clone() };
        let mut headers = self.client.hooks().call(id, what, self.location, headers)?;
        sending.add_to(&mut headers);
        let moments = self.times.moments(None, self.client.clock());
        if let Some(due) = moments.due {
            headers.set_due(due);
        }
        let event = EventEnvelope {
            id,
            topic: self.topic,
            payload,
            content_encoding: None,
            headers,
            published_at: moments.now.checked_add(moments.delay).unwrap_or(moments.now),
            delay: moments.delay,
            expires_at: moments.expires_at,
            enqueued_by: Some(Arc::clone(self.client.program())),
        };
        Ok((event, moments.now))
    }
}

awaitable!(Publish, PublishFuture, Result<JobId>, publish, "The future of a [`Publish`].");
