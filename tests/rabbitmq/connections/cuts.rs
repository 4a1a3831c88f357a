//! Each fault in each phase of a job's life.

use std::time::Duration;

use jobq_tests::broker;
use jobq_tests::proxy::{Cut, Toward};
use jobq_tests::stage::{soon, until};
use jobq_tests::vhost::Vhost;

use super::scene::{CONCURRENCY, Ending, Scene};

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
    through_all(Fault::Reset, Scene::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_end() {
    through_all(Fault::Ended, Scene::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_broker_hears_half_an_end() {
    let fault = Fault::HalfClosed(Toward::Broker);
    through_all(fault, Scene::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_client_hears_half_an_end() {
    let fault = Fault::HalfClosed(Toward::Client);
    through_all(fault, Scene::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_fall_silent() {
    let scene = Scene::open(&broker::shared().await, "?heartbeat=1").await;
    through_all(Fault::Frozen, scene, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_twice_when_everything_takes_longer() {
    through_all(Fault::Delayed, Scene::open(&broker::shared().await, "").await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_broker_closes_connections() {
    let test = "nothing_is_lost_when_the_broker_closes_connections";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    through_all(Fault::Closed, Scene::open(&vhost.url(), "").await, Some(&vhost)).await;
}

async fn through_all(fault: Fault, mut scene: Scene, vhost: Option<&Vhost>) {
    for phase in PHASES {
        play(fault, phase, &mut scene, vhost).await;
        scene.proxy.thaw();
        scene.proxy.delay(Duration::ZERO);
        scene.gate(true);
        scene.settle_down().await;
    }
    let report = scene.close(&format!("{fault:?}")).await;
    if fault == Fault::Delayed {
        assert_eq!((report.duplicates, report.in_doubt.0, report.refused), (0, 0, 0), "{report}");
    } else {
        assert!(report.duplicates > 0, "the jobs in hand at a cut run again: {report}");
    }
}

async fn play(fault: Fault, phase: Phase, scene: &mut Scene, vhost: Option<&Vhost>) {
    println!("{fault:?} in {phase:?}");
    match phase {
        Phase::Enqueue(toward) => {
            scene.proxy.freeze(toward);
            let answers = scene.enqueue([Ending::Complete; 10]);
            on_its_way(scene, toward).await;
            strike(fault, scene, vhost).await;
            // Each was answered; the ledger has what it was told.
            soon("the answers", answers.join_all()).await;
        }
        Phase::Consume => {
            held(scene, &[Ending::Complete; 3 * CONCURRENCY]).await;
            strike(fault, scene, vhost).await;
        }
        Phase::Settle => {
            use Ending::{Complete, Fail};
            held(scene, &[Complete, Fail, Complete, Fail, Complete, Fail]).await;
            scene.proxy.freeze(Toward::Broker);
            scene.gate(true);
            on_its_way(scene, Toward::Broker).await;
            strike(fault, scene, vhost).await;
        }
        Phase::Republish(toward) => {
            use Ending::{Abort, Move};
            held(scene, &[Move, Abort, Move, Abort, Move, Abort]).await;
            scene.proxy.freeze(toward);
            scene.gate(true);
            on_its_way(scene, toward).await;
            strike(fault, scene, vhost).await;
        }
        Phase::Shutdown => {
            held(scene, &[Ending::Complete; 3 * CONCURRENCY]).await;
            let pool = scene.take_pool();
            let shutdown = tokio::spawn(async move { pool.shutdown().await });
            strike(fault, scene, vhost).await;
            scene.gate(true);
            soon("the end of the pool", shutdown).await.unwrap().unwrap();
            scene.start_pool().await;
        }
    }
}

/// Enqueues jobs, and returns when as many run as may.
async fn held(scene: &mut Scene, endings: &[Ending]) {
    scene.gate(false);
    let jobs = scene.enqueue(endings.iter().copied());
    soon("the jobs to be accepted", jobs.join_all()).await;
    scene.runs(CONCURRENCY.min(endings.len())).await;
}

/// Returns when something that goes there is kept.
async fn on_its_way(scene: &Scene, toward: Toward) {
    until("something under way", async || (scene.proxy.kept(toward) > 0).then_some(())).await;
}

async fn strike(fault: Fault, scene: &Scene, vhost: Option<&Vhost>) {
    if fault != Fault::Delayed {
        scene.ledger.kills_the_broker();
    }
    match fault {
        Fault::Closed => vhost.unwrap().close_connections().await,
        Fault::Reset => scene.proxy.cut(Cut::Reset).await,
        Fault::Ended => scene.proxy.cut(Cut::End).await,
        Fault::HalfClosed(toward) => scene.proxy.half_close(toward),
        Fault::Frozen => {
            let before = scene.proxy.accepted();
            scene.proxy.freeze(Toward::Broker);
            scene.proxy.freeze(Toward::Client);
            // Both connections are given up, and made anew.
            until("heartbeats to be missed", async || {
                (scene.proxy.accepted() >= before + 2).then_some(())
            })
            .await;
        }
        Fault::Delayed => scene.proxy.delay(Duration::from_millis(40)),
    }
    scene.proxy.thaw();
}
