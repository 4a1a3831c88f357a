//! One URL with several nodes: when one dies, its clients go on at another.
//!
//! Where one dies, both are brokers of their own, so that what is found on the second one was declared
//! again by the client.

use std::time::Duration;

use jobq::engine::conformance::eventually;
use jobq::{Client, ErrorKind};
use jobq_tests::broker::{Broker, namespace, shared_with_ctl};
use jobq_tests::test_store::{Step, Store, TestStore, until};

/// How long a queue must have lived to outlive its broker.
const FIRST_MOMENTS: Duration = Duration::from_secs(3);

/// `amqp://127.0.0.1:1` and so on as the hosts of one URL.
fn together(nodes: &[&Broker]) -> String {
    let hosts: Vec<_> =
        nodes.iter().map(|node| node.url().trim_start_matches("amqp://").to_owned()).collect();
    format!("amqp://{}", hosts.join(","))
}

async fn two(test: &str) -> Option<(Broker, Broker)> {
    let (first, second) = tokio::join!(Broker::to_kill(test), Broker::to_kill(test));
    Some((first?, second?))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_a_dead_node_go_on_at_another() {
    let Some((first, second)) = two("the_clients_of_a_dead_node_go_on_at_another").await else {
        return;
    };
    // The one that is left takes the connection, whichever is tried first.
    second.kill();
    let mut test = TestStore::on(Store::on_broker(together(&[&first, &second]))).await;
    let pool = test.pool().spawn().await.expect("the pool starts");
    let id = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, id);
    let (mut dies, mut lives) = (first, second);
    for _ in 0..2 {
        lives.restart().await;
        // A broker that is killed in the first moments of a quorum queue's life may not bring
        // it back, and this one comes back in the next round.
        tokio::time::sleep(FIRST_MOMENTS).await;
        dies.kill();
        // A job may be refused while the client finds out.
        let job = || jobq_tests::test_store::Scripted { steps: vec![Step::Succeed] };
        let id = until("a job to be accepted", async || test.client.enqueue(job()).await.ok());
        let id = id.await;
        while test.end().await != id {}
        let queues = lives.ctl(&["list_queues", "name", "--silent"]).await;
        let queue = format!("{}:scripted", test.store.namespace);
        assert!(queues.contains(&queue), "{queue} is declared there: {queues}");
        (dies, lives) = (lives, dies);
    }
    pool.shutdown().await.expect("the pool ends");
}

/// In turns, so that the leaders are spread over a cluster. These are no cluster: only one has all.
#[tokio::test(flavor = "multi_thread")]
async fn what_dead_letters_is_declared_on_each_node_in_turns() {
    let Some((first, second)) = two("what_dead_letters_is_declared_on_each_node_in_turns").await
    else {
        return;
    };
    let test = TestStore::on(Store::on_broker(together(&[&first, &second]))).await;
    test.client.declare_delays_up_to(Duration::from_secs(10)).await.unwrap();
    let prefix = format!("{}.level.", test.store.namespace);
    let mut levels = Vec::new();
    for node in [&first, &second] {
        let queues = node.ctl(&["list_queues", "name", "--silent"]).await;
        levels.push(queues.lines().filter(|queue| queue.starts_with(&prefix)).count());
    }
    levels.sort_unstable();
    let [some, all] = levels[..] else { panic!("two nodes: {levels:?}") };
    assert!(all >= 15 && (all / 3..=all * 2 / 3).contains(&some), "{levels:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_none_answers_each_node_has_its_reason() {
    let url = "amqp://ann:geheim@127.0.0.1:1,no-such-host.invalid:2/shop";
    let error = Client::connect(url).await.expect_err("nobody is there");
    assert!(error.is_connection(), "{error:?}");
    let text = format!("{error:?}");
    for said in [
        "amqp://ann:***@127.0.0.1:1,no-such-host.invalid:2/shop",
        " 127.0.0.1:1: ",
        "refused",
        " no-such-host.invalid:2: ",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("geheim"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_silent_is_left_for_the_next() {
    let Some(node) = shared_with_ctl("a_node_that_is_silent_is_left_for_the_next").await else {
        return;
    };
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it has an address").port();
    // Time enough for the other node on a busy machine.
    let url = format!("{},127.0.0.1:{port}?connection_timeout=5000", node.url());
    for _ in 0..4 {
        Client::connect(&url).await.expect("the other node answers");
    }
    let url = format!("amqp://127.0.0.1:{port}?connection_timeout=500");
    let error = Client::connect(&url).await.expect_err("it says nothing");
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.to_string().contains("500ms"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_password_ends_the_tries() {
    let Some(node) = shared_with_ctl("a_refused_password_ends_the_tries").await else {
        return;
    };
    let (host, user) = (node.host(), namespace());
    let url = format!("amqp://{user}:geheim@{host},{host}");
    let error = Client::connect(&url).await.expect_err("no such user");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert_eq!(error.to_string().matches(&format!("`{user}`")).count(), 1, "{error}");
    let refusal = format!("PLAIN login refused: user '{user}'");
    let denied = || async { node.log().matches(&refusal).count() };
    eventually("the broker's log of one try", 1, denied).await;
}
