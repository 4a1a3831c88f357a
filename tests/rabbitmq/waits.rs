//! Whether waiting jobs come through is noticed by probes.

use std::time::{Duration, SystemTime};

use jobq::admin::Queues;
use jobq::engine::{Passage, QueueSpec};
use jobq::{Client, Clock};
use jobq_tests::broker::{self, Broker};
use jobq_tests::raw::Raw;
use jobq_tests::seen::Seen;
use jobq_tests::stage::{Stage, Step, Store, until};
use lapin::BasicProperties;

/// What the broker runs to pass on what waits, on this node.
fn workers(call: &str) -> String {
    format!("[sys:{call}(P) || {{_, P, _, _}} <- supervisor:which_children(rabbit_fifo_dlx_sup)].")
}

/// What the one pool says of a queue.
async fn passage(client: &Client, queue: &str) -> Option<Passage> {
    let pools = client.admin().pools(Queues::one(queue), Duration::from_secs(1)).await.ok()?;
    pools.pools.first()?.queue(queue)?.waits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_passes_nothing_on_is_told() {
    let Some(node) = Broker::to_kill("a_broker_that_passes_nothing_on_is_told").await else {
        return;
    };
    let resume = async || drop(node.ctl(&["eval", &workers("resume")]).await);
    standstill_is_told(&node, &workers("suspend"), resume).await;
}

/// As after too many crashes, it does not come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_dead_lettering_is_told_until_the_node_restarts() {
    let test = "the_end_of_dead_lettering_is_told_until_the_node_restarts";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let restart = async || {
        node.ctl(&["stop_app"]).await;
        node.ctl(&["start_app"]).await;
    };
    standstill_is_told(&node, "sys:terminate(rabbit_fifo_dlx_sup, shutdown).", restart).await;
}

/// Stops what passes on jobs that wait, by an expression for the broker, and mends it.
async fn standstill_is_told(node: &Broker, stop: &str, mend: impl AsyncFnOnce()) {
    let seen = Seen::log();
    let mut stage = Stage::on(Store::on_broker(node.url())).await;
    let clock = Clock::stopped_at(SystemTime::now());
    let builder = Client::builder(&stage.store.url).namespace(&stage.store.namespace);
    let client = builder.clock(clock.clone()).connect().await.unwrap();
    let pool = stage.pool_of(&client).spawn().await.unwrap();
    let tier = format!("{}:scripted@wait.200ms", stage.store.namespace);
    let says = |line: [&str; 2]| seen.lines(&[line[0], line[1], &tier]).len();
    let reaches = async |expected: Passage| {
        until("what the pool knows of waiting jobs", async || {
            clock.advance(Duration::from_secs(1));
            (passage(&client, "scripted").await == Some(expected)).then_some(())
        })
        .await;
    };
    // Other tiers have waits of their own by the clock of the broker, which does not advance so fast.
    let tells = async |line: [&str; 2], before: usize| {
        until("the line of the tier", async || {
            clock.advance(Duration::from_secs(5));
            (says(line) > before).then_some(())
        })
        .await;
    };
    let late = ["WARN", "a probe of waiting jobs is late"];
    let (stuck, passing) = (["ERROR", "nothing comes out"], ["INFO", "come through again"]);
    // At the start nothing is known.
    assert_eq!(passage(&client, "scripted").await.unwrap_or(Passage::Unknown), Passage::Unknown);
    reaches(Passage::Passing).await;
    node.ctl(&["eval", stop]).await;
    let before = [late, stuck, passing].map(says);
    let job = stage.enqueue([Step::Fail("no".to_owned()), Step::Succeed]).await;
    assert_eq!(stage.run().await.id, job);
    tells(late, before[0]).await;
    tells(stuck, before[1]).await;
    reaches(Passage::Stuck).await;
    assert!(!stage.has_run());
    mend().await;
    assert_eq!(stage.end().await, job);
    tells(passing, before[2]).await;
    pool.shutdown().await.unwrap();
}

/// They come to no queue of jobs, and to nobody who moves what has no queue, also of an earlier
/// version.
#[tokio::test(flavor = "multi_thread")]
async fn probes_end_in_their_own_queue() {
    let url = broker::shared().await;
    let namespace = broker::namespace();
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let spec = QueueSpec::new("mail").waits([Duration::from_millis(200)]);
    engine.declare(&[spec]).await.expect("declares");
    engine.declare_delays(Duration::MAX).await.expect("declares");
    let raw = Raw::connect(&url).await;
    let probes = format!("{namespace}.probe");
    // Twice: as they are sent, and as they come back.
    let table = [
        ("control", "probe", 1),
        ("retry", "mail@200@probe", 2),
        ("level.0", "0.0.0.0.0.0.0.2.p", 2),
        ("level.1", "0.0.0.0.0.0.1.0.p", 2),
    ];
    for (exchange, key, times) in table {
        let exchange = format!("{namespace}.{exchange}");
        raw.publish(&exchange, key, BasicProperties::default(), b"").await;
        for _ in 0..times {
            let came = until("the probe", async || raw.take(&probes).await).await;
            assert_eq!(came, key);
        }
    }
    for queue in [".orphan", ":mail", ":mail@due", ":mail@failed", ":orphan@failed"] {
        let queue = format!("{namespace}{queue}");
        assert_eq!(raw.take(&queue).await, None, "{queue}");
    }
}
