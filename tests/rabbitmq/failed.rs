//! Many failed jobs: they are looked at in one pass, in their order, by one after the other.

use jobq::engine::conformance::EngineExt as _;
use std::sync::Arc;
use std::time::Duration;

use jobq::engine::conformance::soon;
use jobq::engine::{Counts, Engine, QueueSpec, Verdict};
use jobq::{FailedJob, JobId};
use jobq_tests::broker;
use jobq_tests::raw::Raw;
use jobq_tests::stage::until;
use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;

const QUEUE: &str = "letters";

async fn open(namespace: &str) -> Arc<dyn Engine> {
    let engine =
        jobq::engine::conformance::open(&broker::shared().await, namespace).await.expect("opens");
    engine.declare(&[QueueSpec::new(QUEUE)]).await.expect("declares");
    engine
}

/// So many failed jobs, as a pool publishes them but for the size of their payloads.
async fn fail(namespace: &str, count: usize, size: usize) -> Vec<JobId> {
    let raw = Raw::connect(&broker::shared().await).await;
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
    let back = engine.failed_settle(QUEUE, None, Verdict::PutBack);
    assert_eq!(back.await.expect("put back"), 4_997);
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
        assert_eq!(counts.failed, COUNT as u64);
    }
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
