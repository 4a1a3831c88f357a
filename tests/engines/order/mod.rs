//! Waits end in the order of their deadlines, on both engines.

mod pace;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jobq::engine::Counts;
use jobq::{Client, JobId};
use jobq_tests::both_engines;
use jobq_tests::jobs::reports_runs::{
    Beside, ONCE, PAUSE, ReportsRun, Run, Runs, enqueue, millis, next, reporting_pool, warm_up,
};
use jobq_tests::test_store::{Store, until};

use self::pace::{Pace, Watch, summary};

both_engines!(
    a_thousand_waits_end_in_order_as_far_as_the_store_is_quick,
    // Of `./tests/run --all`, which runs nothing beside it.
    a_thousand_waits_end_in_order_on_a_quiet_machine,
);

/// Twice what the levels count in.
const TIE: Duration = millis(200);

/// A wait, and when the run came that it was for.
#[derive(Debug)]
struct Waited {
    since: Instant,
    due: Instant,
    at: Instant,
}

/// Nothing but a slow store excuses what is out of order.
async fn a_thousand_waits_end_in_order_as_far_as_the_store_is_quick(store: Store) {
    let client = store.client().await;
    let (running, mut runs) = reporting_pool(&client).await;
    warm_up(&client, &mut runs).await;
    in_order(&client, &mut runs, 1).await;
    running.shutdown().await.unwrap();
}

/// What a round cannot do on a machine that is too busy, another one may.
const ROUNDS: usize = 4;

/// The same in each round, and in one of them nothing is out of order.
async fn a_thousand_waits_end_in_order_on_a_quiet_machine(store: Store) {
    let client = store.client().await;
    let (running, mut runs) = reporting_pool(&client).await;
    warm_up(&client, &mut runs).await;
    let mut round = 1;
    while !in_order(&client, &mut runs, round).await {
        assert!(round < ROUNDS, "no round was in order");
        round += 1;
    }
    running.shutdown().await.unwrap();
}

/// A thousand jobs that run once, and others that fail three times each, a part of them in
/// another queue. Each queue runs one job at a time. Fails where a job is late for no reason, and
/// gives whether all ran in order.
async fn in_order(client: &Client, runs: &mut Runs, round: usize) -> bool {
    const FAILURES: u32 = 3;
    let watch = Watch::start(client.clone()).await;
    let mut random = fastrand::Rng::with_seed(7);
    let mut wait = || millis(random.u64(500..25_000));
    // Since when each waits, until when, and how often it is to run.
    let mut expected = HashMap::<JobId, (Instant, Instant, u32)>::new();
    for number in 0..1_000 {
        let since = Instant::now();
        let (id, due) = enqueue(client, ONCE, wait()).await;
        expected.insert(id, (since, due, 1));
        let since = Instant::now();
        let (id, due) = match number % 10 {
            3 => enqueue(client, ReportsRun { failures: FAILURES }, wait()).await,
            7 => enqueue(client, Beside { failures: FAILURES }, wait()).await,
            _ => continue,
        };
        expected.insert(id, (since, due, FAILURES + 1));
    }

    let total: u32 = expected.values().map(|(_, _, runs)| runs).sum();
    let mut attempts = HashMap::<JobId, u32>::new();
    let mut queues = HashMap::<&str, Vec<Waited>>::new();
    for _ in 0..total {
        let Run { id, queue, attempt, at, failed } = next(runs).await;
        let before = attempts.insert(id, attempt).unwrap_or(0);
        assert_eq!(attempt, before + 1, "{id}");
        let (since, due) = match failed {
            Some(failed) => (failed, failed + PAUSE),
            None => (expected[&id].0, expected[&id].1),
        };
        queues.entry(queue).or_default().push(Waited { since, due, at });
    }
    for (id, (_, _, runs)) in &expected {
        assert_eq!(attempts.get(id), Some(runs), "{id}");
    }
    let pace = watch.end().await;
    println!("round {round}: a job was confirmed within {:?}", pace.summary());
    let mut in_order = true;
    for (queue, runs) in &queues {
        let early: Vec<_> = runs.iter().filter(|run| run.at < run.due).collect();
        assert!(early.is_empty(), "{queue}: {early:?}");
        let late = summary(runs.iter().map(|run| run.at - run.due).collect());
        let (excused, misplaced) = misplaced(runs, &pace);
        println!("{queue}: {} runs late by {late:?}, beyond a tie: {excused:?}", runs.len());
        assert!(misplaced.is_empty(), "{queue}: ran so long after a later one: {misplaced:?}");
        in_order &= excused.is_empty();
    }
    for queue in ["reports_run", "beside"] {
        until("all to be done with", || async {
            (client.counts(queue).await.unwrap() == Counts::new(0, 0, 0)).then_some(())
        })
        .await;
    }
    in_order
}

/// Of each job that ran after one whose deadline is more than a tie later, by how much:
/// those that a slow store excuses, and those that nothing does.
fn misplaced(runs: &[Waited], pace: &Pace) -> (Vec<Duration>, Vec<Duration>) {
    let mut latest = runs[0].due;
    let (mut excused, mut misplaced) = (Vec::new(), Vec::new());
    for Waited { since, due, at } in runs {
        latest = latest.max(*due);
        if latest - *due > TIE {
            let excuse = *at - *due <= allowed(pace.slowest(*since, *at));
            if excuse { &mut excused } else { &mut misplaced }.push(latest - *due);
        }
    }
    (excused, misplaced)
}

/// How late a job may be where the store took so long to confirm another one while it
/// waited. None runs early, so only a job that is later than a tie can be out of order by
/// more than that.
///
/// One half of a tie is that waits are rounded up. The other half is for the way: these
/// waits pass through three levels at the most, and each, as enqueueing, ends with a write
/// to the broker's disk, at which what is late stays late. On a machine that is too busy for
/// four of them in that time, they take what they take.
fn allowed(slowest: Duration) -> Duration {
    TIE.max(TIE / 2 + 4 * slowest)
}

#[test]
fn what_is_no_tie_is_misplaced() {
    let since = Instant::now();
    let quick = Pace::of(&[since, since + millis(20)]);
    let slow = Pace::of(&[since, since + millis(10 + 80)]);
    for (pace, due, late, expected) in [
        (&quick, vec![0, 100, 200, 5_000], 900, (vec![], vec![])),
        (&quick, vec![300, 100, 500, 300, 700], 900, (vec![], vec![])),
        (&quick, vec![301, 100], 201, (vec![], vec![201])),
        (&quick, vec![0, 900, 100, 1_000, 500, 900], 900, (vec![], vec![800, 500])),
        (&quick, vec![3_000, 2_000, 1_000], 900, (vec![], vec![1_000, 2_000])),
        (&slow, vec![3_000, 2_000, 1_000], 420, (vec![1_000, 2_000], vec![])),
        (&slow, vec![3_000, 2_000, 1_000], 421, (vec![], vec![1_000, 2_000])),
    ] {
        let at = |time| since + millis(time);
        let waited = |due: &u64| Waited { since, due: at(*due), at: at(*due + late) };
        let runs: Vec<_> = due.iter().map(waited).collect();
        let times = |times: Vec<_>| times.into_iter().map(millis).collect::<Vec<_>>();
        let expected = (times(expected.0), times(expected.1));
        assert_eq!(misplaced(&runs, pace), expected, "{due:?} late by {late}");
    }
}
