//! A job that comes again while it still runs is not run beside itself.

use jobq_tests::test_store::{Step, Store, TestStore, until};
use jobq_tests::vhost::Vhost;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outcome_of_a_run_settles_the_redelivery_of_its_job() {
    let test = "the_outcome_of_a_run_settles_the_redelivery_of_its_job";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(vhost.url())).await;
    let running = test.pool().spawn().await.unwrap();
    let first = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, first);

    vhost.close_connections().await;
    // The broker gives the first job again, ahead of one that is enqueued after the cut.
    let second = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.run().await.id, second, "the first is not run beside itself");
    assert_eq!(test.end().await, second);

    test.go();
    assert_eq!(test.end().await, first);
    until("an empty queue", || async {
        let counts = test.client.counts("scripted").await.ok()?;
        counts.is_empty().then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
    // What was settled is not given to anyone any more.
    let running = test.pool().spawn().await.unwrap();
    let third = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.run().await.id, third);
    running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outcome_of_a_run_settles_what_comes_while_no_slot_is_free() {
    let test = "the_outcome_of_a_run_settles_what_comes_while_no_slot_is_free";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(vhost.url())).await;
    let running = test.pool().concurrency(1).spawn().await.unwrap();
    let first = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, first);

    vhost.close_connections().await;
    let second = test.enqueue([Step::Succeed]).await;
    // The first is the pool's again, which has no slot to look at it.
    until("the pool to be given the first again", async || {
        (test.client.counts("scripted").await.ok()?.ready == 1).then_some(())
    })
    .await;
    test.go();
    assert_eq!(test.end().await, first);
    assert_eq!(test.run().await.id, second, "the first does not run again");
    assert_eq!(test.end().await, second);
    until("an empty queue", async || {
        let counts = test.client.counts("scripted").await.ok()?;
        counts.is_empty().then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
    assert!(!test.has_run());
}
