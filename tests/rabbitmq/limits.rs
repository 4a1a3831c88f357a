//! Limits that an administrator or a URL sets: each is named with what jobq needs.

use std::time::Duration;

use jobq::{Client, Error, ErrorKind, Job, WorkerPool};
use jobq_tests::broker::{self, Broker, namespace};
use jobq_tests::test_store::{Scripted, Store, TestStore};
use jobq_tests::vhost::Vhost;
use serde::{Deserialize, Serialize};

fn says(error: &Error, words: &[&str]) {
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Refused, "{said}");
    names(error, words);
}

fn names(error: &Error, words: &[&str]) {
    let said = error.to_string();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_users_limit_of_channels_is_named_by_a_pool_that_does_not_start() {
    let test = "a_users_limit_of_channels_is_named_by_a_pool_that_does_not_start";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let user = namespace();
    vhost.node().ctl(&["add_user", &user, "secret"]).await;
    vhost.permit(&user, [".*"; 3]).await;
    let url = vhost.url().replace("amqp://", &format!("amqp://{user}:secret@"));
    let mut refused = 0;
    for limit in [1, 2, 3, 4, 6, 8, 13, 21] {
        let limits = format!(r#"{{"max-channels": {limit}}}"#);
        vhost.node().ctl(&["set_user_limits", &user, &limits]).await;
        let builder = Client::builder(&url).timeout(Duration::from_secs(10));
        let client = builder.connect().await.expect("it connects");
        // Its channels count as well, and the pool may be refused on either connection.
        let job = Scripted { steps: Vec::new() };
        drop(client.enqueue(job).await);
        match pool(&client).spawn().await {
            Ok(running) => running.shutdown().await.expect("it ends"),
            Err(error) => {
                refused += 1;
                // RabbitMQ 4.0 puts its node in the place of the user.
                let named = "number of channels opened for user '";
                names(&error, &["NOT_ALLOWED", named, "16 channels", "set_user_limits"]);
                // The broker closes the connection for one channel too many, and what else was
                // asked on it is lost with it.
                let is_lost = error.to_string().contains("the connection was lost: ");
                let kind = if is_lost { ErrorKind::Connection } else { ErrorKind::Refused };
                assert_eq!(error.kind(), kind, "{error}");
                // The second one is that of RabbitMQ 4.3.
                let limits = [format!("limit of ({limit})"), format!("limit of {limit};")];
                assert!(limits.iter().any(|said| error.to_string().contains(said)), "{error}");
            }
        }
        client.close().await;
    }
    assert!(refused >= 3, "{refused}");
    vhost.delete().await;
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
