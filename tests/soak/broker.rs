//! The broker dies, under clients that enqueue and workers that work all the time.

use std::time::Duration;

use jobq_tests::broker::Broker;
use jobq_tests::jobs::soak_job::{self, Failure, Load, Plan};
use jobq_tests::ledger::{Answer, Ledger};
use jobq_tests::test_store::Store;

use super::{Books, place, rounds};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_broker_dies() {
    let Some(node) = Broker::to_kill("nothing_is_lost_when_the_broker_dies").await else {
        return;
    };
    // From its first restart on: else what it passed on too soon comes three minutes later.
    node.set("dead_letter_worker_publisher_confirm_timeout", 500);
    let store = Store::on_broker(node.url());
    let (client, workers) = (store.client().await, store.client().await);
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "pool").unwrap();
    let running = soak_job::pool(&workers, &ledger).spawn().await.unwrap();
    // Every queue that is needed is there.
    let plan = Plan { failures: 1, failure: Failure::RetryIn(100), takes: 0 };
    let answer = soak_job::enqueue(&client, &ledger, plan, Duration::from_millis(100)).await;
    assert_eq!(answer, Answer::Accepted);
    books.until("the first job does not end", |account| account.progress() == (1, 1)).await;
    // A quorum queue whose broker is killed in the first moments of its life may not come
    // back, and nothing tells when they are over.
    tokio::time::sleep(Duration::from_secs(3)).await;

    let kills = rounds(2, 20);
    let load = Load::start(&client, &ledger, 10);
    for _ in 0..kills {
        books.progress(rounds(40, 100)).await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..1_000))).await;
        ledger.kills_the_broker();
        node.kill();
        // Of what was enqueued between the line and the death, too.
        ledger.kills_the_broker();
        node.restart().await;
    }
    books.progress(rounds(40, 100)).await;
    load.stop().await;
    let what = format!("the broker dies, {}", place(&store));
    let report = books.close(&what, kills, &client).await;
    running.shutdown().await.unwrap();
    report.assert_nothing_lost();
}
