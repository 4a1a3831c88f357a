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

/// Encodes a value as JSON, and returns whether it has an integer of more than 64 bits.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<(Vec<u8>, bool)> {
    faithful::to_vec(value)
}

/// Decodes a payload of a [known](is_known) encoding.
pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(payload)
}

/// A payload for display: its JSON, else its bytes as text.
pub(crate) fn show(payload: &[u8], content_encoding: Option<&str>) -> Value {
    let value = is_known(content_encoding).then(|| exact::value(payload)).flatten();
    value.unwrap_or_else(|| String::from_utf8_lossy(payload).into())
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
            assert_eq!(show(b"{}", Some(encoding)), "{}");
        }
        assert_eq!(show(b"{}", None), serde_json::json!({}));
    }
}
