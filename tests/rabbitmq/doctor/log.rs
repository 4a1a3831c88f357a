//! What AMQP alone shows of a policy: what it left behind on a job.

use jobq::engine::conformance::eventually;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Store, TestStore, until};
use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;

use super::Place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_a_policy_took_out_of_its_queue_is_told_once() {
    let test = "a_job_that_a_policy_took_out_of_its_queue_is_told_once";
    let Some(place) = Place::shared(test).await else {
        return;
    };
    let seen = LogCapture::log();
    let test = TestStore::on(Store::on_broker(place.node.url())).await;
    let space = &test.store.namespace;
    test.client.declare::<jobq_tests::test_store::Scripted>().await.expect("declares");
    let (name, pattern) = (format!("ttl-{space}"), format!("^{space}:scripted$"));
    let ttl = r#"{"message-ttl":50}"#;
    place.node.ctl(&["set_policy", &name, &pattern, ttl, "--apply-to", "queues"]).await;
    // Without a tier in the key none takes what expires, and it is found among the failed.
    let raw = Raw::connect(&place.node.url()).await;
    let (key, orphans) = ("scripted", format!("{space}.orphan"));
    until("two messages to be taken out of the queue", async || {
        raw.publish(space, key, BasicProperties::default(), b"{}").await;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let (name, none) = (orphans.as_str().into(), FieldTable::default());
        let queue = raw.channel.queue_declare(name, options, none).await.expect("it is there");
        (queue.message_count() >= 2).then_some(())
    })
    .await;
    place.node.ctl(&["clear_policy", &name]).await;

    let running = test.pool().spawn().await.expect("nobody tells it of policies");
    eventually("the orphans to be failed jobs", true, async || {
        test.client.counts(key).await.is_ok_and(|counts| counts.failed >= 2)
    })
    .await;
    running.shutdown().await.expect("it ends");
    let queue = format!("policy limits queue `{space}:scripted`");
    assert_eq!(seen.count(&queue), 1, "once for a queue");
    assert_eq!(seen.lines(&[&queue, "reason=\"expired\""]).len(), 1);
}
