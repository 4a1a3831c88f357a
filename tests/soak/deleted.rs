//! Somebody deletes the exchange that retries pass.

use std::time::Duration;

use jobq_tests::broker;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Step, Store, TestStore};

use super::PATIENCE;

/// It is declared again within a minute, and the broker tries what waits for it every three
/// minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_outlives_the_exchange_that_it_passes() {
    let url = broker::shared().await;
    let mut test = TestStore::on(Store::on_broker(url.clone())).await;
    let pool = test.pool().spawn().await.expect("it starts");
    let raw = Raw::connect(&url).await;
    let retry = format!("{}.retry", test.store.namespace);
    raw.delete_exchange(&retry).await;
    let job = test.enqueue([Step::Fail("no".to_owned()), Step::Succeed]).await;
    assert_eq!(test.run().await.attempt, 1);
    let again = async {
        while !test.has_run() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let limit = PATIENCE + Duration::from_secs(60);
    tokio::time::timeout(limit, again).await.expect("it is retried");
    assert_eq!(test.run().await.attempt, 2);
    assert_eq!(test.end().await, job);
    pool.shutdown().await.expect("it ends");
}
