//! `jobq move`.

use std::time::Duration;

use jobq::Client;
use jobq::engine::Settlement;
use jobq::engine::conformance::{EngineExt as _, open};
use jobq_tests::broker;
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

/// Three jobs that are due, one that waits, one that has failed, a schedule and a pause.
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
    let folder = Directory::new();
    all_moves(&folder.url("jobs.db"), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_moves_to_another() {
    let managed = broker::shared_with_management("a_broker_moves_to_another").await;
    let Some((node, management)) = managed else { return };
    all_moves(&node.url(), Some(management)).await;
}

async fn all_moves(source: &str, management: Option<&str>) {
    let mut test = TestStore::on(Store::rabbitmq().await).await;
    let target = test.store.url.clone();
    fill(source, &test.store.namespace).await;
    let moving = async |arguments: &[&str]| {
        let mut command = moving(source, &target, arguments);
        command.args(["--namespace", &test.store.namespace]);
        if let Some(management) = management {
            command.args(["--management", management]);
        }
        run(command).await
    };
    let plan = moving(&["--dry-run", "--json"]).await.json(0, "move-plan");
    let planned = &plan["queues"]["scripted"];
    assert_eq!((&planned["ready"], &planned["failed"]), (&3.into(), &1.into()), "{plan}");
    let table = moving(&["--dry-run"]).await;
    let row = table.lines(0)[1].split_whitespace().collect::<Vec<_>>();
    assert_eq!((row[0], row[1], row[3]), ("scripted", "3", "1"), "{table:#?}");

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

#[tokio::test]
async fn what_the_target_refuses_stays_and_holds_up_no_other() {
    let (store, folder) = (Store::rabbitmq().await, Directory::new());
    let source = folder.url("jobs.db");
    let client = Client::builder(&source).namespace(&store.namespace).connect().await.unwrap();
    for days in [4_000, 0] {
        client.enqueue(job()).delay(Duration::from_secs(days * 86_400)).await.unwrap();
    }
    let mut moving = moving(&source, &store.url, &["--json"]);
    moving.args(["--namespace", &store.namespace]);
    let moved = run(moving).await.json(3, "move");
    assert_eq!((&moved["jobs"], &moved["refused"]), (&1.into(), &1.into()), "{moved}");
    let refusal = moved["refusals"][0]["error"].as_str().unwrap();
    assert!(refusal.contains("exceeds"), "{refusal}");
    let counts = client.counts("scripted").await.unwrap();
    assert_eq!(counts, jobq::admin::Counts::new(0, 1, 0));
    client.close().await;
}
