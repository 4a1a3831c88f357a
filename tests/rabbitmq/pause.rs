//! Pauses and pools while brokers restart and connections end.

use std::time::{Duration, Instant};

use jobq::admin::{Activity, Figure, Queues};
use jobq::{Client, QueueState, RunningPool};
use jobq_tests::broker::{self, Broker};
use jobq_tests::proxy::{Cut, Proxy};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, until};
use lapin::options::ExchangeUnbindOptions;
use lapin::types::FieldTable;

/// Longer than a pool that was told of a pause believes it against what the broker says.
const WATCHED: Duration = Duration::from_secs(6);

/// Waits until the only pool says this about the queue, and has nothing in flight.
async fn pool_is(operator: &Client, state: Activity) {
    until("the state of the pool", async || {
        let pools = operator.admin().pools(Queues::one("scripted"), Duration::from_secs(2)).await;
        let pools = pools.ok().filter(|pools| pools.unaccounted == 0)?.pools;
        let [pool] = &pools[..] else { return None };
        let queue = pool.queue("scripted")?;
        (queue.state == state && queue.in_flight == 0).then_some(())
    })
    .await;
}

async fn begin(store: Store) -> (TestStore, RunningPool) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.expect("it starts");
    let first = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, first);
    assert_eq!(test.run().await.id, first);
    (test, pool)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_outlives_a_restart_of_the_broker() {
    let Some(node) = Broker::to_kill("a_pause_outlives_a_restart_of_the_broker").await else {
        return;
    };
    outlives_restarts(&node, Store::on_broker(node.url()), &[false, true]).await;
}

/// A pause outlives restarts of the broker, of which these kill it.
pub(crate) async fn outlives_restarts(node: &Broker, store: Store, kills: &[bool]) {
    let (mut test, pool) = begin(store).await;
    let operator = test.store.client().await;
    for kill in kills {
        let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
        assert!(paused.still_taking == 0 && paused.stopped.len() == 1, "{paused:?}");
        let job = test.enqueue([Step::Succeed]).await;
        if *kill {
            node.kill();
        } else {
            node.stop();
        }
        node.restart().await;
        pool_is(&operator, Activity::Paused).await;
        let overview = operator.admin().overview(Queues::one("scripted")).await.unwrap();
        let pause = overview.queues[0].paused.known().cloned().flatten().unwrap();
        assert_eq!(pause.why.as_deref(), Some("a deploy"), "{overview:?}");
        assert!(overview.queues[0].ready == 1 && !test.has_run(), "{overview:?}");
        assert!(operator.admin().resume("scripted").await.unwrap().was_paused);
        assert_eq!(test.run().await.id, job);
        assert_eq!(test.end().await, job);
    }
    pool.shutdown().await.expect("it ends");
}

/// A proxy with a pool behind it, and an operator beside it.
async fn behind_a_proxy() -> (Proxy, Client, TestStore, RunningPool) {
    let direct = Store::rabbitmq().await;
    let proxy = Proxy::to(&broker::shared().await).await;
    let mut store = Store::on_broker(proxy.url());
    store.namespace.clone_from(&direct.namespace);
    let (test, pool) = begin(store).await;
    (proxy, direct.client().await, test, pool)
}

/// A pool that is cut off misses the order. It asks before it consumes again, and waits for the answer
/// of a broker that is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_was_cut_off_learns_of_a_pause_and_of_its_end() {
    // Opening the control queue takes more than two seconds where each answer is so slow.
    const SLOW: Duration = Duration::from_millis(100);
    let (proxy, operator, mut test, pool) = behind_a_proxy().await;
    for (how, delay) in [(Cut::Reset, Duration::ZERO), (Cut::End, SLOW)] {
        // A job whose outcome is not recorded would run again.
        pool_is(&operator, Activity::Consuming).await;
        proxy.refuse(true);
        proxy.cut(how).await;
        let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
        assert!(paused.still_taking == 0 && paused.stopped.is_empty(), "{paused:?}");
        let job = operator.enqueue(Scripted { steps: vec![Step::Succeed] }).await.unwrap();
        proxy.delay(delay);
        proxy.refuse(false);
        until("the pause, as the pool knows it", async || {
            let health = pool.health();
            let queue = health.queues.iter().find(|queue| queue.queue == "scripted")?;
            matches!(queue.state, QueueState::Paused { .. }).then_some(())
        })
        .await;
        assert!(!test.has_run());
        proxy.delay(Duration::ZERO);
        pool_is(&operator, Activity::Paused).await;
        assert!(!test.has_run());
        proxy.refuse(true);
        proxy.cut(how).await;
        operator.admin().resume("scripted").await.unwrap();
        proxy.refuse(false);
        assert_eq!(test.run().await.id, job);
        assert_eq!(test.end().await, job);
    }
    pool.shutdown().await.expect("it ends");
}

