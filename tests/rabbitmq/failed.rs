//! Many failed jobs: they are looked at in one pass, in their order, by one after the other.

use futures_util::StreamExt as _;
use jobq::engine::conformance::EngineExt as _;
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use jobq::engine::conformance::soon;
use jobq::engine::{Counts, Engine, Envelope, QueueSpec, Settlement, Verdict, Visited};
use jobq::{Client, FailedJob, JobId};
use jobq_tests::broker::{self, Broker};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::until;
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

const QUEUE: &str = "letters";

async fn open(namespace: &str) -> Arc<dyn Engine> {
    open_on(&broker::shared().await, namespace).await
}

async fn open_on(url: &str, namespace: &str) -> Arc<dyn Engine> {
    let engine = jobq::engine::conformance::open(url, namespace).await.expect("opens");
    engine.declare(&[QueueSpec::new(QUEUE)]).await.expect("declares");
    engine
}

/// So many failed jobs, as a pool publishes them but for the size of their payloads.
async fn fail(namespace: &str, count: usize, size: usize) -> Vec<JobId> {
    fail_on(&broker::shared().await, namespace, count, size).await
}

async fn fail_on(url: &str, namespace: &str, count: usize, size: usize) -> Vec<JobId> {
    let raw = Raw::connect(url).await;
    let exchange = format!("{namespace}.failed");
    let ids: Vec<_> = (0..count).map(|_| JobId::new()).collect();
    let payload = format!("\"{}\"", "x".repeat(size));
    let mut sent = Vec::new();
    for id in &ids {
        let properties =
            BasicProperties::default().with_delivery_mode(2).with_message_id(id.to_string().into());
        let (exchange, options) = (exchange.as_str().into(), BasicPublishOptions::default());
        let publish = raw.channel.basic_publish(
            exchange,
            QUEUE.into(),
            options,
            payload.as_bytes(),
            properties,
        );
        sent.push(publish.await.expect("it is sent"));
        if sent.len() == 500 {
            for confirm in sent.drain(..) {
                assert!(confirm.await.expect("it is answered").is_ack());
            }
        }
    }
    for confirm in sent {
        assert!(confirm.await.expect("it is answered").is_ack());
    }
    ids
}

fn ids(jobs: &[FailedJob]) -> Vec<JobId> {
    jobs.iter().map(FailedJob::id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_leave_thousands_in_their_order() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let all = fail(&namespace, 5_000, 100).await;
    for limit in [3, 1_500, 3, 5_000, 9_000] {
        let listed = engine.failed_list(QUEUE, limit).await.expect("listed");
        assert_eq!(ids(&listed), all[..limit.min(5_000)], "{limit}");
    }
    for place in [0, 4_999, 2_500] {
        let found = engine.failed_find(QUEUE, all[place]).await.expect("looked for");
        assert_eq!(found.expect("it is there").id(), all[place]);
    }
    assert!(engine.failed_find(QUEUE, JobId::new()).await.expect("looked for").is_none());
    let mut left = all.clone();
    for place in [4_000, 2_000, 0] {
        let gone = engine.failed_settle(QUEUE, Some(left.remove(place)), Verdict::Discard);
        assert_eq!(gone.await.expect("discarded"), 1);
    }
    let listed = engine.failed_list(QUEUE, 9_000).await.expect("listed");
    assert_eq!(ids(&listed), left);
    let retry = engine.failed_settle(QUEUE, None, Verdict::Retry);
    assert_eq!(retry.await.expect("retried"), 4_997);
    let expected = Counts::new(4_997, 0, 0);
    until("all to be back", async || {
        (engine.admin().counts(QUEUE).await.expect("counted") == expected).then_some(())
    })
    .await;
}

/// Two operators and somebody who counts, each with a client of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_a_part_while_others_look() {
    const COUNT: usize = 5_000;
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let all = fail(&namespace, COUNT, 100).await;
    drop(engine);
    let looking = (0..2).map(|_| {
        let (namespace, all) = (namespace.clone(), all.clone());
        tokio::spawn(async move {
            let engine = open(&namespace).await;
            for _ in 0..5 {
                let listed = engine.failed_list(QUEUE, COUNT).await.expect("listed");
                assert!(ids(&listed) == all, "{}", listed.len());
            }
        })
    });
    let looking: Vec<_> = looking.collect();
    let counter = open(&namespace).await;
    while !looking.iter().all(tokio::task::JoinHandle::is_finished) {
        let counts = counter.admin().counts(QUEUE).await.expect("counted");
        // It is unknown while a look takes long, and never less.
        assert!(counts.failed.known().is_none_or(|failed| *failed == COUNT as u64), "{counts:?}");
    }
    until("the failed jobs to be counted", async || {
        let counts = counter.admin().counts(QUEUE).await.expect("counted");
        (counts.failed == COUNT as u64).then_some(())
    })
    .await;
    for looking in looking {
        soon("the end of a look", looking).await.expect("it does not panic");
    }
}

