//! What a row of an outbox holds, checked: anybody may write one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::row::{Row, VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{
    Envelope, EventEnvelope, Headers, JobId, Priority, check_name, check_program, check_topic,
    from_millis,
};

/// The most bytes of headers: those of a program, and room for jobq's own.
const MAX_HEADERS: usize = 16 * 1024;

/// The job or the event of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// A job.
    Job(Envelope),
    /// An event.
    Event(EventEnvelope),
}

impl Content {
    /// Reads a row for an engine with this size limit, by this clock.
    ///
    /// # Errors
    ///
    /// A row that is neither a job nor an event, or that needs a later version. The error names the
    /// column.
    pub(crate) fn read(row: Row, largest_payload: usize, now: SystemTime) -> Result<Self> {
        if row.version > VERSION {
            return Err(Error::invalid(format!(
                "the row has version {}, and this relay reads versions up to {VERSION}; update the \
                 program of the relay",
                row.version
            )));
        }
        let size = row.payload.len();
        if size > largest_payload {
            return Err(too_large(size.try_into().unwrap_or(u64::MAX), largest_payload));
        }
        let id: JobId = row.job_id.parse()?;
        let due = row.due_at.map(|due| time("due_at", due)).transpose()?;
        let enqueued_at = time("enqueued_at", row.enqueued_at)?;
        let delay = due.and_then(|due| due.duration_since(now).ok()).unwrap_or_default();
        let mut headers = headers(&row.headers)?;
        if let Some(due) = due {
            headers.set_due(due);
        }
        if let Some(program) = &row.enqueued_by {
            check_program(program)?;
        }
        let expires_at = row.expires_at.map(|time_| time("expires_at", time_)).transpose()?;
        let retry_wait = row.retry_wait.map(wait).transpose()?;
        match (row.queue, row.topic) {
            (Some(queue), None) => {
                check_name("queue", &queue)?;
                row.name.iter().try_for_each(|name| check_name("job", name))?;
                let mut job = Envelope::new(queue, row.payload);
                job.name = row.name.map(Into::into);
                job.content_encoding = row.content_encoding.map(Into::into);
                (job.id, job.headers, job.enqueued_at, job.delay) =
                    (id, headers, enqueued_at, delay);
                (job.retry_wait, job.expires_at) = (retry_wait, expires_at);
                job.enqueued_by = row.enqueued_by.map(Into::into);
                Ok(Self::Job(job))
            }
            (None, Some(topic)) => {
                check_topic(&topic)?;
                let mut event = EventEnvelope::new(topic, row.payload);
                event.content_encoding = row.content_encoding.map(Into::into);
                (event.id, event.headers, event.delay) = (id, headers, delay);
                (event.published_at, event.expires_at) = (due.unwrap_or(enqueued_at), expires_at);
                event.enqueued_by = row.enqueued_by.map(Into::into);
                Ok(Self::Event(event))
            }
            (queue, _) => {
                let found = if queue.is_some() { "both" } else { "neither" };
                Err(Error::invalid(format!(
                    "a row has a queue (a job) or a topic (an event), and this one has {found}; \
                     correct or discard it"
                )))
            }
        }
    }
}

/// The error of a payload of this size.
pub(crate) fn too_large(size: u64, largest: usize) -> Error {
    Error::invalid(format!(
        "the payload has {size} bytes, more than this engine's limit of {largest}; store the data elsewhere \
         and send a reference to it"
    ))
}

/// The error of a job with a priority for a queue that has none.
pub(crate) fn no_priorities(queue: &str, priority: Priority) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "queue `{queue}` has no priorities, and the job has the priority {}; start a pool that \
             works on the queue with a job that has the key `priorities`",
            priority.as_str()
        ),
    )
}

/// The longest wait before a row that was refused is tried again.
const LONGEST: Duration = Duration::from_secs(600);

/// The wait before a row that was refused so often is tried again.
pub(crate) fn retry_in(tries: u32) -> Duration {
    (Duration::from_secs(5) * 2_u32.saturating_pow(tries.min(10))).min(LONGEST)
}

fn time(column: &str, millis: i64) -> Result<SystemTime> {
    u64::try_from(millis).map(from_millis).map_err(|_| {
        Error::invalid(format!("`{column}` is before 1970; correct or discard the row"))
    })
}

fn wait(millis: i64) -> Result<Duration> {
    let millis = u64::try_from(millis);
    millis.map(Duration::from_millis).map_err(|_| {
        Error::invalid("`retry_wait` is negative; set it to a number of milliseconds, or to NULL")
    })
}

