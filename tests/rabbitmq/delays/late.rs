//! Time that goes by before a message is sent is a part of its wait.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jobq::Client;
use jobq_tests::broker;
use jobq_tests::jobs::reports_runs::millis;
use jobq_tests::proxy::{Cut, Proxy, Toward};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, until};

/// Longer than the second that new queues take, and needs two levels.
const WAIT: Duration = millis(3_000);
/// What is left of it at the most when the levels are there, in the unit of the levels.
const REST: Duration = millis(2_000);

/// The wait that the digits of a key state.
fn stated(key: &str) -> Duration {
    let digits = key.split('.').take(8).map(|digit| digit.parse::<u64>().unwrap());
    millis(digits.fold(0, |wait, digit| wait * 16 + digit) * 100)
}

/// A queue that hears what comes out of the levels for queues (`q`) or topics (`e`), without probes.
async fn out_of_levels(raw: &Raw, namespace: &str, end: &str) -> String {
    raw.tap(&format!("{namespace}.level.deliver"), &format!("*.*.*.*.*.*.*.*.{end}.#")).await
}

/// What has a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Many,
    Named,
    Event,
    RetryIn,
    Snooze,
}

/// The first message of its namespace that needs levels, which are made meanwhile.
async fn comes_in_time(url: &str, kind: Kind) {
    let mut test = TestStore::on(Store::on_broker(url.to_owned())).await;
    test.client.declare::<Scripted>().await.unwrap();
    let raw = Raw::connect(url).await;
    let space = test.store.namespace.clone();
    let out_of_levels =
        out_of_levels(&raw, &space, if kind == Kind::Event { "e" } else { "q" }).await;
    let events = raw.tap(&format!("{space}.events"), "#").await;
    let running = test.pool().spawn().await.unwrap();
    let job = |steps: &[Step]| Scripted { steps: steps.to_vec() };
    let mut since = Instant::now();
    let wait = u64::try_from(WAIT.as_millis()).unwrap();
    match kind {
        Kind::One => drop(test.client.enqueue(job(&[Step::Succeed])).delay(WAIT).await.unwrap()),
        Kind::Many => {
            test.client.enqueue_all([job(&[Step::Succeed])]).delay(WAIT).await.unwrap();
        }
        Kind::Named => {
            let payload = serde_json::json!({"steps": ["Succeed"]});
            let later = test.client.enqueue_named("scripted", "scripted", &payload).delay(WAIT);
            later.await.unwrap();
        }
        Kind::Event => drop(test.client.publish("late", &()).delay(WAIT).await.unwrap()),
        Kind::RetryIn | Kind::Snooze => {
            let step = if kind == Kind::Snooze { Step::Snooze(wait) } else { Step::RetryIn(wait) };
            test.client.enqueue(job(&[step, Step::Succeed])).await.unwrap();
            since = test.run().await.at;
        }
    }
    let key = if kind == Kind::Event {
        // Nobody subscribes: it is seen on its way alone.
        until("the event", async || match raw.take(&out_of_levels).await {
            None => raw.take(&events).await.map(|_| None),
            key => Some(key),
        })
        .await
    } else {
        assert!(test.run().await.at - since >= WAIT, "{kind:?} is early");
        raw.take(&out_of_levels).await
    };
    // On a slow machine it was due when the levels were there.
    if let Some(key) = key {
        assert!(stated(&key) <= REST, "{kind:?} waits {:?} more", stated(&key));
    }
    running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn making_the_levels_makes_no_first_job_late() {
    use Kind::{Event, Many, Named, One, RetryIn, Snooze};
    let url = broker::shared().await;
    let kinds = [One, Many, Named, Event, RetryIn, Snooze];
    join_all(kinds.map(|kind| comes_in_time(&url, kind))).await;
}

/// A job whose wait has a tier, one that passes through the levels, and one that is due when the
/// connection is back, are enqueued while there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_waits_for_a_connection_is_not_late() {
    let url = broker::shared().await;
    let proxy = Proxy::to(&url).await;
    let mut test = TestStore::on(Store::on_broker(url.clone())).await;
    let raw = Raw::connect(&url).await;
    let running = test.pool().spawn().await.unwrap();
    test.client.declare_delays_up_to(WAIT).await.unwrap();
    let space = test.store.namespace.clone();
    let out_of_levels = out_of_levels(&raw, &space, "q").await;
    let sender = Client::builder(proxy.url()).namespace(&space).timeout(DEADLINE).connect().await;
    let sender = sender.unwrap();
    sender.declare::<Scripted>().await.unwrap();
    sender.declare_delays_up_to(WAIT).await.unwrap();
    let connected = proxy.accepted();
    proxy.freeze(Toward::Broker);
    proxy.cut(Cut::Reset).await;
    // It knows of the loss then.
    until("the sender to connect anew", async || (proxy.accepted() > connected).then_some(()))
        .await;
    let job = || Scripted { steps: vec![Step::Succeed] };
    let since = Instant::now();
    let enqueue = |wait: Duration| tokio::spawn(sender.enqueue(job()).delay(wait).into_future());
    let jobs = [millis(1), WAIT].map(enqueue);
    // The time itself is what the test is about.
    tokio::time::sleep(WAIT.saturating_sub(REST)).await;
    proxy.thaw();
    for job in jobs {
        job.await.unwrap().unwrap();
    }
    let mut keys = Vec::new();
    for wait in [millis(1), WAIT] {
        assert!(test.run().await.at - since >= wait, "one of {wait:?} is early");
        keys.extend(raw.take(&out_of_levels).await);
    }
    assert!(keys.len() < 2, "the one that is due goes to its queue: {keys:?}");
    assert!(keys.iter().all(|key| stated(key) <= REST), "{keys:?}");
    running.shutdown().await.unwrap();
}
