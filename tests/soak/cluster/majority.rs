//! Two of three nodes are down: whatever needs a majority is not answered.

use std::time::Duration;

use jobq::Client;
use jobq_tests::cluster::Cluster;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{Step, Store, TestStore, until};

/// How long a queue must have lived to outlive its broker.
const FIRST_MOMENTS: Duration = Duration::from_secs(3);

/// A connection that the broker ends leaves what was being enqueued on it in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_the_broker_ends_no_connection() {
    let seen = LogCapture::log();
    let test = "without_a_majority_the_broker_ends_no_connection";
    let Some(cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(cluster.url())).await;
    // The limit of a node's silence.
    let limit = Duration::from_secs(10);
    let builder = Client::builder(&test.store.url).namespace(&test.store.namespace);
    let client = builder.timeout(limit).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    let job = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, job);
    tokio::time::sleep(FIRST_MOMENTS).await;
    let [first, second, _] = cluster.nodes() else { panic!("three nodes") };
    first.kill();
    second.kill();
    // The connection for publishing, and that for consuming.
    let left = "node has no quorum";
    until("both are left", async || (seen.count(left) >= 2).then_some(())).await;
    let ended = seen.lines(&["connection lost", "INTERNAL_ERROR"]);
    assert!(ended.is_empty(), "{ended:#?}");
    tokio::join!(first.restart(), second.restart());
    let job = || jobq_tests::test_store::Scripted { steps: vec![Step::Succeed] };
    let id = until("a job to be accepted", async || client.enqueue(job()).await.ok()).await;
    while test.end().await != id {}
    pool.shutdown().await.unwrap();
}
