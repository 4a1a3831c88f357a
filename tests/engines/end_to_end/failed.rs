//! Jobs that failed for good, and those that never could run.

use jobq::engine::conformance::EngineExt as _;
use std::time::{Duration, SystemTime};

use jobq::{FailedReason, Job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, soon, until};
use serde::{Deserialize, Serialize};

use super::nothing_is_left;

both_engines!(
    failed_jobs_are_kept_shown_retried_and_discarded,
    unreadable_payloads_fail_and_the_pool_goes_on,
    unknown_jobs_fail_after_their_retries,
    a_message_without_a_name_is_the_only_job_of_its_queue,
);

pub(crate) async fn failed_jobs_are_kept_shown_retried_and_discarded(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let fail = || Step::Fail("the bank is busy".into());
    let steps = [fail(), fail(), fail(), fail(), fail(), Step::Succeed];
    let before = SystemTime::now() - Duration::from_secs(1);
    let id = test.enqueue(steps.clone()).await;
    let job = test.failed("scripted").await;
    assert_eq!((job.id(), job.name(), job.queue()), (id, "scripted", "scripted"));
    assert_eq!((job.attempts(), job.reason()), (4, FailedReason::Exhausted));
    assert_eq!(job.error(), "the bank is busy");
    assert_eq!(job.payload(), serde_json::json!({ "steps": steps }));
    assert!(job.failed_at() >= before && job.failed_at() <= SystemTime::now());
    for attempt in 1..=4 {
        assert_eq!(test.run().await.attempt, attempt);
    }
    test.client.failed("scripted").retry(id).await.unwrap();
    for attempt in 1..=2 {
        let run = test.run().await;
        assert_eq!((run.id, run.attempt), (id, attempt), "it has fresh attempts");
    }
    assert_eq!(test.end().await, id);

    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(test.enqueue([Step::Abort(format!("number {number}"))]).await);
    }
    let failed = test.client.failed_of::<Scripted>();
    until("all to fail", || async { (failed.list(9).await.ok()?.len() == 4).then_some(()) }).await;
    assert_eq!(failed.show(ids[2]).await.unwrap().error(), "number 2");
    failed.discard(ids[2]).await.unwrap();
    assert!(failed.show(ids[2]).await.unwrap_err().is_not_found());
    assert!(failed.discard(ids[2]).await.unwrap_err().is_not_found());
    assert!(failed.retry(ids[2]).await.unwrap_err().is_not_found());
    assert_eq!(failed.list(2).await.unwrap().len(), 2);
    assert_eq!(failed.purge().await.unwrap(), 3);
    assert_eq!(failed.list(9).await.unwrap().len(), 0);
    assert_eq!(failed.retry_all().await.unwrap(), 0);
    running.shutdown().await.unwrap();
    nothing_is_left(&test.client, "scripted").await;
}

/// What an older version of a program sent.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "scripted")]
struct OldScripted {
    instructions: String,
}

async fn unreadable_payloads_fail_and_the_pool_goes_on(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().concurrency(1).spawn().await.unwrap();
    let old = OldScripted { instructions: "succeed".into() };
    let id = test.client.enqueue(old).await.unwrap();
    let good = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, good);
    let job = test.failed("scripted").await;
    assert_eq!((job.id(), job.reason()), (id, FailedReason::UnreadablePayload));
    assert!(job.error().contains("missing field `steps`"), "{}", job.error());
    assert_eq!(job.payload(), serde_json::json!({ "instructions": "succeed" }));
    running.shutdown().await.unwrap();
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "not.deployed.yet", queue = "scripted", delay = "0s")]
struct NotDeployed {}

async fn unknown_jobs_fail_after_their_retries(store: Store) {
    let mut test = TestStore::on(store).await;
    let id = test.client.enqueue(NotDeployed {}).await.unwrap();
    // Twenty workers tried already.
    let engine =
        jobq::engine::conformance::open(&test.store.url, &test.store.namespace).await.unwrap();
    let mut consumer = engine.consume_from("scripted", 1).await.unwrap();
    for _ in 0..20 {
        let delivery = soon("the job", consumer.next()).await.unwrap().unwrap();
        let retry = jobq::engine::Settlement::Retry(Duration::ZERO);
        delivery.settle(retry).await.unwrap();
    }
    consumer.stop().await;
    engine.close().await;
    let running = test.pool().spawn().await.unwrap();
    let good = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, good);
    let job = test.failed("scripted").await;
    assert_eq!((job.id(), job.reason()), (id, FailedReason::UnknownJob));
    assert!(job.error().contains("`not.deployed.yet`"), "{}", job.error());
    // One that is met for the first time waits for a deploy.
    test.client.failed("scripted").purge().await.unwrap();
    test.client.enqueue(NotDeployed {}).await.unwrap();
    until("the job to wait", || async {
        (test.client.counts("scripted").await.unwrap().waiting == 1).then_some(())
    })
    .await;
    assert_eq!(test.client.failed("scripted").list(1).await.unwrap().len(), 0);
    running.shutdown().await.unwrap();
}

async fn a_message_without_a_name_is_the_only_job_of_its_queue(store: Store) {
    let mut test = TestStore::on(store).await;
    test.client.declare::<Scripted>().await.unwrap();
    let engine =
        jobq::engine::conformance::open(&test.store.url, &test.store.namespace).await.unwrap();
    let envelope = jobq::engine::Envelope::new("scripted", br#"{"steps": ["Succeed"]}"#.to_vec());
    let id = envelope.id;
    engine.declare(&[jobq::engine::QueueSpec::new("scripted")]).await.unwrap();
    engine.push(envelope).await.unwrap();
    engine.close().await;
    let running = test.pool().spawn().await.unwrap();
    assert_eq!(test.end().await, id);
    running.shutdown().await.unwrap();
}
