//! What `lapin` does under fault, and a client of it has to know: each test fails where
//! jobq steps into one of its traps (`docs/reliability.md` lists them).

use jobq::engine::conformance::EngineExt as _;
use std::collections::BTreeSet;

use futures_util::future::join_all;
use jobq::engine::conformance::soon;
use jobq::engine::{Consumer, Delivery, Engine, Envelope, QueueSpec, Settlement};
use jobq::{ErrorKind, JobId};
use jobq_tests::broker::{self, Broker};
use jobq_tests::jobs::{event, job, push};
use jobq_tests::late_confirms_proxy::late_confirms_proxy;
use jobq_tests::raw::{Raw, header, headers, text};
use jobq_tests::test_store::until;
use lapin::BasicProperties;

async fn take(consumer: &mut Consumer) -> Delivery {
    let next = soon("a delivery", consumer.next()).await;
    next.expect("the consumer goes on").expect("a delivery")
}

async fn take_many(consumer: &mut Consumer, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(take(consumer).await);
    }
    taken
}

fn ids(deliveries: &[Delivery]) -> BTreeSet<JobId> {
    deliveries.iter().map(|delivery| delivery.envelope().id).collect()
}

/// `lapin` gives a returned message to whichever confirm comes next. That it is another one's
/// is rare, but where confirms come in another order than their messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_mandatory_events_gets_its_own_answer() {
    let url = late_confirms_proxy(&broker::shared().await).await;
    let engine = jobq::engine::conformance::open(&url, &broker::namespace()).await.unwrap();
    engine.declare(&[QueueSpec::new("mail").patterns(["heard.*"])]).await.unwrap();
    let topics: Vec<_> = (0..600)
        .map(|number| format!("{}.{number}", if number % 3 == 0 { "lost" } else { "heard" }))
        .collect();
    let answers = join_all(topics.iter().map(|topic| engine.publish(event(topic), true))).await;
    for (topic, answer) in topics.iter().zip(answers) {
        match answer {
            Ok(()) => assert!(topic.starts_with("heard"), "{topic} was heard by nobody"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
                assert!(error.to_string().contains(topic), "{topic}: {error}");
            }
        }
    }
    let counts = engine.admin().counts("mail").await.unwrap();
    assert_eq!(counts.ready, 400);
    engine.close().await;
}

/// With `lapin`'s own recovery an old acknowledgement would settle what has its number now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_after_a_restart_deletes_no_fresh_job() {
    let Some(node) = Broker::to_kill("what_is_settled_after_a_restart").await else {
        return;
    };
    let engine = jobq::engine::conformance::open(&node.url(), "jobq").await.unwrap();
    engine.declare(&[QueueSpec::new("mail")]).await.unwrap();
    // There is room for those that come while the old ones are still held.
    let mut consumer = engine.consume_from("mail", 20).await.unwrap();
    let mut all: BTreeSet<_> = push(&*engine, "mail", 10).await.into_iter().collect();
    let old = take_many(&mut consumer, 10).await;
    node.kill();
    node.restart().await;
    all.extend(push_surely(&*engine, 10).await);
    // They have the numbers now that the old ones had.
    let fresh = take_many(&mut consumer, 10).await;
    for delivery in old {
        let error = delivery.settle(Settlement::Complete).await.unwrap_err();
        assert!(error.is_stale(), "{error:?}");
    }
    // Each is still the broker's, as it can be given back and comes again.
    let returned = ids(&fresh);
    for delivery in fresh {
        delivery.settle(Settlement::Release).await.unwrap();
    }
    let mut left = all.clone();
    while !left.is_empty() {
        let delivery = take(&mut consumer).await;
        left.remove(&delivery.envelope().id);
        delivery.settle(Settlement::Complete).await.unwrap();
    }
    assert!(returned.is_subset(&all));
    until("an empty queue", || async {
        let counts = engine.admin().counts("mail").await.ok()?;
        (counts.ready == 0).then_some(())
    })
    .await;
    engine.close().await;
}

/// Pushes jobs to a broker that has just come back, one after the other.
async fn push_surely(engine: &dyn Engine, count: usize) -> Vec<JobId> {
    let mut accepted = Vec::new();
    while accepted.len() < count {
        let next = job("mail");
        let id = next.id;
        match engine.push(next).await {
            Ok(_) => accepted.push(id),
            // It may be there as well, and is then one more that nobody waits for.
            Err(error) => assert!(error.is_connection() || error.is_timeout(), "{error:?}"),
        }
    }
    accepted
}

