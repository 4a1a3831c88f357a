//! What jobq declares on a broker, and what the broker then does by itself.

use jobq::engine::conformance::EngineExt as _;
use std::sync::Arc;
use std::time::Duration;

use jobq::engine::conformance::{eventually, soon};
use jobq::engine::{Consumer, Delivery, Engine, Envelope, QueueSpec, Settlement, Verdict};
use jobq::rabbitmq::Topology;
use jobq::{FailedJob, FailedReason};
use jobq_tests::broker;
use jobq_tests::declared::declared_in;
use jobq_tests::jobs::{self, event, with};
use jobq_tests::raw::{self, Raw, header, headers, text};
use jobq_tests::test_store::until;
use jobq_tests::vhost::Vhost;
use lapin::BasicProperties;
use lapin::options::{BasicGetOptions, BasicNackOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};

const WAIT: Duration = Duration::from_millis(200);

async fn open(namespace: &str) -> Arc<dyn Engine> {
    let url = broker::shared().await;
    jobq::engine::conformance::open(&url, namespace).await.expect("opens")
}

fn spec(queue: &str) -> QueueSpec {
    QueueSpec::new(queue).waits([WAIT, Duration::from_secs(60)]).solo()
}

fn job(queue: &str, retry_wait: Option<Duration>) -> Envelope {
    with(jobs::job(queue), |job| {
        job.enqueued_at = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        job.retry_wait = retry_wait;
    })
}

async fn take(consumer: &mut Consumer) -> Delivery {
    let next = soon("a delivery", consumer.next()).await;
    next.expect("the consumer goes on").expect("a delivery")
}

