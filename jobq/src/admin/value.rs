//! Values of payloads, compared without rounding a number. Pure.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::job::exact;

/// A JSON value. Numbers are equal if their texts are.
#[derive(Debug, Clone)]
pub(super) struct JsonValue(Box<RawValue>);

impl PartialEq for JsonValue {
    fn eq(&self, other: &Self) -> bool {
        are_equal(&self.0, &other.0)
    }
}

impl JsonValue {
    /// Parses JSON. The nesting is limited, since [`are_equal`] calls itself for each level of it.
    pub(super) fn parse(json: &str) -> Result<Self> {
        let value = serde_json::from_str(json).map_err(|problem| {
            let text = format!(
                "the value is not valid JSON: {problem}; strings need quotes, as in `\"ann\"`"
            );
            Error::invalid(text)
        })?;
        if exact::value(json.as_bytes()).is_none() {
            return Err(Error::invalid(
                "the value cannot be compared: its arrays or objects are nested too deeply, or a \
                 string is not valid Unicode",
            ));
        }
        Ok(Self(value))
    }

    /// Whether this value is at a pointer of a payload.
    pub(super) fn is_at(&self, pointer: &str, payload: &[u8]) -> bool {
        let root = serde_json::from_slice::<&RawValue>(payload).ok();
        root.and_then(|root| find(root, pointer)).is_some_and(|found| are_equal(found, &self.0))
    }
}

/// Returns an error if a text is no JSON pointer.
pub(super) fn check_pointer(pointer: &str) -> Result<()> {
    if pointer.is_empty() || pointer.starts_with('/') {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{pointer}` is not a JSON pointer: expected a path such as `/user/id`, or an empty string \
         for the whole payload"
    )))
}

/// The value at a pointer.
fn find<'v>(mut value: &'v RawValue, pointer: &str) -> Option<&'v RawValue> {
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = match value.get().as_bytes().first()? {
            b'{' => {
                let mut entries: BTreeMap<String, &RawValue> =
                    serde_json::from_str(value.get()).ok()?;
                entries.remove(&token)?
            }
            b'[' => {
                let is_index = token == "0" || !token.starts_with(['0', '+']);
                let index: usize = token.parse().ok().filter(|_| is_index)?;
                let values: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                *values.get(index)?
            }
            _ => return None,
        };
    }
    Some(value)
}

/// Whether two values are the same, apart from white space, the order of keys and escapes. It calls
/// itself for each level that both have: a payload may be nested without limit, a [`JsonValue`] not.
fn are_equal(one: &RawValue, other: &RawValue) -> bool {
    let (one, other) = (one.get(), other.get());
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => {
            type Entries<'v> = serde_json::Result<BTreeMap<String, &'v RawValue>>;
            let entries: (Entries<'_>, Entries<'_>) =
                (serde_json::from_str(one), serde_json::from_str(other));
            let (Ok(one), Ok(other)) = entries else { return false };
            one.len() == other.len()
                && one.iter().zip(&other).all(|((key, value), (other_key, other))| {
                    key == other_key && are_equal(value, other)
                })
        }
        (Some(b'['), Some(b'[')) => {
            type Values<'v> = serde_json::Result<Vec<&'v RawValue>>;
            let values: (Values<'_>, Values<'_>) =
                (serde_json::from_str(one), serde_json::from_str(other));
            let (Ok(one), Ok(other)) = values else { return false };
            one.len() == other.len()
                && one.iter().zip(&other).all(|(value, other)| are_equal(value, other))
        }
        (Some(b'"'), Some(b'"')) => {
            let texts: (serde_json::Result<String>, serde_json::Result<String>) =
                (serde_json::from_str(one), serde_json::from_str(other));
            matches!(texts, (Ok(one), Ok(other)) if one == other)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_exactly() {
        let payload = r#"{"n": 1, "t": "1", "z": null, "f": 1.0, "big": 123456789012345678901234,
            "a/b": {"~": [10, {"x": "caf\u00e9"}]}, "": 3, "l": [1, 2], "o": {"k": 1, "m": [ ]}}"#;
        for (pointer, json, expected) in [
            ("/n", "1", true),
            ("/n", r#""1""#, false),
            ("/n", "1.0", false),
            ("/t", r#""1""#, true),
            ("/t", "1", false),
            ("/f", "1.0", true),
            ("/f", "1", false),
            ("/z", "null", true),
            ("/missing", "null", false),
            ("/big", "123456789012345678901234", true),
            ("/big", "123456789012345678901235", false),
            ("/a~1b/~0/0", "10", true),
            ("/a~1b/~0/1/x", r#""café""#, true),
            ("/a~1b/~0/2", "null", false),
            ("/a~1b/~0/00", "10", false),
            ("/a~1b/~0/-", "null", false),
            ("/n/0", "1", false),
            ("/", "3", true),
            ("/l", "[1,2]", true),
            ("/l", "[2,1]", false),
            ("/o", r#"{ "m": [], "k": 1 }"#, true),
            ("/o", r#"{"k": 1}"#, false),
            ("", "{}", false),
        ] {
            check_pointer(pointer).unwrap();
            let value = JsonValue::parse(json).unwrap();
            assert_eq!(value.is_at(pointer, payload.as_bytes()), expected, "{pointer} = {json}");
        }
        let null = JsonValue::parse("null").unwrap();
        assert!(null.is_at("", b" null ") && !null.is_at("", b"nul") && !null.is_at("", b"\xff"));
    }

    #[test]
    fn what_is_no_pointer_and_no_json_is_refused() {
        assert!(check_pointer("user/id").unwrap_err().to_string().contains("`/user/id`"));
        assert!(JsonValue::parse("ann").unwrap_err().to_string().contains(r#"`"ann"`"#));
    }

    #[test]
    fn no_nesting_is_too_deep_for_a_payload() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deep = nested(20_000);
        assert!(JsonValue::parse(&deep).unwrap_err().is_invalid());
        let value = JsonValue::parse(&nested(100)).unwrap();
        assert!(value.is_at("", nested(100).as_bytes()) && !value.is_at("", deep.as_bytes()));
    }
}
