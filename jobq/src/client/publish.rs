use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::Client;
use super::awaitable::awaitable;
use super::enqueue::SetHeaders;
use super::outgoing::What;
use super::payload::Payload;
use super::times::{IntoPeriod, Times};
use crate::background;
use crate::engine::check_events;
use crate::error::{Error, Result};
use crate::job::{EventEnvelope, JobId, check_topic};

/// An event to be published, made by [`Client::publish`]. Await it: it gives the id of
/// the jobs that are made of the event.
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
}

impl Publish {
    pub(super) fn new<E: Serialize + ?Sized>(client: Client, topic: String, event: &E) -> Self {
        let payload = Payload::of_event(event, &topic);
        let (times, headers) = (Times::default(), SetHeaders::default());
        Self { client, topic, payload, id: None, times, headers, mandatory: false }
    }

    /// Hands the event to its subscribers not before this wait has passed, a `Duration` or
    /// its text, such as `"10m"`: to those that there are then. The last of `delay` and `at`
    /// counts. Defaults to no wait. A text that is no duration, and on RabbitMQ a wait of
    /// more than 3,650 days, are [invalid](crate::ErrorKind::Invalid) arguments.
    pub fn delay(mut self, delay: impl IntoPeriod) -> Self {
        self.times.delay(delay);
        self
    }

    /// Hands the event to its subscribers not before this time, by the clock of this
    /// process; a time that has passed is now. The last of `delay` and `at` counts. On
    /// RabbitMQ, no further away than [`delay`](Self::delay) may be.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.times.at(time);
        self
    }

    /// Starts no attempt of any subscriber later than this long after the event reaches
    /// it, in place of the `expires` of the subscribers: the job is then failed as
    /// [`Expired`](crate::FailedReason::Expired). Defaults to the `expires` of each.
    pub fn expires_in(mut self, limit: impl IntoPeriod) -> Self {
        self.times.expires_in(limit);
        self
    }

    /// Makes it an error, [`NotFound`](crate::ErrorKind::NotFound), if nobody subscribes
    /// to the topic. It costs a channel of its own for each event on RabbitMQ, so many
    /// times what another event costs. Not for events with a delay, whose subscribers are
    /// not known yet: that is an [invalid](crate::ErrorKind::Invalid) argument.
    pub fn mandatory(mut self) -> Self {
        self.mandatory = true;
        self
    }

    /// Sets a header of each job that is made of the event: see
    /// [`Enqueue::header`](crate::Enqueue::header).
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// The id of the jobs that are made of the event, in place of a new one.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    async fn publish(self) -> Result<JobId> {
        check_topic(&self.topic)?;
        self.times.check()?;
        let payload = self.payload.0?;
        self.client.check_size(&payload)?;
        let mut headers = self.headers.check()?;
        if self.mandatory && !self.times.is_now() {
            return Err(Error::invalid(format!(
                "event `{}` is mandatory and has a delay: who subscribes when that is over is not \
                 known before; leave one of them out",
                self.topic
            )));
        }
        let id = self.id.unwrap_or_else(JobId::new);
        if self.id.is_some() {
            headers.set_nonce();
        }
        let what = || What::Event { topic: self.topic.clone() };
        let headers = self.client.hooks().call(id, what, headers)?;
        let moments = self.times.moments(None);
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
        let engine = self.client.engine();
        check_events(&**engine)?;
        background::call(engine.publish(event, self.mandatory)).await?;
        Ok(id)
    }
}

awaitable!(Publish, PublishFuture, Result<JobId>, publish, "The future of a [`Publish`].");
