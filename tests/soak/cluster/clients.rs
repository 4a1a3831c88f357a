//! The clients of one node are cut off from it, and the node lives on.

use jobq_tests::cluster::Cluster;
use jobq_tests::jobs::soak_job::{self, Load};
use jobq_tests::ledger::Ledger;
use jobq_tests::test_store::Store;

use super::gap::{Watch, summary};
use super::proxy::{Mode, Proxy};
use super::{connected, go_on, ready};
use crate::{Books, is_full, place, rounds};

/// One of the client that enqueues, and two of the pool's.
const CONNECTIONS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_clients_that_one_node_has_lost_go_on_at_another() {
    let test = "the_clients_that_one_node_has_lost_go_on_at_another";
    let Some(cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        proxies.push(Proxy::before(node.host()).await);
    }
    // A mode for one of them, and one for the others.
    let set = |node: usize, mode: Mode, others: Mode| {
        for (index, proxy) in proxies.iter().enumerate() {
            proxy.set(if index == node { mode } else { others });
        }
    };
    let hosts: Vec<_> = proxies.iter().map(|proxy| proxy.host.clone()).collect();
    // With the default a silent connection is given up after 20 to 40 s.
    let heartbeat = if is_full() { "" } else { "?heartbeat=4" };
    let store = Store::on_broker(format!("amqp://{}{heartbeat}", hosts.join(",")));
    // All of them at one node.
    set(0, Mode::Open, Mode::Closed);
    let (client, workers) = (store.client().await, store.client().await);
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "pool").unwrap();
    let running = soak_job::pool(&workers, &ledger).spawn().await.unwrap();
    ready(&cluster, &mut books, &client, &ledger).await;

    let cuts = rounds(2, 6);
    let load = Load::start(&client, &ledger, 10);
    let mut gaps = Vec::new();
    for cut in 0..cuts {
        // They go round, so all of them are at this one.
        let node = cut % proxies.len();
        set(node, Mode::Open, Mode::Open);
        books.progress(rounds(40, 100)).await;
        connected(&cluster, node, CONNECTIONS, "the clients are at another node").await;
        let watch = Watch::start(&books.path);
        // As for a broker that dies: what was in hand at its clients comes again.
        ledger.kills_the_broker();
        set(node, Mode::Silent, Mode::Open);
        go_on(&mut books, "the clients of a silent node stay with it").await;
        let gap = watch.stop().await;
        println!("the clients of node {node} are cut off: {gap}");
        gaps.push(gap);
        // One that publishes for the pool alone may be the last to notice.
        let next = (node + 1) % proxies.len();
        connected(&cluster, next, CONNECTIONS, "the clients of a silent node do not move on").await;
    }
    load.stop().await;
    set(0, Mode::Open, Mode::Open);
    let what = format!("a node's clients are cut off, {}", place(&store));
    let report = books.close(&what, cuts, &client).await;
    println!("{}", summary(&gaps));
    running.shutdown().await.unwrap();
    report.assert_nothing_lost();
}
