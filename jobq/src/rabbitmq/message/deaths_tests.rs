use std::collections::BTreeMap;

use lapin::types::{LongString, ShortString};

use super::*;

fn table(entries: impl IntoIterator<Item = (&'static str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert(ShortString::try_new(key).unwrap(), value);
    }
    table
}

fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

fn array(values: Vec<AMQPValue>) -> AMQPValue {
    AMQPValue::FieldArray(FieldArray::from(values))
}

fn death(queue: &str, reason: &str, count: AMQPValue) -> AMQPValue {
    AMQPValue::FieldTable(table([
        ("count", count),
        ("exchange", long("jobq")),
        ("queue", long(queue)),
        ("reason", long(reason)),
        ("routing-keys", array(vec![long("mail@30000")])),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
    ]))
}

fn number(number: i64) -> AMQPValue {
    AMQPValue::LongLongInt(number)
}

/// The headers that brokers send after four rounds of one nack and one expiry.
fn recorded(version: &str) -> FieldTable {
    let mut headers = table([
        (
            "x-death",
            array(vec![
                death("jobq:mail@wait.30s", "expired", number(4)),
                death("jobq:mail", "rejected", number(4)),
            ]),
        ),
        ("x-first-death-exchange", long("jobq")),
        ("x-first-death-queue", long("jobq:mail")),
        ("x-first-death-reason", long("rejected")),
    ]);
    let mut add = |key, value| {
        headers.insert(ShortString::try_new(key).unwrap(), value);
    };
    if version != "3.10" {
        add("x-last-death-exchange", long("jobq.retry"));
        add("x-last-death-queue", long("jobq:mail@wait.30s"));
        add("x-last-death-reason", long("expired"));
    }
    match version {
        "3.10" => add("x-delivery-count", number(0)),
        "4.0" => add("x-delivery-count", number(4)),
        _ => (),
    }
    headers
}

#[test]
fn every_broker_counts_what_it_rejected() {
    for version in ["3.10", "4.0", "4.3"] {
        let headers = recorded(version);
        assert_eq!(attempts_used(&headers, vec!["jobq:mail".to_owned()]), 4, "{version}");
        assert_eq!(attempts_used(&headers, vec!["jobq:other".to_owned()]), 0, "{version}");
        let queues: Vec<_> = queues_of_death(&headers).collect();
        assert_eq!(queues, ["jobq:mail@wait.30s", "jobq:mail"], "{version}");
    }
}

#[test]
fn attempts_in_the_header_are_added() {
    for version in ["3.10", "4.0", "4.3"] {
        let mut headers = recorded(version);
        headers.insert(ShortString::try_new(ATTEMPTS_HEADER).unwrap(), number(3));
        assert_eq!(attempts_used(&headers, vec!["jobq:mail".to_owned()]), 7, "{version}");
    }
}

#[test]
fn hostile_headers_do_no_harm() {
    let work = "jobq:mail";
    let works = || vec!["jobq:mail@high".to_owned(), work.to_owned()];
    let said = |value| table([(ATTEMPTS_HEADER, value)]);
    let died = |value| table([("x-death", value)]);
    let entry = |count| died(array(vec![death(work, "rejected", count)]));
    let table = [
        (table([]), 0),
        (said(AMQPValue::ShortShortUInt(3)), 3),
        (said(AMQPValue::ShortShortInt(-3)), 0),
        (said(AMQPValue::ShortInt(3)), 3),
        (said(AMQPValue::ShortUInt(3)), 3),
        (said(AMQPValue::LongInt(3)), 3),
        (said(AMQPValue::LongUInt(u32::MAX)), MOST),
        (said(number(i64::MAX)), MOST),
        (said(number(i64::MIN)), 0),
        (said(long("3")), 0),
        (said(AMQPValue::Double(3.0)), 0),
        (said(AMQPValue::Timestamp(3)), 0),
        (said(AMQPValue::Void), 0),
        (died(array(vec![])), 0),
        (died(array(vec![AMQPValue::FieldTable(FieldTable::default())])), 0),
        (died(AMQPValue::FieldTable(FieldTable::default())), 0),
        (entry(long("4")), 0),
        (entry(number(-4)), 0),
        (entry(AMQPValue::LongInt(4)), 4),
        (entry(number(i64::MAX)), MOST),
        (died(array(vec![death(work, "expired", number(4))])), 0),
        (died(array(vec![death(work, "maxlen", number(4))])), 0),
        (died(array(vec![death(work, "delivery_limit", number(4))])), 0),
        (
            died(array(vec![
                death("other", "rejected", number(9)),
                death(work, "expired", number(9)),
                death(work, "rejected", number(2)),
            ])),
            2,
        ),
        (
            died(array(vec![
                death(work, "rejected", number(2)),
                death("jobq:mail@high", "rejected", number(3)),
            ])),
            5,
        ),
    ];
    for (headers, expected) in table {
        assert_eq!(attempts_used(&headers, works()), expected, "{headers:?}");
    }
    let mut both = entry(number(i64::MAX));
    both.insert(ShortString::try_new(ATTEMPTS_HEADER).unwrap(), number(i64::MAX));
    assert_eq!(attempts_used(&both, works()), MOST);
    let latin = AMQPValue::LongString(LongString::from(vec![0xff, 0xfe]));
    assert_eq!(attempts_used(&said(latin), works()), 0);
}

