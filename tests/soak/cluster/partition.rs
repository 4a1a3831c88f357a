//! One node is cut off from the two others, and its clients still reach it.

use std::time::Duration;

use jobq::Client;
use jobq_tests::cluster::Cluster;
use jobq_tests::jobs::soak_job::{self, Load};
use jobq_tests::ledger::Ledger;
use jobq_tests::test_store::{Scripted, Step, Store};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::gap::{Watch, summary};
use super::{connections, go_on, ready};
use crate::{Books, is_full, place, rounds};

/// The default.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_nodes_are_parted_and_ignore_it() {
    let test = "nothing_is_lost_when_nodes_are_parted_and_ignore_it";
    part(test, "ignore").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_nodes_are_parted_and_the_minority_pauses() {
    let test = "nothing_is_lost_when_nodes_are_parted_and_the_minority_pauses";
    if !is_full() {
        eprintln!("SKIPPED: {test} is of `./tests/run --soak`");
        return;
    }
    part(test, "pause_minority").await;
}

/// Those who name all nodes go on at the majority while one node is cut off; those who know
/// that one alone are told that their jobs may not be there.
async fn part(test: &str, handling: &str) {
    // How long until the nodes give up one that is silent, in seconds; the default is 60.
    let tick = if is_full() { "" } else { "net_ticktime = 8\n" };
    let lines = format!("cluster_partition_handling = {handling}\n{tick}");
    let Some(cluster) = Cluster::on_a_network(test, &lines).await else {
        return;
    };
    let (network, nodes) = (cluster.network(), cluster.nodes());
    let store = Store::on_broker(cluster.url());
    // All of them at one node, which then leads the queues.
    let others = [1, 2];
    for node in others {
        network.cut_clients(node);
    }
    // How long until clients give up a node that is silent; the default is 30 s.
    let patience = Duration::from_secs(if is_full() { 30 } else { 10 });
    let client = || store.client_within(patience);
    let (client, workers) = (client().await, client().await);
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "pool").unwrap();
    let running = soak_job::pool(&workers, &ledger).spawn().await.unwrap();
    ready(&cluster, &mut books, &client, &ledger).await;
    for node in others {
        network.join_clients(node);
    }

    let (rounds, queue) = (rounds(1, 2), format!("{}:soak_job", store.namespace));
    let mut gaps = Vec::new();
    let load = Load::start(&client, &ledger, 8);
    for round in 0..rounds {
        // The pool's connections decide: two of its own, and one or two of the other client.
        let mut counts = Vec::new();
        for node in 0..nodes.len() {
            counts.push((connections(&cluster, node).await, node));
        }
        let (_, minority) = *counts.iter().max().unwrap();
        let majority = (minority + 1) % nodes.len();
        let mut there = Store::on_broker(nodes[minority].url());
        there.namespace.clone_from(&store.namespace);
        let bound = there.client_within(patience).await;
        let captive = Load::start(&bound, &ledger, 2);
        books.progress(40).await;
        let leader = cluster.leader(&queue, majority).await;

        let watch = Watch::start(&books.path);
        let fault = Fault::begin(&ledger);
        network.cut(minority);
        go_on(&mut books, "a node that is cut off keeps its clients").await;
        let gap = watch.stop().await;
        let led = if leader == minority { "which led the queue" } else { "which followed" };
        println!("node {minority}, {led}, is cut off ({handling}): {gap}");
        gaps.push(gap);
        assert_ne!(cluster.leader(&queue, majority).await, minority, "the others lead it");
        let job = Scripted { steps: vec![Step::Succeed] };
        let made = round == 0 && bound.enqueue(job).await.is_ok();
        network.join(minority);
        let left_alone = handling == "ignore" && is_mnesia(&cluster, majority).await;
        if left_alone {
            // What the operator does then.
            nodes[minority].stop();
            nodes[minority].restart().await;
        }
        cluster.whole(majority).await;
        fault.end().await;
        captive.stop().await;
        bound.close().await;
        if round == 0 {
            let there = made && is_there(&client).await;
            let what = match (made, there) {
                (true, true) => "is there",
                (true, false) => "is LOST",
                (false, _) => "was not accepted",
            };
            println!("a job whose queue was made at node {minority} meanwhile ({handling}) {what}");
            // Mnesia forgets what the node that is started again knew alone.
            assert!(there || !made || left_alone, "the job of a young queue is lost");
        }
    }
    load.stop().await;
    let what = format!("nodes are parted ({handling}), {}", place(&store));
    let report = books.close(&what, rounds, &client).await;
    println!("{}", summary(&gaps));
    running.shutdown().await.unwrap();
    report.assert_nothing_lost();
    // Those who were at the wrong node heard of it.
    assert!(report.in_doubt.0 > 0, "{report}");
}

/// The time from a cut until the nodes are one cluster again. Connections and deliveries end
/// in it when nodes give up others, come back and are started again, which nobody here sees:
/// so the ledger has a line for it all the time.
pub(super) struct Fault {
    stop: CancellationToken,
    writing: JoinHandle<()>,
}

impl Fault {
    pub(super) fn begin(ledger: &Ledger) -> Self {
        let (stop, ledger) = (CancellationToken::new(), ledger.clone());
        ledger.kills_the_broker();
        let stopped = stop.clone();
        let writing = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                tokio::time::sleep(Duration::from_millis(50)).await;
                ledger.kills_the_broker();
            }
        });
        Self { stop, writing }
    }

    pub(super) async fn end(self) {
        self.stop.cancel();
        self.writing.await.unwrap();
    }
}

/// Whether the one scripted job is in its queue.
async fn is_there(client: &Client) -> bool {
    client.declare::<Scripted>().await.unwrap();
    let looking = async {
        while !client.counts("scripted").await.is_ok_and(|counts| counts.ready > 0) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.is_ok()
}

/// Whether the nodes keep what they know of queues in Mnesia, which does not become one again
/// by itself.
async fn is_mnesia(cluster: &Cluster, node: usize) -> bool {
    let answer = cluster.nodes()[node].ctl(&["eval", "mnesia:system_info(is_running)."]).await;
    answer.trim() == "yes"
}
