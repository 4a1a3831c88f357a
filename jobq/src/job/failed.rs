use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::ser::{SerializeStruct as _, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

use super::headers::OPERATIONS;
use super::{Envelope, Headers, JobId, Priority, codec, failure, to_millis};

/// The reason why a job failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailedReason {
    /// The last attempt failed.
    Exhausted,
    /// An attempt ended with [`abort`](crate::abort).
    Aborted,
    /// The job expired before an attempt started.
    Expired,
    /// No worker that took the job knew its name.
    UnknownJob,
    /// The payload cannot be decoded.
    UnreadablePayload,
    /// The job crashed its worker process in each of three solo runs.
    Poison,
    /// The queue of the job does not exist.
    Unroutable,
    /// An operator [cancelled](crate::admin::Admin::cancel_running) the job while it ran.
    Cancelled,
}

impl FailedReason {
    pub(crate) const ALL: [Self; 8] = [
        Self::Exhausted,
        Self::Aborted,
        Self::Expired,
        Self::UnknownJob,
        Self::UnreadablePayload,
        Self::Poison,
        Self::Unroutable,
        Self::Cancelled,
    ];

    /// All reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// The text of the reason on the wire and in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Aborted => "aborted",
            Self::Expired => "expired",
            Self::UnknownJob => "unknown-job",
            Self::UnreadablePayload => "unreadable-payload",
            Self::Poison => "poison",
            Self::Unroutable => "unroutable",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason with this text, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::all().find(|reason| reason.as_str() == text)
    }
}

/// Serialized as [`as_str`](FailedReason::as_str).
impl Serialize for FailedReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailedReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not a failure reason")))
    }
}

impl fmt::Display for FailedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job that failed for good, from [`Client::failed`](crate::Client::failed).
#[derive(Debug, Clone)]
pub struct FailedJob {
    envelope: Envelope,
    attempts: u32,
    reason: FailedReason,
    error: String,
    failed_at: SystemTime,
    /// Its place among the failed jobs, where the engine numbers them.
    number: Option<u64>,
}

impl FailedJob {
    /// A failed job with its envelope, used attempts, reason, error and time of failure.
    #[must_use]
    pub fn new(
        envelope: Envelope,
        attempts: u32,
        reason: FailedReason,
        error: String,
        failed_at: SystemTime,
    ) -> Self {
        Self { envelope, attempts, reason, error, failed_at, number: None }
    }

    /// The same with its place among the failed jobs.
    #[cfg(feature = "sqlite")]
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self { number: Some(number), ..self }
    }

    /// Its place among the failed jobs, where the engine numbers them.
    pub(crate) fn number(&self) -> Option<u64> {
        self.number
    }

    /// Whether one of the last eight operations that retried it is this one.
    #[must_use]
    pub fn was_retried_by(&self, operation: &str) -> bool {
        let operations = self.header(OPERATIONS).unwrap_or_default();
        operations.split_whitespace().any(|id| id == operation)
    }

    /// The envelope of the job.
    #[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
    pub(crate) fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The envelope of the job.
    #[cfg(feature = "testing")]
    pub(crate) fn into_envelope(self) -> Envelope {
        self.envelope
    }

    /// The error and the backtrace, as engines keep them.
    #[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
    pub(crate) fn full_error(&self) -> &str {
        &self.error
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.envelope.id
    }

    /// The job's name; empty if the message had none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.envelope.name.as_deref().unwrap_or_default()
    }

    /// The queue of the job.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.envelope.queue
    }

    /// The topic of the event, if the job was made from one.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.envelope.topic.as_deref()
    }

    /// The payload. A number that a `Value` cannot hold, an integer of more than 64 bits or one
    /// beyond the range of `f64`, becomes a string of its digits. A payload that is text and no JSON
    /// becomes a string; one that is [no text](Self::payload_text) is null.
    /// [`payload_bytes`](Self::payload_bytes) returns it unchanged.
    #[must_use]
    pub fn payload(&self) -> serde_json::Value {
        let json = codec::json(self.payload_bytes(), self.content_encoding());
        json.unwrap_or_else(|| self.payload_text().into())
    }

    /// The payload as text, as a rule JSON. `None` if it is no UTF-8, or has a
    /// [content encoding](Self::content_encoding) that this version does not read.
    #[must_use]
    pub fn payload_text(&self) -> Option<&str> {
        codec::text(self.payload_bytes(), self.content_encoding())
    }

    /// How the bytes of the payload are encoded; `None` for plain JSON.
    #[must_use]
    pub fn content_encoding(&self) -> Option<&str> {
        self.envelope.content_encoding.as_deref()
    }

    /// The payload as it was sent.
    #[must_use]
    pub fn payload_bytes(&self) -> &[u8] {
        &self.envelope.payload
    }

    /// How many attempts were made.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The error of the last attempt with its sources, or the defect of the job; at most 8 KiB.
    #[must_use]
    pub fn error(&self) -> &str {
        failure::split(&self.error).0
    }

    /// The backtrace of the error, or the first part of it: as much as has room beside the error in
    /// 8 KiB. `None` if the error has none that jobq finds: backtraces must be enabled
    /// (`RUST_BACKTRACE=1`), and the error must show its own in its debug form, as those of
    /// `anyhow` and `eyre` do.
    #[must_use]
    pub fn backtrace(&self) -> Option<&str> {
        failure::split(&self.error).1
    }

    /// The reason of the failure.
    #[must_use]
    pub fn reason(&self) -> FailedReason {
        self.reason
    }

    /// When the job failed for good, by the clock of its worker.
    #[must_use]
    pub fn failed_at(&self) -> SystemTime {
        self.failed_at
    }

    /// The program that enqueued the job or published its event, such as `shop-web`. Other clients
    /// may write anything here, or nothing.
    #[must_use]
    pub fn enqueued_by(&self) -> Option<&str> {
        self.envelope.enqueued_by.as_deref()
    }

    /// The priority of the job, which a retry keeps.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.envelope.priority()
    }

    /// The value of a header, if the job has it: see [`Enqueue::header`](crate::Enqueue::header).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.envelope.headers.get(name)
    }

    /// All headers of the job, including those of traces.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.envelope.headers
    }

    /// When the job was first enqueued, by the clock of the enqueuing client.
    #[must_use]
    pub fn enqueued_at(&self) -> SystemTime {
        self.envelope.enqueued_at
    }
}

