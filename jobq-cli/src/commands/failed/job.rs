//! A failed job as a document.

use jobq::FailedJob;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::output::time::rfc3339;

/// The fields of a failed job: its payload as it was enqueued, with the exact numbers, and its
/// times as text.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    fields: Map<String, Value>,
    failed_at: String,
    enqueued_at: String,
    payload: Payload,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Payload {
    Json(Box<RawValue>),
    /// A payload that is no JSON, or encoded.
    Shown(Value),
}

impl From<&FailedJob> for Document {
    fn from(job: &FailedJob) -> Self {
        let mut fields = match serde_json::to_value(job) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let shown = fields.remove("payload").unwrap_or_default();
        fields.remove("failed_at_ms");
        fields.remove("enqueued_at_ms");
        Self {
            fields,
            failed_at: rfc3339(job.failed_at()),
            enqueued_at: rfc3339(job.enqueued_at()),
            payload: exact(job.payload_bytes()).map_or(Payload::Shown(shown), Payload::Json),
        }
    }
}

/// A payload that is JSON, in one line: line ends stand between values alone.
fn exact(payload: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(payload).ok()?;
    serde_json::from_str(&text.replace(['\n', '\r'], " ")).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jobq::{Envelope, FailedReason};

    use super::*;

    fn document(payload: &[u8]) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        let mut envelope = Envelope::new("mail", payload.to_vec());
        envelope.name = Some("greet".into());
        envelope.enqueued_at = time;
        let job = FailedJob::new(envelope, 4, FailedReason::Exhausted, "no".into(), time);
        serde_json::to_string(&Document::from(&job)).unwrap()
    }

    #[test]
    fn a_payload_has_its_exact_numbers_in_one_line() {
        let text = document(b"{\n\"n\": 12345678901234567890123,\r\n\"x\": 1.10}");
        assert!(
            text.contains(r#""payload":{ "n": 12345678901234567890123,  "x": 1.10}"#),
            "{text}"
        );
        assert!(text.contains(r#""failed_at":"1970-01-01T00:00:01.500Z""#), "{text}");
        assert!(!text.contains("_ms"), "{text}");
    }

    #[test]
    fn a_payload_that_is_no_json_is_shown_as_text() {
        let text = document(b"\xffno");
        assert!(text.contains("\"payload\":\"\u{fffd}no\""), "{text}");
    }
}
