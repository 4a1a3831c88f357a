//! The size of headers, which must fit into one frame.

use std::collections::BTreeMap;

use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::job::headers::NEEDS;
use crate::telemetry::Who;

/// The most bytes of headers that jobq sends. A frame has 128 KiB, and a larger one ends the
/// connection.
pub(crate) const MAX_HEADERS: usize = 64 * 1024;

/// The context of a trace, as W3C names it.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Drops headers of a job until the rest fits: first the trace, then the largest of the others.
pub(crate) fn shrink(headers: &mut BTreeMap<ShortString, AMQPValue>, who: &Who) {
    let size = |(key, value): (&ShortString, &AMQPValue)| entry_size(key, value);
    let mut total: usize = headers.iter().map(size).sum();
    let needed = words(headers.get(NEEDS));
    while total > MAX_HEADERS {
        // A frame that is too large ends the connection, so that even a header of jobq goes: that of
        // another client, since jobq's own are short.
        let first = headers.iter().max_by_key(|entry| (haste(entry.0, &needed), size(*entry)));
        let Some(key) = first.map(|(key, _)| key.clone()) else { return };
        if let Some(value) = headers.remove(&key) {
            let length = entry_size(&key, &value);
            let Who { job, id, queue, attempt, .. } = who;
            tracing::warn!(
                %job, %id, %queue, attempt, header = key.as_str(), length,
                "header dropped: too long to send"
            );
            total -= length;
        }
    }
}

/// The words of a header.
fn words(value: Option<&AMQPValue>) -> Vec<String> {
    let Some(AMQPValue::LongString(text)) = value else { return Vec::new() };
    String::from_utf8_lossy(text.as_bytes()).split_whitespace().map(str::to_owned).collect()
}

/// How soon a header goes, the highest first. Those of jobq, and those that the job needs, go last.
fn haste(key: &ShortString, needed: &[String]) -> u8 {
    let key = key.as_str();
    if key.starts_with("jobq-") || needed.iter().any(|word| word == key) {
        0
    } else {
        1 + u8::from(TRACE.contains(&key))
    }
}

fn entry_size(key: &ShortString, value: &AMQPValue) -> usize {
    1 + key.as_str().len() + size_of(value)
}

pub(crate) fn size_of_table(table: &FieldTable) -> usize {
    4 + table.inner().iter().map(|(key, value)| entry_size(key, value)).sum::<usize>()
}

/// The bytes of a value on the wire, including its type byte.
fn size_of(value: &AMQPValue) -> usize {
    1 + match value {
        AMQPValue::Void => 0,
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::LongString(text) => 4 + text.len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.len(),
        AMQPValue::FieldArray(values) => 4 + values.as_slice().iter().map(size_of).sum::<usize>(),
        AMQPValue::FieldTable(table) => size_of_table(table),
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::{DecimalValue, FieldArray, generation};

    use super::*;

    #[test]
    fn the_size_of_headers_is_that_of_lapin() {
        let mut table = FieldTable::default();
        let values = [
            AMQPValue::Boolean(true),
            AMQPValue::ShortShortInt(1),
            AMQPValue::ShortShortUInt(1),
            AMQPValue::ShortInt(1),
            AMQPValue::ShortUInt(1),
            AMQPValue::LongInt(1),
            AMQPValue::LongUInt(1),
            AMQPValue::LongLongInt(1),
            AMQPValue::Float(1.0),
            AMQPValue::Double(1.0),
            AMQPValue::DecimalValue(DecimalValue { scale: 1, value: 1 }),
            AMQPValue::LongString("text".into()),
            AMQPValue::Timestamp(1),
            AMQPValue::ByteArray(vec![1, 2, 3].into()),
            AMQPValue::Void,
            AMQPValue::FieldArray(FieldArray::from(vec![
                AMQPValue::LongString("a".into()),
                AMQPValue::Void,
            ])),
        ];
        for (index, value) in values.into_iter().enumerate() {
            table.insert(format!("key{index}").into(), value);
        }
        let inner = AMQPValue::FieldTable(table.clone());
        table.insert("inner".into(), inner);
        let written = generation::gen_field_table(&table)(Vec::new().into()).unwrap();
        assert_eq!(size_of_table(&table), written.write.len());
    }
}
