//! `jobq dashboard`.

use jobq_tests::both_engines;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, until};

use crate::server::Server;

both_engines!(an_end_in_the_middle_of_an_operation_leaves_each_job_in_one_place);

async fn an_end_in_the_middle_of_an_operation_leaves_each_job_in_one_place(store: Store) {
    const JOBS: u64 = 2_000;
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let job = || Scripted { steps: vec![Step::Abort("no".into())] };
    test.client.enqueue_all((0..JOBS).map(|_| job())).await.unwrap();
    let counts = async || test.client.counts("scripted").await.ok();
    until("the jobs to fail", async || (counts().await?.failed == JOBS).then_some(())).await;
    pool.shutdown().await.unwrap();

    let server = Server::start(&test.store, &[]).await;
    let started = server.post("/queues/scripted/failed/retry", "confirmed=yes").await;
    assert!(started.starts_with("HTTP/1.0 303"), "{started}");
    until("the first to be retried", async || (counts().await?.ready > 0).then_some(())).await;
    assert_eq!(server.terminate().await.code(), Some(0));
    // A connection that is closed gives back what it held.
    let all = until("all jobs to be ready or failed", async || {
        let counts = counts().await?;
        let all = counts.ready.known()? + counts.failed.known()?;
        (all >= JOBS).then_some(all)
    })
    .await;
    assert_eq!(all, JOBS, "some are in both places");
}
