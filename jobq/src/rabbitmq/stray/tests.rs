use lapin::types::{AMQPValue, FieldArray, FieldTable};

use super::*;
use crate::rabbitmq::values::long;

const LEVEL_KEY: &str = "0.0.0.1.0.0.0.0.q.mail";
const LEVEL_KEY_OF_HIGH: &str = "0.0.0.1.0.0.0.0.q.mail@high";

fn stray(exchange: &str, key: &str, properties: BasicProperties) -> Stray {
    Stray::mock(1, exchange.into(), key.into(), false, b"{}".to_vec()).with(properties)
}

trait With {
    fn with(self, properties: BasicProperties) -> Self;
}

impl With for Stray {
    fn with(mut self, properties: BasicProperties) -> Self {
        self.properties = properties;
        self
    }
}

#[test]
fn a_stray_says_why_it_is_one() {
    let names = Names::new("jobq");
    let nowhere = "no binding of exchange `jobq` matches routing key `nowhere`";
    let table = [
        ("jobq", "nowhere", nowhere, "nowhere"),
        ("jobq", "nowhere", "no client or pool has declared a queue `nowhere`", "nowhere"),
        (
            "jobq",
            "mail@high",
            "queue `mail` does not exist, or its jobs have no priorities",
            "mail",
        ),
        ("jobq.level.4", "0.0.1.q.mail", "as in `0.0.0.0.2.7.13.8.q.mail`", "0.0.1.q.mail"),
        ("jobq", "nowhere@17", "matches routing key `nowhere@17`", "nowhere"),
        ("jobq", "no@where", "matches routing key `no@where`", "no@where"),
        ("jobq.retry", "mail@17", "queue `mail` has no tier of 17 ms", "mail"),
        ("jobq.retry", "mail", "as in `mail@30000`", "mail"),
        ("jobq", "mail@low@17", "matches routing key `mail@low@17`", "mail"),
        ("jobq.level.4", LEVEL_KEY_OF_HIGH, "0.0.0.0.q.mail@high`", "mail"),
        ("jobq.level.4", LEVEL_KEY, "matches routing key `0.0.0.1.0.0.0.0.q.mail`", "mail"),
        ("jobq", LEVEL_KEY, "matches routing key `0.0.0.1.0.0.0.0.q.mail`", LEVEL_KEY),
    ];
    for (exchange, key, expected, queue) in table {
        let stray = stray(exchange, key, BasicProperties::default());
        let who = who(&names, &stray);
        let message = failed(&names, stray, &who, ORPHAN, SystemTime::UNIX_EPOCH).unwrap();
        let properties = message.properties;
        let job = properties::decode_failed(&names, ORPHAN.into(), &properties, message.payload);
        assert!(job.error().contains(expected), "{}", job.error());
        assert_eq!((job.reason(), job.queue()), (FailedReason::Unroutable, queue));
    }
}

#[test]
fn a_stray_says_a_tier_again_only_where_it_waits_there() {
    let names = Names::new("jobq");
    let table = [
        ("jobq", "mail@17", "mail"),
        ("jobq.deliver", "mail@17", "mail"),
        ("jobq.retry", "mail@17", "mail@17"),
        ("jobq", "mail", "mail"),
        ("jobq", "mail@solo", "mail@solo"),
        ("jobq", "mail@high@17", "mail@high"),
        ("jobq.events", "user@17", "user@17"),
        ("jobq.level.4", LEVEL_KEY, LEVEL_KEY),
    ];
    for (exchange, key, expected) in table {
        let stray = stray(exchange, key, BasicProperties::default());
        let message = again(&names, &stray, &who(&names, &stray), Changes::default());
        let route = message.route();
        assert_eq!((route.exchange.as_str(), route.key.as_str()), (exchange, expected));
    }
}

