//! Properties that must hold for any bytes from the wire or a user. `fuzz/` searches for
//! counterexamples, and a test of jobq runs its interesting inputs again. Each function panics if
//! its property does not hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::job::{BoxError, Envelope, FailedJob, FailedReason, Job, JobId, codec};
use crate::period;
#[cfg(feature = "schedules")]
use crate::schedule::Schedule;
use crate::worker::{Attempt, JobContext, Registered, Resources, States};
use crate::{rabbitmq, sqlite};

/// A property of arbitrary bytes.
pub type Property = fn(&[u8]);

/// All properties, by the names of their fuzz targets.
pub const ALL: &[(&str, Property)] = &[
    ("message", message),
    ("envelope", envelope),
    ("payload", payload),
    ("period", periods),
    ("name", name),
    ("url", url),
    ("refusal", refusal),
    #[cfg(feature = "schedules")]
    ("schedule", schedule),
];

/// Any message, properties and body: it is a job that can be run, retried, run alone and failed,
/// and retried as a failed job.
pub fn message(data: &[u8]) {
    rabbitmq::invariants::message(data);
}

/// A job or an event of a caller: it arrives unchanged, or is refused.
pub fn envelope(data: &[u8]) {
    rabbitmq::invariants::envelope(data);
}

/// The broker's refusal of a declaration.
pub fn refusal(data: &[u8]) {
    rabbitmq::invariants::refusal(&String::from_utf8_lossy(data));
}

/// Names of jobs, queues and namespaces, topics, patterns, routing keys, ids.
pub fn name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    rabbitmq::invariants::name(&text);
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let good = (1..=32).contains(&text.len()) && text.chars().all(allowed);
    assert_eq!(crate::client::builder::check_namespace(&text).is_ok(), good);
}

/// A payload with every kind of field.
#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    number: u64,
    small: Option<i8>,
    share: f64,
    text: String,
    #[serde(default, rename = "letter")]
    sign: char,
    list: Vec<Part>,
    by_name: BTreeMap<String, Part>,
    #[serde(default)]
    other: serde_json::Value,
}

#[derive(Debug, Serialize, Deserialize)]
enum Part {
    Empty,
    One(u16),
    Pair(bool, JobId),
    Named { wait: Duration, deeper: Option<Box<Part>> },
}

impl Job for Letter {
    const NAME: &'static str = "letter";
}

/// The body of a message: it is decoded as the job's payload, or an error is returned.
pub fn payload(data: &[u8]) {
    let envelope = Envelope {
        id: JobId::from_bytes([7; 16]),
        enqueued_at: UNIX_EPOCH,
        ..Envelope::new(Letter::NAME, data.to_vec())
    };
    let run = Registered::of_function(|_: Letter| async { Ok::<(), BoxError>(()) });
    let client = JobContext::for_test().client().clone();
    let shutdown = CancellationToken::new();
    let resources = Arc::new(Resources { client, states: States::default(), shutdown });
    let attempt = Attempt::new(&resources, Arc::new(envelope.clone()), Letter::NAME, (1, 4));
    let read = codec::decode::<Letter>(data);
    match (run.start.get()(&attempt, &Arc::default()), read) {
        (Ok(_), Ok(letter)) => {
            let written = serde_json::to_vec(&letter).expect("what was read can be written");
            let again: Letter = serde_json::from_slice(&written).expect("and read again");
            let twice = serde_json::to_vec(&again).expect("and written");
            assert_eq!(written, twice);
        }
        (Err(problem), Err(same)) => assert_eq!(problem.to_string(), same.to_string()),
        (run, read) => panic!("one can read it and not the other: {run:?} {read:?}"),
    }
    // The same bytes as a failed job displays them.
    let reason = FailedReason::UnreadablePayload;
    let job = FailedJob::new(envelope, 1, reason, String::new(), UNIX_EPOCH);
    let shown = job.payload();
    match (serde_json::from_slice::<Value>(data), serde_json::from_slice::<&RawValue>(data)) {
        (Ok(value), _) => assert!(is_shown_as(&value, &shown), "{value} as {shown}"),
        // It has a number that no `Value` can hold.
        (Err(_), Ok(_)) => {}
        (Err(_), Err(_)) => assert_eq!(shown.as_str(), std::str::from_utf8(data).ok()),
    }
    assert_eq!(job.payload_bytes(), data);
}

