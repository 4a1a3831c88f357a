//! The pure steps of every job on RabbitMQ, for benchmarks (feature `testing`).

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString};

use crate::job::{Envelope, JobId};
use crate::rabbitmq::message::deaths::attempts_used;
use crate::rabbitmq::message::properties::{decode, encode};
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Tiers;
use crate::rabbitmq::topology::routing::Routing;

/// One call of a step.
type Part = Box<dyn Fn()>;

const QUEUE: &str = "mail";

/// The steps with their names.
pub(crate) fn parts() -> Vec<(&'static str, Part)> {
    let names = Names::new("jobq");
    let at_once = Routing::Now(Some(60_000)).route(&names, End::Queue(QUEUE));
    let route = Arc::new(at_once.expect("it is a route"));
    let message = encode(job(), Arc::clone(&route)).expect("it is a message");
    let (properties, payload) = (message.properties, message.payload);
    let retried = after_a_retry(properties.clone(), &names.work(QUEUE));
    let headers = retried.headers().clone().unwrap_or_default();
    let work = names.work(QUEUE);
    let tiers = Tiers::from([10_000, 60_000]);
    let read = |properties: BasicProperties| -> Part {
        let (names, payload) = (names.clone(), payload.clone());
        Box::new(move || {
            black_box(decode(&names, QUEUE.into(), black_box(&properties), payload.clone()));
        })
    };
    let routing = |millis: u64| -> Part {
        let (names, tiers) = (names.clone(), tiers.clone());
        Box::new(move || {
            let routing = Routing::new(black_box(millis), End::Queue(QUEUE), &tiers);
            black_box(routing.expect("it is in reach").route(&names, End::Queue(QUEUE)).ok());
        })
    };
    let (first, second) = (read(properties), read(retried));
    let ways = [routing(0), routing(60_000), routing(12_345_600)];
    let [now, tier, levels] = ways;
    vec![
        ("encode a job", Box::new(move || drop(black_box(encode(job(), Arc::clone(&route)))))),
        ("decode a first attempt", first),
        ("decode a retry", second),
        ("count attempts in x-death", {
            Box::new(move || _ = black_box(attempts_used(black_box(&headers), &work)))
        }),
        ("way, at once", now),
        ("way, through a tier", tier),
        ("way, through the levels", levels),
    ]
}

/// A typical job.
fn job() -> Envelope {
    Envelope {
        id: JobId::from_bytes([7; 16]),
        name: Some("welcome".into()),
        enqueued_at: UNIX_EPOCH,
        retry_wait: Some(Duration::from_secs(60)),
        ..Envelope::new(QUEUE, vec![b'x'; 100])
    }
}

/// The message after its second failed attempt, as RabbitMQ delivers it.
fn after_a_retry(properties: BasicProperties, work: &str) -> BasicProperties {
    let text = |text: &str| AMQPValue::LongString(LongString::from(text));
    let death = |queue: &str, reason: &str| {
        let mut death = FieldTable::default();
        death.insert("count".into(), AMQPValue::LongLongInt(2));
        death.insert("exchange".into(), text("jobq"));
        death.insert("queue".into(), text(queue));
        death.insert("reason".into(), text(reason));
        let keys = FieldArray::from(vec![text("mail@60000")]);
        death.insert("routing-keys".into(), AMQPValue::FieldArray(keys));
        death.insert("time".into(), AMQPValue::Timestamp(1_700_000_000));
        AMQPValue::FieldTable(death)
    };
    let deaths = vec![death("jobq:mail@wait.60000", "expired"), death(work, "rejected")];
    let mut headers = properties.headers().clone().unwrap_or_default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(FieldArray::from(deaths)));
    headers.insert("x-first-death-queue".into(), text(work));
    headers.insert("x-first-death-reason".into(), text("rejected"));
    headers.insert("x-first-death-exchange".into(), text("jobq"));
    properties.with_headers(headers)
}