async fn push(engine: &dyn Engine, job: Envelope) {
    engine.push(job).await.expect("it is accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_has_what_was_printed() {
    let test = "the_broker_has_what_was_printed";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let namespace = broker::namespace();
    let queues = [spec("mail"), spec("images.resize")];
    let engine = jobq::engine::conformance::open(&vhost.url(), &namespace).await.expect("opens");
    engine.declare(&queues).await.expect("declares");
    // So many levels as the first job that waits there needs: 2 of them, with 30 queues.
    push(&*engine, with(job("mail", None), |job| job.delay = Duration::from_secs(20))).await;
    let levels = |found: &[String]| {
        let queue = format!("queue {namespace}.level.");
        found.iter().filter(|line| line.starts_with(&queue)).count()
    };
    assert_eq!(levels(&declared_in(&vhost, &namespace).await), 30);
    // A longer one adds those above, and a shorter one none.
    engine.declare_delays(Duration::from_secs(3_600)).await.expect("declares");
    engine.declare_delays(Duration::from_secs(1)).await.expect("declares");
    assert_eq!(levels(&declared_in(&vhost, &namespace).await), 60);
    engine.declare_delays(Duration::MAX).await.expect("declares");

    let found = declared_in(&vhost, &namespace).await;
    let printed = Topology::from_queues(&namespace, &queues).to_string();
    let mut printed: Vec<_> = printed.lines().map(str::to_owned).collect();
    printed.sort();
    assert_eq!(found, printed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_the_wait_of_its_policy_is_one_nack() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    engine.declare(&[spec("mail")]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    push(&*engine, job("mail", Some(WAIT))).await;
    for attempt in 1..4 {
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.attempt, attempt);
        if attempt == 3 {
            // Nobody takes the job after its last wait.
            consumer.stop().await;
        }
        delivery.settle(Settlement::Retry(WAIT)).await.expect("settles");
    }
    let raw = Raw::connect(&broker::shared().await).await;
    let work = format!("{namespace}:mail");
    eventually("the job is back", true, || async {
        let Some(properties) = raw.peek(&work).await else {
            return false;
        };
        let deaths = header(&properties, "x-death").and_then(AMQPValue::as_array);
        let rejected = deaths.expect("the broker counted").as_slice().iter().find_map(|death| {
            let death = death.as_field_table()?.inner();
            let is = |key: &str, value: &str| death.get(key) == Some(&text(value));
            (is("queue", &work) && is("reason", "rejected")).then(|| death.get("count").cloned())
        });
        let said = header(&properties, "jobq-attempts");
        rejected.flatten() == Some(AMQPValue::LongLongInt(3)) && said.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_another_wait_is_a_new_message() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    engine.declare(&[spec("mail")]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    // No hint, one that no tier has, and one that the worker does not follow.
    for hint in [None, Some(Duration::from_secs(17)), Some(Duration::from_secs(60))] {
        let pushed = job("mail", hint);
        let id = pushed.id;
        push(&*engine, pushed).await;
        let first = take(&mut consumer).await;
        first.settle(Settlement::Retry(WAIT)).await.expect("settles");
        let second = take(&mut consumer).await;
        assert_eq!((second.envelope().id, second.attempt), (id, 2), "{hint:?}");
        assert_eq!(second.envelope().retry_wait, Some(WAIT));
        // From now on it names its tier, and the broker counts on.
        second.settle(Settlement::Retry(WAIT)).await.expect("settles");
        let third = take(&mut consumer).await;
        assert_eq!((third.envelope().id, third.attempt), (id, 3), "{hint:?}");
        third.settle(Settlement::Complete).await.expect("settles");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_nowhere_is_found_among_the_failed_jobs() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    engine.declare(&[spec("mail")]).await.expect("declares");
    let _consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let raw = Raw::connect(&broker::shared().await).await;
    let none = BasicProperties::default;
    let retry = format!("{namespace}.retry");
    let strays = [
        (&namespace, "nowhere", none(), "nowhere"),
        (&namespace, "no such queue!", none(), "no such queue!"),
        (&namespace, "", none(), ""),
        (&namespace, "mail@soon", none(), "mail@soon"),
        (&retry, "mail", none(), "mail"),
        (&retry, "mail@17", none(), "mail"),
    ];
    for (exchange, key, properties, _) in strays.clone() {
        raw.publish(exchange, key, properties, b"{}").await;
    }
    for (queue, count) in [("orphan", 4), ("mail", 2)] {
        eventually("strays among the failed jobs", count.into(), || async {
            engine.admin().counts(queue).await.expect("counts").failed
        })
        .await;
        let jobs = engine.failed_list(queue, 10).await.expect("lists");
        for job in jobs {
            assert_eq!(job.reason(), FailedReason::Unroutable);
            assert_eq!(job.payload_bytes(), b"{}");
            assert!(!job.error().is_empty());
            let known = strays.iter().any(|(_, _, _, place)| *place == job.queue());
            assert!(known, "{}", job.queue());
        }
    }
    // Once there is such a queue, the job can be put where it was sent.
    engine.declare(&[spec("nowhere")]).await.expect("declares");
    let jobs = engine.failed_list("orphan", 10).await.expect("lists");
    let lost = jobs.iter().find(|job| job.queue() == "nowhere").expect("it is there");
    let retried = engine.failed_settle("orphan", Some(lost.id()), Verdict::Retry).await;
    assert_eq!(retried.expect("retries"), 1);
    let mut consumer = engine.consume_from("nowhere", 1).await.expect("consumes");
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.attempt), (lost.id(), 1));
}

/// A later version may use a way that this one does not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_stray_that_needs_what_is_lacking_is_left_until_its_queue_is_there() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let raw = Raw::connect(&broker::shared().await).await;
    engine.declare(&[spec("mail")]).await.expect("declares");
    // A client that consumes moves strays.
    let _consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let needs = headers([("jobq-needs", text("telepathy"))]);
    let needs = BasicProperties::default().with_headers(needs);
    raw.publish(&namespace, "later", needs, b"1").await;
    raw.publish(&namespace, "later", BasicProperties::default(), b"2").await;
    eventually("the other stray among the failed jobs", 1.into(), || async {
        engine.admin().counts("orphan").await.expect("counts").failed
    })
    .await;
    engine.declare(&[spec("later")]).await.expect("declares");
    let mut consumer = engine.consume_from("later", 1).await.expect("consumes");
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.attempt, delivery.envelope().payload.as_slice()), (1, &b"1"[..]));
    let failed = engine.failed_list("orphan", 10).await.expect("lists");
    assert_eq!(failed.iter().map(FailedJob::payload_bytes).collect::<Vec<_>>(), [b"2"]);
}

/// As while a broker starts, which passes on what is overdue before it has all its bindings.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_way_back_was_missing_for_a_moment_runs() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    engine.declare(&[spec("mail")]).await.expect("declares");
    let raw = Raw::connect(&broker::shared().await).await;
    let job = job("mail", Some(WAIT));
    let id = job.id;
    engine.push(job).await.expect("accepted");
    let (work, deliver) = (format!("{namespace}:mail"), format!("{namespace}.deliver"));
    let none = FieldTable::default;
    let (queue, exchange) = (work.as_str(), deliver.as_str());
    let key = "mail@200";
    let unbound = raw.channel.queue_unbind(queue.into(), exchange.into(), key.into(), none());
    unbound.await.expect("it is unbound");
    let taken = raw.channel.basic_get(queue.into(), BasicGetOptions::default()).await;
    let failed = BasicNackOptions { requeue: false, ..BasicNackOptions::default() };
    taken.expect("it is there").expect("a job").nack(failed).await.expect("it fails");
    let orphan = format!("{namespace}.orphan");
    eventually("the retry to be astray", true, async || raw.peek(&orphan).await.is_some()).await;

    let options = QueueBindOptions::default();
    let bound = raw.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none());
    bound.await.expect("it is bound again");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.attempt), (id, 2));
    // It may lose its way again.
    delivery.settle(Settlement::Retry(WAIT)).await.expect("settles");
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.attempt), (id, 3));
    delivery.settle(Settlement::Complete).await.expect("settles");
    assert_eq!(engine.admin().counts("mail").await.expect("counts").failed, 0);
}

