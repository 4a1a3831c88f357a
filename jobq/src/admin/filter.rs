use std::collections::BTreeSet;
use std::fmt;
use std::time::SystemTime;

use super::group::{Group, pattern, plain};
use super::value::{self, JsonValue};
use crate::error::{Error, Result};
use crate::job::{FailedJob, FailedReason, JobId, rfc3339};

/// A selection of failed jobs: those for which all conditions hold. Without conditions it selects
/// all.
///
/// ```
/// use jobq::FailedReason;
/// use jobq::admin::Filter;
///
/// # fn main() -> jobq::Result<()> {
/// let filter = Filter::new()
///     .job("send_welcome")
///     .reason(FailedReason::Exhausted)
///     .error("connection refused")
///     .value("/user/id", "7")?;
/// assert_eq!(
///     filter.to_string(),
///     "job `send_welcome`, reason `exhausted`, error with `connection refused`, value at `/user/id`"
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    job: Option<String>,
    reason: Option<FailedReason>,
    error: Option<String>,
    pattern: Option<String>,
    from: Option<SystemTime>,
    until: Option<SystemTime>,
    ids: Option<BTreeSet<JobId>>,
    values: Vec<(String, JsonValue)>,
}

impl Filter {
    /// All failed jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Jobs of this name; of an empty one for messages without a name.
    #[must_use]
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.job = Some(name.into());
        self
    }

    /// Jobs that failed for this reason.
    #[must_use]
    pub fn reason(mut self, reason: FailedReason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Jobs with this text in their error.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Jobs of a group.
    #[must_use]
    pub fn group(mut self, group: &Group) -> Self {
        self.pattern = Some(group.error.clone());
        self.job(group.job.clone()).reason(group.reason)
    }

    /// Jobs whose error has this [pattern](Group::error). Spaces around it, and what stands there
    /// for spaces, make no difference.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(plain(&pattern.into()));
        self
    }

    /// Jobs that failed at this time or later, by the clock of the worker that failed them.
    #[must_use]
    pub fn failed_from(mut self, time: SystemTime) -> Self {
        self.from = Some(time);
        self
    }

    /// Jobs that failed at this time or earlier, by the clock of the worker that failed them.
    #[must_use]
    pub fn failed_until(mut self, time: SystemTime) -> Self {
        self.until = Some(time);
        self
    }

    /// Jobs with one of these ids. Further calls add ids.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = JobId>) -> Self {
        self.ids.get_or_insert_default().extend(ids);
        self
    }

    /// Jobs whose payload has this value at a JSON pointer
    /// ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)). Further calls add conditions.
    ///
    /// The value is JSON. A number is compared by its text, so that `1` is neither `"1"` nor `1.0`;
    /// a missing value is not `null`. A payload that is no JSON has no values.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): a pointer that is neither empty nor begins with `/`,
    /// or a value that is no JSON.
    pub fn value(mut self, pointer: &str, json: &str) -> Result<Self> {
        value::check_pointer(pointer)?;
        self.values.push((pointer.to_owned(), JsonValue::parse(json)?));
        Ok(self)
    }

    /// [`value`](Self::value) from one text, as a command has it: `/user/id=7`. What stands behind the
    /// first `=` is JSON if it can be, and otherwise a text: `/user/name=ann` is `"ann"`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): a text without `=`, or without a pointer before it.
    pub fn value_from(self, text: &str) -> Result<Self> {
        let Some((pointer, value)) = text.split_once('=') else {
            return Err(Error::invalid(format!(
                "`{text}` is not a valid condition: expected a JSON pointer and a value, such as \
                 `/user/id=7`"
            )));
        };
        match self.clone().value(pointer, value) {
            Err(_) => self.value(pointer, &serde_json::Value::from(value).to_string()),
            found => found,
        }
    }

    /// Whether it selects all failed jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it selects a job.
    #[must_use]
    pub fn matches(&self, job: &FailedJob) -> bool {
        let Self { job: name, reason, error, pattern: group, from, until, ids, values } = self;
        // The cheap conditions first.
        name.as_ref().is_none_or(|name| job.name() == name)
            && reason.is_none_or(|reason| job.reason() == reason)
            && from.is_none_or(|from| job.failed_at() >= from)
            && until.is_none_or(|until| job.failed_at() <= until)
            && ids.as_ref().is_none_or(|ids| ids.contains(&job.id()))
            && error.as_ref().is_none_or(|text| job.error().contains(text))
            && group.as_ref().is_none_or(|group| pattern(job.error()) == *group)
            && values.iter().all(|(pointer, value)| value.is_at(pointer, job.payload_bytes()))
    }
}

