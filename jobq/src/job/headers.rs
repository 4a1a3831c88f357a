//! Headers of jobs: those of the program and those of jobq.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use serde::Serialize;

use super::millis::{from_millis, to_millis};
use super::priority::Priority;
use crate::error::{Error, Result};

/// Space-separated words that a worker must understand to run the job.
pub(crate) const NEEDS: &str = "jobq-needs";
/// The operation that retried the failed job with a single attempt.
pub(crate) const ONCE: &str = "jobq-once";
/// The ids of the last operations that retried the failed job, the newest last.
pub(crate) const OPERATIONS: &str = "jobq-operations";
/// Distinguishes two enqueues of one id.
pub(crate) const NONCE: &str = "jobq-nonce";
/// When the first attempt is due, in milliseconds since 1970.
pub(crate) const DUE: &str = "jobq-due";
/// The name of the schedule that enqueued the job.
pub(crate) const SCHEDULE: &str = "jobq-schedule";
/// How many missed times of its schedule the job stands for, beside its own.
#[cfg_attr(not(any(feature = "rabbitmq", feature = "schedules")), allow(dead_code))]
pub(crate) const MISSED: &str = "jobq-missed";

/// The priority of a job, unless that is normal.
pub(crate) const PRIORITY: &str = "jobq-priority";

/// The word in [`NEEDS`] of a job with a single attempt.
pub(crate) const NEEDS_ONCE: &str = "once";
/// Replaces an unreadable header. No worker understands it.
#[cfg_attr(not(any(feature = "rabbitmq", feature = "sqlite")), allow(dead_code))]
pub(crate) const UNREADABLE: &str = "(unreadable)";

/// The words that this version understands.
const UNDERSTOOD: [&str; 1] = [NEEDS_ONCE];

/// The most ids in [`OPERATIONS`].
const MOST_OPERATIONS: usize = 8;
/// The size limit of an id in [`OPERATIONS`] that is kept: that of a UUID.
const MAX_OPERATION: usize = 36;
/// The size limit of the names and values of a program's headers, in bytes.
const MAX_BYTES: usize = 8 * 1024;
/// The size limit of a name, in bytes.
const MAX_NAME: usize = 120;

/// The headers of a job or an event: names and text values, such as a tenant or a trace. Every
/// engine keeps them when an attempt is retried, the job fails, or the failed job is retried.
///
/// ```
/// use jobq::Headers;
///
/// let mut headers = Headers::new();
/// headers.set("tenant", "7")?;
/// assert_eq!(headers.get("tenant"), Some("7"));
/// assert!(headers.set("x-death", "1").is_err());
/// # Ok::<(), jobq::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets a header, replacing one of the same name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): a name that is not `[a-z0-9-]{1,120}`, or begins
    /// with `jobq-` or `x-`; more than 8 KiB of names and values together.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<()> {
        if !is_own_name(name) {
            return Err(Error::invalid(format!(
                "`{}` is not a valid header name; use 1 to {MAX_NAME} characters from a-z 0-9 -, \
                 without the prefixes `jobq-` and `x-`",
                name.escape_debug()
            )));
        }
        let value = value.into();
        let others = self.iter().filter(|(other, _)| is_own_name(other) && *other != name);
        let size: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        let size = size + name.len() + value.len();
        if size > MAX_BYTES {
            return Err(Error::invalid(format!(
                "with `{name}`, the headers have {size} bytes, more than the limit of {MAX_BYTES}; \
                 move large values into the payload"
            )));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All headers with their values, including jobq's own (`jobq-*`), sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a header without checks: one of jobq's own, or a stored one.
    pub(crate) fn put(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The headers of a failed job that is retried, by an operation or by its id.
    #[cfg_attr(not(any(feature = "sqlite", feature = "testing")), allow(dead_code))]
    pub(crate) fn of_retry(mut self, by: Option<By<'_>>) -> Self {
        let operations = self.0.remove(OPERATIONS);
        self.0.remove(ONCE);
        let needs = self.0.remove(NEEDS).unwrap_or_default();
        let is_once = by.is_some_and(|by| by.once);
        let needs = if is_once { needs_with_once(&needs) } else { needs_without_once(&needs) };
        if !needs.is_empty() {
            self.put(NEEDS, needs);
        }
        if let Some(By { operation, once }) = by {
            self.put(OPERATIONS, operations_with(operations.as_deref(), operation));
            if once {
                self.put(ONCE, operation);
            }
        }
        self
    }

    /// The first word of [`NEEDS`] that a later version may understand.
    pub(crate) fn unmet_need(&self) -> Option<&str> {
        self.lacking().filter(|word| *word != UNREADABLE)
    }

    /// The first word of [`NEEDS`] that this version does not understand.
    pub(crate) fn lacking(&self) -> Option<&str> {
        let mut words = self.get(NEEDS)?.split_whitespace();
        words.find(|word| !UNDERSTOOD.contains(word))
    }

    pub(crate) fn due(&self) -> Option<SystemTime> {
        self.get(DUE)?.parse().ok().map(from_millis)
    }

    pub(crate) fn set_due(&mut self, time: SystemTime) {
        self.put(DUE, to_millis(time).to_string());
    }

    pub(crate) fn priority(&self) -> Priority {
        self.get(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn set_priority(&mut self, priority: Priority) {
        match priority {
            Priority::Normal => _ = self.0.remove(PRIORITY),
            other => self.put(PRIORITY, other.as_str()),
        }
    }

    /// Marks an enqueue with an id that other jobs may have.
    pub(crate) fn set_nonce(&mut self) {
        self.put(NONCE, format!("{:016x}", fastrand::u64(..)));
    }
}

/// The operation that retries a failed job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By<'o> {
    pub(crate) operation: &'o str,
    /// Whether it gives the job a single attempt.
    pub(crate) once: bool,
}

/// The value of [`OPERATIONS`] of a failed job that a further operation retries.
#[cfg_attr(
    not(any(feature = "rabbitmq", feature = "sqlite", feature = "testing")),
    allow(dead_code)
)]
pub(crate) fn operations_with(before: Option<&str>, operation: &str) -> String {
    let ids = before.unwrap_or_default().split_whitespace();
    let mut ids: Vec<_> = ids.filter(|id| *id != operation && id.len() <= MAX_OPERATION).collect();
    ids.push(operation);
    ids[ids.len().saturating_sub(MOST_OPERATIONS)..].join(" ")
}

