//! Checks documents against the schemas in `jobq-cli/schema`, by the part of JSON Schema that these
//! use.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Fails unless a document matches a schema, by the name of its file.
pub(crate) fn check(name: &str, document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap();
    let problems = problems(&schema, document, "the document");
    assert!(problems.is_empty(), "{name}.json: {problems:#?}\n{document:#}");
}

/// How a value differs from a schema.
fn problems(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|rule| is_of_type(rule, value)),
                rule => is_of_type(rule, value),
            },
            "const" => rule == value,
            "enum" => rule.as_array().is_some_and(|values| values.contains(value)),
            "format" => is_in_format(rule, value),
            "required" => rule
                .as_array()
                .is_some_and(|names| names.iter().all(|name| value.get(text(name)).is_some())),
            "properties" => {
                for (name, schema) in rule.as_object().expect("properties are an object") {
                    if let Some(value) = value.get(name) {
                        found.extend(problems(schema, value, &format!("{place}.{name}")));
                    }
                }
                true
            }
            "additionalProperties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_some() {
                        continue;
                    }
                    if *rule == false {
                        found.push(format!("{place} has a further `{name}`"));
                    } else {
                        found.extend(problems(rule, value, &format!("{place}.{name}")));
                    }
                }
                true
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(problems(rule, value, &format!("{place}[{index}]")));
                }
                true
            }
            other => panic!("the schemas use no `{other}`, which nobody checks"),
        };
        if !holds {
            found.push(format!("{place} is {value}, not {keyword} {rule}"));
        }
    }
    found
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a name in a schema is a string")
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    match text(rule) {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schemas use no type `{other}`"),
    }
}

/// A value that is no text has no format.
fn is_in_format(rule: &Value, value: &Value) -> bool {
    let Some(value) = value.as_str() else { return true };
    match text(rule) {
        "date-time" => humantime::parse_rfc3339(value).is_ok(),
        "uuid" => value.parse::<jobq::JobId>().is_ok(),
        other => panic!("the schemas use no format `{other}`"),
    }
}

#[test]
fn what_differs_from_a_schema_is_found() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["v", "items"],
        "properties": {
            "v": {"const": 1},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "items": {"type": "array", "items": {"type": "integer"}},
        },
        "additionalProperties": false,
    });
    for (document, expected) in [
        (serde_json::json!({"v": 1, "items": [3], "at": "2030-01-01T08:00:00Z"}), 0),
        (serde_json::json!({"v": 1, "items": [], "at": null}), 0),
        (serde_json::json!({"v": 2, "items": [3]}), 1),
        (serde_json::json!({"v": 1, "items": [3, "4", 5.5]}), 2),
        (serde_json::json!({"v": 1}), 1),
        (serde_json::json!({"v": 1, "items": [], "at": "today", "more": 1}), 2),
        (serde_json::json!([]), 2),
    ] {
        assert_eq!(problems(&schema, &document, "it").len(), expected, "{document}");
    }
}
