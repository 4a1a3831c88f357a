//! What a cluster makes of jobq's queues, and what that costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jobq::Client;
use jobq::engine::Engine;
use jobq::engine::conformance::cases::solo;
use jobq::engine::conformance::{Bench, Store as Place};
use jobq_tests::broker::namespace;
use jobq_tests::cluster::Cluster;
use jobq_tests::jobs::soak_job::SoakJob;
use jobq_tests::test_store::{Step, Store, TestStore};

use crate::place;

/// Eight levels, of which the highest has fewer digits.
const LEVELS: usize = 116;

struct Fresh {
    url: String,
    namespace: String,
}

#[async_trait]
impl Place for Fresh {
    async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
        jobq::engine::conformance::open(&self.url, &self.namespace).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_queue_has_three_copies_and_a_young_one_outlives_a_node() {
    let test = "each_queue_has_three_copies_and_a_young_one_outlives_a_node";
    let Some(cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let store = Store::on_broker(cluster.url());
    let what = format!("a cluster, {}", place(&store));

    // Killed as soon as the first job of the queue is accepted.
    let mut test = TestStore::on(store).await;
    let id = test.enqueue([Step::Succeed]).await;
    let leader = cluster.leader(&format!("{}:scripted", test.store.namespace), 0).await;
    cluster.nodes()[leader].kill();
    let pool = test.pool().spawn().await.unwrap();
    assert_eq!(test.end().await, id);
    pool.shutdown().await.unwrap();
    cluster.nodes()[leader].restart().await;
    cluster.whole((leader + 1) % cluster.nodes().len()).await;

    // Of one client that makes them all, each has its copies.
    let store = Store::on_broker(cluster.url());
    let builder = Client::builder(&store.url).namespace(&store.namespace);
    let client = builder.timeout(Duration::from_secs(240)).connect().await.unwrap();
    let before = memory(&cluster).await;
    let since = Instant::now();
    client.declare::<SoakJob>().await.unwrap();
    let queues = since.elapsed();
    let since = Instant::now();
    client.declare_delays().await.unwrap();
    let levels = since.elapsed();
    let after = memory(&cluster).await;
    println!(
        "{what}: a queue with its tiers declared in {:.1} s, the {LEVELS} levels in {:.1} s, each \
         with the second that new queues wait; they take {} to {} MB of a node",
        queues.as_secs_f64(),
        levels.as_secs_f64(),
        after.iter().zip(&before).map(|(after, before)| after - before).min().unwrap(),
        after.iter().zip(&before).map(|(after, before)| after - before).max().unwrap(),
    );
    let copies = cluster.copies(0).await;
    let own = copies.iter().filter(|(name, ..)| name.starts_with(&store.namespace));
    assert!(own.count() > LEVELS, "{copies:?}");
    assert!(copies.iter().all(|(_, members, _)| *members == 3), "{copies:?}");
    let led = levels_led(&cluster, &store.namespace).await;
    println!("{what}: the nodes lead {led:?} of the {LEVELS} levels");
    assert!(led.iter().all(|led| *led > LEVELS / 5), "the leaders are spread: {led:?}");

    let bench = || async { Bench::new(Fresh { url: cluster.url(), namespace: namespace() }).await };
    solo::an_isolated_job_is_started_alone(&bench().await).await;
    solo::several_isolated_jobs_are_started_one_by_one(&bench().await).await;
}

/// How many queues of the levels each node leads.
async fn levels_led(cluster: &Cluster, namespace: &str) -> Vec<usize> {
    let list = cluster.nodes()[0].ctl(&["list_queues", "name", "leader", "--silent"]).await;
    let level = format!("{namespace}.level.");
    let led = |node: &str| {
        let own = |line: &&str| line.starts_with(&level) && line.ends_with(node);
        list.lines().filter(own).count()
    };
    cluster.nodes().iter().map(|node| led(node.name())).collect()
}

/// The memory of each node, in megabytes.
async fn memory(cluster: &Cluster) -> Vec<i64> {
    let mut all = Vec::new();
    for node in cluster.nodes() {
        let bytes = node.ctl(&["eval", "erlang:memory(total)."]).await;
        all.push(bytes.trim().parse::<i64>().unwrap() / 1_000_000);
    }
    all
}