fn headers(text: &str) -> Result<Headers> {
    let not_headers = |found: &str| {
        Error::invalid(format!(
            "`headers` is a JSON object of texts, such as {{\"tenant\": \"7\"}}, and this one {found}"
        ))
    };
    if text.len() > MAX_HEADERS {
        return Err(not_headers(&format!("has {} bytes, more than {MAX_HEADERS}", text.len())));
    }
    let read: BTreeMap<String, Value> = serde_json::from_str(text)
        .map_err(|error| not_headers(&format!("cannot be read: {error}")))?;
    let mut headers = Headers::new();
    for (name, value) in read {
        let Value::String(value) = value else {
            return Err(not_headers(&format!("has something else in `{}`", name.escape_debug())));
        };
        // What jobq has set is not checked.
        if name.starts_with("jobq-") && name.is_ascii() {
            headers.put(&name, value);
        } else {
            headers.set(&name, value)?;
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn now() -> SystemTime {
        from_millis(NOW.unsigned_abs())
    }

    fn row() -> Row {
        Row {
            version: 1,
            namespace: "jobq".into(),
            queue: Some("mail".into()),
            name: Some("send_welcome".into()),
            job_id: JobId::of_key("7").to_string(),
            enqueued_at: NOW - 5_000,
            headers: "{}".into(),
            payload: b"{}".to_vec(),
            ..Row::default()
        }
    }

    fn read(change: impl FnOnce(&mut Row)) -> Result<Content> {
        let mut row = row();
        change(&mut row);
        Content::read(row, 1_000, now())
    }

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let mut job = Envelope::new("mail", b"[7]".to_vec());
        job.name = Some("send_welcome".into());
        job.set_id(JobId::of_key("7"));
        job.enqueued_at = from_millis(to_u64(NOW - 5_000));
        job.set_due(from_millis(to_u64(NOW + 55_000)));
        job.retry_wait = Some(Duration::from_secs(30));
        job.expires_at = Some(from_millis(to_u64(NOW + 60_000)));
        job.enqueued_by = Some("shop".into());
        let written = Row::of_job("jobq", job.clone()).unwrap();
        assert!(!written.headers.contains("jobq-due"), "{}", written.headers);
        // What is left of its delay of a minute.
        job.delay = Duration::from_secs(55);
        assert_eq!(Content::read(written, 1_000, now()).unwrap(), Content::Job(job));
    }

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let mut event = EventEnvelope::new("user.created", b"7".to_vec());
        event.published_at = from_millis(to_u64(NOW + 1_000));
        event.headers.set_due(event.published_at);
        event.headers.set("tenant", "acme").unwrap();
        let written = Row::of_event("jobq", event.clone(), now()).unwrap();
        assert_eq!(written.headers, r#"{"tenant":"acme"}"#);
        event.delay = Duration::from_secs(1);
        assert_eq!(Content::read(written, 1_000, now()).unwrap(), Content::Event(event));
    }

    fn to_u64(millis: i64) -> u64 {
        millis.unsigned_abs()
    }

    #[test]
    fn a_time_that_has_passed_means_at_once() {
        let Content::Job(job) = read(|row| row.due_at = Some(NOW - 1)).unwrap() else { panic!() };
        assert_eq!((job.delay, job.due()), (Duration::ZERO, from_millis(to_u64(NOW - 1))));
    }

    #[test]
    fn each_mistake_is_named() {
        type Change = fn(&mut Row);
        let table: [(Change, &str); 14] = [
            (|row| row.version = 2, "version 2, and this relay reads versions up to 1"),
            (
                |row| row.payload = vec![b' '; 1_001],
                "1001 bytes, more than this engine's limit of 1000",
            ),
            (|row| row.job_id = "7".into(), "`7` is not a job id"),
            (|row| row.enqueued_at = -1, "`enqueued_at` is before 1970"),
            (|row| row.due_at = Some(-1), "`due_at` is before 1970"),
            (|row| row.expires_at = Some(i64::MIN), "`expires_at` is before 1970"),
            (|row| row.retry_wait = Some(-1), "`retry_wait` is negative"),
            (|row| row.queue = None, "this one has neither"),
            (|row| row.topic = Some("user.created".into()), "this one has both"),
            (|row| row.queue = Some("a b".into()), "the queue name"),
            (|row| row.name = Some(String::new()), "the job name"),
            (|row| row.enqueued_by = Some("a\nb".into()), "not a valid program name"),
            (|row| row.headers = "[]".into(), "this one cannot be read"),
            (|row| row.headers = r#"{"tenant": 7}"#.into(), "something else in `tenant`"),
        ];
        for (change, expected) in table {
            let error = read(change).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(expected), "{error}");
        }
        let reserved = read(|row| row.headers = r#"{"x-death": "1"}"#.into()).unwrap_err();
        assert!(reserved.to_string().contains("not a valid header name"), "{reserved}");
        let long = "a".repeat(MAX_HEADERS);
        let long = read(|row| row.headers = format!(r#"{{"a": "{long}"}}"#)).unwrap_err();
        assert!(long.to_string().contains("more than 16384"), "{long}");
    }

    #[test]
    fn a_row_is_tried_again_after_a_growing_wait() {
        let seconds = [0, 1, 2, 6, 7, 8, u32::MAX].map(|tries| retry_in(tries).as_secs());
        assert_eq!(seconds, [5, 10, 20, 320, 600, 600, 600]);
    }
}