#[test]
fn policies_are_distinguished_from_rejections() {
    let died = |entries| table([("x-death", array(entries))]);
    let one = |queue, reason| died(vec![death(queue, reason, number(1))]);
    let table = [
        (recorded("4.3"), None),
        (one("jobq:mail", "rejected"), None),
        (one("jobq:mail@wait.30s", "expired"), None),
        (one("jobq:mail", "expired"), Some("expired")),
        (one("jobq:mail", "maxlen"), Some("maxlen")),
        (one("jobq:mail", "delivery_limit"), Some("delivery_limit")),
        (
            died(vec![
                death("jobq:mail@wait.30s", "expired", number(1)),
                death("jobq:mail", "rejected", number(1)),
                death("jobq:mail", "expired", number(1)),
            ]),
            Some("expired"),
        ),
        (table([("x-death", AMQPValue::Boolean(true))]), None),
        (table([]), None),
    ];
    for (headers, expected) in table {
        assert_eq!(died_by_policy(&headers, "jobq:mail"), expected, "{headers:?}");
    }
}

#[test]
fn the_key_at_death_is_found() {
    for version in ["3.10", "4.0", "4.3"] {
        let headers = recorded(version);
        assert_eq!(key_at_death(&headers, "jobq:mail@wait.30s"), Some("mail@30000"), "{version}");
        assert_eq!(key_at_death(&headers, "jobq:mail@due"), None, "{version}");
    }
    let died = |keys| {
        let entry = [("queue", long("jobq:mail@due")), ("routing-keys", keys)];
        table([("x-death", array(vec![AMQPValue::FieldTable(table(entry))]))])
    };
    for keys in [long("mail"), array(vec![]), array(vec![number(1)]), AMQPValue::Void] {
        assert_eq!(key_at_death(&died(keys.clone()), "jobq:mail@due"), None, "{keys:?}");
    }
}

fn history(headers: &FieldTable) -> History {
    History::of(headers, || vec!["jobq:mail".to_owned()])
}

#[test]
fn histories_that_no_broker_writes_are_forged() {
    let is_forged = |headers: &FieldTable| history(headers).is_forged;
    for version in ["3.10", "4.0", "4.3"] {
        assert!(!is_forged(&recorded(version)), "{version}");
    }
    assert!(!is_forged(&FieldTable::default()));
    let died = |value| table([("x-death", value)]);
    let AMQPValue::FieldTable(good) = death("jobq:mail", "rejected", number(4)) else {
        panic!("a table");
    };
    assert!(!is_forged(&died(array(vec![AMQPValue::FieldTable(good.clone())]))));
    // Each version of RabbitMQ takes these.
    let table_alone = AMQPValue::FieldTable(good.clone());
    let empty = array(vec![AMQPValue::FieldTable(FieldTable::default())]);
    for value in [AMQPValue::Boolean(true), table_alone, empty] {
        assert!(is_forged(&died(value.clone())), "{value:?}");
    }
    for key in good.inner().keys() {
        let without = good.inner().iter().filter(|(other, _)| *other != key);
        let mut entries: BTreeMap<_, _> =
            without.map(|(key, value)| (key.clone(), value.clone())).collect();
        let entry = |entries: &BTreeMap<_, _>| {
            died(array(vec![AMQPValue::FieldTable(entries.clone().into())]))
        };
        assert!(is_forged(&entry(&entries)), "without {key}");
        entries.insert(key.clone(), AMQPValue::Boolean(true));
        assert!(is_forged(&entry(&entries)), "{key} of another type");
    }
    for count in [-1, i64::MAX] {
        assert!(is_forged(&died(array(vec![death("q", "rejected", number(count))]))));
    }
}

#[test]
fn returns_that_are_rejections_are_no_crashes() {
    let count = |number| ("x-delivery-count", AMQPValue::LongLongInt(number));
    let rejected = |times| {
        let mut death = FieldTable::default();
        death.insert("queue".into(), AMQPValue::LongString("jobq:mail".into()));
        death.insert("reason".into(), AMQPValue::LongString("rejected".into()));
        death.insert("count".into(), AMQPValue::LongLongInt(times));
        let deaths = FieldArray::from(vec![AMQPValue::FieldTable(death)]);
        ("x-death", AMQPValue::FieldArray(deaths))
    };
    let rows = [
        (vec![], 0),
        (vec![count(0)], 0),
        (vec![count(2)], 2),
        (vec![count(-1)], 0),
        (vec![("x-delivery-count", AMQPValue::LongString("3".into()))], 0),
        // 4.0 counts earlier rejections on the first delivery after them.
        (vec![count(4), rejected(4)], 0),
        (vec![count(1), rejected(4)], 1),
        // 3.10 starts at 0 in each round, and 4.3 sends no count.
        (vec![count(0), rejected(4)], 0),
        (vec![rejected(4)], 0),
    ];
    for (entries, expected) in rows {
        let headers = table(entries);
        assert_eq!(history(&headers).crashes, expected, "{headers:?}");
    }
    // The broker's own count decides how a job is handed back.
    let headers = table([count(4), rejected(4)]);
    assert_eq!(history(&headers).returns, 4);
}
