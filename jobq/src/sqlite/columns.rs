//! Conversions between the model and the columns of the file.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Row, RowIndex};

use crate::job::headers::{NEEDS, PRIORITY, UNREADABLE};
use crate::job::{Headers, Priority, from_millis, to_millis};
use crate::period;

/// A text. What is no UTF-8, which another program may have written, is replaced: an error would
/// end the transaction of everybody, again and again.
pub(super) fn text(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<String> {
    Ok(text_or_null(row, column)?.unwrap_or_default())
}

/// [`text`], where there is one.
pub(super) fn text_or_null(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    // Nearly all of it is UTF-8, which is checked faster than it is repaired.
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    };
    Ok(bytes.map(text))
}

/// A time that is never reached.
pub(super) const NEVER: i64 = i64::MAX;

fn column(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

fn number(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

/// A time, truncated to whole milliseconds.
pub(super) fn of_time(time: SystemTime) -> i64 {
    column(to_millis(time))
}

pub(super) fn to_time(column: i64) -> SystemTime {
    from_millis(number(column))
}

/// A wait, rounded up to whole milliseconds.
pub(super) fn of_wait(wait: Duration) -> i64 {
    column(period::millis(wait))
}

pub(super) fn to_wait(column: i64) -> Duration {
    Duration::from_millis(number(column))
}

/// The current time. A job is due if its time is not later.
pub(super) fn now() -> i64 {
    of_time(SystemTime::now())
}

/// The end of a wait that begins now: the current time for a zero wait, else rounded up, so that
/// nothing is early.
pub(super) fn due_after(wait: Duration) -> i64 {
    if wait.is_zero() {
        return now();
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    of_wait(since.saturating_add(wait))
}

/// Headers as a JSON object of strings; `None` if empty.
pub(super) fn of_headers(headers: &Headers) -> Option<String> {
    let object = |headers: &Headers| {
        let texts = headers.iter().map(|(name, value)| (name.to_owned(), value.into()));
        serde_json::Value::Object(texts.collect()).to_string()
    };
    (!headers.is_empty()).then(|| object(headers))
}

/// The headers of a column. Invalid text becomes a need that no worker understands.
pub(super) fn to_headers(column: Option<&str>) -> Headers {
    let Some(text) = column else {
        return Headers::new();
    };
    serde_json::from_str::<BTreeMap<String, String>>(text).map_or_else(
        |_| [(NEEDS.to_owned(), UNREADABLE.to_owned())].into_iter().collect(),
        Headers::from_iter,
    )
}

/// The priority in a column of headers. They are parsed only if they may have one.
pub(super) fn to_priority(column: Option<&str>) -> Priority {
    match column.filter(|text| text.contains(PRIORITY)) {
        Some(text) => to_headers(Some(text)).priority(),
        None => Priority::Normal,
    }
}

/// The number of an attempt or a count of attempts.
pub(super) fn to_attempts(column: i64) -> u32 {
    u32::try_from(column.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_or_wait_is_out_of_range() {
        assert_eq!(of_wait(Duration::MAX), i64::MAX);
        assert_eq!(due_after(Duration::MAX), i64::MAX);
        assert_eq!(to_wait(-1), Duration::ZERO);
        assert_eq!(to_attempts(-1), 0);
        assert_eq!(to_attempts(i64::MAX), u32::MAX);
        to_time(i64::MAX);
        to_time(i64::MIN);
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        let mut headers = Headers::new();
        headers.set("tenant", "\"7\" \u{0} ä").unwrap();
        headers.put(NEEDS, "once");
        let column = of_headers(&headers);
        assert_eq!(to_headers(column.as_deref()), headers);
        assert_eq!((of_headers(&Headers::new()), to_headers(None)), (None, Headers::new()));
        for forged in ["", "7", "{\"tenant\": 7}"] {
            assert_eq!(to_headers(Some(forged)).lacking(), Some(UNREADABLE), "{forged}");
        }
    }

    #[test]
    fn a_wait_never_ends_early() {
        let before = SystemTime::now() + Duration::from_micros(10);
        let due = to_time(due_after(Duration::from_micros(10)));
        assert!(due >= before);
    }
}
