//! Waits that a broker's restart falls into.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use jobq::{Client, JobId};
use jobq_tests::broker::Broker;
use jobq_tests::jobs::reports_runs::{ONCE, enqueue, millis, next, reporting_pool, warm_up};
use jobq_tests::test_store::{DEADLINE, Store};

/// A broker that has just started may pass a message on to a queue that is not up yet. It
/// waits for the answer for three minutes before it passes it on again, and here for half a
/// second.
fn pass_on_soon(node: &Broker) {
    node.set("dead_letter_worker_publisher_confirm_timeout", 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_go_on_while_there_is_no_broker() {
    let Some(node) = Broker::to_kill("waits_go_on_while_there_is_no_broker").await else {
        return;
    };
    pass_on_soon(&node);
    let client = Store::on_broker(node.url()).client().await;
    let (running, mut runs) = reporting_pool(&client).await;
    warm_up(&client, &mut runs).await;
    // A quorum queue whose broker is killed in the first moments of its life may not come
    // back, and nothing tells when they are over.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut due = HashMap::new();
    for wait in 0..60 {
        let (id, time) = enqueue(&client, ONCE, millis(1_500 + wait * 150)).await;
        due.insert(id, time);
    }
    let mut seen = HashSet::new();
    while seen.len() < 5 {
        seen.insert(next(&mut runs).await.id);
    }
    node.kill();
    node.restart().await;
    while seen.len() < due.len() {
        let run = next(&mut runs).await;
        assert!(run.at >= due[&run.id], "{:?} early", due[&run.id] - run.at);
        seen.insert(run.id);
    }
    running.shutdown().await.unwrap();
}

/// Ten jobs whose waits are about as long as this, and their deadlines.
async fn enqueue_ten(client: &Client, wait: Duration) -> HashMap<JobId, Instant> {
    let mut deadlines = HashMap::new();
    for number in 0..10 {
        deadlines.extend([enqueue(client, ONCE, wait + millis(number * 130)).await]);
    }
    deadlines
}

/// Jobs that are enqueued after the restart tell by their order what those from before it
/// still had to wait: were it their whole wait again, they would come after them.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_begin_a_wait_anew() {
    const OVERDUE: Duration = Duration::from_secs(20);
    // Twice 16 to the power of two tenths of a second: almost all of it is waited in one level. What
    // waits in several goes on when the broker is back, and so is as late as that took.
    const LATER: Duration = Duration::from_millis(51_200);
    const MARGIN: Duration = Duration::from_secs(10);
    let Some(node) = Broker::to_kill("a_restart_does_not_begin_a_wait_anew").await else {
        return;
    };
    // So it does within the margin.
    pass_on_soon(&node);
    let client = Store::on_broker(node.url()).client().await;
    let (running, mut runs) = reporting_pool(&client).await;
    warm_up(&client, &mut runs).await;
    // As above.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let overdue = enqueue_ten(&client, OVERDUE).await;
    let later = enqueue_ten(&client, LATER).await;
    let last = |deadlines: &HashMap<_, Instant>| *deadlines.values().max().unwrap();
    node.stop();
    // No event, but the time itself.
    tokio::time::sleep_until(last(&overdue).into()).await;
    node.restart().await;

    let back = Instant::now();
    let (after_overdue, _) = enqueue(&client, ONCE, MARGIN).await;
    let rest = last(&later).saturating_duration_since(Instant::now());
    let (after_later, end) = enqueue(&client, ONCE, rest + MARGIN).await;
    let (mut order, mut latest) = (Vec::new(), Duration::ZERO);
    while order.last() != Some(&after_later) {
        let rest = end.saturating_duration_since(Instant::now());
        let run = tokio::time::timeout(rest + DEADLINE, runs.recv()).await;
        let run = run.expect("none is lost").unwrap();
        if let Some(due) = overdue.get(&run.id).or(later.get(&run.id)) {
            assert!(run.at >= *due, "{:?} early", *due - run.at);
            latest = latest.max(run.at - back.max(*due));
        }
        // A job may run twice where a broker ends.
        if !order.contains(&run.id) {
            order.push(run.id);
        }
    }
    println!("{latest:?} after its time, or after the broker was back");
    let place = |id| order.iter().position(|other| other == id);
    for (jobs, after) in [(&overdue, &after_overdue), (&later, &after_later)] {
        for id in jobs.keys() {
            assert!(place(id).is_some() && place(id) < place(after), "{id} of {order:?}");
        }
    }
    running.shutdown().await.unwrap();
}
