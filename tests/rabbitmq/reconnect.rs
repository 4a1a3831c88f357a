//! Brokers that die, restart, and lose what was declared.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use jobq::engine::conformance::EngineExt as _;
use jobq::engine::conformance::{DEADLINE, eventually, open, soon};
use jobq::engine::{Consumer, Delivery, Engine, Envelope, QueueSpec, Settlement};
use jobq::{Client, JobId};
use jobq_tests::broker::{self, Broker};
use jobq_tests::jobs::{event, job, with};
use jobq_tests::late_consumers_proxy::late_consumers_proxy;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::raw::Raw;
use jobq_tests::vhost::Vhost;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use tokio::net::{TcpListener, TcpStream};

const WAIT: Duration = Duration::from_millis(200);

fn spec(queue: &str) -> QueueSpec {
    QueueSpec::new(queue).waits([WAIT])
}

fn jobs(count: usize) -> Vec<Envelope> {
    let job = |_| {
        with(job("mail"), |job| {
            (job.enqueued_at, job.retry_wait) = (std::time::UNIX_EPOCH, Some(WAIT));
        })
    };
    (0..count).map(job).collect()
}

async fn take(consumer: &mut Consumer) -> Delivery {
    let next = soon("a delivery", consumer.next()).await;
    next.expect("the consumer goes on").expect("a delivery")
}

async fn push(engine: &dyn Engine, jobs: Vec<Envelope>) -> Vec<JobId> {
    let ids = jobs.iter().map(|job| job.id).collect();
    let not_pushed = engine.push_all(&mut jobs.into_iter()).await;
    assert!(not_pushed.is_empty(), "{not_pushed:?}");
    ids
}