/// Whether a value is shown unchanged, except for numbers that it had to round.
fn is_shown_as(value: &Value, shown: &Value) -> bool {
    match (value, shown) {
        (Value::Array(values), Value::Array(shown)) => {
            values.len() == shown.len()
                && values.iter().zip(shown).all(|(value, shown)| is_shown_as(value, shown))
        }
        (Value::Object(entries), Value::Object(shown)) => {
            let is_shown = |(key, value)| shown.get(key).is_some_and(|s| is_shown_as(value, s));
            entries.len() == shown.len() && entries.iter().all(is_shown)
        }
        (Value::Number(number), Value::String(digits)) => {
            digits.parse().is_ok_and(|digits: f64| number.as_f64() == Some(digits))
        }
        (value, shown) => value == shown,
    }
}

/// A duration in an attribute, or any duration that a program computes.
pub fn periods(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match period::parse(&text) {
        Ok(read) => {
            assert!(read <= period::MAX);
            let written = period::format(read);
            assert_eq!(period::parse(&written), Ok(read));
            // The shortest form, except that units may be larger than needed.
            let digits = |text: &str| text.chars().any(|c| c.is_ascii_digit());
            assert!(digits(&written) && !written.contains(' '));
        }
        Err(error) => {
            assert!(error.to_string().starts_with(&format!("`{text}` is not a valid duration")));
        }
    }
    if let Some((seconds, rest)) = data.split_first_chunk() {
        let nanos = rest.first_chunk().map_or(0, |nanos| u32::from_le_bytes(*nanos));
        let any = Duration::new(u64::from_le_bytes(*seconds) >> 24, nanos % 1_000_000_000);
        let written = period::format(any);
        match period::parse(&written) {
            Ok(read) => {
                assert!(read >= any && read.abs_diff(any) < Duration::from_millis(1), "rounded up");
            }
            Err(error) => assert!(any + Duration::from_millis(1) > period::MAX, "{error}"),
        }
    }
}

/// A cron expression: its times come in order, and are the same from wherever one asks.
#[cfg(feature = "schedules")]
pub fn schedule(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let schedule = match Schedule::cron(&text).and_then(|cron| cron.zone("Europe/Berlin")) {
        Ok(schedule) => schedule,
        Err(error) => {
            let start = format!("`{text}` is not a valid cron expression: ");
            assert!(error.to_string().starts_with(&start), "{error}");
            return;
        }
    };
    // A day before the clocks of Berlin are put forward.
    let mut before = UNIX_EPOCH + Duration::from_secs(1_774_656_000);
    for due in schedule.after(before).take(20) {
        assert!(due > before, "they come in order");
        let just_before = due - Duration::from_nanos(1);
        assert_eq!(schedule.after(just_before.max(before)).next(), Some(due));
        before = due;
    }
}

/// The URL of a broker or a file. The password in it is never shown.
pub fn url(data: &[u8]) {
    const SECRET: &str = "geheim-7Xq";
    let text = String::from_utf8_lossy(data);
    check_file(&text);
    rabbitmq::invariants::url(&text, SECRET);
    // The same text around a password: user, start and end of the password, rest.
    let mut parts = text.splitn(4, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let (user, start, end, rest) = (part(), part(), part(), part());
    for scheme in ["amqp", "amqps"] {
        let user: String = user.chars().filter(|c| !":@/?#".contains(*c)).collect();
        let url = format!("{scheme}://{user}:{start}{SECRET}{end}@{rest}");
        rabbitmq::invariants::url(&url, SECRET);
    }
}

fn check_file(text: &str) {
    let refused = |error: Error| {
        assert!(error.is_invalid() && error.to_string().contains(text), "{error}");
    };
    match sqlite::file_of(text) {
        Ok(Some(path)) => assert!(path.is_absolute()),
        Ok(None) => assert_eq!(text, "sqlite::memory:"),
        Err(error) => refused(error),
    }
}
