//! The node that leads the busy queue dies.

use std::time::Duration;

use jobq_tests::cluster::Cluster;
use jobq_tests::jobs::soak_job::{self, Load};
use jobq_tests::ledger::Ledger;
use jobq_tests::test_store::Store;

use super::gap::{Watch, summary};
use super::{go_on, ready};
use crate::{Books, place, rounds};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_leader_of_a_busy_queue_dies() {
    let test = "nothing_is_lost_when_the_leader_of_a_busy_queue_dies";
    let Some(cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let store = Store::on_broker(cluster.url());
    let (client, workers) = (store.client().await, store.client().await);
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "pool").unwrap();
    let running = soak_job::pool(&workers, &ledger).spawn().await.unwrap();
    ready(&cluster, &mut books, &client, &ledger).await;

    let (kills, queue) = (rounds(2, 10), format!("{}:soak_job", store.namespace));
    let load = Load::start(&client, &ledger, 10);
    let mut gaps = Vec::new();
    let mut alive = 0;
    for _ in 0..kills {
        books.progress(rounds(40, 100)).await;
        let leader = cluster.leader(&queue, alive).await;
        alive = (leader + 1) % cluster.nodes().len();
        let watch = Watch::start(&books.path);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..1_000))).await;
        ledger.kills_the_broker();
        cluster.nodes()[leader].kill();
        // Of what was enqueued between the line and the death, too.
        ledger.kills_the_broker();
        go_on(&mut books, "two nodes do not go on without the third").await;
        assert_ne!(cluster.leader(&queue, alive).await, leader, "a dead node leads");
        cluster.nodes()[leader].restart().await;
        let gap = watch.stop().await;
        println!("the leader, node {leader}, dies: {gap}");
        gaps.push(gap);
        cluster.whole(alive).await;
    }
    load.stop().await;
    let what = format!("the leader of a queue dies, {}", place(&store));
    let report = books.close(&what, kills, &client).await;
    println!("{}", summary(&gaps));
    running.shutdown().await.unwrap();
    report.assert_nothing_lost();
}