/// No more of them are held here than have room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_ones_are_looked_at_too() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let all = fail(&namespace, 200, 1024 * 1024).await;
    let found = engine.failed_find(QUEUE, all[199]).await.expect("looked for");
    assert_eq!(found.expect("it is there").id(), all[199]);
    let listed = engine.failed_list(QUEUE, 2).await.expect("listed");
    assert_eq!(ids(&listed), all[..2]);
    let gone = engine.failed_settle(QUEUE, None, Verdict::Discard);
    assert_eq!(gone.await.expect("purged"), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_unknown_to_who_has_not_declared_it() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let url = broker::shared().await;
    let other = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let counts = other.admin().counts(QUEUE).await.expect("counted");
    assert_eq!((counts.ready, counts.failed), (0.into(), 0.into()));
    assert!(counts.waiting.why().is_some_and(|why| why.contains("tiers")), "{:?}", counts.waiting);
    assert_eq!(engine.admin().counts(QUEUE).await.expect("counted"), Counts::new(0, 0, 0));
    tokio::time::timeout(Duration::from_secs(60), other.close()).await.expect("it ends");
}

/// A visit with a function that gets the place of each job, and what was seen.
async fn visit(
    engine: &dyn Engine,
    mut decide: impl FnMut(usize) -> Verdict + Send + 'static,
) -> (Visited, Vec<JobId>) {
    let (seen, jobs) = mpsc::channel();
    let mut place = 0;
    let look = move |job: FailedJob| {
        seen.send(job.id()).expect("the test waits");
        place += 1;
        decide(place - 1)
    };
    let visited = engine.admin().failed_visit(QUEUE, Box::new(look)).await.expect("it is visited");
    (visited, jobs.iter().collect())
}

