//! `jobq move`.

use std::time::Duration;

use jobq::Client;
use jobq::engine::Settlement;
use jobq::engine::conformance::{EngineExt as _, open};
use jobq_tests::files::Directory;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, soon};
use tokio::process::Command;

use crate::process::{Ran, command, eventually, jobq, run};

fn moving(source: &str, target: &str, arguments: &[&str]) -> Command {
    let mut command = command(&["move"]);
    command.args(arguments).args([source, target]);
    command
}

fn job() -> Scripted {
    Scripted { steps: vec![Step::Succeed] }
}

/// A file with three jobs that are due, one that waits, one that has failed, a schedule and a pause.
async fn fill(url: &str, namespace: &str) {
    let client = Client::builder(url).namespace(namespace).connect().await.unwrap();
    client.schedule("yearly", job()).cron("0 6 1 1 *").await.unwrap();
    client.enqueue(job()).await.unwrap();
    let engine = open(url, namespace).await.unwrap();
    let mut consumer = engine.consume_from("scripted", 1).await.unwrap();
    let delivery = soon("a job", consumer.next()).await.unwrap().unwrap();
    let (reason, error) = (jobq::FailedReason::Aborted, "no".to_owned());
    let fail = Settlement::Fail { reason, error, attempts: 1 };
    delivery.settle(fail).await.unwrap();
    drop(consumer);
    engine.close().await;
    for delay in [0, 0, 0, 3_600] {
        client.enqueue(job()).delay(Duration::from_secs(delay)).await.unwrap();
    }
    client.admin().pause("scripted", "a move").await.unwrap();
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_moves_to_a_broker() {
    let (mut test, folder) = (TestStore::on(Store::rabbitmq().await).await, Directory::new());
    let (source, target) = (folder.url("jobs.db"), test.store.url.clone());
    fill(&source, &test.store.namespace).await;
    let moving = async |arguments: &[&str]| {
        let mut command = moving(&source, &target, arguments);
        command.args(["--namespace", &test.store.namespace]);
        run(command).await
    };
    let expected = ["QUEUE     READY  WAITING  FAILED", "scripted      3        1       1"];
    assert_eq!(moving(&["--dry-run"]).await.lines(0), expected);
    let plan = moving(&["--dry-run", "--json"]).await.json(0, "move-plan");
    assert_eq!(plan["queues"]["scripted"]["ready"], 3);

    let moved = moving(&["--json"]).await.json(0, "move");
    let figures = ["jobs", "failed", "schedules", "paused", "events"];
    assert_eq!(figures.map(|figure| moved[figure].as_u64().unwrap()), [4, 1, 1, 1, 0], "{moved}");
    assert_eq!(moving(&[]).await.lines(0), ["moved 0 jobs, 0 failed jobs, 1 pauses"]);

    let is_there = |ran: &Ran| ran.out.contains(r#""ready":3"#);
    let there = eventually(&test.store, &["queues", "scripted", "--json"], is_there).await;
    let there = there.json(0, "queues");
    let queue = &there["queues"][0];
    assert_eq!((&queue["failed"], &queue["state"]), (&1.into(), &"paused".into()), "{queue}");
    let ran = jobq(&test.store, &["schedules", "list", "scripted"]).await;
    assert!(ran.lines(0)[1].starts_with("yearly "), "{ran:#?}");
    jobq(&test.store, &["resume", "scripted"]).await.lines(0);
    let retried = jobq(&test.store, &["failed", "retry", "scripted", "--all", "--yes"]).await;
    assert_eq!(retried.code, 0, "{retried:#?}");
    let pool = test.pool().spawn().await.unwrap();
    for _ in 0..4 {
        test.run().await;
        test.end().await;
    }
    pool.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_moved_is_told() {
    let folder = Directory::new();
    let (source, target) = (folder.url("jobs.db"), folder.url("others.db"));
    let ran = run(moving(&source, &target, &[])).await;
    assert!(ran.error(5).contains("jobs.db does not exist"), "{ran:#?}");
    fill(&source, "jobq").await;
    let ran = run(moving(&source, &source, &[])).await;
    assert!(ran.error(2).contains("SOURCE and TARGET are the same"), "{ran:#?}");
    let ran = run(moving(&source, &target, &["--queue", "absent"])).await;
    assert!(ran.error(4).contains("the source has no queue `absent`"), "{ran:#?}");
    let broker = Store::rabbitmq().await;
    let ran = run(moving(&broker.url, &target, &[])).await;
    assert!(ran.error(5).contains("the source does not list its queues"), "{ran:#?}");
    // One queue alone, to another file.
    let ran = run(moving(&source, &target, &["--queue", "scripted"])).await;
    let expected = "moved 4 jobs, 1 failed jobs, 1 schedules, 1 pauses";
    assert_eq!(ran.lines(0), [expected]);
}
