//! A node dies that leads queues to which a client has sent nothing yet.

use std::time::Duration;

use futures_util::future::join_all;
use jobq::engine::conformance::open;
use jobq::engine::{Engine, QueueSpec};
use jobq_tests::broker::namespace;
use jobq_tests::cluster::Cluster;
use jobq_tests::jobs;
use tokio::time::{Instant, sleep, timeout};

use super::LONG;

/// The elections of many queues take a while, in which some jobs are refused.
const QUEUES: usize = 60;

/// Pushes jobs to a queue until one is accepted, and returns how many were refused.
async fn push(engine: &dyn Engine, queue: &str) -> usize {
    let mut refused = 0;
    while let Err(error) = engine.push(jobs::job(queue)).await {
        assert!(error.is_refused() || error.is_timeout(), "{error:?}");
        refused += 1;
        sleep(Duration::from_millis(100)).await;
    }
    refused
}

/// RabbitMQ 3.10 goes on to refuse the messages of a channel until the dead node is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_accepted_again_soon_after_the_leader_of_new_queues_died() {
    let test = "jobs_are_accepted_again_soon_after_the_leader_of_new_queues_died";
    let Some(cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let namespace = namespace();
    let queues: Vec<_> = (0..QUEUES).map(|number| format!("q{number}")).collect();
    let specs: Vec<_> = queues.iter().map(QueueSpec::new).collect();
    // Where they are declared first, they are led.
    let leading = open(&cluster.nodes()[1].url(), &namespace).await.unwrap();
    leading.declare(&specs).await.unwrap();
    let engine = open(&cluster.nodes()[0].url(), &namespace).await.unwrap();
    engine.declare(&specs).await.unwrap();
    cluster.whole(0).await;
    cluster.nodes()[1].kill();
    let began = Instant::now();
    let pushing = join_all(queues.iter().map(|queue| push(&*engine, queue)));
    let refused = timeout(LONG, pushing).await.expect("the other nodes accept jobs");
    let (refused, waited) = (refused.iter().sum::<usize>(), began.elapsed().as_secs_f64());
    println!("{refused} jobs were refused until all queues accepted one, after {waited:.1} s");
}
