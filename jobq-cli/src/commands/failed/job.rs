//! A failed job as a document.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobq::FailedJob;
use jobq::admin::text;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The fields of a failed job: its payload as it was enqueued, with the exact numbers, and its
/// times as text. Where the text of `payload` is not the payload byte for byte, `payload_base64` has
/// the bytes. docs/failed-jobs.md says how an import reads it.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    fields: Map<String, Value>,
    failed_at: String,
    enqueued_at: String,
    payload: Payload,
    payload_base64: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Payload {
    Json(Box<RawValue>),
    /// A payload that is text and no JSON; null if it is no text.
    Shown(Value),
}

impl From<&FailedJob> for Document {
    fn from(job: &FailedJob) -> Self {
        let mut fields = match serde_json::to_value(job) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let shown = fields.remove("payload").unwrap_or_default();
        fields.remove("payload_base64");
        let json = job.payload_text().and_then(one_line);
        let is_exact =
            json.as_ref().is_some_and(|json| json.get().as_bytes() == job.payload_bytes());
        fields.remove("failed_at_ms");
        fields.remove("enqueued_at_ms");
        Self {
            fields,
            failed_at: text::time_millis(job.failed_at()),
            enqueued_at: text::time_millis(job.enqueued_at()),
            payload_base64: (!is_exact).then(|| BASE64_STANDARD.encode(job.payload_bytes())),
            payload: json.map_or(Payload::Shown(shown), Payload::Json),
        }
    }
}

/// A payload that is JSON, in one line: line ends stand between values alone.
fn one_line(text: &str) -> Option<Box<RawValue>> {
    serde_json::from_str(&text.replace(['\n', '\r'], " ")).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, SystemTime};

    use jobq::FailedReason;
    use jobq::engine::Envelope;

    use super::*;

    fn document(payload: &[u8]) -> String {
        encoded(payload, None)
    }

    fn encoded(payload: &[u8], content_encoding: Option<&'static str>) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        let mut envelope = Envelope::new("mail", payload.to_vec());
        envelope.name = Some("greet".into());
        envelope.enqueued_at = time;
        envelope.content_encoding = content_encoding.map(Into::into);
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
    fn the_bytes_of_every_payload_can_be_read_again() {
        let gzip = Some("gzip");
        for (payload, encoding, shown) in [
            (&b"{\"n\": 1.10}"[..], None, "{\"n\": 1.10}"),
            (b"{\n\"n\": 1}\r\n", None, "{ \"n\": 1}"),
            (b" 7", Some("utf-8"), "7"),
            (b"no", None, "\"no\""),
            (b"\"no\"", None, "\"no\""),
            (b"", None, "\"\""),
            (b"\xffno", None, "null"),
            (b"\x1f\x8b\x08\0", gzip, "null"),
            (b"{}", gzip, "null"),
        ] {
            let text = encoded(payload, encoding);
            assert!(text.contains(&format!("\"payload\":{shown},")), "{text}");
            let document: BTreeMap<&str, &RawValue> = serde_json::from_str(&text).unwrap();
            let field =
                |name| serde_json::from_str::<Option<String>>(document[name].get()).unwrap();
            let bytes = match field("payload_base64") {
                Some(base64) => BASE64_STANDARD.decode(base64).unwrap(),
                None => document["payload"].get().into(),
            };
            assert_eq!(bytes, payload, "{text}");
            assert_eq!(field("content_encoding").as_deref(), encoding, "{text}");
        }
    }
}