#[test]
fn a_stray_keeps_the_topic_of_its_route() {
    let names = Names::new("jobq");
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut death = FieldTable::default();
    death.insert("queue".into(), text("jobq:mail@due"));
    let keys = FieldArray::from(vec![text("0.0.0.0.0.0.0.1.e.user.created")]);
    death.insert("routing-keys".into(), AMQPValue::FieldArray(keys));
    let deaths = FieldArray::from(vec![AMQPValue::FieldTable(death)]);
    let mut headers = FieldTable::default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(deaths));
    let died = BasicProperties::default().with_headers(headers);
    let table = [
        ("jobq.deliver", "mail", died.clone(), Some("user.created")),
        ("jobq.deliver", "mail@30000", died.clone(), Some("user.created")),
        ("jobq.deliver", "other", died, None),
        ("jobq.deliver", "mail", BasicProperties::default(), None),
        ("jobq", "mail", BasicProperties::default(), None),
    ];
    for (exchange, key, properties, topic) in table {
        let stray = with_topic(&names, stray(exchange, key, properties));
        let message = again(&names, &stray, &who(&names, &stray), Changes::default());
        let received = decode(&names, &message.properties);
        assert_eq!(received.envelope.topic.as_deref(), topic, "{exchange} {key}");
    }
}

#[test]
fn only_possible_names_of_queues_are_named() {
    let names = Names::new("jobq");
    let none = BasicProperties::default();
    assert_eq!(named_by(&names, "mail", &none), Some("mail"));
    for key in ["", "a b", "a:b@failed", &"k".repeat(255)] {
        assert_eq!(named_by(&names, key, &none), None, "{key}");
    }
}

/// Properties of a message that a queue dead-lettered once.
fn died(queue: &str, reason: &str, original: Option<&str>, route: (&str, &str)) -> BasicProperties {
    let mut death = FieldTable::default();
    let keys = FieldArray::from(vec![long(route.1)]);
    death.insert("queue".into(), long(queue));
    death.insert("reason".into(), long(reason));
    death.insert("exchange".into(), long(route.0));
    death.insert("routing-keys".into(), AMQPValue::FieldArray(keys));
    if let Some(original) = original {
        death.insert("original-expiration".into(), long(original));
    }
    let deaths = FieldArray::from(vec![AMQPValue::FieldTable(death)]);
    let mut headers = FieldTable::default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(deaths));
    BasicProperties::default().with_headers(headers)
}

#[test]
fn a_message_that_expired_by_its_own_expiration_has_failed_so() {
    let names = Names::new("jobq");
    let (job, event) = (("jobq", "mail"), ("jobq.events", "user.created"));
    let bridged = ("amq.topic", "user.created");
    let table = [
        (died("jobq:mail", "expired", Some("60000"), job), Some(("mail", None))),
        (died("jobq:mail", "expired", Some("60"), event), Some(("mail", Some("user.created")))),
        (died("jobq:mail", "expired", Some("60"), bridged), Some(("mail", Some("user.created")))),
        // The broker notes the expiration whenever it dead-letters.
        (died("jobq:mail", "rejected", Some("60000"), job), None),
        (died("jobq:mail", "expired", None, job), None),
        (died("jobq:mail@wait.30s", "expired", Some("60000"), job), None),
        (died("other:mail", "expired", Some("60000"), job), None),
    ];
    for (properties, expected) in table {
        let key = properties_key(&properties);
        let stray = with_topic(&names, stray("jobq.retry", &key, properties));
        let found = expired_in(&names, &stray.properties).map(|(queue, _)| queue.to_owned());
        assert_eq!(found.as_deref(), expected.map(|(queue, _)| queue), "{stray:?}");
        let Some((queue, topic)) = expected else { continue };
        let who = who(&names, &stray);
        let message = failed(&names, stray, &who, queue, SystemTime::now()).unwrap();
        let read = properties::decode_failed(&names, "mail".into(), &message.properties, vec![]);
        assert_eq!((read.reason(), read.topic()), (FailedReason::Expired, topic));
        assert!(read.error().contains("the `expiration` of 60"), "{}", read.error());
        assert_eq!(read.queue(), "mail");
    }
}

/// The key with which a message was dead-lettered.
fn properties_key(properties: &BasicProperties) -> String {
    let headers = properties.headers().as_ref().unwrap();
    let deaths = headers.inner()["x-death"].as_array().unwrap().as_slice();
    let keys = deaths[0].as_field_table().unwrap().inner()["routing-keys"].as_array().unwrap();
    crate::rabbitmq::values::text(&keys.as_slice()[0]).unwrap().to_owned()
}
