//! Worker processes die, one after the other, and others take their place.

use std::collections::VecDeque;
use std::time::Duration;

use jobq_tests::both_engines;
use jobq_tests::jobs::soak_job::Load;
use jobq_tests::ledger::Ledger;
use jobq_tests::spans;
use jobq_tests::test_store::Store;

use super::{Books, Process, is_full, place, rounds};

both_engines!(nothing_is_lost_when_workers_die, nothing_runs_twice_when_workers_are_stopped);

const PROCESSES: usize = 4;
const PAUSE: Duration = Duration::from_secs(1);

async fn nothing_is_lost_when_workers_die(store: Store) {
    rotate("workers die", store, rounds(6, 60), |process, ledger| {
        ledger.kills(&process.name);
        process.kill();
    })
    .await;
}

/// A deploy: each stops at SIGTERM. Nobody is killed, so that any duplicate is an error.
async fn nothing_runs_twice_when_workers_are_stopped(store: Store) {
    rotate("workers are stopped", store, rounds(6, 60), |process, _| process.terminate()).await;
}

async fn rotate(what: &str, store: Store, rounds: usize, end: impl Fn(Process, &Ledger)) {
    // What a dead process had in hand on a file comes back when this is over; the default
    // is 30 s.
    let lease = Duration::from_secs(if is_full() { 30 } else { 10 });
    let client = store.client().await;
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "client").unwrap();
    let path = books.path.clone();
    let start = |number: usize| Process::start(&store, &path, &format!("w{number}"), lease, 0);
    let mut processes: VecDeque<_> = (0..PROCESSES).map(start).collect();

    let load = Load::start(&client, &ledger, 10);
    for number in 0..rounds {
        tokio::time::sleep(PAUSE).await;
        let process = processes.pop_front().unwrap();
        books.until("a worker runs nothing", |account| account.has_begun(&process.name)).await;
        end(process, &ledger);
        processes.push_back(start(PROCESSES + number));
    }
    load.stop().await;
    let what = format!("{what}, {}", place(&store));
    let report = books.close(&what, rounds, &client).await;
    processes.iter_mut().for_each(Process::ready);
    processes.into_iter().for_each(Process::terminate);
    report.assert_nothing_lost();
    if let Some(missing) = spans::missing(&books.account, &books.path) {
        println!("ends of attempts that the spans of killed workers lack: {missing}");
        // Each began again.
        assert!(missing <= report.duplicates, "{missing} of {report}");
    }
    let missing = jobq_tests::increments::missing(&books.account, &books.path);
    println!("ends of attempts that the metrics of killed workers lack: {missing}");
    // Each began again.
    assert!(missing <= report.duplicates, "{missing} of {report}");
}
