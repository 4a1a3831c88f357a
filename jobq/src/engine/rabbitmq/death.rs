//! The number of an attempt: a pure function of a message's headers.

use lapin::types::{AMQPValue, FieldArray, FieldTable};

/// The header with the number of attempts that were used up when the message was last
/// published; the broker counts those since then.
pub(crate) const ATTEMPTS_HEADER: &str = "jobq-attempts";
/// More attempts than any policy allows; a number beyond it has no other meaning.
const MOST: u32 = i32::MAX as u32;

/// How many attempts were used up before this delivery: those that the message says,
/// and those that the broker counted since, as rejections by the work queue.
///
/// The broker's entry is searched for, since the order of entries differs between
/// versions. `x-delivery-count` and `redelivered` say nothing about attempts.
pub(crate) fn attempts_used(headers: &FieldTable, work_queue: &str) -> u32 {
    let said = headers.inner().get(ATTEMPTS_HEADER).and_then(integer).map_or(0, sane);
    said.saturating_add(rejections(headers, work_queue)).min(MOST)
}

/// How often the work queue rejected the message.
fn rejections(headers: &FieldTable, work_queue: &str) -> u32 {
    let Some(deaths) = headers.inner().get("x-death").and_then(AMQPValue::as_array) else {
        return 0;
    };
    deaths
        .as_slice()
        .iter()
        .filter_map(AMQPValue::as_field_table)
        .filter(|death| is_text(death, "queue", work_queue) && is_text(death, "reason", "rejected"))
        .find_map(|death| death.inner().get("count").and_then(integer))
        .map_or(0, sane)
}

/// The queues in which the message died, latest first where the broker says so.
pub(crate) fn queues_of_death(headers: &FieldTable) -> impl Iterator<Item = &str> {
    let deaths = headers.inner().get("x-death").and_then(AMQPValue::as_array);
    deaths
        .map(FieldArray::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(AMQPValue::as_field_table)
        .filter_map(|death| death.inner().get("queue").and_then(text))
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
fn integer(value: &AMQPValue) -> Option<i64> {
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
fn sane(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
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
}
