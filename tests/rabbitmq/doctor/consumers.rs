//! Consumers of other clients on jobq's queues, beside those of jobq itself.

use jobq::{FindingKind, PoolControl, Report, Severity};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::until;

use super::{Place, policy};

/// The findings about consumers: the queue, and what was found.
fn consumers(report: &Report) -> Vec<(String, String)> {
    let of_consumers = report.findings().iter().filter(|it| it.kind() == FindingKind::Consumers);
    let told = of_consumers.map(|found| {
        assert_eq!(found.severity(), Severity::Warning, "{report}");
        (found.about().to_owned(), found.what().to_owned())
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_another_client_are_named() {
    let Some(place) = Place::shared("consumers_of_another_client_are_named").await else {
        return;
    };
    let test = policy::set_up(&place).await;
    let space = &test.store.namespace;
    // Its own come first, so that the broker lists them as soon as the others.
    let pool = test.pool().spawn().await.expect("it starts");
    let unasked = test.pool().control(PoolControl::Off).spawn().await.expect("it starts");
    let queue = |part: &str| format!("{space}:scripted{part}");
    let raw = Raw::connect(&place.node.url()).await;
    let mut held = Vec::new();
    for (part, tag) in [("", "a"), ("", "b"), ("@failed", "c"), ("@due", "d")] {
        held.push(raw.consume(&queue(part), tag).await);
    }
    let told = until("all other consumers", async || {
        let report = test.client.doctor().await.expect("it can be examined");
        let told = consumers(&report);
        // The API lists a consumer before it knows the connection.
        let are_known = told.iter().all(|(_, what)| what.contains("user `guest`"));
        let is_complete = told.len() == 3 && told[2].1.contains("2 consumers");
        (is_complete && are_known).then_some(told)
    })
    .await;
    let expected = [("@due", "d"), ("@failed", "c"), ("", "a")];
    for ((about, what), (part, tag)) in told.iter().zip(expected) {
        assert_eq!(*about, format!("queue `{}`", queue(part)));
        assert!(what.contains("not jobq's") && what.contains("user `guest`"), "{what}");
        assert!(what.contains("127.0.0.1") && what.contains(&format!("tag `{tag}`")), "{what}");
    }
    drop((held, raw));
    until("the end of the others", async || {
        let report = test.client.doctor().await.expect("it can be examined");
        consumers(&report).is_empty().then_some(())
    })
    .await;
    assert!(pool.health().is_consuming() && unasked.health().is_consuming());
    unasked.shutdown().await.expect("it ends");
    pool.shutdown().await.expect("it ends");
}
