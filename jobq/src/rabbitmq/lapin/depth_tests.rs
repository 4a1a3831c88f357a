use lapin::BasicProperties;
use lapin::protocol::basic::gen_properties;
use lapin::types::{AMQPValue, FieldArray, FieldTable};

use super::*;

/// Nested lists, with some tables among them.
fn nested(levels: usize) -> AMQPValue {
    (0..levels).fold(AMQPValue::Boolean(true), |inner, level| {
        if level % 5 == 3 {
            let mut table = FieldTable::default();
            table.insert("deeper".into(), inner);
            AMQPValue::FieldTable(table)
        } else {
            let values = vec![AMQPValue::LongLongInt(1), inner, AMQPValue::Void];
            AMQPValue::FieldArray(FieldArray::from(values))
        }
    })
}

fn depth(value: &AMQPValue) -> usize {
    match value {
        AMQPValue::FieldArray(values) => 1 + values.as_slice().iter().map(depth).max().unwrap_or(0),
        AMQPValue::FieldTable(table) => 1 + table.inner().values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 0, 1][..], &size, payload, &[0xce]].concat()
}

fn header(properties: &BasicProperties) -> Vec<u8> {
    let written = gen_properties(properties)(Vec::new().into()).unwrap().into_inner().0;
    frame(2, &[&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9][..], &written].concat())
}

fn read(frame: &[u8]) -> BasicProperties {
    let inside = &frame[7 + BEFORE_FLAGS..frame.len() - 1];
    lapin::protocol::basic::parse_properties(inside).unwrap().1
}

fn messages() -> Vec<BasicProperties> {
    let headers = |levels: &[usize]| {
        let mut headers = FieldTable::default();
        for (number, levels) in levels.iter().enumerate() {
            headers.insert(format!("before{number}").into(), AMQPValue::LongString("t".into()));
            headers.insert(format!("deep{number}").into(), nested(*levels));
            headers.insert(format!("f{number}").into(), AMQPValue::Double(0.5));
        }
        headers
    };
    let plain = BasicProperties::default;
    vec![
        plain(),
        plain().with_message_id("no headers".into()),
        plain().with_headers(FieldTable::default()).with_priority(3),
        plain().with_content_type("a/b".into()).with_headers(headers(&[0, 1, 5])),
        plain().with_content_encoding("x".into()).with_headers(headers(&[31, 2])),
        plain()
            .with_content_type("a/b".into())
            .with_content_encoding("gzip".into())
            .with_headers(headers(&[32, 3, 90, 31, 40]))
            .with_type("FAFAFA".into()),
        plain().with_headers(headers(&[60])),
    ]
}

#[test]
fn deep_values_become_bytes_for_any_chunks() {
    let method = frame(1, &[0, 60, 0, 60, b'A', b'F', 2, 2]);
    let body = frame(3, &[2, 0, 1, 0, 0, 0, 9, b'A', 0xce]);
    for piece in [1, 2, 7, 8, 100, 100_000] {
        let mut shallow = Shallow::default();
        for properties in messages() {
            let sent = [method.clone(), header(&properties), body.clone(), frame(8, &[])];
            let mut come = sent.concat();
            come.chunks_mut(piece).for_each(|bytes| shallow.pass(bytes));
            let [start, length] = [method.len(), sent[1].len()];
            assert_eq!(come[..start], *method, "methods are let alone");
            assert_eq!(come[start + length..], *sent[2..].concat(), "and bodies");
            let found = read(&come[start..start + length]);
            let none = FieldTable::default();
            let headers = found.headers().as_ref().unwrap_or(&none).inner();
            let expected = properties.headers().as_ref().unwrap_or(&none).inner();
            assert_eq!(headers.len(), expected.len());
            for (key, value) in expected {
                // The headers are the first level.
                if depth(value) < MOST {
                    assert_eq!(headers[key], *value, "{key}");
                } else {
                    assert_eq!(depth(&headers[key]), MOST - 1, "{key}");
                }
            }
            assert_eq!(found.kind(), properties.kind());
        }
    }
}

/// The shortest nesting: lists with nothing else in them, under an empty key.
#[test]
fn the_shortest_deep_value_becomes_bytes() {
    let list = |inner: Vec<AMQPValue>| AMQPValue::FieldArray(FieldArray::from(inner));
    let mut value = list(vec![]);
    for levels in 1..=MOST {
        let mut headers = FieldTable::default();
        headers.insert("".into(), value.clone());
        let sent = header(&BasicProperties::default().with_headers(headers));
        let mut come = sent.clone();
        Shallow::default().pass(&mut come);
        assert_eq!(come == sent, levels < MOST, "{levels} lists in the headers");
        value = list(vec![value]);
    }
}

#[test]
fn invalid_messages_are_harmless() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let mut shallow = Shallow::default();
        let mut bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        if random.bool() && bytes.len() > 7 {
            bytes[..7].copy_from_slice(&[2, 0, 1, 0, 0, 0, random.u8(..)]);
        }
        let before = bytes.clone();
        shallow.pass(&mut bytes);
        assert_eq!(bytes, before, "that is never so deep");
    }
    // Lengths beyond the end of their frame do not affect the next one.
    let mut headers = FieldTable::default();
    headers.insert("deep".into(), nested(40));
    let good = header(&BasicProperties::default().with_headers(headers));
    for wrong in [&[0x20, 0, 255, 255, 255, 255][..], &[0x80, 0, 255], &[0x20], &[]] {
        let mut shallow = Shallow::default();
        let lead = frame(2, &[&[0; 12][..], wrong].concat());
        let mut bytes = [lead.clone(), good.clone()].concat();
        shallow.pass(&mut bytes);
        assert_eq!(bytes[..lead.len()], lead);
        assert_ne!(bytes[lead.len()..], good, "{wrong:?}");
    }
}
