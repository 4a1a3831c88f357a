//! The broker's time to acknowledge a job, lowered to seconds.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use jobq::{JobId, RunningPool};
use jobq_tests::broker::Broker;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Step, Store, TestStore, soon, until};
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};

const TIMEOUT: u32 = 3_000;
const ENDED: [&str; 2] = ["consumer closed by the broker", "queue=\"scripted\""];
/// The tests here read what both log.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A node that takes jobs back after three seconds, and looks twice a second.
async fn node(test: &str) -> Option<Broker> {
    let node = Broker::to_kill(test).await?;
    for (key, millis) in [("consumer_timeout", TIMEOUT), ("channel_tick_interval", 500)] {
        node.ctl(&["eval", &format!("application:set_env(rabbit, {key}, {millis}).")]).await;
    }
    Some(node)
}

async fn is_3_10(node: &Broker) -> bool {
    node.ctl(&["version"]).await.trim().starts_with("3.10.")
}

/// Has a queue of another client delivered a message that nobody acknowledges, and returns
/// when the broker has taken it back.
async fn somebody_times_out(node: &Broker) {
    let raw = Raw::connect(&node.url()).await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declared = raw.channel.queue_declare("control".into(), options, arguments).await;
    declared.unwrap();
    raw.publish("", "control", lapin::BasicProperties::default(), b"{}").await;
    let mut consumer = raw.consume("control", "").await;
    soon("a message", consumer.next()).await.unwrap().unwrap();
    // An error with the channel, or the end that a `basic.cancel` is.
    let end = soon("the broker to take it back", consumer.next()).await;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    let raw = Raw::connect(&node.url()).await;
    raw.delete("control").await;
}

/// A pool that runs one job at a time.
async fn pool(test: &TestStore) -> RunningPool {
    test.pool().concurrency(1).spawn().await.unwrap()
}

/// A pool that takes some jobs ahead, as it has seen that they are short.
async fn pool_with_some_ahead(test: &mut TestStore) -> RunningPool {
    let pool = pool(test).await;
    for _ in 0..20 {
        test.enqueue([Step::Succeed]).await;
        test.run().await;
        test.end().await;
    }
    pool
}

/// A long job that has begun, and five that wait behind it.
async fn one_long_and_five(test: &mut TestStore) -> (JobId, Vec<JobId>) {
    let slow = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, slow);
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(test.enqueue([Step::Succeed]).await);
    }
    (slow, waiting)
}

/// Lets the long job end, and sees that it and the others have run once each.
async fn each_ends_once(test: &mut TestStore, slow: JobId, waiting: Vec<JobId>) {
    assert!(!test.has_run(), "nothing runs beside the long job");
    test.go();
    assert_eq!(test.end().await, slow);
    let (mut ended, mut begun) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..waiting.len() {
        ended.insert(test.end().await);
        begun.insert(test.run().await.id);
    }
    assert_eq!((&ended, &begun), (&waiting.iter().copied().collect(), &ended));
    until("an empty queue", async || {
        let counts = test.client.counts("scripted").await.ok()?;
        counts.is_empty().then_some(())
    })
    .await;
    assert!(!test.has_run(), "each has run once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_longer_than_the_brokers_timeout_runs_once() {
    let (log, _turn) = (LogCapture::log(), TURN.lock().await);
    let Some(node) = node("a_job_longer_than_the_brokers_timeout_runs_once").await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let warning = ["redelivered if they run past it", "jobs=\"scripted\""];
    let before = (log.lines(&warning).len(), log.lines(&ENDED).len());
    let pool = pool_with_some_ahead(&mut test).await;
    let (slow, waiting) = one_long_and_five(&mut test).await;
    // Twice as long as the timeout, by the broker's own clock.
    somebody_times_out(&node).await;
    somebody_times_out(&node).await;
    let warned = log.lines(&warning).split_off(before.0);
    let taken_back = log.lines(&ENDED).split_off(before.1);
    if is_3_10(&node).await {
        // There is no way: only this pool knows that the job runs. So it has said so.
        assert!(!taken_back.is_empty(), "the lowered timeout works");
        assert_eq!(warned.len(), 1, "{warned:?}");
        for said in ["consumer_timeout", "rabbitmq.conf", "30m", "3.10."] {
            assert!(warned[0].contains(said), "{said}: {warned:?}");
        }
    } else {
        assert!(taken_back.is_empty(), "{taken_back:?}");
        assert!(warned.is_empty(), "{warned:?}");
        let unsettled = node.ctl(&["list_queues", "name", "messages_unacknowledged"]).await;
        let line = format!("{}:scripted\t6", test.store.namespace);
        assert!(unsettled.contains(&line), "all are still the pool's: {unsettled}");
    }
    each_ends_once(&mut test, slow, waiting).await;
    pool.shutdown().await.unwrap();
}

/// A node that closes the channel of such a pool, or from 4.3 on cancels its consumer.
async fn hasty_node(test: &str) -> Option<Broker> {
    let node = node(test).await?;
    // What an operator may do to jobq's queues where they state a day.
    let policy = format!("{{\"consumer-timeout\": {TIMEOUT}}}");
    if !is_3_10(&node).await {
        node.ctl(&["set_policy", "hasty", ".*", &policy, "--apply-to", "queues"]).await;
    }
    Some(node)
}

async fn goes_on_without_its_jobs(log: &LogCapture, pool: RunningPool, test: &mut TestStore) {
    let before = log.lines(&ENDED).len();
    let (slow, mut waiting) = one_long_and_five(test).await;
    for taken_back in 1..3 {
        // Further jobs, since a queue of 4.3 that was busy and is quiet may look at the time
        // only when it is told of something: five of eight queues with 3,000 messages in
        // their last 4.5 s took nothing back in 20 s, and at once after one message more.
        until("the broker to take the jobs back", async || {
            waiting.push(test.enqueue([Step::Succeed]).await);
            let ends = log.lines(&ENDED).len();
            (ends >= before + taken_back).then_some(())
        })
        .await;
        until("the pool to consume", async || pool.health().is_consuming().then_some(())).await;
    }
    each_ends_once(test, slow, waiting).await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_whose_jobs_were_taken_back_goes_on() {
    let (log, _turn) = (LogCapture::log(), TURN.lock().await);
    let Some(node) = hasty_node("a_pool_whose_jobs_were_taken_back_goes_on").await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let pool = pool_with_some_ahead(&mut test).await;
    goes_on_without_its_jobs(log, pool, &mut test).await;
}

/// It has as many in hand as it takes, so that it waits for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_whose_job_was_taken_back_goes_on() {
    let (log, _turn) = (LogCapture::log(), TURN.lock().await);
    let Some(node) = hasty_node("a_full_pool_whose_job_was_taken_back_goes_on").await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let pool = pool(&test).await;
    goes_on_without_its_jobs(log, pool, &mut test).await;
}
