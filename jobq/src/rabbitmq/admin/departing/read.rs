//! A message in a queue of the broker as a job that departs. Pure.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::FieldTable;

use crate::engine::Admission;
use crate::error::Result;
use crate::job::{Envelope, EventEnvelope, from_millis};
use crate::period;
use crate::rabbitmq::message::deaths::last_death;
use crate::rabbitmq::message::properties::{
    self, Changes, Message, Received, decode, decode_failed,
};
use crate::rabbitmq::topology::levels::{self, End};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key;
use crate::telemetry::Who;

/// A queue of the broker from which jobs depart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The name of the queue of the broker.
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What a queue of the broker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Jobs of this lane that are due.
    Due(String),
    /// Those that run alone.
    Solo(String),
    /// Those that wait, in the tier of so many milliseconds.
    Tier(String, u64),
    /// Those that have failed.
    Failed(String),
    /// Jobs of all queues, and events, that wait.
    Level,
}

/// The job or the event of a message; `None` for a probe. `subscribes` tells whether a queue subscribes to
/// a topic.
pub(super) fn read(
    names: &Names,
    kind: &Kind,
    message: Delivery,
    subscribes: impl Fn(&str, &str) -> bool,
    now: SystemTime,
) -> Option<Admission> {
    let key = message.routing_key.clone();
    let job = |lane: &str| {
        let (received, properties) = of_lane(names, lane, &message, &subscribes);
        (Envelope { payload: message.data.clone(), ..received.envelope }, properties)
    };
    match kind {
        Kind::Failed(queue) => {
            let (queue, properties) = (Cow::Owned(queue.clone()), &message.properties);
            Some(Admission::Failed(decode_failed(names, queue, properties, message.data)))
        }
        Kind::Due(lane) => Some(Admission::Job(job(lane).0)),
        Kind::Solo(queue) => {
            let (starts, _) = properties::solo(&message.properties);
            Some(Admission::Solo(job(queue).0, starts))
        }
        Kind::Tier(queue, _) if routing_key::read(key.as_str()).queue != queue => None,
        Kind::Tier(_, tier) => {
            let (job, properties) = job(routing_key::read(key.as_str()).lane);
            let delay = left(in_tier(&properties, *tier, now), now);
            Some(Admission::Job(Envelope { delay, ..job }))
        }
        Kind::Level => {
            let until = properties::wait_until(&message.properties);
            let delay = left(until.unwrap_or_else(|| now + rest_of_key(key.as_str())), now);
            match levels::end_of(key.as_str())? {
                End::Queue(lane) => {
                    let (job, _) = job(lane);
                    Some(Admission::Job(Envelope { delay, ..job }))
                }
                End::Topic(topic) => {
                    let queue = Cow::Borrowed("");
                    let received = decode(names, queue, &message.properties, message.data);
                    Some(Admission::Event(event(topic, received, delay)))
                }
            }
        }
    }
}

/// The job of a message of this lane, without its payload, and the properties with its topic.
fn of_lane(
    names: &Names,
    lane: &str,
    message: &Delivery,
    subscribes: impl Fn(&str, &str) -> bool,
) -> (Received, BasicProperties) {
    let (route, mut properties) =
        ((message.exchange.as_str(), message.routing_key.as_str()), message.properties.clone());
    let queue = routing_key::read(lane).queue;
    let topic = properties::topic_of_route(names, queue, route, &properties, |topic| {
        subscribes(queue, topic)
    });
    properties::keep_topic(&mut properties, topic.as_deref());
    let mut received = decode(names, Cow::Owned(queue.to_owned()), &properties, Vec::new());
    received.envelope.retry_wait = routing_key::wait_in(route.1, queue).map(Duration::from_millis);
    // Another client may have sent it without the header.
    if let Some(Ok(priority)) = lane.strip_prefix(queue).map(|rest| rest.trim_matches('@').parse())
    {
        received.envelope.set_priority(priority);
    }
    (received, properties)
}

/// The message in place of one that is due and was returned before.
pub(super) fn fresh(
    names: &Names,
    kind: &Kind,
    message: &Delivery,
    subscribes: impl Fn(&str, &str) -> bool,
) -> Result<Option<Message>> {
    let Kind::Due(lane) = kind else { return Ok(None) };
    let (received, properties) = of_lane(names, lane, message, subscribes);
    if received.history.returns == 0 {
        return Ok(None);
    }
    let job = received.envelope;
    let key = routing_key::write(lane, job.retry_wait.map(period::millis));
    let (route, who) = (Route::new(names.jobs(), key)?, Who::of_job(&job, &job.queue));
    let properties = properties::again(&properties, (&who, &job), Changes::next(job.attempts));
    Ok(Some(Message { to: route.into(), properties, payload: message.data.clone() }))
}

fn event(topic: &str, received: Received, delay: Duration) -> EventEnvelope {
    let job = received.envelope;
    let mut event = EventEnvelope::new(topic, job.payload);
    event.id = job.id;
    event.content_encoding = job.content_encoding;
    event.headers = job.headers;
    event.published_at = job.enqueued_at;
    event.expires_at = job.expires_at;
    event.enqueued_by = job.enqueued_by;
    event.delay = delay;
    event
}

