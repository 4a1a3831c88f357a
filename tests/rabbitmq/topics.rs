//! Which events a pattern means: the file answers as a topic exchange of RabbitMQ does.

use jobq::engine::conformance::EngineExt as _;
use std::cell::Cell;

use jobq::engine::QueueSpec;
use jobq_tests::broker;
use jobq_tests::jobs::event;
use jobq_tests::raw::Raw;
use lapin::options::{ExchangeDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, ExchangeKind};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Few words, so that they often meet.
fn words(of: &'static str) -> impl Strategy<Value = String> {
    vec(of, 1..=5).prop_map(|words| words.join("."))
}

/// A queue for each pattern.
const QUEUES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn cases() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    // More are refused: RabbitMQ 4.3 takes two.
    let pattern = words("[ab*#]|[*#]|ab")
        .prop_filter("at most two #", |pattern| pattern.matches('#').count() <= 2);
    (vec(pattern, 1..=QUEUES.len()), vec(words("[ab]|ab|ba"), 1..=24))
}

/// The topics that each pattern gets, from a topic exchange.
async fn of_broker(raw: &Raw, patterns: &[String], topics: &[String]) -> Vec<Vec<String>> {
    let exchange = broker::namespace();
    let kind = ExchangeKind::Topic;
    let options = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
    let declared = raw.channel.exchange_declare(
        exchange.as_str().into(),
        kind,
        options,
        FieldTable::default(),
    );
    declared.await.expect("it is declared");
    let mut taps = Vec::new();
    for pattern in patterns {
        taps.push(raw.tap(&exchange, pattern).await);
    }
    for topic in topics {
        raw.publish(&exchange, topic, BasicProperties::default(), b"").await;
    }
    let mut found = Vec::new();
    for tap in taps {
        let mut got = Vec::new();
        while let Some(topic) = raw.take(&tap).await {
            got.push(topic);
        }
        found.push(got);
        let options = QueueDeleteOptions::default();
        raw.channel.queue_delete(tap.as_str().into(), options).await.expect("it is deleted");
    }
    found
}

/// The topics that each pattern gets, from a file in memory.
async fn of_file(patterns: &[String], topics: &[String]) -> Vec<Vec<String>> {
    let engine = jobq::engine::conformance::open("sqlite::memory:", "jobq").await.expect("opens");
    let queues = QUEUES.iter().zip(patterns);
    let spec = |(queue, pattern): (&&'static str, _)| QueueSpec::new(*queue).patterns([pattern]);
    let specs: Vec<_> = queues.clone().map(spec).collect();
    engine.declare(&specs).await.expect("declares");
    for topic in topics {
        engine.publish(event(topic), false).await.expect("publishes");
    }
    let mut found = Vec::new();
    for (queue, _) in queues {
        let count = engine.admin().counts(queue).await.expect("counts").ready;
        let mut consumer = engine.consume_from(queue, 100).await.expect("consumes");
        let mut got = Vec::new();
        for _ in 0..*count.known().expect("counted") {
            let delivery = consumer.next().await.expect("goes on").expect("a delivery");
            got.extend(delivery.envelope().topic.clone());
        }
        found.push(got);
    }
    engine.close().await;
    found
}

#[test]
fn a_pattern_means_the_same_topics_on_a_file_as_on_a_broker() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let raw = runtime.block_on(async { Raw::connect(&broker::shared().await).await });
    let mut runner =
        TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let matched = Cell::new(0);
    runner
        .run(&cases(), |(patterns, topics)| {
            let (broker, file) = runtime.block_on(async {
                (of_broker(&raw, &patterns, &topics).await, of_file(&patterns, &topics).await)
            });
            matched.set(matched.get() + broker.iter().flatten().count());
            prop_assert_eq!(broker, file, "{:?} of {:?}", patterns, topics);
            Ok(())
        })
        .expect("they agree");
    assert!(matched.get() > 100, "they agree about something");
}
