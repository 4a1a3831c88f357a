//! What does not go away by itself, and what the broker ends alone: each recovers when the
//! cause is removed, and until then the pool says that it takes no jobs, why, and what to do.

use std::time::Duration;

use jobq::{Client, ErrorKind, QueueState, RunningPool};
use jobq_tests::broker::{self, Broker};
use jobq_tests::log_capture::LogCapture;
use jobq_tests::proxy::{Cut, Proxy, Toward};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, soon, until};
use jobq_tests::vhost::Vhost;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

/// A vhost with a user of its own.
struct Place {
    vhost: Vhost,
    user: String,
}

impl Place {
    async fn of(test: &str) -> Option<Self> {
        let place = Self { vhost: Vhost::of(test).await?, user: broker::namespace() };
        place.vhost.node().ctl(&["add_user", &place.user, "first"]).await;
        place.permit(".*").await;
        Some(place)
    }

    /// The user may configure, write and read what this matches.
    async fn permit(&self, names: &str) {
        self.vhost.permit(&self.user, [names; 3]).await;
    }

    fn store(&self) -> Store {
        let user = format!("amqp://{}:first@", self.user);
        Store::on_broker(self.vhost.url().replace("amqp://", &user))
    }
}

/// Waits until the pool says that it takes no jobs, for a reason with all of these words.
async fn interrupted(pool: &RunningPool, kind: ErrorKind, words: &[&str]) {
    until(&format!("an interruption with {words:?}"), async || {
        let health = pool.health();
        let told = health.queues.iter().all(|queue| match &queue.state {
            QueueState::Interrupted { error, .. } => {
                let text = format!("{error:?}");
                error.kind() == kind && words.iter().all(|word| text.contains(word))
            }
            _ => false,
        });
        (told && !health.is_consuming()).then_some(())
    })
    .await;
}

/// Waits until the pool says that it takes jobs, and sees it run one.
async fn goes_on(test: &mut TestStore, pool: &RunningPool) {
    until("the pool to consume", async || pool.health().is_consuming().then_some(())).await;
    let id = accepted(&test.client).await;
    while test.end().await != id {}
}

