use std::time::UNIX_EPOCH;

use super::*;
use crate::rabbitmq::message::properties::{Changes, again, topic_of_route};
use crate::rabbitmq::values::fits;
use crate::telemetry::Who;

fn names() -> Names {
    Names::new("jobq")
}

fn read(properties: &BasicProperties) -> Received {
    decode(&names(), "mail".into(), properties, b"{}".to_vec())
}

/// The message that is published when this one is delivered and fails.
fn republished(properties: &BasicProperties) -> BasicProperties {
    let job = read(properties).envelope;
    again(properties, (&Who::of_job(&job, "mail"), &job), Changes::next(1))
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_timestamp_without_sense_is_missing() {
    let table = [
        (Some(1_700_000_000), Some(at(1_700_000_000))),
        (Some(1), Some(at(1))),
        (Some(YEAR_10_000 - 1), Some(at(YEAR_10_000 - 1))),
        (None, None),
        (Some(0), None),
        // In milliseconds, as `Date.now()` is.
        (Some(1_700_000_000_000), None),
        (Some(YEAR_10_000), None),
        (Some(i64::MAX.unsigned_abs()), None),
        (Some((-1_i64).cast_unsigned()), None),
    ];
    for (timestamp, expected) in table {
        let properties = match timestamp {
            Some(seconds) => BasicProperties::default().with_timestamp(seconds),
            None => BasicProperties::default(),
        };
        let before = Clock::system().now();
        let received = read(&properties);
        assert_eq!(received.has_time, expected.is_some(), "{timestamp:?}");
        match expected {
            Some(time) => assert_eq!(received.envelope.enqueued_at, time),
            None => assert!(received.envelope.enqueued_at >= before, "{timestamp:?}"),
        }
    }
}

#[test]
fn the_first_time_and_the_name_are_kept_when_it_is_published_again() {
    let job = Envelope { name: Some("greet".into()), ..read(&BasicProperties::default()).envelope };
    let first =
        again(&BasicProperties::default(), (&Who::of_job(&job, "mail"), &job), Changes::next(1));
    // A broker may set the time of each publish.
    for properties in [first.clone(), first.with_timestamp(4_000_000_000)] {
        let received = read(&properties);
        let millis = from_millis(crate::job::to_millis(job.enqueued_at));
        assert!(received.has_time && received.has_id);
        assert_eq!(received.envelope.enqueued_at, millis);
        assert_eq!(received.envelope.name.as_deref(), Some("greet"));
        let again = read(&republished(&properties)).envelope;
        assert_eq!((again.enqueued_at, again.name.as_deref()), (millis, Some("greet")));
    }
    let named = BasicProperties::default().with_type(fits("other"));
    let named = again(&named, (&Who::of_job(&job, "mail"), &job), Changes::next(1));
    assert_eq!(read(&named).envelope.name.as_deref(), Some("other"), "it has its own");
}

#[test]
fn an_event_is_told_from_a_job_by_its_exchange_and_its_key() {
    let table = [
        (("jobq.events", "user.created"), Some("user.created")),
        (("amq.topic", "user.created"), Some("user.created")),
        (("jobqueue", "user.created"), Some("user.created")),
        (("amq.topic", "other"), None),
        (("amq.topic", "mail"), None),
        (("amq.topic", "mail@30000"), None),
        (("", "user.created"), None),
        (("jobq", "user.created"), None),
        (("jobq.deliver", "user.created"), None),
    ];
    for (route, expected) in table {
        let subscribes = |topic: &str| topic.starts_with("user.") || topic.starts_with("mail");
        let none = BasicProperties::default();
        let topic = topic_of_route(&names(), "mail", route, &none, subscribes);
        assert_eq!(topic.as_deref(), expected, "{route:?}");
    }
}

#[test]
fn each_look_at_a_foreign_failed_message_shows_the_same_job() {
    let look = |payload: &[u8]| {
        let none = BasicProperties::default();
        let job = decode_failed(&names(), "mail".into(), &none, payload.to_vec());
        (job.id(), job.enqueued_at())
    };
    assert_eq!(look(b"{}"), look(b"{}"));
    assert_ne!(look(b"{}").0, look(b"[]").0);
}
