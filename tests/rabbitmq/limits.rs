//! Limits that an administrator or a URL sets: each is named with what jobq needs.

use jobq::{Client, Error, ErrorKind, Job, WorkerPool};
use jobq_tests::broker::{self, Broker, namespace};
use jobq_tests::test_store::{Scripted, Store, TestStore};
use jobq_tests::vhost::Vhost;
use serde::{Deserialize, Serialize};

fn says(error: &Error, words: &[&str]) {
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Refused, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    // Nothing is wrong with the vhost, and nothing is to be deleted for it.
    assert!(!said.contains("does not exist") && !said.contains("delete it"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_a_vhost_are_named() {
    let Some(vhost) = Vhost::of("the_limits_of_a_vhost_are_named").await else {
        return;
    };
    let limit = async |limits: &str| {
        vhost.node().ctl(&["set_vhost_limits", "-p", vhost.name(), limits]).await;
    };
    limit(r#"{"max-connections": 0}"#).await;
    let error = Client::connect(&vhost.url()).await.unwrap_err();
    says(&error, &["limit (0) is reached", "a client with a pool two", "set_vhost_limits"]);

    limit(r#"{"max-connections": 1}"#).await;
    let client = Client::connect(&vhost.url()).await.expect("one fits");
    let error =
        TestStore::on(Store::on_broker(vhost.node().url())).await.pool_of(&client).spawn().await;
    says(&error.unwrap_err(), &["limit (1) is reached", "a client with a pool two"]);

    limit(r#"{"max-connections": -1, "max-queues": 3}"#).await;
    let job = Scripted { steps: Vec::new() };
    let other = Client::builder(vhost.url()).namespace("other").connect().await;
    let error = other.expect("it connects").enqueue(job).await.unwrap_err();
    says(&error, &["(3) is reached", "three for each queue", "set_vhost_limits"]);
    vhost.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_with_few_channels_or_small_frames_is_told_of() {
    let test = "a_broker_with_few_channels_or_small_frames_is_told_of";
    let lines = |lines: &str| {
        let lines = lines.to_owned();
        Broker::with_files(test, move |_| vec![("rabbitmq.conf", lines)])
    };
    let Some(few) = lines("channel_max = 8\n").await else {
        return;
    };
    let error = Client::connect(few.url()).await.unwrap_err();
    says(&error, &["allows 8 channels", "two more for each queue", "rabbitmq.conf"]);
    drop(few);
    let small = lines("frame_max = 65536\n").await.expect("as before");
    let error = Client::connect(small.url()).await.unwrap_err();
    says(&error, &["frames to 65536 bytes", "131072", "rabbitmq.conf"]);
}

macro_rules! many {
    ($($name:ident),*) => {
        $(#[derive(Serialize, Deserialize, Job)]
        struct $name {})*

        fn pool(client: &Client) -> WorkerPool {
            WorkerPool::new(client)$(.handle(async |_: $name| Ok::<_, jobq::BoxError>(())))*
        }
    };
}

many!(One, Two, Three, Four, Five, Six, Seven, Eight, Nine);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_with_more_queues_than_channels_says_so() {
    let url = broker::shared().await;
    let narrow = async |channels: u16| {
        let builder = Client::builder(format!("{url}?channel_max={channels}"));
        builder.namespace(namespace()).connect().await.expect("it connects")
    };
    let client = narrow(33).await;
    let error = pool(&client).spawn().await.unwrap_err();
    says(&error, &["at most 33 channels", "needs 34", "channel_max"]);
    let client = narrow(34).await;
    let running = pool(&client).spawn().await.expect("it has channels enough");
    running.shutdown().await.expect("it ends");
}
