use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Headers, JobId, Priority, codec, headers};

/// A job in transit, from a client to an engine and from there to a worker.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Envelope {
    /// The job's id. Engines make one for a message that has none.
    pub id: JobId,
    /// The name of the queue, without a namespace.
    pub queue: Cow<'static, str>,
    /// The job's name. `None` on a message of a foreign client means the only job of
    /// the queue.
    pub name: Option<Cow<'static, str>>,
    /// The payload: JSON, of at most [`MAX_PAYLOAD`](crate::MAX_PAYLOAD) bytes if sent by jobq.
    pub payload: Vec<u8>,
    /// The encoding of the payload; `None` for plain JSON. A worker that does not know the encoding
    /// treats the job as unknown.
    pub content_encoding: Option<Cow<'static, str>>,
    /// The headers. Engines keep all of them, jobq's own included.
    pub headers: Headers,
    /// How many attempts are used up.
    pub attempts: u32,
    /// When the job was enqueued, by the clock of the enqueuing client. Engines keep it to the
    /// second or better.
    pub enqueued_at: SystemTime,
    /// The wait before the first attempt; zero on a delivered job.
    pub delay: Duration,
    /// The expected wait after the next attempt if that fails: a hint that lets an engine prepare
    /// the retry.
    pub retry_wait: Option<Duration>,
    /// The time after which no attempt may start. Engines keep it to the millisecond.
    pub expires_at: Option<SystemTime>,
    /// The topic of the event, if the job was made from one.
    pub topic: Option<String>,
    /// The program that enqueued the job, such as `shop-web`: at most 255 bytes, for people.
    pub enqueued_by: Option<Arc<str>>,
}

impl Envelope {
    /// A job with a new id, enqueued now and due at once, without name, headers, expiry and topic.
    ///
    /// ```
    /// use jobq::engine::Envelope;
    ///
    /// let mut job = Envelope::new("mail", br#"{"user_id": 7}"#.to_vec());
    /// job.name = Some("mail.welcome".into());
    /// assert_eq!((&*job.queue, job.attempts), ("mail", 0));
    /// ```
    #[must_use]
    pub fn new(queue: impl Into<Cow<'static, str>>, payload: Vec<u8>) -> Self {
        Self {
            id: JobId::new(),
            queue: queue.into(),
            name: None,
            payload,
            content_encoding: None,
            headers: Headers::new(),
            attempts: 0,
            enqueued_at: SystemTime::now(),
            delay: Duration::ZERO,
            retry_wait: None,
            expires_at: None,
            topic: None,
            enqueued_by: None,
        }
    }

    /// Replaces the id of the job with one that other jobs may have. A nonce in its headers
    /// distinguishes them.
    ///
    /// ```
    /// use jobq::engine::Envelope;
    /// use jobq::JobId;
    ///
    /// let mut job = Envelope::new("mail", b"{}".to_vec());
    /// job.set_id(JobId::of_key("order-7"));
    /// assert!(job.headers.get("jobq-nonce").is_some());
    /// ```
    pub fn set_id(&mut self, id: JobId) {
        self.id = id;
        self.headers.set_nonce();
    }

    /// When the first attempt is or was due: the time of enqueueing plus the delay.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.headers.due().unwrap_or(self.enqueued_at)
    }

    /// Sets when the first attempt is due, if that is not the time of enqueueing.
    pub fn set_due(&mut self, time: SystemTime) {
        self.headers.set_due(time);
    }

    /// The priority of the job among those of its queue.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.headers.priority()
    }

    /// Sets the priority of the job. For any priority but normal, the queue must have been declared with
    /// [priorities](crate::engine::QueueSpec::priorities).
    pub fn set_priority(&mut self, priority: Priority) {
        self.headers.set_priority(priority);
    }

    /// The operation that gave the job a single attempt, whatever its policy.
    pub(crate) fn once(&self) -> Option<&str> {
        self.headers.get(headers::ONCE)
    }

    /// The name of the schedule that enqueued the job.
    #[cfg_attr(not(any(feature = "schedules", feature = "testing")), allow(dead_code))]
    pub(crate) fn schedule(&self) -> Option<&str> {
        self.headers.get(headers::SCHEDULE)
    }

    /// The feature that this version of jobq lacks to run the job, for people.
    pub(crate) fn lacking(&self) -> Option<String> {
        if let Some(word) = self.headers.lacking() {
            return Some(format!("understands `{word}`, which the job needs ({})", headers::NEEDS));
        }
        let encoding = self.content_encoding.as_deref();
        let unknown = encoding.filter(|encoding| !codec::is_known(Some(encoding)))?;
        Some(format!("reads the content encoding `{}`", unknown.escape_debug()))
    }
}