/// Enqueues until a job is accepted.
async fn accepted(client: &Client) -> jobq::JobId {
    let job = || Scripted { steps: vec![Step::Succeed] };
    until("a job to be accepted", async || client.enqueue(job()).await.ok()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changes_is_told_until_it_is_right_again() {
    let test = "a_password_that_changes_is_told_until_it_is_right_again";
    let Some(place) = Place::of(test).await else {
        return;
    };
    let (user, node) = (&*place.user, place.vhost.node());
    let mut test = TestStore::on(place.store()).await;
    let pool = test.pool().spawn().await.unwrap();
    goes_on(&mut test, &pool).await;
    node.ctl(&["change_password", user, "second"]).await;
    place.vhost.close_connections().await;
    let said = format!("refuses user `{user}`");
    interrupted(&pool, ErrorKind::Refused, &[&said, "the password"]).await;
    assert!(!format!("{:?}", pool.health()).contains("first"), "no password is shown");
    node.ctl(&["change_password", user, "first"]).await;
    goes_on(&mut test, &pool).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_that_are_taken_away_are_told_until_they_are_back() {
    let test = "permissions_that_are_taken_away_are_told_until_they_are_back";
    let Some(place) = Place::of(test).await else {
        return;
    };
    let (user, vhost) = (&*place.user, place.vhost.name());
    let mut test = TestStore::on(place.store()).await;
    let pool = test.pool().spawn().await.unwrap();
    goes_on(&mut test, &pool).await;
    // The vhost is closed to the user.
    place.vhost.node().ctl(&["clear_permissions", "-p", vhost, user]).await;
    place.vhost.close_connections().await;
    let said = [format!("vhost `{vhost}`"), format!("user `{user}`")];
    interrupted(&pool, ErrorKind::Refused, &[&said[0], &said[1]]).await;
    // It is open, and its queues are not.
    place.permit("^$").await;
    let words = ["consuming queue", "ACCESS_REFUSED", "set_permissions"];
    interrupted(&pool, ErrorKind::Refused, &words).await;
    let job = Scripted { steps: vec![Step::Succeed] };
    let error = test.client.enqueue(job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert!(error.to_string().contains("set_permissions"), "{error}");
    place.permit(".*").await;
    goes_on(&mut test, &pool).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_refused_for_long_is_told_once_a_minute() {
    let log = LogCapture::log();
    let Some(place) = Place::of("a_queue_that_is_refused_for_long_is_told_once_a_minute").await
    else {
        return;
    };
    let mut test = TestStore::on(place.store()).await;
    let pool = test.pool().spawn().await.unwrap();
    goes_on(&mut test, &pool).await;
    place.vhost.permit(&place.user, [".*", ".*", "^$"]).await;
    place.vhost.close_connections().await;
    // The broker logs each try, of two consumers.
    let queues = ["", "@solo"].map(|part| format!("'{}:scripted{part}'", test.store.namespace));
    until("many tries to be refused", async || {
        let log = place.vhost.node().log();
        let refused: Vec<_> =
            log.lines().filter(|line| line.contains("refused for user")).collect();
        let tries = |queue: &String| refused.iter().filter(|line| line.contains(queue)).count();
        queues.iter().all(|queue| tries(queue) >= 5).then_some(())
    })
    .await;
    let refusal = "could not start the consumer; retrying queue=\"scripted\"";
    let told = log.lines(&["ERROR", refusal]);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(!told[0].contains("more="), "it was the first: {told:?}");
    place.permit(".*").await;
    goes_on(&mut test, &pool).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_that_is_deleted_and_made_again_is_used_again() {
    let test = "a_vhost_that_is_deleted_and_made_again_is_used_again";
    let Some(place) = Place::of(test).await else {
        return;
    };
    let mut test = TestStore::on(place.store()).await;
    let pool = test.pool().spawn().await.unwrap();
    goes_on(&mut test, &pool).await;
    place.vhost.delete().await;
    let said = format!("vhost `{}` does not exist", place.vhost.name());
    interrupted(&pool, ErrorKind::Refused, &[&said]).await;
    place.vhost.add().await;
    place.permit(".*").await;
    // Its queues are declared again, too.
    goes_on(&mut test, &pool).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_under_a_pool_is_declared_and_consumed_again() {
    let mut test = TestStore::on(Store::rabbitmq().await).await;
    let pool = test.pool().spawn().await.unwrap();
    goes_on(&mut test, &pool).await;
    // The broker tells the consumer so by a `basic.cancel`.
    let raw = Raw::connect(&test.store.url).await;
    raw.delete(&format!("{}:scripted", test.store.namespace)).await;
    // It finds no way, and has its queue declared again if the consumer has not yet.
    let id = accepted(&test.client).await;
    assert_eq!(test.end().await, id);
    goes_on(&mut test, &pool).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_told_while_consumers_wait_for_an_answer() {
    let mut test = TestStore::on(Store::rabbitmq().await).await;
    let proxy = Proxy::to(&test.store.url).await;
    let builder = Client::builder(proxy.url()).namespace(&test.store.namespace);
    let workers = builder.timeout(Duration::from_secs(600)).connect().await.unwrap();
    let pool = test.pool_of(&workers).spawn().await.unwrap();
    until("the pool to consume", async || pool.health().is_consuming().then_some(())).await;
    // The consumers end, and ask in vain whether their queues are paused.
    proxy.freeze(Toward::Broker);
    let raw = Raw::connect(&test.store.url).await;
    for queue in pool.health().queues {
        raw.delete(&format!("{}:{}", test.store.namespace, queue.queue)).await;
    }
    interrupted(&pool, ErrorKind::Connection, &["it was cancelled"]).await;
    proxy.refuse(true);
    proxy.cut(Cut::Reset).await;
    interrupted(&pool, ErrorKind::Connection, &["cannot connect"]).await;
    proxy.refuse(false);
    proxy.thaw();
    goes_on(&mut test, &pool).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_gone_is_told() {
    let Some(node) = Broker::to_kill("a_broker_that_is_gone_is_told").await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let pool = test.pool().spawn().await.unwrap();
    goes_on(&mut test, &pool).await;
    // A broker that is killed in the first moments of a queue's life may not bring it back.
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.kill();
    interrupted(&pool, ErrorKind::Connection, &["that the broker runs"]).await;
    node.restart().await;
    goes_on(&mut test, &pool).await;
    // The pool that has ended says so, too.
    let health = || pool.health();
    test.client.close().await;
    until("the end of the pool", async || {
        let ended = |state: &QueueState| matches!(state, QueueState::Ended(Some(_)));
        health().queues.iter().all(|queue| ended(&queue.state)).then_some(())
    })
    .await;
    assert_eq!(pool.wait().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_is_given_up_leaves_no_socket() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.expect("there is a port");
    let url = format!("amqp://{}", silent.local_addr().expect("it has an address"));
    let connecting = Client::builder(url).timeout(Duration::from_secs(1)).connect();
    let (connected, accepted) = tokio::join!(connecting, silent.accept());
    assert!(connected.expect_err("nobody answers").is_timeout());
    let (mut socket, _) = accepted.expect("it connects");
    let mut sent = Vec::new();
    soon("the end of the socket", socket.read_to_end(&mut sent)).await.expect("it ends in order");
    assert_eq!(sent, b"AMQP\0\0\x09\x01");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_come_before_a_late_answer_to_the_end_of_a_consumer_are_handed_back() {
    let log = LogCapture::log();
    let mut test = TestStore::on(Store::rabbitmq().await).await;
    let proxy = Proxy::to(&test.store.url).await;
    let builder = Client::builder(proxy.url()).namespace(&test.store.namespace);
    let workers = builder.timeout(Duration::from_secs(3)).connect().await.unwrap();
    let pool = test.pool_of(&workers).concurrency(2).spawn().await.unwrap();
    let first = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, first);
    proxy.freeze(Toward::Client);
    test.enqueue([Step::Succeed]).await;
    let ready = async |count| {
        until("so many jobs to be ready", async || {
            (test.client.counts("scripted").await.ok()?.ready == count).then_some(())
        })
        .await;
    };
    // It is on its way to the pool.
    ready(0).await;
    pool.stop();
    until("the pool to give up the answer", async || {
        (log.count("consumer cancellation timed out") > 0).then_some(())
    })
    .await;
    proxy.thaw();
    // The first job still runs.
    ready(1).await;
    test.go();
    assert_eq!(test.end().await, first);
    soon("the pool to end", pool.wait()).await.unwrap();
}
