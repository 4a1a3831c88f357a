use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::job::{Envelope, EventEnvelope, Headers, headers, to_millis};
use crate::period;

/// The version of the rows that this version of jobq writes, and the newest that it reads.
pub(super) const VERSION: i64 = 1;

/// A row of the table `jobq_outbox`: a job or an event that a [relay](crate::relay) sends.
/// [`Enqueue::row`](crate::Enqueue::row) and its like make it.
///
/// Each field is a parameter of [`postgres::INSERT`](super::postgres::INSERT) and its like, in this order.
/// Times are milliseconds since 1970 and waits are milliseconds.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// The version of the contract that a relay must know: 1.
    pub version: i64,
    /// The namespace of the client.
    pub namespace: String,
    /// The queue of a job; `None` for an event.
    pub queue: Option<String>,
    /// The topic of an event; `None` for a job.
    pub topic: Option<String>,
    /// The name of a job.
    pub name: Option<String>,
    /// The id, as text.
    pub job_id: String,
    /// When the row was made.
    pub enqueued_at: i64,
    /// When the first attempt is due; `None` for at once.
    pub due_at: Option<i64>,
    /// When no attempt may start any more.
    pub expires_at: Option<i64>,
    /// The wait after the first attempt, if that fails: a hint for RabbitMQ.
    pub retry_wait: Option<i64>,
    /// The encoding of the payload; `None` for plain JSON.
    pub content_encoding: Option<String>,
    /// The program that enqueued it, for people.
    pub enqueued_by: Option<String>,
    /// The headers: a JSON object of texts.
    pub headers: String,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Row {
    pub(crate) fn of_job(namespace: &str, job: Envelope) -> Result<Self> {
        let due_at = job.headers.due().map(millis);
        Ok(Self {
            version: VERSION,
            namespace: checked_text("namespace", namespace)?,
            queue: Some(job.queue.into_owned()),
            topic: None,
            name: job.name.map(Into::into),
            job_id: job.id.to_string(),
            enqueued_at: millis(job.enqueued_at),
            due_at,
            expires_at: job.expires_at.map(millis),
            retry_wait: job.retry_wait.map(|wait| signed(period::millis(wait))),
            content_encoding: job.content_encoding.map(Into::into),
            enqueued_by: job.enqueued_by.as_deref().map(Into::into),
            headers: text_of(&job.headers),
            payload: job.payload,
        })
    }

    /// The row of an event that is published at this time, after its delay.
    pub(crate) fn of_event(
        namespace: &str,
        event: EventEnvelope,
        enqueued_at: SystemTime,
    ) -> Result<Self> {
        Ok(Self {
            version: VERSION,
            namespace: checked_text("namespace", namespace)?,
            queue: None,
            topic: Some(checked_text("topic", &event.topic)?),
            name: None,
            job_id: event.id.to_string(),
            enqueued_at: millis(enqueued_at),
            due_at: event.headers.due().map(millis),
            expires_at: event.expires_at.map(millis),
            retry_wait: None,
            content_encoding: event.content_encoding.map(Into::into),
            enqueued_by: event.enqueued_by.as_deref().map(Into::into),
            headers: text_of(&event.headers),
            payload: event.payload,
        })
    }
}

/// A text that a database can store. An error of the database would end the user's transaction.
fn checked_text(what: &str, text: &str) -> Result<String> {
    if text.contains('\0') {
        let text = text.escape_debug();
        return Err(Error::invalid(format!(
            "the {what} `{text}` has a NUL character, which databases do not store; remove it"
        )));
    }
    Ok(text.to_owned())
}

/// The time as databases store it: at most the last of the year 9999.
fn millis(time: SystemTime) -> i64 {
    const LAST: i64 = 253_402_300_799_999;
    signed(to_millis(time)).min(LAST)
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// The headers as JSON, without the due time, which has a column of its own.
fn text_of(headers: &Headers) -> String {
    let others: BTreeMap<_, _> = headers.iter().filter(|(name, _)| *name != headers::DUE).collect();
    serde_json::to_string(&others).unwrap_or_default()
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row")
            .field("queue", &self.queue)
            .field("topic", &self.topic)
            .field("name", &self.name)
            .field("job_id", &self.job_id)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
