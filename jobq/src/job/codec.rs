//! The codec of payloads, between values and bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{exact, faithful};

/// The values of `content_encoding` for plain JSON.
const PLAIN: [&str; 4] = ["", "identity", "utf-8", "utf8"];

/// Whether this version reads payloads of this encoding.
pub(crate) fn is_known(content_encoding: Option<&str>) -> bool {
    content_encoding.is_none_or(|encoding| {
        PLAIN.iter().any(|plain| plain.eq_ignore_ascii_case(encoding.trim()))
    })
}

/// Encodes a value as JSON.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    faithful::to_vec(value)
}

/// Decodes a payload of a [known](is_known) encoding.
pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(payload)
}

/// A payload as text. `None` if it is encoded, or no UTF-8.
pub(crate) fn text<'p>(payload: &'p [u8], content_encoding: Option<&str>) -> Option<&'p str> {
    is_known(content_encoding).then(|| std::str::from_utf8(payload).ok()).flatten()
}

/// The JSON of a payload for display; `None` if it is [no text](text), or no JSON.
pub(crate) fn json(payload: &[u8], content_encoding: Option<&str>) -> Option<Value> {
    text(payload, content_encoding).and_then(|text| exact::value(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_encodings_are_read() {
        for encoding in [None, Some(""), Some("utf-8"), Some("UTF-8"), Some(" identity ")] {
            assert!(is_known(encoding), "{encoding:?}");
        }
        for encoding in ["gzip", "utf-16", "base64"] {
            assert!(!is_known(Some(encoding)), "{encoding}");
            assert_eq!(text(b"{}", Some(encoding)), None);
            assert_eq!(json(b"{}", Some(encoding)), None);
        }
        assert_eq!(json(b"{}", None), Some(serde_json::json!({})));
        assert_eq!((text(b"no", None), json(b"no", None)), (Some("no"), None));
        assert_eq!((text(b"\xffno", None), json(b"\xffno", None)), (None, None));
    }
}
