//! Parser of JSON for display that rounds no number.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// The nesting limit of arrays and objects: that of `serde_json`.
const DEPTH: u8 = 127;

/// The value of this JSON, with each number that a `Value` cannot hold as a string of its digits;
/// `None` if it is invalid.
pub(crate) fn value(json: &[u8]) -> Option<Value> {
    exact(serde_json::from_slice(json).ok()?, DEPTH)
}

fn exact(raw: &RawValue, depth: u8) -> Option<Value> {
    let text = raw.get();
    match text.as_bytes().first()? {
        b'{' => {
            let depth = depth.checked_sub(1)?;
            let entries: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            let exact = |(key, raw)| Some((key, exact(raw, depth)?));
            entries.into_iter().map(exact).collect::<Option<_>>().map(Value::Object)
        }
        b'[' => {
            let depth = depth.checked_sub(1)?;
            let values: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            values.into_iter().map(|raw| exact(raw, depth)).collect::<Option<_>>().map(Value::Array)
        }
        b'-' | b'0'..=b'9' => Some(number(text)),
        _ => serde_json::from_str(text).ok(),
    }
}

fn number(text: &str) -> Value {
    // `serde_json` reads an integer of more than 64 bits as a float, and `-0` too.
    let is_rounded = |float: f64| float != 0.0 && !text.contains(['.', 'e', 'E']);
    match serde_json::from_str(text) {
        Ok(Value::Number(number)) if number.is_f64() && number.as_f64().is_some_and(is_rounded) => {
            Value::String(text.to_owned())
        }
        Ok(number) => number,
        // The number is beyond the range of a float.
        Err(_) => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_as_they_were_sent() {
        let table = [
            ("90.33333333333333", json!(90.333_333_333_333_33)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551616", json!("18446744073709551616")),
            ("-9223372036854775809", json!("-9223372036854775809")),
            ("1e400", json!("1e400")),
            ("1e23", json!(1e23)),
            ("-0", json!(-0.0)),
            (r#"{"a": [1e999, null, "1e999"]}"#, json!({"a": ["1e999", null, "1e999"]})),
            (r#" {"k\n": {"k": 1}, "b": true} "#, json!({"k\n": {"k": 1}, "b": true})),
            ("[]", json!([])),
        ];
        for (json, expected) in table {
            assert_eq!(value(json.as_bytes()), Some(expected), "{json}");
        }
    }

    #[test]
    fn invalid_json_is_none() {
        for json in ["", "{", "[1,]", "01", "nan", "\u{1}", "[1] 2"] {
            assert_eq!(value(json.as_bytes()), None, "{json}");
        }
        assert_eq!(value(b"\"\xff\""), None);
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(value(nested(127).as_bytes()).is_some());
        assert_eq!(value(nested(128).as_bytes()), None);
        assert_eq!(value(nested(100_000).as_bytes()), None);
    }
}
