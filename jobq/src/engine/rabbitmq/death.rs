//! The number of an attempt: a pure function of a message's headers.

use lapin::types::{AMQPValue, FieldArray, FieldTable};

/// The header with the number of attempts that were used up when the message was last
/// published; the broker counts those since then.
pub(crate) const ATTEMPTS_HEADER: &str = "jobq-attempts";
/// More attempts than any policy allows; a number beyond it has no other meaning.
const MOST: u32 = i32::MAX as u32;

/// What the headers of a message tell of the deliveries before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// See [`attempts_used`].
    pub(crate) attempts: u32,
    /// How often the worker that had a delivery may have died of it: what the broker counted
    /// as returns of it.
    ///
    /// Which returns count differs between versions, and of the prefetched deliveries of a
    /// worker that died each was returned. 4.0 says the rejections of before, which are
    /// failed attempts.
    pub(crate) crashes: u32,
    /// Whether the message died anywhere.
    pub(crate) died: bool,
    /// Whether `x-death` is not as a broker writes it.
    ///
    /// A broker that is to move such a message reads it, fails, and from then on moves nothing
    /// more out of that queue.
    pub(crate) is_forged: bool,
}

impl History {
    /// What these headers tell. The name of the work queue is asked for only where something
    /// died, which most messages have not.
    pub(crate) fn of(headers: &FieldTable, work_queue: impl FnOnce() -> String) -> Self {
        let number = |key| headers.inner().get(key).and_then(integer).map_or(0, sane);
        let (said, returns) = (number(ATTEMPTS_HEADER), number("x-delivery-count"));
        let Some(deaths) = headers.inner().get("x-death") else {
            return Self { attempts: said, crashes: returns, died: false, is_forged: false };
        };
        let rejections = rejections(deaths, &work_queue());
        Self {
            attempts: said.saturating_add(rejections).min(MOST),
            crashes: if returns == rejections { 0 } else { returns },
            died: true,
            is_forged: is_forged(deaths),
        }
    }
}

/// How many attempts were used up before this delivery: those that the message says,
/// and those that the broker counted since, as rejections by the work queue.
///
/// The broker's entry is searched for, since the order of entries differs between
/// versions. `x-delivery-count` and `redelivered` say nothing about attempts.
pub(crate) fn attempts_used(headers: &FieldTable, work_queue: &str) -> u32 {
    History::of(headers, || work_queue.to_owned()).attempts
}

/// How often the work queue rejected the message.
fn rejections(deaths: &AMQPValue, work_queue: &str) -> u32 {
    tables(deaths)
        .filter(|death| is_text(death, "queue", work_queue) && is_text(death, "reason", "rejected"))
        .find_map(|death| death.inner().get("count").and_then(integer))
        .map_or(0, sane)
}

/// The entries of an `x-death`.
fn tables(deaths: &AMQPValue) -> impl Iterator<Item = &FieldTable> {
    let deaths = deaths.as_array().map(FieldArray::as_slice).unwrap_or_default();
    deaths.iter().filter_map(AMQPValue::as_field_table)
}

/// Why the work queue lost the message, if not because a worker rejected it: then a policy
/// limits it, since jobq does not.
pub(crate) fn died_by_policy<'h>(headers: &'h FieldTable, work_queue: &str) -> Option<&'h str> {
    const OF_POLICIES: [&str; 3] = ["expired", "maxlen", "delivery_limit"];
    let here =
        tables(headers.inner().get("x-death")?).filter(|death| is_text(death, "queue", work_queue));
    let mut reasons = here.filter_map(|death| death.inner().get("reason").and_then(text));
    reasons.find(|reason| OF_POLICIES.contains(reason))
}

fn is_forged(deaths: &AMQPValue) -> bool {
    let deaths = deaths.as_array().map(FieldArray::as_slice);
    !deaths.is_some_and(|deaths| deaths.iter().all(is_death))
}

fn is_death(value: &AMQPValue) -> bool {
    let Some(death) = value.as_field_table() else {
        return false;
    };
    let is = |key: &str, sound: fn(&AMQPValue) -> bool| death.inner().get(key).is_some_and(sound);
    let is_long = |value: &AMQPValue| matches!(value, AMQPValue::LongString(_));
    is("queue", is_long)
        && is("reason", is_long)
        && is("exchange", is_long)
        && is("routing-keys", |keys| {
            let keys = keys.as_array().map(FieldArray::as_slice);
            keys.is_some_and(|keys| keys.iter().all(|key| text(key).is_some()))
        })
        && is(
            "count",
            |count| matches!(count, AMQPValue::LongLongInt(count) if (0..=i64::from(MOST)).contains(count)),
        )
        && is("time", |time| matches!(time, AMQPValue::Timestamp(_)))
}

/// The routing key that the message had in a queue in which it died.
pub(crate) fn key_at_death<'h>(headers: &'h FieldTable, queue: &str) -> Option<&'h str> {
    let mut here =
        tables(headers.inner().get("x-death")?).filter(|death| is_text(death, "queue", queue));
    let keys = here.find_map(|death| death.inner().get("routing-keys")?.as_array());
    keys?.as_slice().first().and_then(text)
}

/// The queues in which the message died, latest first where the broker says so.
pub(crate) fn queues_of_death(headers: &FieldTable) -> impl Iterator<Item = &str> {
    let deaths = headers.inner().get("x-death").into_iter().flat_map(tables);
    deaths.filter_map(|death| death.inner().get("queue").and_then(text))
}

