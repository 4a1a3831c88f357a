//! Messages of other clients, sound and hostile: each is a job, and none does harm.

use futures_util::StreamExt as _;
use jobq::engine::conformance::EngineExt as _;
use std::time::Duration;

use jobq::engine::conformance::{eventually, soon};
use jobq::engine::{Consumer, Delivery, QueueSpec, Settlement, Verdict};
use jobq_tests::broker;
use jobq_tests::jobs::push;
use jobq_tests::raw::{self, Raw, headers, text};
use jobq_tests::test_store::until;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, LongString};

use crate::bad_input::rows::histories_of_no_broker;

const WAIT: Duration = Duration::from_millis(200);

async fn take(consumer: &mut Consumer) -> Delivery {
    let next = soon("a delivery", consumer.next()).await;
    next.expect("the consumer goes on").expect("a delivery")
}

fn with(entries: Vec<(&'static str, AMQPValue)>) -> BasicProperties {
    BasicProperties::default().with_headers(headers(entries))
}

fn messages() -> Vec<BasicProperties> {
    let plain = BasicProperties::default;
    vec![
        plain(),
        plain().with_message_id("order 17".into()),
        plain().with_type("".into()).with_timestamp(u64::MAX),
        plain().with_delivery_mode(1).with_priority(200),
        plain().with_user_id("guest".into()),
        plain().with_content_encoding("gzip".into()),
        with(vec![("jobq-attempts", text("many"))]),
        with(vec![("jobq-attempts", AMQPValue::LongLongInt(i64::MIN))]),
        with(vec![("jobq-expires-at", AMQPValue::Timestamp(1))]),
        with(vec![("jobq-topic", AMQPValue::LongString(LongString::from(vec![0xff, 0xfe])))]),
        with(vec![("x-death", histories_of_no_broker("mail").remove(0))]),
        with(vec![("CC", AMQPValue::FieldArray(FieldArray::from(vec![text("other")])))]),
        with(vec![("large", text(&"x".repeat(90_000)))]),
        with(vec![("ratio", AMQPValue::Double(0.5)), ("none", AMQPValue::Void)]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_is_a_job_that_can_be_retried_and_failed() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let spec = |name: &str| QueueSpec::new(name).waits([WAIT]);
    let specs = [spec("mail"), spec("other")];
    engine.declare(&specs).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 4).await.expect("consumes");
    let mut other = engine.consume_from("other", 4).await.expect("consumes");
    let raw = Raw::connect(&url).await;
    // The second key says the tier, by which the broker could move the job at once.
    let both =
        |properties: BasicProperties| ["mail", "mail@200"].map(|key| (key, properties.clone()));
    let with_ids = messages().into_iter().map(|message| match message.message_id() {
        None => message.with_message_id(jobq::JobId::new().to_string().into()),
        Some(_) => message,
    });
    let messages = messages().into_iter().chain(with_ids).flat_map(both);
    for (index, (key, properties)) in messages.enumerate() {
        let copied = properties.headers().as_ref().is_some_and(|table| table.contains_key("CC"));
        let body = index.to_string().into_bytes();
        raw.publish(&namespace, key, properties, &body).await;
        let first = take(&mut consumer).await;
        assert_eq!((first.attempt, &first.envelope().payload), (1, &body));
        let id = first.envelope().id;
        first.settle(Settlement::Retry(WAIT)).await.expect("settles");
        let second = take(&mut consumer).await;
        assert_eq!((second.attempt, second.envelope().id), (2, id), "message {index}");
        assert_eq!(second.envelope().payload, body);
        // The second retry of a message is always the broker's.
        second.settle(Settlement::Retry(WAIT)).await.expect("settles");
        let third = take(&mut consumer).await;
        assert_eq!((third.attempt, third.envelope().id), (3, id), "message {index}");
        let fail = Settlement::Fail {
            reason: jobq::FailedReason::Exhausted,
            error: "enough".to_owned(),
            attempts: 3,
        };
        third.settle(fail).await.expect("settles");
        let failed = engine.failed_find("mail", id).await.expect("looks");
        assert_eq!(failed.expect("it is there").attempts(), 3);
        if copied {
            // The copy that the client asked for, and no further one.
            let copy = take(&mut other).await;
            copy.settle(Settlement::Complete).await.expect("settles");
        }
    }
    let counts = engine.admin().counts("other").await.expect("counts");
    assert_eq!(counts, jobq::engine::Counts::new(0, 0, 0));
    engine.close().await;
}

/// The broker does not get to move a job with a history that no broker wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_history_no_broker_wrote_is_published_again() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let wait = Duration::from_secs(3_600);
    engine.declare(&[QueueSpec::new("mail").waits([wait])]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let (raw, tier) = (Raw::connect(&url).await, format!("{namespace}:mail@wait.1h"));
    let histories = histories_of_no_broker(&format!("{namespace}:mail"));
    let histories = histories.into_iter().map(Some).chain([None]);
    for history in histories {
        let stated = history.iter().map(|history| ("x-death", history.clone())).collect();
        let id = jobq::JobId::new().to_string().into();
        raw.publish(&namespace, "mail@3600000", with(stated).with_message_id(id), b"1").await;
        take(&mut consumer).await.settle(Settlement::Retry(wait)).await.expect("settles");
        let waits = until("the job in its tier", async || raw.peek(&tier).await).await;
        raw.take(&tier).await;
        let headers = waits.headers().as_ref().expect("it has headers").inner();
        let counted = headers.get("jobq-attempts") == Some(&AMQPValue::LongLongInt(1));
        assert_eq!(counted, history.is_some(), "{history:?} {headers:?}");
        assert_eq!(headers.contains_key("x-death"), history.is_none(), "{history:?} {headers:?}");
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_read_stops_its_queue_alone() {
    let plain = BasicProperties::default;
    let inner = AMQPValue::FieldTable(headers([("bad-text", AMQPValue::Void)]));
    let messages = [
        ("key", with(vec![("bad-text", AMQPValue::LongInt(1))])),
        ("inner", with(vec![("table", AMQPValue::FieldArray(FieldArray::from(vec![inner])))])),
        ("type", plain().with_type("bad-text".into())),
        ("id", plain().with_message_id("bad-text".into())),
    ];
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("connects");
    let queues = messages.iter().map(|(queue, _)| *queue).chain(["other"]).map(QueueSpec::new);
    engine.declare(&queues.collect::<Vec<_>>()).await.expect("declares");
    let mut other = engine.consume_from("other", 1).await.expect("consumes");
    for (queue, properties) in messages {
        let mut consumer = engine.consume_from(queue, 1).await.expect("consumes");
        // A short text that is no UTF-8 ends the connection of whoever receives it.
        let way = raw::garbled(&url, b"bad-text", b"bad\xff\xfeext").await;
        Raw::connect(&way).await.publish(&namespace, queue, properties, b"{}").await;
        let end = soon("the queue to end", consumer.next()).await;
        let error = end.expect("it says why").expect_err("it cannot be read");
        assert_eq!(error.kind(), jobq::ErrorKind::Refused);
        for part in [&format!("`{queue}`"), "not UTF-8", &format!("`{namespace}:{queue}`")] {
            assert!(error.to_string().contains(part), "{error}");
        }
        // From now on the other queue is rid of it.
        for _ in 0..3 {
            push(&*engine, "other", 1).await;
            take(&mut other).await.settle(Settlement::Complete).await.expect("settles");
        }
    }
    engine.close().await;
}

/// The broker adds the number of deliveries to the headers, and then sends more than was agreed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_headers_outgrew_a_frame_stops_its_queue_alone() {
    /// The most bytes of a frame beside its own, and those of a frame of headers beside this text.
    const MOST: usize = 128 * 1024 - 8;
    const BESIDE: usize = 25;
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("connects");
    let queues = ["mail", "other"].map(QueueSpec::new);
    engine.declare(&queues).await.expect("declares");
    let mut other = engine.consume_from("other", 1).await.expect("consumes");
    let long = "x".repeat(MOST - BESIDE);
    let raw = Raw::connect(&url).await;
    let properties = with(vec![("k", text(&long))]);
    raw.publish(&namespace, "mail", properties, b"{}").await;
    let mut taken = raw.consume(&format!("{namespace}:mail"), "c").await;
    soon("the message", taken.next()).await.unwrap().unwrap();
    // As if a worker had died of it.
    drop((taken, raw));
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let end = soon("the queue to end", consumer.next()).await;
    let error = end.expect("it says why").expect_err("it cannot be read");
    assert!(error.is_refused() && error.to_string().contains("longer than a frame"), "{error}");
    for _ in 0..3 {
        push(&*engine, "other", 1).await;
        take(&mut other).await.settle(Settlement::Complete).await.expect("settles");
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strays_cost_nobody_the_connection() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("connects");
    let queue = QueueSpec::new("mail");
    engine.declare(&[queue]).await.expect("declares");
    push(&*engine, "mail", 1).await;
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let held = take(&mut consumer).await;
    // More than a connection has channel numbers, of which the end of a channel uses one up.
    let (raw, strays) = (Raw::connect(&url).await, 2_100);
    for _ in 0..strays {
        raw.publish(&namespace, "nowhere", BasicProperties::default(), b"{}").await;
    }
    for _ in 0..strays {
        engine.admin().counts("nowhere").await.expect("counts");
    }
    eventually("all strays to be moved", strays.into(), || async {
        engine.admin().counts("orphan").await.expect("counts").failed
    })
    .await;
    held.settle(Settlement::Complete).await.expect("it is still in hand");
    engine.close().await;
}

/// An event of another client needs a body and a topic, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_client_is_a_job_of_each_subscriber() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let spec = |name: &str| QueueSpec::new(name).waits([WAIT]).patterns(["user.#"]);
    engine
        .declare(&[spec("welcome").patterns(["welcome@200"]), spec("audit")])
        .await
        .expect("declares");
    let mut consumer = engine.consume_from("welcome", 1).await.expect("consumes");
    let raw = Raw::connect(&url).await;
    let events = format!("{namespace}.events");
    let plain = BasicProperties::default;
    let messages = [
        ("user.created", plain()),
        // Words that no topic of jobq has.
        ("user.been here..*", plain()),
        ("user.created", plain().with_type("UserCreated".into()).with_message_id("17".into())),
        ("user.created", with(vec![("jobq-topic", text("order.paid"))])),
        ("user.created", with(vec![("jobq-topic", AMQPValue::Boolean(true))])),
        // As if the broker could retry it: it would forget the topic.
        ("welcome@200", plain().with_message_id(jobq::JobId::new().to_string().into())),
    ];
    engine.declare_delays(WAIT).await.expect("declares");
    let level = format!("{namespace}.level.0");
    let ways = messages.iter().flat_map(|(topic, properties)| {
        let waits = format!("0.0.0.0.0.0.0.1.e.{topic}");
        [(&events, (*topic).to_owned()), (&level, waits)].map(|way| (way, *topic, properties))
    });
    for ((exchange, key), topic, properties) in ways {
        raw.publish(exchange, &key, properties.clone(), b"{}").await;
        let mut ids = Vec::new();
        for attempt in 1..=3 {
            let delivery = take(&mut consumer).await;
            assert_eq!(delivery.envelope().topic.as_deref(), Some(topic), "{properties:?}");
            assert_eq!((delivery.attempt, &delivery.envelope().payload[..]), (attempt, &b"{}"[..]));
            ids.push(delivery.envelope().id);
            delivery.settle(Settlement::Retry(WAIT)).await.expect("settles");
        }
        assert!(ids.iter().all(|id| *id == ids[0]), "one id from the first retry on");
        let reason = jobq::FailedReason::Exhausted;
        let fail = Settlement::Fail { reason, error: String::new(), attempts: 4 };
        take(&mut consumer).await.settle(fail).await.expect("settles");
        let failed = engine.failed_find("welcome", ids[0]).await.expect("looks").expect("is there");
        assert_eq!(failed.topic(), Some(topic));
        let retry = engine.failed_settle("welcome", Some(ids[0]), Verdict::Retry);
        assert_eq!(retry.await.expect("retries"), 1);
        let delivery = take(&mut consumer).await;
        assert_eq!((delivery.attempt, delivery.envelope().topic.as_deref()), (1, Some(topic)));
        delivery.settle(Settlement::Complete).await.expect("settles");
    }
    eventually("the other subscriber's events", 10.into(), async || {
        engine.admin().counts("audit").await.expect("counts").ready
    })
    .await;
    engine.close().await;
}

/// `lapin` reads lists in lists by recursion, and some hundreds overflow its stack.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_in_lists_cost_nobody_the_process() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("connects");
    engine.declare(&[QueueSpec::new("mail").waits([WAIT])]).await.expect("declares");
    let mut mail = engine.consume_from("mail", 1).await.expect("consumes");
    for levels in [10, 300, 3_000, 20_000] {
        let (lists, placeholder) = raw::deep(levels);
        let flat = placeholder.as_long_string().expect("a text").as_bytes().to_vec();
        let length = u32::try_from(flat.len()).expect("short").to_be_bytes();
        let way = raw::garbled(&url, [b"S", &length[..], &flat].concat(), lists).await;
        let properties = with(vec![("deep", placeholder), ("jobq-attempts", text("x"))]);
        Raw::connect(&way).await.publish(&namespace, "mail", properties, b"{}").await;
        push(&*engine, "mail", 1).await;
        for retry in [Some(WAIT), None, None] {
            let settlement = retry.map_or(Settlement::Complete, Settlement::Retry);
            take(&mut mail).await.settle(settlement).await.expect("settles");
        }
    }
    engine.close().await;
}