/// All jobs of the queue, which are completed: those ahead of a last one that is pushed.
async fn drain(engine: &dyn Engine) -> Vec<JobId> {
    let last = Envelope::new(QUEUE, Vec::new());
    let last_id = last.id;
    engine.push(last).await.expect("pushed");
    let mut consumer = engine.consume_from(QUEUE, 100).await.expect("consumes");
    let mut found = Vec::new();
    loop {
        let delivery = soon("a job", consumer.next()).await.expect("goes on").expect("a job");
        let id = delivery.envelope().id;
        delivery.settle(Settlement::Complete).await.expect("settled");
        if id == last_id {
            return found;
        }
        found.push(id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visit_leaves_thousands_in_their_order() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let all = fail(&namespace, 5_000, 100).await;
    let goes = |place: usize| place % 44 == 43 && place / 44 < 112;
    let decide = move |place| if goes(place) { Verdict::Retry } else { Verdict::Keep };
    let (visited, seen) = visit(&*engine, decide).await;
    assert!(seen == all && visited.complete && visited.end.is_none(), "{:?}", visited.end);
    let picked = |goes_back| (0..).zip(&all).filter(move |(place, _)| goes(*place) == goes_back);
    let back: Vec<_> = picked(true).map(|(_, id)| *id).collect();
    assert!(visited.settled == back && back.len() == 112, "{}", visited.settled.len());
    let stay: Vec<_> = picked(false).map(|(_, id)| *id).collect();
    for _ in 0..2 {
        let (_, seen) = visit(&*engine, |_| Verdict::Keep).await;
        assert!(seen == stay);
    }
    assert_eq!(drain(&*engine).await, back);
    // Every other one is deleted, until enough was seen.
    let decide = |place| match place {
        3_000 => Verdict::Enough,
        place if place % 2 == 0 => Verdict::Discard,
        _ => Verdict::Keep,
    };
    let (visited, _) = visit(&*engine, decide).await;
    assert_eq!((visited.seen, visited.complete, visited.settled.len()), (3_001, false, 1_500));
    let mut places = 0..;
    let mut stay = stay;
    stay.retain(|_| places.next().is_none_or(|place| place >= 3_000 || place % 2 == 1));
    let (visited, seen) = visit(&*engine, |_| Verdict::Discard).await;
    assert!(seen == stay && visited.settled == stay);
}

/// A large job makes those that follow be taken by few at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_with_many_consumers_keeps_the_order() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let mut all = fail(&namespace, 1, 8 * 1024 * 1024).await;
    all.extend(fail(&namespace, 220, 10).await);
    for round in 0..4 {
        let decide = move |place| match place % 10 {
            5 => Verdict::Retry,
            7 => Verdict::Discard,
            _ if round == 3 => Verdict::Enough,
            _ => Verdict::Keep,
        };
        let (_, seen) = visit(&*engine, decide).await;
        assert_eq!(seen, if round == 3 { &all[..1] } else { &all[..] }, "{round}");
        if round < 3 {
            let mut places = 0..;
            all.retain(|_| places.next().is_none_or(|place| ![5, 7].contains(&(place % 10))));
        }
    }
    let (_, seen) = visit(&*engine, |_| Verdict::Keep).await;
    assert_eq!(seen, all);
}

/// A message of another client without an id gets the one under which it was shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_without_an_id_are_settled_too() {
    let namespace = broker::namespace();
    let engine = open(&namespace).await;
    let raw = Raw::connect(&broker::shared().await).await;
    for body in ["1", "2", "3"] {
        let (exchange, none) = (format!("{namespace}.failed"), BasicProperties::default());
        raw.publish(&exchange, QUEUE, none, body.as_bytes()).await;
    }
    let (visited, seen) = visit(&*engine, |place| match place {
        0 => Verdict::Retry,
        1 => Verdict::Keep,
        _ => Verdict::Discard,
    })
    .await;
    assert_eq!(visited.settled, [seen[0], seen[2]]);
    assert_eq!(drain(&*engine).await, seen[..1]);
    let left = engine.failed_list(QUEUE, 9).await.expect("listed");
    assert_eq!((left.len(), left[0].payload_bytes()), (1, &b"2"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_too_long_for_another_is_told_so() {
    let namespace = broker::namespace();
    drop(open(&namespace).await);
    let url = broker::shared().await;
    let raw = Raw::connect(&url).await;
    let lock = format!("{namespace}:{QUEUE}@failed.lock");
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let held = raw.channel.queue_declare(lock.as_str().into(), options, FieldTable::default());
    held.await.expect("it is declared");
    let client = Client::builder(url).namespace(&namespace).timeout(Duration::from_secs(3));
    let client = client.connect().await.expect("connects");
    let error = client.failed(QUEUE).list(1).await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("queue `letters`") && text.contains("waited 3s"), "{text}");
    raw.delete(&lock).await;
    assert!(client.failed(QUEUE).list(1).await.expect("listed").is_empty());
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_consumer_is_named() {
    let namespace = broker::namespace();
    drop(open(&namespace).await);
    fail(&namespace, 1, 10).await;
    let url = broker::shared().await;
    let raw = Raw::connect(&url).await;
    let consumer = raw.consume(&format!("{namespace}:{QUEUE}@failed"), "foreign").await;
    let client = Client::builder(url).namespace(&namespace).connect().await.expect("connects");
    let error = client.failed(QUEUE).list(1).await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("1 other consumers"), "{error:?}");
    drop((raw, consumer));
    let listed = until("the job to be back", async || client.failed(QUEUE).list(1).await.ok());
    assert_eq!(listed.await.len(), 1);
    client.close().await;
}

/// A look that has seen enough goes on as long as such messages come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_back_comes_first_and_says_so() {
    let namespace = broker::namespace();
    drop(open(&namespace).await);
    let all = fail(&namespace, 6, 10).await;
    let (url, queue) = (broker::shared().await, format!("{namespace}:{QUEUE}@failed"));
    for (taken, given_back) in [(4, 0), (6, 4), (6, 6)] {
        let raw = Raw::connect(&url).await;
        let options = BasicQosOptions::default();
        raw.channel.basic_qos(taken, options).await.expect("it is set");
        let mut consumer = raw.consume(&queue, "c").await;
        let mut seen = Vec::new();
        for id in &all[..taken.into()] {
            let message = soon("a message", consumer.next()).await.unwrap().unwrap();
            let found = message.properties.message_id().as_ref().map(ToString::to_string);
            assert_eq!(found, Some(id.to_string()), "after {given_back}");
            seen.push(message.redelivered);
        }
        let expected: Vec<_> = (0..taken).map(|place| place < given_back).collect();
        assert_eq!(seen, expected, "after {given_back}");
        // The broker gives them back when the channel ends.
        raw.channel.close(200, "done".into()).await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_dies_during_a_visit_loses_no_job() {
    const COUNT: usize = 3_000;
    let test = "a_broker_that_dies_during_a_visit_loses_no_job";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let namespace = broker::namespace();
    let engine = open_on(&node.url(), &namespace).await;
    let all = fail_on(&node.url(), &namespace, COUNT, 100).await;
    let ((reached, halfway), (go, killed)) = (mpsc::channel(), mpsc::channel());
    let decide = move |place: usize| {
        if place == COUNT / 2 {
            reached.send(()).expect("the test waits");
            killed.recv().expect("the test goes on");
        }
        [Verdict::Retry, Verdict::Keep, Verdict::Discard][place % 3].clone()
    };
    let visiting = tokio::spawn(async move { (visit(&*engine, decide).await, engine) });
    tokio::task::block_in_place(|| halfway.recv()).expect("it comes so far");
    node.kill();
    go.send(()).expect("it waits");
    node.restart().await;
    let ((visited, _), engine) = visiting.await.expect("no panic");
    assert!(visited.end.is_some() && !visited.complete, "{:?}", visited.end);

    let back: BTreeSet<_> = drain(&*engine).await.into_iter().collect();
    let failed = engine.failed_list(QUEUE, usize::MAX).await.expect("listed");
    let failed: BTreeSet<_> = failed.iter().map(FailedJob::id).collect();
    let settled: BTreeSet<_> = visited.settled.into_iter().collect();
    let unknown: BTreeSet<_> = visited.unknown.into_iter().collect();
    assert!(settled.len() > 100 && unknown.len() > 400, "{} {}", settled.len(), unknown.len());
    assert!(visited.refused.iter().all(|(id, _)| !settled.contains(id) && !unknown.contains(id)));
    for (place, id) in all.iter().enumerate() {
        let told = (settled.contains(id), unknown.contains(id));
        match (place % 3, told) {
            (0, (true, _)) => assert!(back.contains(id), "{place}: it was retried"),
            (0, (_, true)) => assert!(back.contains(id) || failed.contains(id), "{place}"),
            (2, (false, true)) => assert!(!back.contains(id), "{place}"),
            (2, (true, _)) => panic!("{place}: nobody can know that"),
            _ => assert!(failed.contains(id) && !back.contains(id), "{place}: it stays"),
        }
    }
    soon("the engine to close", engine.close()).await;
}