/// The needs of a failed job that is retried: all but [`NEEDS_ONCE`].
#[cfg_attr(not(any(feature = "rabbitmq", feature = "sqlite")), allow(dead_code))]
pub(crate) fn needs_without_once(needs: &str) -> String {
    let words: Vec<_> = needs.split_whitespace().filter(|word| *word != NEEDS_ONCE).collect();
    words.join(" ")
}

/// The needs of a failed job that is retried with a single attempt.
#[cfg_attr(
    not(any(feature = "rabbitmq", feature = "sqlite", feature = "testing")),
    allow(dead_code)
)]
pub(crate) fn needs_with_once(needs: &str) -> String {
    format!("{} {NEEDS_ONCE}", needs_without_once(needs)).trim_start().to_owned()
}

/// Headers from an engine, without checks.
impl FromIterator<(String, String)> for Headers {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(headers: T) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a program may set a header of this name.
pub(crate) fn is_own_name(name: &str) -> bool {
    let is_of_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(is_of_name)
        && !name.starts_with("jobq-")
        && !name.starts_with("x-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_refused() {
        let long = "n".repeat(121);
        for name in ["", "Tenant", "a_b", "a b", "jobq-due", "x-death", "CC", "ä", &long] {
            assert!(Headers::new().set(name, "1").unwrap_err().is_invalid(), "{name}");
        }
        for name in ["tenant", "traceparent", "tracestate", "a-1", "x", "jobq", &long[1..]] {
            assert!(Headers::new().set(name, "1").is_ok(), "{name}");
        }
    }

    #[test]
    fn names_and_values_together_are_bounded() {
        let mut headers = Headers::new();
        headers.put(NEEDS, "x".repeat(MAX_BYTES));
        headers.set("a", "x".repeat(MAX_BYTES - 1)).unwrap();
        assert!(headers.set("b", "").unwrap_err().to_string().contains("8193 bytes"));
        headers.set("a", "").unwrap();
        headers.set("b", "").unwrap();
        assert_eq!(headers.iter().count(), 3);
    }

    #[test]
    fn words_that_are_not_understood_are_lacking() {
        let table = [
            (None, None),
            (Some(""), None),
            (Some("once"), None),
            (Some(" once  once "), None),
            (Some("once encryption"), Some("encryption")),
            (Some("Once"), Some("Once")),
            (Some(UNREADABLE), Some(UNREADABLE)),
        ];
        for (needs, lacking) in table {
            let mut headers = Headers::new();
            if let Some(needs) = needs {
                headers.put(NEEDS, needs);
            }
            assert_eq!(headers.lacking(), lacking, "{needs:?}");
        }
        assert_eq!(needs_without_once("once zip  once"), "zip");
    }

    #[test]
    fn the_last_eight_operations_are_named() {
        let nine = "1 2 3 4 5 6 7 8 9";
        let long = "x".repeat(37);
        for (before, operation, expected) in [
            (None, "1", "1"),
            (Some(""), "1", "1"),
            (Some("1"), "2", "1 2"),
            (Some("1 2"), "1", "2 1"),
            (Some(" 1\n 2 "), "3", "1 2 3"),
            (Some(nine), "10", "3 4 5 6 7 8 9 10"),
            (Some(&*long), "1", "1"),
        ] {
            assert_eq!(operations_with(before, operation), expected, "{before:?}");
        }
    }

    #[test]
    fn a_retry_removes_or_adds_what_operations_need() {
        let by = |operation, once| Some(By { operation, once });
        for (needs, by, expected) in [
            (None, None, &[][..]),
            (Some("once zip"), None, &[(NEEDS, "zip")]),
            (None, by("a", false), &[(OPERATIONS, "old a")]),
            (Some("once"), by("a", false), &[(OPERATIONS, "old a")]),
            (
                Some("zip"),
                by("a", true),
                &[(NEEDS, "zip once"), (ONCE, "a"), (OPERATIONS, "old a")],
            ),
        ] {
            let mut headers = Headers::new();
            headers.put(ONCE, "old");
            headers.put(OPERATIONS, "old");
            if let Some(needs) = needs {
                headers.put(NEEDS, needs);
            }
            let found = headers.of_retry(by);
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{needs:?} {by:?}");
        }
    }

    #[test]
    fn a_time_is_kept_to_the_millisecond() {
        let time = from_millis(1_700_000_000_123);
        let mut headers = Headers::new();
        headers.set_due(time);
        assert_eq!((headers.get(DUE), headers.due()), (Some("1700000000123"), Some(time)));
        headers.put(DUE, "soon");
        assert_eq!(headers.due(), None);
    }
}
