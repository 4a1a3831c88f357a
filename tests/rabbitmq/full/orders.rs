//! Questions and orders during an alarm.

use std::time::Instant;

use jobq::admin::{Figure, Order, Queues};
use jobq::{Error, JobId};
use jobq_tests::broker::Broker;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, soon, until};

use super::alarm::{Alarm, DISK, MEMORY, TIMEOUT, client, sound};

/// An error that names the alarm and what helps, and that came at once.
fn names(alarm: &Alarm, error: &Error, since: Instant) {
    assert!(error.is_timeout(), "{error:?}");
    for said in [alarm.name, "rabbitmq-diagnostics alarms"] {
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    assert!(since.elapsed() < TIMEOUT, "{error}");
}

async fn orders_fail_at_once_and_are_not_carried_out_later(alarm: &Alarm, test: &str) {
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let workers = test.store.client().await;
    let pool = test.pool_of(&workers).spawn().await.expect("the pool starts");
    test.enqueue([Step::Succeed]).await;
    test.end().await;
    let (sender, operator) = (client(&test.store).await, client(&test.store).await);
    let steward = client(&test.store).await;
    let pools =
        soon("the pools", test.client.admin().pools(Queues::one("scripted"), TIMEOUT)).await;
    let id = pools.unwrap().pools[0].pool;
    // Each operator's own connection learns of it by its first order.
    sound(&node, alarm, &sender).await;

    let since = Instant::now();
    for order in [Order::Quiet, Order::Stop] {
        let error = soon("an answer", steward.admin().tell(id, order)).await.unwrap_err();
        names(alarm, &error, since);
    }
    let cancelled = soon("an answer", steward.admin().cancel_running(JobId::new())).await;
    names(alarm, &cancelled.unwrap_err(), since);
    let (admin, why, since) = (operator.admin(), "upgrade", Instant::now());
    let error = soon("an answer", admin.pause("scripted", why)).await.unwrap_err();
    names(alarm, &error, since);
    assert!(!error.to_string().contains("nevertheless"), "nothing was begun: {error}");
    let error = soon("an answer", admin.resume("scripted")).await.unwrap_err();
    names(alarm, &error, since);
    let queues = || Queues::one("scripted");
    let error = soon("an answer", admin.pools(queues(), TIMEOUT)).await.unwrap_err();
    names(alarm, &error, since);
    let overview = soon("an answer", admin.overview(queues())).await.expect("what is known");
    let queue = &overview.queues[0];
    for why in [queue.ready.why(), queue.failed.why(), queue.pools.why(), queue.paused.why()] {
        assert!(why.is_some_and(|why| why.contains(alarm.name)), "{queue:?}");
    }
    assert!(since.elapsed() < TIMEOUT, "all of this takes {:?}", since.elapsed());

    node.ctl(&alarm.off).await;
    let paused = async || {
        let overview = admin.overview(queues()).await.ok()?;
        overview.queues[0].paused.known().cloned()
    };
    // On the same connection: what it has sent before comes before it.
    assert_eq!(until("the broker to answer again", paused).await, None, "it is not paused");
    let id = until("a job to be accepted", async || {
        sender.enqueue(Scripted { steps: [Step::Succeed].into() }).await.ok()
    });
    let id = id.await;
    while test.end().await != id {}
    assert_eq!(until("the broker to answer", paused).await, None, "it is not paused later");

    let order = soon("a pause", admin.pause("scripted", why)).await.expect("it is paused");
    assert_eq!((order.still_taking, order.stopped.len()), (Figure::Known(0), 1));
    sound(&node, alarm, &sender).await;
    let since = Instant::now();
    let error = soon("an answer", admin.resume("scripted")).await.unwrap_err();
    names(alarm, &error, since);
    node.ctl(&alarm.off).await;
    let pause = until("the broker to answer again", paused).await.expect("it stays paused");
    assert_eq!(pause.why.as_deref(), Some("upgrade"));
    assert!(soon("an end", admin.resume("scripted")).await.expect("it is resumed").was_paused);
    let id = test.enqueue([Step::Succeed]).await;
    while test.end().await != id {}
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_alarm_fails_orders_at_once() {
    let test = "a_memory_alarm_fails_orders_at_once";
    orders_fail_at_once_and_are_not_carried_out_later(&MEMORY, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_alarm_fails_orders_at_once() {
    let test = "a_disk_alarm_fails_orders_at_once";
    orders_fail_at_once_and_are_not_carried_out_later(&DISK, test).await;
}