fn is_text(table: &FieldTable, key: &str, expected: &str) -> bool {
    table.inner().get(key).and_then(text) == Some(expected)
}

/// A text of either kind, if it is UTF-8.
pub(crate) fn text(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

/// An integer of any width.
pub(crate) fn integer(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(number) => Some(number.into()),
        AMQPValue::ShortShortUInt(number) => Some(number.into()),
        AMQPValue::ShortInt(number) => Some(number.into()),
        AMQPValue::ShortUInt(number) => Some(number.into()),
        AMQPValue::LongInt(number) => Some(number.into()),
        AMQPValue::LongUInt(number) => Some(number.into()),
        AMQPValue::LongLongInt(number) => Some(number),
        _ => None,
    }
}

/// A count that cannot be is none; one that is too large is cut.
pub(crate) fn sane(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
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
            ("routing-keys", array(vec![long("mail")])),
            ("time", AMQPValue::Timestamp(1_700_000_000)),
        ]))
    }

    fn number(number: i64) -> AMQPValue {
        AMQPValue::LongLongInt(number)
    }

    /// What brokers send after four rounds of one nack and one expiry.
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
            (WAIT, long("30000")),
        ]);
        let mut add = |key, value| {
            headers.insert(ShortString::try_new(key).unwrap(), value);
        };
        if version != "3.10" {
            add("x-last-death-exchange", long("jobq:mail@retry"));
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

    const WAIT: &str = "jobq-wait";

    #[test]
    fn every_broker_counts_what_it_rejected() {
        for version in ["3.10", "4.0", "4.3"] {
            let headers = recorded(version);
            assert_eq!(attempts_used(&headers, "jobq:mail"), 4, "{version}");
            assert_eq!(attempts_used(&headers, "jobq:other"), 0, "{version}");
            let queues: Vec<_> = queues_of_death(&headers).collect();
            assert_eq!(queues, ["jobq:mail@wait.30s", "jobq:mail"], "{version}");
        }
    }

    #[test]
    fn what_the_message_says_is_added() {
        for version in ["3.10", "4.0", "4.3"] {
            let mut headers = recorded(version);
            headers.insert(ShortString::try_new(ATTEMPTS_HEADER).unwrap(), number(3));
            assert_eq!(attempts_used(&headers, "jobq:mail"), 7, "{version}");
        }
    }

    #[test]
    fn hostile_headers_do_no_harm() {
        let work = "jobq:mail";
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
            (died(long("rejected")), 0),
            (died(array(vec![])), 0),
            (died(array(vec![long("rejected"), number(4), AMQPValue::Void])), 0),
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
                    number(1),
                    death("other", "rejected", number(9)),
                    death(work, "expired", number(9)),
                    death(work, "rejected", number(2)),
                ])),
                2,
            ),
        ];
        for (headers, expected) in table {
            assert_eq!(attempts_used(&headers, work), expected, "{headers:?}");
        }
        let mut both = entry(number(i64::MAX));
        both.insert(ShortString::try_new(ATTEMPTS_HEADER).unwrap(), number(i64::MAX));
        assert_eq!(attempts_used(&both, work), MOST);
        let latin = AMQPValue::LongString(LongString::from(vec![0xff, 0xfe]));
        assert_eq!(attempts_used(&said(latin), work), 0);
    }

    #[test]
    fn what_a_policy_did_is_told_from_what_a_worker_did() {
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
                    AMQPValue::Void,
                    death("jobq:mail", "expired", number(1)),
                ]),
                Some("expired"),
            ),
            (table([("x-death", long("expired"))]), None),
            (table([]), None),
        ];
        for (headers, expected) in table {
            assert_eq!(died_by_policy(&headers, "jobq:mail"), expected, "{headers:?}");
        }
    }

    #[test]
    fn the_key_of_before_is_kept() {
        for version in ["3.10", "4.0", "4.3"] {
            let headers = recorded(version);
            assert_eq!(key_at_death(&headers, "jobq:mail@wait.30s"), Some("mail"), "{version}");
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
        History::of(headers, || "jobq:mail".to_owned())
    }

    #[test]
    fn what_no_broker_wrote_is_forged() {
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
        for value in [long("often"), AMQPValue::Void, AMQPValue::FieldTable(good.clone())] {
            assert!(is_forged(&died(value.clone())), "{value:?}");
        }
        for value in [long("often"), AMQPValue::Void, AMQPValue::FieldTable(FieldTable::default())]
        {
            assert!(is_forged(&died(array(vec![value.clone()]))), "{value:?}");
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
        let table = [
            (vec![], 0),
            (vec![count(0)], 0),
            (vec![count(2)], 2),
            (vec![count(-1)], 0),
            (vec![("x-delivery-count", AMQPValue::LongString("3".into()))], 0),
            // 4.0 says the rejections of before on the first delivery after them.
            (vec![count(4), rejected(4)], 0),
            (vec![count(1), rejected(4)], 1),
            // 3.10 starts at 0 in each round, and 4.3 says none.
            (vec![count(0), rejected(4)], 0),
            (vec![rejected(4)], 0),
        ];
        for (entries, expected) in table {
            let mut headers = FieldTable::default();
            for (key, value) in entries {
                headers.insert(key.into(), value);
            }
            assert_eq!(history(&headers).crashes, expected, "{headers:?}");
        }
    }
}