/// Serialized with a field for each method: the payload as JSON, times in milliseconds since 1970
/// (`failed_at_ms`, `enqueued_at_ms`). `payload_base64` has the bytes of a payload that is no JSON,
/// in base64, and is null otherwise.
impl Serialize for FailedJob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut job = serializer.serialize_struct("FailedJob", 15)?;
        job.serialize_field("id", &self.id())?;
        job.serialize_field("name", self.name())?;
        job.serialize_field("queue", self.queue())?;
        job.serialize_field("topic", &self.topic())?;
        let json = codec::json(self.payload_bytes(), self.content_encoding());
        let bytes = json.is_none().then(|| BASE64_STANDARD.encode(self.payload_bytes()));
        job.serialize_field("payload", &json.unwrap_or_else(|| self.payload_text().into()))?;
        job.serialize_field("payload_base64", &bytes)?;
        job.serialize_field("content_encoding", &self.content_encoding())?;
        job.serialize_field("headers", &self.envelope.headers)?;
        job.serialize_field("attempts", &self.attempts)?;
        job.serialize_field("error", self.error())?;
        job.serialize_field("backtrace", &self.backtrace())?;
        job.serialize_field("reason", &self.reason)?;
        job.serialize_field("failed_at_ms", &to_millis(self.failed_at))?;
        job.serialize_field("enqueued_at_ms", &to_millis(self.enqueued_at()))?;
        job.serialize_field("enqueued_by", &self.enqueued_by())?;
        job.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::from_millis;

    #[test]
    fn a_failed_job_is_serialized_with_all_fields() {
        let mut envelope = Envelope::new("mail", br#"{"n": 12345678901234567890123}"#.to_vec());
        envelope.name = Some("greet".into());
        envelope.headers.set("tenant", "7").unwrap();
        envelope.enqueued_at = from_millis(5);
        let (reason, error) = (FailedReason::Aborted, "no\n\nStack backtrace:\n0: main".to_owned());
        let job = FailedJob::new(envelope, 2, reason, error, from_millis(7));
        let expected = serde_json::json!({
            "id": job.id(), "name": "greet", "queue": "mail", "topic": null,
            "payload": {"n": "12345678901234567890123"}, "payload_base64": null,
            "content_encoding": null, "headers": {"tenant": "7"},
            "attempts": 2, "error": "no", "backtrace": "0: main", "reason": "aborted",
            "failed_at_ms": 7, "enqueued_at_ms": 5, "enqueued_by": null,
        });
        assert_eq!(serde_json::to_value(&job).unwrap(), expected);
    }

    #[test]
    fn the_bytes_of_a_payload_that_is_no_json_are_serialized() {
        for (payload, encoding, shown, base64) in [
            (&b"[1]"[..], None, serde_json::json!([1]), None),
            (b"[1]", Some("utf-8"), serde_json::json!([1]), None),
            (b"[1", None, "[1".into(), Some("WzE=")),
            (b"\xff\0", None, serde_json::Value::Null, Some("/wA=")),
            (b"[1]", Some("gzip"), serde_json::Value::Null, Some("WzFd")),
        ] {
            let mut envelope = Envelope::new("mail", payload.to_vec());
            envelope.content_encoding = encoding.map(Into::into);
            let reason = FailedReason::UnreadablePayload;
            let job = FailedJob::new(envelope, 1, reason, String::new(), from_millis(7));
            assert_eq!(job.payload(), shown);
            let job = serde_json::to_value(&job).unwrap();
            assert_eq!(job["payload"], shown);
            assert_eq!(job["payload_base64"].as_str(), base64);
            assert_eq!(job["content_encoding"].as_str(), encoding);
        }
    }

    #[test]
    fn every_reason_is_read_as_it_is_written() {
        for reason in FailedReason::ALL {
            assert_eq!(FailedReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(FailedReason::parse("tired"), None);
    }
}
