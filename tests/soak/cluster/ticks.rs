//! Ten jobs are due each second on a cluster whose nodes are cut off, stopped and replaced.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobq::{Client, Missed, RunningPool, WorkerPool};
use jobq_tests::broker::Broker;
use jobq_tests::cluster::Cluster;
use jobq_tests::files::Directory;
use jobq_tests::jobs::tick::Tick;
use jobq_tests::test_store::{Store, until};

use super::LONG;
use crate::schedules::{Ran, SCHEDULES, name, now};
use crate::{is_full, place, rounds};

/// How long a node is cut off, and then is not: less than the nodes need to give it up.
const CUT: Duration = Duration::from_secs(5);
/// How long it is cut off or stopped for the others to go on without it.
const GONE: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_time_is_missed_when_nodes_are_cut_off_and_ignore_it() {
    cut("no_time_is_missed_when_nodes_are_cut_off_and_ignore_it", "ignore").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_time_is_missed_when_nodes_are_cut_off_and_the_minority_pauses() {
    let test = "no_time_is_missed_when_nodes_are_cut_off_and_the_minority_pauses";
    if !is_full() {
        eprintln!("SKIPPED: {test} is of `./tests/run --soak`");
        return;
    }
    cut(test, "pause_minority").await;
}

async fn cut(test: &str, handling: &str) {
    let lines = format!("cluster_partition_handling = {handling}\n");
    let Some(cluster) = Cluster::on_a_network(test, &lines).await else { return };
    let network = cluster.network();
    let mut ticks = Ticks::start(&cluster).await;
    for round in 0..rounds(3, 30) {
        let node = round % cluster.nodes().len();
        network.cut(node);
        tokio::time::sleep(CUT).await;
        network.join(node);
        tokio::time::sleep(CUT).await;
    }
    ticks.phase(&format!("a node cut off for 5 s each 10 s ({handling})")).await;
    ticks.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_time_is_missed_when_nodes_are_stopped_and_replaced() {
    let test = "no_time_is_missed_when_nodes_are_stopped_and_replaced";
    let Some(mut cluster) = Cluster::to_kill(test).await else { return };
    let mut ticks = Ticks::start(&cluster).await;
    for round in 0..rounds(1, 3) {
        // The others use the epmd of the first one.
        for node in 1..cluster.nodes().len() {
            cluster.nodes()[node].kill();
            tokio::time::sleep(if round == 0 { GONE } else { CUT }).await;
            cluster.nodes()[node].restart().await;
            cluster.whole((node + 1) % 3).await;
            ticks.phase(&format!("node {node} killed and started again")).await;
        }
    }
    cluster.nodes()[1].kill();
    cluster.replace(1).await;
    cluster.whole(0).await;
    ticks.phase("node 1 replaced by another one").await;
    ticks.end().await;
}

/// Pools that enqueue and run the jobs of ten schedules.
struct Ticks {
    store: Store,
    client: Client,
    pools: Vec<RunningPool>,
    _folder: Directory,
    file: PathBuf,
    from: u64,
    began: u64,
    told: Vec<String>,
}

impl Ticks {
    async fn start(cluster: &Cluster) -> Self {
        let store = Store::on_broker(cluster.url());
        let (folder, client) = (Directory::new(), store.client_within(LONG).await);
        let file = folder.file("ticks");
        for number in 0..SCHEDULES {
            let schedule = client.schedule(name(number), Tick {}).every("1s").missed(Missed::All);
            schedule.await.unwrap();
        }
        let mut pools = Vec::new();
        for first in 0..cluster.nodes().len() {
            // Each pool at another node.
            let mut hosts: Vec<_> = cluster.nodes().iter().map(Broker::host).collect();
            hosts.rotate_left(first);
            let mut there = Store::on_broker(format!("amqp://{}", hosts.join(",")));
            there.namespace.clone_from(&store.namespace);
            let client = there.client_within(LONG).await;
            let written = OpenOptions::new().create(true).append(true).open(&file).unwrap();
            let pool = WorkerPool::new(&client).register::<Tick>().state(Arc::new(written));
            pools.push(pool.spawn().await.unwrap());
        }
        until("the first jobs", async || (!Ran::read(&file).jobs.is_empty()).then_some(())).await;
        cluster.whole(0).await;
        let from = now() + 1;
        let told = vec![format!("ten jobs a second, {}", place(&store))];
        Self { store, client, pools, _folder: folder, file, from, began: from, told }
    }

    /// Waits until each time up to now has its job, and tells how late they were since the last phase.
    async fn phase(&mut self, what: &str) {
        let to = now();
        let ran = Ran::complete(&self.file, (self.from, to), LONG, what).await;
        let of_phase = ran.late.iter().filter(|(due, _)| (self.began..=to).contains(due));
        let most = of_phase.map(|(_, late)| *late).max().unwrap_or(0);
        let text = format!("{what}: {} s, late by {most} ms at most", to - self.began);
        println!("{text}");
        self.told.push(text);
        self.began = now();
    }

    async fn end(self) {
        let ran = Ran::read(&self.file);
        println!("{}; {} times, {} twice", self.told.join("; "), ran.jobs.len(), ran.twice());
        assert_eq!(ran.missed, 0);
        for pool in self.pools {
            pool.shutdown().await.unwrap();
        }
        for number in 0..SCHEDULES {
            self.client.unschedule(&name(number)).await.unwrap();
        }
        drop(self.store);
    }
}
