//! The codec of payloads, between values and bytes.

use std::any::type_name;
use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use super::{Job, exact, faithful, fields};
use crate::error::{Error, Result};

/// The largest payload that jobq sends: 16 MiB, the default `max_message_size` of RabbitMQ 4. The
/// embedded engine has the same limit, so that a program that works on a file works on a broker.
pub const MAX_PAYLOAD: usize = 16 * 1024 * 1024;

/// The values of `content_encoding` for plain JSON.
const PLAIN: [&str; 4] = ["", "identity", "utf-8", "utf8"];

/// Whether this version reads payloads of this encoding.
pub(crate) fn is_known(content_encoding: Option<&str>) -> bool {
    content_encoding.is_none_or(|encoding| {
        PLAIN.iter().any(|plain| plain.eq_ignore_ascii_case(encoding.trim()))
    })
}

/// The encoded payload of a job or an event, or the error.
///
/// It is encoded when the builder is made, so that the future does not depend on the job's type,
/// and the compiler reports a type that is no job only once.
pub(crate) struct Payload(pub(crate) Result<Vec<u8>>);

impl Payload {
    pub(crate) fn of_job<J: Job>(job: &J) -> Self {
        let what = format_args!("the payload of job `{}`", J::NAME);
        let payload = write(job, &what);
        if const { J::OPTIONS.is_read_back(cfg!(debug_assertions)) } {
            return Self(payload.and_then(read_back::<J>));
        }
        Self(payload)
    }

    /// The payload of a job without a type.
    pub(crate) fn of_named<P: Serialize + ?Sized>(payload: &P, name: &str) -> Self {
        let what = format_args!("the payload of job `{}`", name.escape_debug());
        Self(write(payload, &what))
    }

    pub(crate) fn of_event<E: Serialize + ?Sized>(event: &E, topic: &str) -> Self {
        Self(write(event, &format_args!("the event `{topic}`")))
    }
}

/// Returns the payload if a worker can decode it.
fn read_back<J: Job>(payload: Vec<u8>) -> Result<Vec<u8>> {
    match decode::<J>(&payload) {
        Ok(_) => Ok(payload),
        Err(error) => Err(Error::invalid(format!(
            "job `{}` was not enqueued: no worker could read its payload, since `{}` cannot be \
             deserialized from its own JSON: {error}; give the field a type that serde reads back \
             (a string for an integer of more than 64 bits or for a map key; no `flatten`, `tag` \
             or `untagged` around it)",
            J::NAME,
            type_name::<J>()
        ))
        .with_source(error)),
    }
}

fn write<T: Serialize + ?Sized>(value: &T, what: &fmt::Arguments<'_>) -> Result<Vec<u8>> {
    let payload = faithful::to_vec(value).map_err(|source| {
        Error::invalid(format!("{what} cannot be serialized as JSON: {source}"))
    })?;
    if payload.len() > MAX_PAYLOAD {
        return Err(Error::invalid(format!(
            "{what} has {} bytes, more than the limit of {MAX_PAYLOAD}; store the data elsewhere \
             and send a reference to it",
            payload.len()
        )));
    }
    Ok(payload)
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(payload) => write!(f, "{} bytes", payload.len()),
            Err(error) => error.fmt(f),
        }
    }
}

/// The bytes with which some programs begin a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Decodes a payload of a [known](is_known) encoding.
///
/// A struct with named fields is decoded from an object alone. Serde would take the elements of an
/// array for its fields, in their order, whatever the publisher meant by them.
pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> serde_json::Result<T> {
    if payload.starts_with(BYTE_ORDER_MARK) {
        let problem = "it begins with a byte order mark (EF BB BF); send UTF-8 without one";
        return Err(serde_json::Error::custom(problem));
    }
    let found = match payload.trim_ascii() {
        [] => Some("it is empty"),
        [b'[', ..] => Some("it is an array"),
        [b'"', .., b'"'] => Some("it is a string, perhaps JSON that was encoded twice"),
        _ => None,
    };
    if let Some(found) = found
        && let Some(fields) = fields::of::<T>()
    {
        let expected = match fields {
            [] => "the object `{}`".to_owned(),
            fields => format!("an object with the fields `{}`", fields.join("`, `")),
        };
        return Err(serde_json::Error::custom(format!("{found}; expected {expected}")));
    }
    serde_json::from_slice(payload).map_err(|error| match std::str::from_utf8(payload) {
        Ok(_) => error,
        Err(_) => serde_json::Error::custom(format!("it is not UTF-8 ({error})")),
    })
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

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Send {
        id: u32,
        #[serde(default)]
        to: String,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Both(u32, String);

    #[test]
    fn a_struct_with_named_fields_is_an_object() {
        for (payload, found) in [
            (r#" [1, "x"]"#, "it is an array"),
            (r#""{\"id\": 1}""#, "it is a string, perhaps JSON that was encoded twice"),
            (" ", "it is empty"),
        ] {
            let problem = decode::<Send>(payload.as_bytes()).unwrap_err().to_string();
            let expected = format!("{found}; expected an object with the fields `id`, `to`");
            assert_eq!(problem, expected);
        }
        let problem = decode::<Send>(b"{\"id\": 1, \"to\": \"\xe9\"}").unwrap_err().to_string();
        assert!(problem.starts_with("it is not UTF-8 ("), "{problem}");
        assert_eq!(decode::<Send>(br#"{"id": 1}"#).unwrap(), Send { id: 1, to: String::new() });
        assert_eq!(decode::<Both>(br#"[1, "x"]"#).unwrap(), Both(1, "x".to_owned()));
        assert_eq!(decode::<Vec<u8>>(b"[1]").unwrap(), [1]);
        assert_eq!(decode::<(u8, u8)>(b"[1, 2]").unwrap(), (1, 2));
        let wrapped = decode::<Vec<Send>>(br#"[{"id": 1}]"#).unwrap();
        assert_eq!(wrapped.len(), 1);
    }

    #[test]
    fn a_byte_order_mark_is_named() {
        let problem = decode::<Send>(b"\xef\xbb\xbf{}").unwrap_err().to_string();
        assert!(problem.starts_with("it begins with a byte order mark"), "{problem}");
    }

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