/// Asking declares nothing but control.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_asks_needs_no_pool_and_declares_no_queue() {
    let store = Store::rabbitmq().await;
    let operator = store.client().await;
    let pools = operator.admin().pools(Queues::one("scripted"), DEADLINE).await.unwrap();
    assert!(pools.pools.is_empty() && pools.unaccounted == 0, "{pools:?}");
    let counts = operator.counts("scripted").await.unwrap();
    assert!(counts.is_empty(), "{counts:?}");
}

/// An exchange is deleted with its bindings, which no client makes again by declaring it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_holds_after_its_exchange_was_deleted_and_made_again() {
    let (mut test, pool) = begin(Store::rabbitmq().await).await;
    let raw = Raw::connect(&test.store.url).await;
    raw.delete_exchange(&format!("{}.control.echo", test.store.namespace)).await;
    let operator = test.store.client().await;
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0 && paused.stopped.len() == 1, "{paused:?}");
    let job = test.enqueue([Step::Succeed]).await;
    // The pool has asked several times by then.
    let early = tokio::time::timeout(WATCHED, test.run()).await;
    assert!(early.is_err(), "{early:?}");
    assert!(operator.admin().resume("scripted").await.unwrap().was_paused);
    assert_eq!(test.run().await.id, job);
    pool.shutdown().await.expect("it ends");
}

/// As a node that was killed may do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_the_broker_lost_is_set_again() {
    let (mut test, pool) = begin(Store::rabbitmq().await).await;
    let operator = test.store.client().await;
    operator.admin().pause("scripted", "a deploy").await.unwrap();
    let job = test.enqueue([Step::Succeed]).await;
    let raw = Raw::connect(&test.store.url).await;
    let exchange = |end: &str| format!("{}.{end}", test.store.namespace).into();
    let (echo, paused, key) = (exchange("control.echo"), exchange("paused"), "scripted.*".into());
    let (options, none) = (ExchangeUnbindOptions::default(), FieldTable::default());
    raw.channel.exchange_unbind(echo, paused, key, options, none).await.unwrap();
    let seen = async || {
        let overview = operator.admin().overview(Queues::one("scripted")).await.unwrap();
        overview.queues[0].paused.known().cloned().flatten()
    };
    let pause = until("the pause to be there again", seen).await;
    assert_eq!(pause.why.as_deref(), Some("a deploy"));
    assert!(!test.has_run());
    assert!(operator.admin().resume("scripted").await.unwrap().was_paused);
    assert_eq!(test.run().await.id, job);
    pool.shutdown().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_with_a_short_timeout_learns_of_the_end_of_a_pause_that_it_did_not_hear() {
    let mut test = TestStore::on(Store::rabbitmq().await).await;
    let builder = Client::builder(&test.store.url).namespace(&test.store.namespace);
    let workers = builder.timeout(Duration::from_secs(5)).connect().await.unwrap();
    let pool = test.pool_of(&workers).spawn().await.expect("it starts");
    test.client.admin().pause("scripted", "a deploy").await.unwrap();
    pool_is(&test.client, Activity::Paused).await;
    let job = test.enqueue([Step::Succeed]).await;
    // No message reaches a control queue that is there now.
    let raw = Raw::connect(&test.store.url).await;
    raw.delete_exchange(&format!("{}.control", test.store.namespace)).await;
    let operator = test.store.client().await;
    assert!(operator.admin().resume("scripted").await.unwrap().was_paused);
    assert_eq!(test.run().await.id, job);
    pool.shutdown().await.expect("it ends");
}

/// On a cluster, the control queue of a client may be led by a node that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_waits_for_a_control_queue_that_does_not_answer() {
    let test = "no_question_waits_for_a_control_queue_that_does_not_answer";
    let Some(node) = broker::shared_with_ctl(test).await else {
        return;
    };
    let (mut test, pool) = begin(Store::on_broker(node.url())).await;
    let name = format!("{}.stuck", test.store.namespace);
    let raw = Raw::connect(&test.store.url).await;
    raw.declare_quorum(&name, &[]).await;
    raw.bind(&name, &format!("{}.control", test.store.namespace), "all").await;
    let patience = Duration::from_secs(30);
    let operator = test.store.client_within(patience).await;
    let ask = async || {
        let pools = operator.admin().pools(Queues::one("scripted"), patience).await.unwrap();
        assert_eq!((pools.pools.len(), &pools.unaccounted), (1, &Figure::Known(0)), "{pools:?}");
    };
    // A channel waits for the answer of a queue to which it sends first.
    ask().await;
    let process = format!("whereis('%2F_{name}')");
    node.ctl(&["eval", &format!("sys:suspend({process}).")]).await;
    let asked = Instant::now();
    ask().await;
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert_eq!((paused.stopped.len(), paused.still_taking), (1, Figure::Known(0)));
    operator.admin().resume("scripted").await.unwrap();
    assert!(asked.elapsed() < patience, "{:?}", asked.elapsed());
    node.ctl(&["eval", &format!("sys:resume({process}).")]).await;
    let job = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, job);
    pool.shutdown().await.expect("it ends");
}
