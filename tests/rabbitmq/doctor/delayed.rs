//! Jobs that a policy of RabbitMQ 4.3 keeps inside their queue after a return.

use jobq::{Client, FindingKind, Severity};
use jobq_tests::broker;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Scripted, Step, until};
use lapin::options::{BasicGetOptions, BasicNackOptions};

use super::{Place, policy};

/// Takes the first message of a queue, and returns it.
async fn hand_back(raw: &Raw, queue: &str) {
    until("a message", async || {
        let got = raw.channel.basic_get(queue.into(), BasicGetOptions::default()).await;
        let message = got.expect("there is such a queue")?;
        let again = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        message.nack(again).await.expect("it is returned");
        Some(())
    })
    .await;
}

/// Waits until so many jobs are ready, waiting and failed.
async fn counted(client: &Client, expected: [u64; 3]) {
    until(&format!("{expected:?}"), async || {
        let counts = client.counts("scripted").await.expect("they are counted");
        let found = [counts.ready, counts.waiting, counts.failed];
        found.iter().zip(expected).all(|(found, expected)| *found == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_jobs_are_counted() {
    let test = "delayed_jobs_are_counted";
    if !broker::is_at_least((4, 3), test) {
        return;
    }
    let Some(place) = Place::shared(test).await else {
        return;
    };
    let test = policy::set_up(&place).await;
    let space = &test.store.namespace;
    let pool = test.pool().spawn().await.expect("it starts");
    test.enqueue([Step::Abort("no".into())]).await;
    counted(&test.client, [0, 0, 1]).await;
    pool.shutdown().await.expect("it ends");
    test.client.enqueue(Scripted { steps: vec![Step::Succeed] }).await.expect("it is accepted");

    let (name, pattern) = (format!("delays-{space}"), format!("^{space}:scripted(@failed)?$"));
    let definition = r#"{"delayed-retry-type":"all","delayed-retry-min":3600000}"#;
    place.node.ctl(&["set_policy", &name, &pattern, definition, "--apply-to", "queues"]).await;
    let report = test.client.doctor().await.expect("it can be examined");
    let told = report.findings().iter().filter(|it| it.kind() == FindingKind::Policy);
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 2, "{report}");
    for found in told {
        assert_eq!(found.severity(), Severity::Warning, "{report}");
        assert!(found.what().contains("`delayed-retry-type` to all"), "{report}");
    }
    let raw = Raw::connect(&place.node.url()).await;
    hand_back(&raw, &format!("{space}:scripted")).await;
    hand_back(&raw, &format!("{space}:scripted@failed")).await;

    // Neither is ready, and AMQP counts none.
    counted(&test.client, [0, 1, 1]).await;
    let plain = place.plain_client_in(space).await;
    plain.declare::<Scripted>().await.expect("it is there");
    counted(&plain, [0, 0, 0]).await;
    place.node.ctl(&["clear_policy", &name]).await;
}
