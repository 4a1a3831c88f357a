//! Each fault in each phase of a job's life.

use std::time::Duration;

use jobq_tests::broker;
use jobq_tests::proxy::{Cut, Toward};
use jobq_tests::test_store::{soon, until};
use jobq_tests::vhost::Vhost;

use super::proxied::{CONCURRENCY, Ending, ProxiedStore};

/// What happens to all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The broker closes them.
    Closed,
    /// They are reset.
    Reset,
    /// They end in good order, but for AMQP.
    Ended,
    /// The broker hears that nothing more comes.
    HalfClosed(Toward),
    /// Nothing passes in either direction any more, and nobody says so.
    Frozen,
    /// Everything takes longer. Nothing may run twice for that.
    Delayed,
}

/// What is under way when it happens.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Jobs are enqueued, and are on their way there, or their confirms on the way back.
    Enqueue(Toward),
    /// Jobs run, and others are prefetched.
    Consume,
    /// Acknowledgements are on their way, of jobs that completed and that wait in a tier.
    Settle,
    /// Jobs are published again, or the confirms of that are on their way.
    Republish(Toward),
    /// The pool shuts down while jobs run.
    Shutdown,
}

const PHASES: [Phase; 7] = [
    Phase::Enqueue(Toward::Broker),
    Phase::Enqueue(Toward::Client),
    Phase::Consume,
    Phase::Settle,
    Phase::Republish(Toward::Broker),
    Phase::Republish(Toward::Client),
    Phase::Shutdown,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_are_reset() {
    through_all(Fault::Reset, ProxiedStore::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_end() {
    through_all(Fault::Ended, ProxiedStore::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_broker_hears_half_an_end() {
    let fault = Fault::HalfClosed(Toward::Broker);
    through_all(fault, ProxiedStore::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_client_hears_half_an_end() {
    let fault = Fault::HalfClosed(Toward::Client);
    through_all(fault, ProxiedStore::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_fall_silent() {
    let test = ProxiedStore::open(&broker::shared().await, "?heartbeat=1").await;
    through_all(Fault::Frozen, test, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_twice_when_everything_takes_longer() {
    through_all(Fault::Delayed, ProxiedStore::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_broker_closes_connections() {
    let test = "nothing_is_lost_when_the_broker_closes_connections";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    through_all(Fault::Closed, ProxiedStore::open(&vhost.url(), "").await, Some(&vhost)).await;
}

async fn through_all(fault: Fault, mut test: ProxiedStore, vhost: Option<&Vhost>) {
    for phase in PHASES {
        play(fault, phase, &mut test, vhost).await;
        test.proxy.thaw();
        test.proxy.delay(Duration::ZERO);
        test.gate(true);
        test.settle_down().await;
    }
    let report = test.close(&format!("{fault:?}")).await;
    if fault == Fault::Delayed {
        assert_eq!((report.duplicates, report.in_doubt.0, report.refused), (0, 0, 0), "{report}");
    } else {
        assert!(report.duplicates > 0, "the jobs in hand at a cut run again: {report}");
    }
}

async fn play(fault: Fault, phase: Phase, test: &mut ProxiedStore, vhost: Option<&Vhost>) {
    println!("{fault:?} in {phase:?}");
    match phase {
        Phase::Enqueue(toward) => {
            test.proxy.freeze(toward);
            let answers = test.enqueue([Ending::Complete; 10]);
            on_its_way(test, toward).await;
            strike(fault, test, vhost).await;
            // Each was answered; the ledger has what it was told.
            soon("the answers", answers.join_all()).await;
        }
        Phase::Consume => {
            held(test, &[Ending::Complete; 3 * CONCURRENCY]).await;
            strike(fault, test, vhost).await;
        }
        Phase::Settle => {
            use Ending::{Complete, Fail};
            held(test, &[Complete, Fail, Complete, Fail, Complete, Fail]).await;
            test.proxy.freeze(Toward::Broker);
            test.gate(true);
            on_its_way(test, Toward::Broker).await;
            strike(fault, test, vhost).await;
        }
        Phase::Republish(toward) => {
            use Ending::{Abort, Move};
            held(test, &[Move, Abort, Move, Abort, Move, Abort]).await;
            test.proxy.freeze(toward);
            test.gate(true);
            on_its_way(test, toward).await;
            strike(fault, test, vhost).await;
        }
        Phase::Shutdown => {
            held(test, &[Ending::Complete; 3 * CONCURRENCY]).await;
            let pool = test.take_pool();
            let shutdown = tokio::spawn(async move { pool.shutdown().await });
            strike(fault, test, vhost).await;
            test.gate(true);
            soon("the end of the pool", shutdown).await.unwrap().unwrap();
            test.start_pool().await;
        }
    }
}

/// Enqueues jobs, and returns when as many run as may.
async fn held(test: &mut ProxiedStore, endings: &[Ending]) {
    test.gate(false);
    let jobs = test.enqueue(endings.iter().copied());
    soon("the jobs to be accepted", jobs.join_all()).await;
    test.runs(CONCURRENCY.min(endings.len())).await;
}

/// Returns when something that goes there is kept.
async fn on_its_way(test: &ProxiedStore, toward: Toward) {
    until("something under way", async || (test.proxy.kept(toward) > 0).then_some(())).await;
}

async fn strike(fault: Fault, test: &ProxiedStore, vhost: Option<&Vhost>) {
    if fault != Fault::Delayed {
        test.ledger.kills_the_broker();
    }
    match fault {
        Fault::Closed => vhost.unwrap().close_connections().await,
        Fault::Reset => test.proxy.cut(Cut::Reset).await,
        Fault::Ended => test.proxy.cut(Cut::End).await,
        Fault::HalfClosed(toward) => test.proxy.half_close(toward),
        Fault::Frozen => {
            let before = test.proxy.accepted();
            test.proxy.freeze(Toward::Broker);
            test.proxy.freeze(Toward::Client);
            // Both connections are given up, and made anew.
            until("heartbeats to be missed", async || {
                (test.proxy.accepted() >= before + 2).then_some(())
            })
            .await;
        }
        Fault::Delayed => test.proxy.delay(Duration::from_millis(40)),
    }
    test.proxy.thaw();
}