/// A header that fits in no frame ends the connection; a short string of 256 bytes panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_an_error_before_it_is_sent() {
    let Some(node) = Broker::to_kill("what_does_not_fit_is_an_error").await else {
        return;
    };
    let engine = jobq::engine::conformance::open(&node.url(), "jobq").await.unwrap();
    engine.declare(&["mail", "others"].map(QueueSpec::new)).await.unwrap();
    let mut consumer = engine.consume_from("mail", 2).await.unwrap();
    push(&*engine, "mail", 1).await;
    let held = take(&mut consumer).await;
    let before = connections(&node).await;

    let with = |change: fn(&mut Envelope)| {
        let mut job = job("mail");
        change(&mut job);
        job
    };
    // More than may be unconfirmed, before those that cannot be sent.
    let plain = (0..1_500).map(|_| job("others"));
    let others = [
        with(|job| job.name = Some("n".repeat(256).into())),
        with(|job| job.queue = "q".repeat(256).into()),
        with(|job| job.topic = Some("t".repeat(200_000))),
        with(|job| job.topic = Some("t".repeat(70_000))),
        with(|_| {}),
        with(|job| job.name = Some("n".repeat(255).into())),
    ];
    let not_pushed = engine.push_all(&mut plain.chain(others)).await;
    let places: Vec<_> = not_pushed.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [1_500, 1_501, 1_502, 1_503], "those beside them are accepted");
    for (_, error) in not_pushed {
        assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
    }
    for topic in ["t".repeat(256), "t".repeat(200_000)] {
        for mandatory in [false, true] {
            let error = engine.publish(event(&topic), mandatory).await.unwrap_err();
            assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
        }
    }
    let error = engine.declare(&[QueueSpec::new("q".repeat(256))]).await.unwrap_err();
    assert!(error.is_invalid(), "{error:?}");
    for length in [256, 70_000] {
        let name: &str = "q".repeat(length).leak();
        let error = engine.consume_from(name, 1).await.map(drop).unwrap_err();
        assert!(error.is_invalid() || error.is_not_found(), "{error:?}");
        assert!(engine.admin().counts(name).await.is_err());
        assert!(engine.failed_find(name, JobId::new()).await.is_err());
    }

    // What others sent is cut to what can be sent again, beside the longest error.
    let raw = Raw::connect(&node.url()).await;
    let large = headers([("large", text(&"x".repeat(110_000))), ("small", text("x"))]);
    let properties = BasicProperties::default().with_headers(large).with_type("greet".into());
    let error = "e".repeat(8 * 1024);
    for _ in 0..2 {
        let reason = jobq::FailedReason::Aborted;
        let fail = Settlement::Fail { reason, error: error.clone(), attempts: 1 };
        take(&mut consumer).await.settle(fail).await.unwrap();
    }
    raw.publish("jobq", "mail", properties, b"{}").await;
    let again = take(&mut consumer).await;
    let (id, reason) = (again.envelope().id, jobq::FailedReason::Aborted);
    let fail = Settlement::Fail { reason, error: error.clone(), attempts: 1 };
    again.settle(fail).await.unwrap();
    let failed = engine.failed_find("mail", id).await.unwrap().unwrap();
    assert_eq!(failed.error(), error);
    let kept = raw.peek_last("jobq:mail@failed").await;
    assert!(header(&kept, "large").is_none() && header(&kept, "small").is_some());

    held.settle(Settlement::Complete).await.expect("its connection is still there");
    let after = connections(&node).await;
    assert!(before.is_subset(&after), "{before:?} {after:?}");
    engine.close().await;
}

/// The connections of the broker, by their processes there.
async fn connections(node: &Broker) -> BTreeSet<String> {
    let listed = node.ctl(&["list_connections", "pid", "--no-table-headers"]).await;
    let pids: BTreeSet<_> =
        listed.lines().filter(|line| line.starts_with('<')).map(str::to_owned).collect();
    assert!(!pids.is_empty(), "{listed}");
    pids
}

/// The stream of a consumer may stay silent, and not end, when its broker dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_hears_nothing_notices_that_its_broker_died() {
    let Some(node) = Broker::to_kill("a_consumer_that_hears_nothing").await else {
        return;
    };
    let engine = jobq::engine::conformance::open(&node.url(), "jobq").await.unwrap();
    engine.declare(&[QueueSpec::new("mail")]).await.unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    for _ in 0..2 {
        // Nothing is in hand, nothing is sent, and nobody asks for anything.
        node.kill();
        node.restart().await;
        let other = jobq::engine::conformance::open(&node.url(), "jobq").await.unwrap();
        let id = push_surely(&*other, 1).await[0];
        other.close().await;
        loop {
            let delivery = take(&mut consumer).await;
            let found = delivery.envelope().id;
            delivery.settle(Settlement::Complete).await.unwrap();
            if found == id {
                break;
            }
        }
    }
    engine.close().await;
}
