//! Two of three nodes are down: what nobody knows is unknown, and nobody waits long for that.

use std::time::{Duration, Instant};

use jobq::Client;
use jobq::admin::{Figure, Queues, State};
use jobq_tests::cluster::Cluster;
use jobq_tests::test_store::{Step, Store, TestStore, until};

use super::LONG;

/// How long one look may take on a busy machine: twice the four and a half seconds that pools and
/// the figures of few queues have.
const LOOK: Duration = Duration::from_secs(9);
/// When the node has certainly found the others dead.
const FOUND: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_figures_are_unknown_and_not_waited_for() {
    let test = "without_a_majority_figures_are_unknown_and_not_waited_for";
    let Some(cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(cluster.url())).await;
    let pool = test.pool().spawn().await.unwrap();
    let job = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, job);
    pool.shutdown().await.unwrap();
    test.enqueue([Step::Succeed]).await;
    cluster.whole(0).await;
    // Queues whose nodes are killed in the first moments of their lives may not come back.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let space = &test.store.namespace;
    let leader = cluster.leader(&format!("{space}:scripted"), 0).await;
    let left = (leader + 1) % cluster.nodes().len();
    // A client of the node that is left: where it has other nodes, it looks for a better one.
    let here = cluster.nodes()[left].url();
    let builder = Client::builder(&here).namespace(space).timeout(Duration::from_secs(10));
    let client = builder.connect().await.unwrap();
    let look = async |client: &Client| {
        let since = Instant::now();
        let found = client.admin().overview(Queues::one("scripted")).await.unwrap();
        (found.queues.into_iter().next().unwrap(), since.elapsed())
    };
    until("the job to be counted", async || (look(&client).await.0.ready == 1).then_some(())).await;

    let others: Vec<_> = (0..cluster.nodes().len()).filter(|node| *node != left).collect();
    for node in &others {
        cluster.nodes()[*node].kill();
    }
    let since = Instant::now();
    let (mut looks, mut longest) = (0, Duration::ZERO);
    while since.elapsed() < Duration::from_secs(40) {
        let (queue, took) = look(&client).await;
        let figures = [&queue.ready, &queue.waiting, &queue.failed];
        if since.elapsed() > FOUND {
            let known: Vec<_> = figures.into_iter().filter_map(Figure::known).collect();
            assert!(known.is_empty(), "{queue:?}");
            assert_eq!(queue.state, State::Unknown, "{queue:?}");
            looks += 1;
        }
        longest = longest.max(took);
        assert!(took < LOOK, "one look took {took:?}");
    }
    println!("{looks} looks without a majority; the longest took {longest:?}");
    assert!(looks > 0);

    for node in &others {
        cluster.nodes()[*node].restart().await;
    }
    let whole = until("the job to be counted again", async || {
        (look(&client).await.0.ready == 1).then_some(())
    });
    tokio::time::timeout(LONG, whole).await.unwrap();
}