/// A client may know a tier that whoever made the queue did not.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_names_a_tier_which_is_not_there_runs() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    engine.declare(&[spec("mail")]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 1).await.expect("consumes");
    let raw = Raw::connect(&broker::shared().await).await;
    raw.publish(&namespace, "mail@17", BasicProperties::default(), b"{}").await;
    for attempt in 1..=3 {
        let delivery = take(&mut consumer).await;
        assert_eq!(
            (delivery.attempt, delivery.envelope().payload.as_slice()),
            (attempt, &b"{}"[..])
        );
        delivery.settle(Settlement::Retry(WAIT)).await.expect("settles");
    }
    take(&mut consumer).await.settle(Settlement::Complete).await.expect("settles");
    for queue in ["mail", "orphan"] {
        assert_eq!(engine.admin().counts(queue).await.expect("counts").failed, 0, "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_names_what_was_found_and_what_is_needed() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let raw = Raw::connect(&broker::shared().await).await;
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let name = format!("{namespace}:mail");
    let arguments =
        headers([("x-queue-type", text("quorum")), ("x-delivery-limit", AMQPValue::LongInt(5))]);
    let declared = raw.channel.queue_declare(name.as_str().into(), options, arguments);
    declared.await.expect("declares");
    let error = engine.declare(&[spec("mail")]).await.expect_err("conflicts");
    assert!(error.is_conflict(), "{error:?}");
    let told = error.to_string();
    assert!(told.contains(&format!("queue `{name}`")), "{told}");
    assert!(told.contains("exists with other properties"), "{told}");
    // Other queues are not harmed, nor is the engine.
    engine.declare(&[spec("images")]).await.expect("declares");
    push(&*engine, job("images", None)).await;
}

/// What goes through the exchange of events, seen by a queue that gets all of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_passes_its_exchange_once() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = open(&namespace).await;
    let queue = |name: &str| spec(name).patterns(["user.*"]);
    engine.declare(&[queue("welcome"), queue("audit")]).await.expect("declares");
    let raw = Raw::connect(&url).await;
    let tap = raw.tap(&format!("{namespace}.events"), "#").await;
    engine.publish(event("user.created"), false).await.expect("publishes");
    let mut consumer = engine.consume_from("welcome", 1).await.expect("consumes");
    // By another copy, by the broker, through the levels, as a failed job, and as its retry.
    for wait in [WAIT, WAIT, Duration::from_millis(300)] {
        take(&mut consumer).await.settle(Settlement::Retry(wait)).await.expect("settles");
    }
    let reason = FailedReason::Exhausted;
    let fail = Settlement::Fail { reason, error: String::new(), attempts: 4 };
    take(&mut consumer).await.settle(fail).await.expect("settles");
    assert_eq!(engine.failed_settle("welcome", None, Verdict::Retry).await.expect("retries"), 1);
    take(&mut consumer).await.settle(Settlement::Complete).await.expect("settles");
    // What comes after all of that.
    engine.publish(event("order.paid"), false).await.expect("publishes");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|key| key != "order.paid") {
        seen.push(until("a message", || raw.take(&tap)).await);
    }
    assert_eq!(seen, ["user.created", "order.paid"]);
    assert_eq!(engine.admin().counts("audit").await.expect("counts").ready, 1);
    engine.close().await;
}