/// For people and logs. The values of payloads may be secret and are left out.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, reason, error, pattern, from, until, ids, values } = self;
        let mut parts = Vec::new();
        parts.extend(job.as_ref().map(|job| format!("job `{job}`")));
        parts.extend(reason.map(|reason| format!("reason `{reason}`")));
        parts.extend(error.as_ref().map(|text| format!("error with `{text}`")));
        parts.extend(pattern.as_ref().map(|pattern| format!("error like `{pattern}`")));
        parts.extend(from.map(|time| format!("failed from {}", rfc3339::format(time))));
        parts.extend(until.map(|time| format!("failed until {}", rfc3339::format(time))));
        parts.extend(ids.as_ref().map(|ids| match ids.first() {
            Some(id) if ids.len() == 1 => format!("id {id}"),
            _ => format!("{} ids", ids.len()),
        }));
        parts.extend(values.iter().map(|(pointer, _)| format!("value at `{pointer}`")));
        if parts.is_empty() { f.write_str("all") } else { f.write_str(&parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Envelope, from_millis};

    fn job(payload: &str) -> FailedJob {
        let mut envelope = Envelope::new("mail", payload.as_bytes().to_vec());
        envelope.name = Some("greet".into());
        let error = "user 7: connection refused".to_owned();
        FailedJob::new(envelope, 2, FailedReason::Exhausted, error, from_millis(5_000))
    }

    #[test]
    fn a_job_is_selected_if_all_conditions_hold() {
        let found = job(r#"{"user": {"id": 7}}"#);
        let all = Filter::new;
        let group = Group::of(&found);
        let value = |pointer, json| all().value(pointer, json).unwrap();
        for (filter, expected) in [
            (all(), true),
            (all().job("greet"), true),
            (all().job("mail"), false),
            (all().reason(FailedReason::Exhausted), true),
            (all().reason(FailedReason::Aborted), false),
            (all().error("connection"), true),
            (all().error("Connection"), false),
            (all().pattern("user #: connection refused"), true),
            (all().pattern(" user #:\tconnection refused "), true),
            (all().pattern("user #"), false),
            (all().group(&group), true),
            (all().group(&Group { reason: FailedReason::Poison, ..group }), false),
            (all().failed_from(from_millis(5_000)), true),
            (all().failed_from(from_millis(5_001)), false),
            (all().failed_until(from_millis(5_000)), true),
            (all().failed_until(from_millis(4_999)), false),
            (all().ids([JobId::new()]).ids([found.id()]), true),
            (all().ids([JobId::new()]), false),
            (all().ids([]), false),
            (value("/user/id", "7"), true),
            (value("/user/id", "7").value("/user/name", "null").unwrap(), false),
            (value("/user/id", "7").job("greet").error("refused"), true),
            (value("/user/id", "7").job("greet").error("timeout"), false),
        ] {
            assert_eq!(filter.matches(&found), expected, "{filter}");
        }
    }

    #[test]
    fn a_value_may_be_one_text() {
        for (text, pointer, json) in [
            ("/user/id=7", "/user/id", "7"),
            ("/user/id=\"7\"", "/user/id", "\"7\""),
            ("/user/name=ann=7", "/user/name", "\"ann=7\""),
            ("/user/name=", "/user/name", "\"\""),
            ("/user=null", "/user", "null"),
            ("=[1, 2]", "", "[1,2]"),
        ] {
            let expected = Filter::new().value(pointer, json).unwrap();
            assert_eq!(Filter::new().value_from(text).unwrap(), expected, "{text}");
        }
        for (text, part) in [("/user/id", "such as"), ("user/id=7", "is not a JSON pointer")] {
            let error = Filter::new().value_from(text).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn the_text_of_a_filter_has_no_value_of_a_payload() {
        assert_eq!(Filter::new().to_string(), "all");
        let filter = Filter::new().ids([JobId::from_bytes([0; 16])]).failed_from(from_millis(0));
        let filter = filter.value("/token", r#""secret""#).unwrap();
        assert_eq!(
            filter.to_string(),
            "failed from 1970-01-01T00:00:00.000Z, id 00000000-0000-0000-0000-000000000000, value \
             at `/token`"
        );
    }
}
