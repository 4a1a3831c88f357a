//! A broker without classic queues, which takes TLS alone and sets the timestamps of messages itself.

use std::time::{Duration, Instant};

use jobq::admin::Queues;
use jobq::{ErrorKind, FindingKind, Severity};
use jobq_tests::hardened::{Hardened, NAMESPACES, PASSWORD};
use jobq_tests::test_store::{Scripted, Step, Store, TestStore};

use crate::{pause, permissions};

/// Side by side, since the node is this test's own, and its restart last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_needs_classic_queues() {
    let sets = permissions::sets(NAMESPACES);
    let Some(broker) = Hardened::start("nothing_needs_classic_queues", &sets).await else {
        return;
    };
    tokio::join!(
        users_with_few_permissions(broker.store()),
        a_dead_client_holds_its_lock_for_some_seconds(&broker),
        the_doctor_tells(broker.store()),
        control_queues_end_with_their_clients(&broker),
    );
    pause::outlives_restarts(broker.broker(), broker.store(), &[true]).await;

    // Each engine tries it on a connection of its own, and no other connection ends.
    let log = broker.broker().log();
    let lines: Vec<_> = log.lines().collect();
    let refusals = lines.windows(2).filter(|lines| lines[1].contains("'rabbit_classic_queue'"));
    let mut count = 0;
    for lines in refusals {
        assert!(lines[0].contains("(queue types)"), "{lines:?}");
        count += 1;
    }
    assert!(count > 0, "{log}");
}

async fn users_with_few_permissions(store: Store) {
    let test = permissions::declared(store).await;
    let mut users = Vec::new();
    for (set, _) in permissions::sets(NAMESPACES) {
        users.push((set, test.store.client_as(set, PASSWORD).await));
    }
    permissions::each_set_lets_through(test, users).await;
}

/// What another client holds is in use, and free some seconds after its end.
async fn a_dead_client_holds_its_lock_for_some_seconds(broker: &Hardened) {
    let test = TestStore::on(broker.store()).await;
    let pool = test.pool().spawn().await.unwrap();
    let id = test.enqueue([Step::Abort("no".into())]).await;
    assert_eq!(test.failed("scripted").await.id(), id);
    pool.shutdown().await.unwrap();

    let raw = broker.raw(&test.store).await;
    let lock = format!("{}:scripted@failed.lock", test.store.namespace);
    raw.declare_quorum(&lock, &[("x-max-length", 7), ("x-expires", 6_000)]).await;
    let consumer = raw.consume(&lock, "holder").await;

    let impatient = test.store.client_within(Duration::from_secs(4)).await;
    let error = impatient.failed("scripted").list(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(&lock), "{error}");
    drop((consumer, raw));
    let dead = Instant::now();
    assert_eq!(test.client.failed("scripted").list(9).await.unwrap().len(), 1);
    assert!(dead.elapsed() > Duration::from_secs(2), "it was not held: {:?}", dead.elapsed());
    // A client that ends in order gives it up at once.
    let again = Instant::now();
    assert_eq!(impatient.failed("scripted").list(9).await.unwrap().len(), 1);
    assert!(again.elapsed() < Duration::from_secs(5), "{:?}", again.elapsed());
}

async fn the_doctor_tells(store: Store) {
    let client = store.client().await;
    client.declare::<Scripted>().await.unwrap();
    let report = client.doctor().job::<Scripted>().await.unwrap();
    assert!(report.is_sound(), "{report}");
    assert!(report.version().is_some_and(|version| version.starts_with("4.")), "{report}");
    let told = |found: &&jobq::Finding| found.kind() == FindingKind::QueueTypes;
    let told: Vec<_> = report.findings().iter().filter(told).collect();
    let [finding] = &told[..] else { panic!("{report}") };
    assert_eq!(finding.severity(), Severity::Note);
    assert!(finding.what().contains("queue_types.classic.enabled"), "{report}");
}

/// A client that ends in order leaves no queue behind.
async fn control_queues_end_with_their_clients(broker: &Hardened) {
    let store = broker.store();
    let queues = async || {
        let listed = broker.broker().ctl(&["list_queues", "name"]).await;
        let prefix = format!("{}.control.", store.namespace);
        listed.lines().filter(|name| name.starts_with(&prefix)).count()
    };
    let client = store.client().await;
    client.admin().pools(Queues::All, Duration::from_secs(5)).await.unwrap();
    assert_eq!(queues().await, 1);
    client.close().await;
    assert_eq!(queues().await, 0);
}
