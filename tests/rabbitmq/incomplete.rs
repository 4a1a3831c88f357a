//! Messages of other clients that lack what a job has, or have what a job must not have.

use std::time::{Duration, SystemTime};

use jobq::engine::conformance::{EngineExt as _, eventually, soon};
use jobq::engine::{Consume, Delivery, Engine, QueueName, QueueSpec, Settlement};
use jobq::{FailedJob, FailedReason};
use jobq_tests::broker;
use jobq_tests::raw::Raw;
use lapin::BasicProperties;
use lapin::options::ExchangeBindOptions;
use lapin::types::FieldTable;

async fn take(consumer: &mut jobq::engine::Consumer) -> Delivery {
    let next = soon("a delivery", consumer.next()).await;
    next.expect("the consumer goes on").expect("a delivery")
}

fn fail() -> Settlement {
    let reason = FailedReason::Exhausted;
    Settlement::Fail { reason, error: "enough".to_owned(), attempts: 1 }
}

/// The failed jobs of a queue, once there are so many.
async fn failed(engine: &dyn Engine, queue: &str, count: usize) -> Vec<FailedJob> {
    eventually("failed jobs", count, async || {
        engine.failed_list(queue, 100).await.expect("lists").len()
    })
    .await;
    engine.failed_list(queue, 100).await.expect("lists")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_failed_keeps_the_name_and_the_time_that_its_message_lacks() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    engine.declare(&[QueueSpec::new("mail")]).await.expect("declares");
    let what = Consume::new(QueueName::new("mail").expect("a name"), 1).only_job(Some("greet"));
    let mut consumer = engine.consume(what).await.expect("consumes");
    let raw = Raw::connect(&url).await;
    // In milliseconds, as `Date.now()` gives them.
    let millis = BasicProperties::default().with_timestamp(1_700_000_000_000);
    let before = SystemTime::now() - Duration::from_secs(1);
    for properties in [BasicProperties::default(), millis] {
        raw.publish(&namespace, "mail", properties, b"{}").await;
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().name.as_deref(), Some("greet"));
        delivery.settle(fail()).await.expect("settles");
    }
    let looks = [failed(&*engine, "mail", 2).await, failed(&*engine, "mail", 2).await];
    for (first, second) in looks[0].iter().zip(&looks[1]) {
        assert_eq!(first.name(), "greet");
        assert!(first.enqueued_at() >= before, "{:?}", first.enqueued_at());
        assert!(first.enqueued_at() <= SystemTime::now());
        assert_eq!((first.enqueued_at(), first.id()), (second.enqueued_at(), second.id()));
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_expired_by_its_own_expiration_is_kept_as_expired() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    engine.declare(&[QueueSpec::new("mail").patterns(["user.*"])]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let raw = Raw::connect(&url).await;
    raw.publish(&namespace, "mail", BasicProperties::default(), b"0").await;
    // It holds the only slot, so that the others wait until they expire.
    let held = take(&mut consumer).await;
    let short = || BasicProperties::default().with_expiration("100".into());
    raw.publish(&namespace, "mail", short(), b"1").await;
    raw.publish(&format!("{namespace}.events"), "user.created", short(), b"2").await;
    let jobs = failed(&*engine, "mail", 2).await;
    for job in &jobs {
        assert_eq!((job.reason(), job.attempts(), job.queue()), (FailedReason::Expired, 0, "mail"));
        assert!(job.error().contains("`expiration` of 100 ms"), "{}", job.error());
    }
    let mut topics: Vec<_> = jobs.iter().map(|job| (job.payload_bytes(), job.topic())).collect();
    topics.sort_unstable();
    assert_eq!(topics, [(&b"1"[..], None), (&b"2"[..], Some("user.created"))]);
    held.settle(Settlement::Complete).await.expect("settles");
    engine.close().await;
}

/// MQTT clients publish to `amq.topic`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_through_another_exchange_has_its_topic() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let (pattern, topic) = (format!("{namespace}.*"), format!("{namespace}.created"));
    engine.declare(&[QueueSpec::new("mail").patterns([&*pattern])]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let raw = Raw::connect(&url).await;
    let (from, events) = ("amq.topic".into(), format!("{namespace}.events"));
    let (options, none) = (ExchangeBindOptions::default(), FieldTable::default());
    let bound =
        raw.channel.exchange_bind(events.into(), from, pattern.clone().into(), options, none);
    bound.await.expect("binds");
    raw.publish("amq.topic", &topic, BasicProperties::default(), b"{}").await;
    let wait = Duration::from_millis(100);
    for attempt in 1..=2 {
        let delivery = take(&mut consumer).await;
        let envelope = delivery.envelope();
        assert_eq!((delivery.attempt, envelope.topic.as_deref()), (attempt, Some(&*topic)));
        delivery.settle(Settlement::Retry(wait)).await.expect("settles");
    }
    take(&mut consumer).await.settle(Settlement::Complete).await.expect("settles");
    engine.close().await;
}