/// When the wait of a message in a tier ends.
fn in_tier(properties: &BasicProperties, tier: u64, now: SystemTime) -> SystemTime {
    let headers = properties.headers().clone().unwrap_or_default();
    let tier = Duration::from_millis(tier);
    let since_death = ended_seconds(&headers).map(|died| died + tier);
    let until = properties::wait_until(properties);
    since_death.into_iter().chain(until).max().unwrap_or(now + tier)
}

/// The time of the last death. The broker has whole seconds: the end of that second.
fn ended_seconds(headers: &FieldTable) -> Option<SystemTime> {
    last_death(headers).map(|seconds| from_millis(seconds.saturating_add(1).saturating_mul(1_000)))
}

/// The longest wait that a key in the levels can name.
fn rest_of_key(key: &str) -> Duration {
    let digits = key.split('.').take(levels::LEVELS as usize).map(str::parse::<u64>);
    let units = digits.fold(0_u64, |units, digit| {
        units.saturating_mul(levels::RADIX).saturating_add(digit.unwrap_or(0))
    });
    Duration::from_millis(units.saturating_mul(levels::UNIT).min(levels::HORIZON))
}

fn left(until: SystemTime, now: SystemTime) -> Duration {
    until.duration_since(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use lapin::types::{AMQPValue, FieldArray};

    use super::*;
    use crate::job::Priority;
    use crate::rabbitmq::values::long;

    fn at(millis: u64) -> SystemTime {
        from_millis(1_000_000 + millis)
    }

    /// Headers with the end of a wait and the second of the last death, where there are any.
    fn headers(until: Option<u64>, died: Option<u64>) -> FieldTable {
        let mut headers = FieldTable::default();
        if let Some(until) = until {
            let millis = 1_000_000 + until;
            headers.insert("jobq-wait-until".into(), long(millis.to_string()));
        }
        if let Some(died) = died {
            let mut death = FieldTable::default();
            death.insert("time".into(), AMQPValue::Timestamp(1_000 + died));
            let deaths = FieldArray::from(vec![AMQPValue::FieldTable(death)]);
            headers.insert("x-death".into(), AMQPValue::FieldArray(deaths));
        }
        headers
    }

    fn message(key: &str, headers: FieldTable) -> Delivery {
        let mut message = Delivery::mock(1, "jobq.retry".into(), key.into(), false, b"{}".to_vec());
        message.properties = BasicProperties::default().with_headers(headers);
        message
    }

    fn admission(kind: &Kind, message: Delivery) -> Option<Admission> {
        read(&Names::new("jobq"), kind, message, |_, _| false, at(0))
    }

    #[test]
    fn a_wait_in_a_tier_ends_as_the_broker_ends_it() {
        let tier = Kind::Tier("mail".to_owned(), 5_000);
        for (until, died, left) in [
            (None, None, 5_000),
            (Some(2_500), None, 2_500),
            // A second that has begun may have just begun.
            (None, Some(0), 6_000),
            (Some(9_000), Some(0), 9_000),
            (Some(500), Some(2), 8_000),
            (Some(0), None, 0),
        ] {
            let found = admission(&tier, message("mail@5000", headers(until, died)));
            let Some(Admission::Job(job)) = found else { panic!("{found:?}") };
            assert_eq!(job.delay.as_millis(), left, "{until:?} {died:?}");
        }
    }

    #[test]
    fn a_message_of_the_levels_is_a_job_or_an_event() {
        let seventeen_minutes = "0.0.0.0.2.7.13.8.";
        let key = |end: &str| [seventeen_minutes, end].concat();
        let job = admission(&Kind::Level, message(&key("q.mail@high"), headers(None, None)));
        let Some(Admission::Job(job)) = job else { panic!("{job:?}") };
        let found = (&*job.queue, job.priority(), job.delay.as_secs());
        assert_eq!(found, ("mail", Priority::High, 17 * 60));
        let event =
            admission(&Kind::Level, message(&key("e.user.created"), headers(Some(7), None)));
        let Some(Admission::Event(event)) = event else { panic!("{event:?}") };
        assert_eq!((&*event.topic, event.delay.as_millis()), ("user.created", 7));
    }

    #[test]
    fn a_job_has_the_priority_of_its_lane() {
        for (lane, priority) in
            [("mail", Priority::Normal), ("mail@high", Priority::High), ("mail@low", Priority::Low)]
        {
            let found = admission(&Kind::Due(lane.to_owned()), message(lane, headers(None, None)));
            let Some(Admission::Job(job)) = found else { panic!("{found:?}") };
            assert_eq!((&*job.queue, job.priority()), ("mail", priority));
        }
    }

    #[test]
    fn probes_are_no_jobs() {
        let tier = Kind::Tier("mail".to_owned(), 5_000);
        for (kind, key) in [(tier, "mail@5000@probe"), (Kind::Level, "0.0.0.0.0.0.0.5.p")] {
            assert!(admission(&kind, message(key, headers(None, None))).is_none(), "{key}");
        }
    }
}
