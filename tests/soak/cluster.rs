//! Clusters of three nodes.

mod clients;
mod figures;
mod gap;
mod leader;
mod majority;
mod namespaces;
mod partition;
mod pause;
mod proxy;
mod refused;
mod ticks;
mod young;

use std::time::Duration;

use jobq::Client;
use jobq_tests::cluster::Cluster;
use jobq_tests::jobs::soak_job::{self, Failure, Plan};
use jobq_tests::ledger::{Answer, Ledger};

use super::{Books, rounds};

/// Long after a cluster that has lost one node should serve its clients again.
const LONG: Duration = Duration::from_secs(240);

/// Waits until every queue that soak jobs need is there with all its copies, without which two
/// nodes may be too few, and has been for a while: one whose nodes are killed in the first
/// moments of its life may not come back, and nothing tells when they are over.
async fn ready(cluster: &Cluster, books: &mut Books, client: &Client, ledger: &Ledger) {
    first_job(books, client, ledger).await;
    cluster.whole(0).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// Waits until the first job has ended, which needs every queue.
async fn first_job(books: &mut Books, client: &Client, ledger: &Ledger) {
    let plan = Plan { failures: 1, failure: Failure::RetryIn(100), takes: 0 };
    // To make a hundred queues on three nodes may take longer than the client waits, on a
    // small machine. Each try goes on from where the last one ended.
    let first = async {
        let delay = Duration::from_millis(100);
        while soak_job::enqueue(client, ledger, plan, delay).await != Answer::Accepted {}
    };
    assert!(tokio::time::timeout(LONG, first).await.is_ok(), "the queues cannot be made");
    books.until("the first job does not end", |account| account.progress() >= (1, 1)).await;
}

/// Waits until some more jobs were accepted and have ended. Errors are no progress, and
/// there may be some of them for ever.
async fn go_on(books: &mut Books, or: &str) {
    let progress = books.progress(rounds(40, 100));
    assert!(tokio::time::timeout(LONG, progress).await.is_ok(), "{or}");
}

/// Waits until a node has so many connections. Each look takes a moment by itself.
async fn connected(cluster: &Cluster, node: usize, count: usize, or: &str) {
    let looking = async { while connections(cluster, node).await < count {} };
    assert!(tokio::time::timeout(LONG, looking).await.is_ok(), "{or}");
}

/// How many connections this node has.
async fn connections(cluster: &Cluster, node: usize) -> usize {
    let list = cluster.nodes()[node].ctl(&["list_connections", "pid", "--silent"]).await;
    list.lines().filter(|line| line.contains(cluster.nodes()[node].name())).count()
}