/// An event in transit from a client to an engine. Each queue that subscribes to its topic gets a
/// job of its own, with this id and payload and without a job name.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct EventEnvelope {
    /// The id of each job made from the event.
    pub id: JobId,
    /// The topic.
    pub topic: String,
    /// The event: JSON, of at most [`MAX_PAYLOAD`](crate::MAX_PAYLOAD) bytes.
    pub payload: Vec<u8>,
    /// The encoding of the payload; `None` for plain JSON.
    pub content_encoding: Option<Cow<'static, str>>,
    /// The headers of each job made from the event.
    pub headers: Headers,
    /// When the event reaches its subscribers, by the clock of the publishing client: the jobs
    /// count as enqueued then. Engines keep it to the second or better.
    pub published_at: SystemTime,
    /// The wait before it reaches them; `published_at` includes it.
    pub delay: Duration,
    /// The time after which no attempt may start. Engines keep it to the millisecond.
    pub expires_at: Option<SystemTime>,
    /// The program that published it, at most 255 bytes, for people.
    pub enqueued_by: Option<Arc<str>>,
}

impl EventEnvelope {
    /// An event with a new id, published now and without delay and expiry.
    #[must_use]
    pub fn new(topic: impl Into<String>, payload: Vec<u8>) -> Self {
        Self {
            id: JobId::new(),
            topic: topic.into(),
            payload,
            content_encoding: None,
            headers: Headers::new(),
            published_at: SystemTime::now(),
            delay: Duration::ZERO,
            expires_at: None,
            enqueued_by: None,
        }
    }
}

/// A payload as text, in one line, truncated if long.
struct Text<'p>(&'p [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 1_024;
        let (shown, rest) = self.0.split_at(self.0.len().min(MOST));
        for c in String::from_utf8_lossy(shown).chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        if rest.is_empty() { Ok(()) } else { write!(f, "… and {} bytes more", rest.len()) }
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("name", &self.name)
            .field("payload", &Text(&self.payload))
            .field("content_encoding", &self.content_encoding)
            .field("headers", &self.headers)
            .field("attempts", &self.attempts)
            .field("enqueued_at", &self.enqueued_at)
            .field("delay", &self.delay)
            .field("retry_wait", &self.retry_wait)
            .field("expires_at", &self.expires_at)
            .field("topic", &self.topic)
            .field("enqueued_by", &self.enqueued_by)
            .finish()
    }
}

impl fmt::Debug for EventEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventEnvelope")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("payload", &Text(&self.payload))
            .field("content_encoding", &self.content_encoding)
            .field("headers", &self.headers)
            .field("published_at", &self.published_at)
            .field("delay", &self.delay)
            .field("expires_at", &self.expires_at)
            .field("enqueued_by", &self.enqueued_by)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_shown_as_text_in_one_line() {
        let long = "x".repeat(2_000);
        let table: [(&[u8], &str); 4] = [
            (br#"{"user": 7}"#, r#"{"user": 7}"#),
            (b"a\nb", "a\\nb"),
            (b"\xff", "\u{fffd}"),
            (long.as_bytes(), "x… and 976 bytes more"),
        ];
        for (payload, shown) in table {
            let text = format!("{:#?}", Text(payload));
            assert!(text.ends_with(shown) && !text.contains('\n'), "{text}");
        }
    }
}