/// An event that waited and that nobody wants any more is dropped; it is no lost job.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_nobody_waits_for_is_no_orphan() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = open(&namespace).await;
    engine.declare(&[spec("welcome")]).await.expect("declares");
    let raw = Raw::connect(&url).await;
    let orphan = format!("{namespace}.orphan");
    let unheard = with(event("user.created"), |event| event.delay = WAIT);
    engine.declare_delays(WAIT).await.expect("declares");
    engine.publish(unheard, false).await.expect("publishes");
    eventually("the event to come out", true, async || raw.peek(&orphan).await.is_some()).await;
    raw.publish(&namespace, "nowhere", BasicProperties::default(), b"{}").await;
    // Whoever consumes also moves what belongs nowhere, in its order.
    let _consumer = engine.consume_from("welcome", 1).await.expect("consumes");
    eventually("the message of no queue", 1, async || {
        engine.failed_list("orphan", 9).await.expect("lists").len()
    })
    .await;
    let failed = engine.failed_list("orphan", 9).await.expect("lists");
    assert_eq!((failed[0].queue(), failed[0].topic()), ("nowhere", None));
    eventually("no orphans", true, async || raw.peek(&orphan).await.is_none()).await;
    engine.close().await;
}

/// RabbitMQ 4.3 says so now and then of a queue that another client declares at the same time. Here
/// the declaration arrives as a question for the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declaration_is_repeated_if_the_broker_finds_no_queue() {
    let test = "a_declaration_is_repeated_if_the_broker_finds_no_queue";
    let Some(node) = broker::shared_with_ctl(test).await else {
        return;
    };
    let namespace = broker::namespace();
    let (durable, passive) = (*b"orphan\x02", *b"orphan\x03");
    let way = raw::garbled(&node.url(), durable, passive).await;
    let way = jobq::engine::conformance::open(&way, &namespace).await.unwrap();
    let declaring = tokio::spawn(async move { way.declare(&[spec("mail")]).await });
    let missing = format!("no queue '{namespace}.orphan'");
    until("the second try", async || (node.log().matches(&missing).count() > 1).then_some(()))
        .await;
    open(&namespace).await.declare(&[spec("mail")]).await.unwrap();
    soon("the declaration", declaring).await.unwrap().unwrap();
}