/// Completes jobs until all of these were seen.
async fn complete_all(consumer: &mut Consumer, mut ids: Vec<JobId>) {
    while !ids.is_empty() {
        let delivery = take(consumer).await;
        let id = delivery.envelope().id;
        // A stale one comes again, and is then no longer waited for.
        let _ = delivery.settle(Settlement::Complete).await;
        ids.retain(|left| *left != id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_outlives_the_crash_of_its_broker() {
    let test = "a_consumer_outlives_the_crash_of_its_broker";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let engine = jobq::engine::conformance::open(&node.url(), "jobq").await.expect("opens");
    engine.declare(&[spec("mail")]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 3).await.expect("consumes");
    for crash in 0..2 {
        let pushed = push(&*engine, jobs(20)).await;
        let (held, failed) = (take(&mut consumer).await, take(&mut consumer).await);
        failed.settle(Settlement::Retry(WAIT)).await.expect("settles");
        node.kill();
        let engine: Arc<dyn Engine> = Arc::clone(&engine);
        // Asked for while there is no broker, answered by the next one.
        let late = tokio::spawn(async move { push_surely(&*engine).await });
        node.restart().await;
        let late = soon("the late push", late).await.expect("no panic");
        // Each that was accepted is delivered.
        complete_all(&mut consumer, [pushed, late].concat()).await;
        let error = held.settle(Settlement::Complete).await.expect_err("too late");
        assert!(error.is_stale(), "crash {crash}: {error:?}");
    }
    eventually("the queue is empty", 0, || async {
        engine
            .admin()
            .counts("mail")
            .await
            .map_or(1, |counts| *counts.open().known().expect("counted"))
    })
    .await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_closed_come_back() {
    let test = "connections_that_are_closed_come_back";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let engine = jobq::engine::conformance::open(&vhost.url(), "jobq").await.expect("opens");
    engine.declare(&[spec("mail")]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 3).await.expect("consumes");
    let log = LogCapture::log();
    for _ in 0..3 {
        vhost.close_connections().await;
        let pushed = soon("the jobs to be accepted", push_surely(&*engine)).await;
        complete_all(&mut consumer, pushed).await;
    }
    engine.close().await;
    assert!(!log.lines(&["ERROR", "lapin", "CONNECTION_FORCED"]).is_empty(), "{}", log.text());
}

/// Pushes jobs until all are accepted: a connection may be lost under one.
async fn push_surely(engine: &dyn Engine) -> Vec<JobId> {
    let mut left = jobs(10);
    let ids = left.iter().map(|job| job.id).collect();
    while !left.is_empty() {
        let not_pushed = engine.push_all(&mut left.iter().cloned()).await;
        left = not_pushed.iter().map(|(place, _)| left[*place].clone()).collect();
    }
    ids
}

/// As a broker does that ends at this moment, or has just begun to start.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_a_connection_and_never_answers_is_left() {
    let broker = broker::shared().await;
    let (_, address) = broker.rsplit_once('@').or(broker.split_once("//")).expect("a URL");
    let address = address.trim_end_matches('/').to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = broker.replace(&address, &listener.local_addr().expect("is bound").to_string());
    let (cut, mut is_cut) = tokio::sync::oneshot::channel();
    let relaying = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.expect("a connection");
        let mut there = TcpStream::connect(&address).await.expect("the broker");
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut first, &mut there) => {}
            _ = &mut is_cut => {}
        }
        drop((first, there));
        let _silent = listener.accept().await.expect("a try to come back");
        let (mut next, _) = listener.accept().await.expect("another try");
        let mut there = TcpStream::connect(&address).await.expect("the broker");
        let _ = tokio::io::copy_bidirectional(&mut next, &mut there).await;
    });
    let builder = Client::builder(url).namespace(broker::namespace()).timeout(DEADLINE);
    let client = builder.connect().await.expect("connects");
    client.counts("mail").await.expect("counts");
    cut.send(()).expect("it relays");
    let since = Instant::now();
    eventually("the client to come back", true, async || client.counts("mail").await.is_ok()).await;
    assert!(since.elapsed() < DEADLINE / 2, "{:?}", since.elapsed());
    client.close().await;
    relaying.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_was_deleted_is_declared_again() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    engine.declare(&[spec("mail")]).await.expect("declares");
    let mut consumer = engine.consume_from("mail", 3).await.expect("consumes");
    let raw = Raw::connect(&url).await;
    raw.delete(&format!("{namespace}:mail")).await;
    // Until the queue is there again, what is pushed is a stray and found as failed.
    let found = async {
        loop {
            push(&*engine, jobs(1)).await;
            let next = tokio::time::timeout(WAIT, consumer.next()).await;
            if let Ok(Some(Ok(delivery))) = next {
                return delivery;
            }
        }
    };
    let delivery = soon("the consumer to go on", found).await;
    delivery.settle(Settlement::Complete).await.expect("settles");
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_be_reached_is_an_error_at_once() {
    let error = jobq::engine::conformance::open("amqp://ann:geheim@127.0.0.1:1", "jobq").await;
    let error = error.expect_err("nobody is there");
    assert!(error.is_connection(), "{error:?}");
    let url = broker::shared().await;
    let refused = url.replace("amqp://", "amqp://ann:geheim@");
    if refused != url && !url.contains('@') {
        let error =
            jobq::engine::conformance::open(&refused, "jobq").await.expect_err("no such user");
        assert_eq!(error.kind(), jobq::ErrorKind::Refused, "{error:?}");
        assert!(error.to_string().contains("`ann`"), "{error}");
        assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
        let error = jobq::engine::conformance::open(&format!("{url}/nowhere"), "jobq").await;
        let error = error.expect_err("no such vhost");
        assert_eq!(error.kind(), jobq::ErrorKind::Refused, "{error:?}");
        assert!(error.to_string().contains("`nowhere`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_come_back_and_ended_ones_do_not() {
    let test = "subscriptions_come_back_and_ended_ones_do_not";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let engine = jobq::engine::conformance::open(&vhost.url(), "jobq").await.expect("opens");
    let queue = spec("mail").patterns(["user.*", "order.*"]);
    engine.declare(&[queue]).await.expect("declares");
    engine.admin().unsubscribe("mail", "order.*").await.expect("unsubscribes");
    let raw = Raw::connect(&vhost.url()).await;
    raw.delete("jobq:mail").await;
    vhost.close_connections().await;
    let publish = async |topic: &str| engine.publish(event(topic), true).await;
    // The queue is declared again by the next connection.
    eventually("the subscription", true, async || publish("user.created").await.is_ok()).await;
    let error = publish("order.paid").await.expect_err("it was ended");
    assert!(error.is_not_found(), "{error:?}");
    engine.close().await;
}

/// A consumer whose beginning is dropped before the broker has answered takes no jobs: the connection,
/// which goes on, would hold them until its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_dropped_ends_no_connection() {
    let log = LogCapture::log();
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = open(&url, &namespace).await.unwrap();
    engine.declare(&[QueueSpec::new("mail")]).await.unwrap();
    let seats = engine.seats().unwrap();
    seats.change("mail", b"change".to_vec()).await.unwrap();
    for _ in 0..3 {
        // Its channel is used again, so that the next question is sent at once.
        assert!(seats.exists("mail").await.unwrap());
        assert!(seats.exists("other").now_or_never().is_none());
    }
    // Answered after the others.
    assert!(seats.exists("mail").await.unwrap());
    push(&*engine, jobs(1)).await;
    let alarming = [log.lines(&[" ERROR "]), log.lines(&[" WARN "])].concat();
    assert!(alarming.is_empty(), "{}", alarming.join("\n"));
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_dropped_while_it_begins_takes_no_jobs() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let (slow, released) = late_consumers_proxy(&url).await;
    let engine = open(&slow, &namespace).await.unwrap();
    engine.declare(&[QueueSpec::new("mail")]).await.unwrap();
    let raw = Raw::connect(&url).await;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = format!("{namespace}:mail");
    let consumers = async || {
        let asked = raw.channel.queue_declare((&*queue).into(), passive, FieldTable::default());
        asked.await.unwrap().consumer_count()
    };
    let consuming = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.consume_from("mail", 10).await.map(drop) }
    });
    eventually("the consumer", 1, &consumers).await;
    consuming.abort();
    assert!(consuming.await.unwrap_err().is_cancelled());
    released.send_replace(true);
    eventually("its end", 0, &consumers).await;
    // The connection is the same.
    push(&*engine, jobs(1)).await;
    let mut consumer = engine.consume_from("mail", 10).await.unwrap();
    take(&mut consumer).await.settle(Settlement::Complete).await.unwrap();
    engine.close().await;
}
