//! `jobq topology`.

use std::fs;

use jobq::WorkerPool;
use jobq::admin::Queues;
use jobq_tests::broker;
use jobq_tests::files::Directory;
use jobq_tests::test_store::{Store, TestStore};
use serde_json::Value;

use crate::process::{Ran, eventually, jobq, on, run};
use crate::server::Server;

/// The declarations of the test store's pool as a file, and its path.
fn file(test: &TestStore, folder: &Directory) -> String {
    let path = folder.file("topology.json");
    let declarations = serde_json::to_string(&test.pool().topology().unwrap()).unwrap();
    fs::write(&path, declarations).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_plan_needs_no_broker() {
    let test = TestStore::on(Store::sqlite().await).await;
    let folder = Directory::new();
    let path = file(&test, &folder);
    let ran = run(crate::process::command(&["topology", "plan", &path])).await;
    let printed: Vec<_> = ran.lines(0).into_iter().map(str::to_owned).collect();
    let expected = test.pool().topology().unwrap().to_string();
    assert_eq!(printed, expected.lines().collect::<Vec<_>>());
    let ran = run(crate::process::command(&["topology", "plan", &path, &path, "--json"])).await;
    let document = ran.json(0, "topology-plan");
    // What two programs declare is declared once.
    assert_eq!(document["declarations"].as_array().unwrap().len(), printed.len());

    fs::write(folder.file("other.json"), "{}").unwrap();
    let other = folder.file("other.json");
    let ran = run(crate::process::command(&["topology", "plan", other.to_str().unwrap()])).await;
    assert!(ran.error(2).contains("does not contain declarations"), "{ran:#?}");

    // A file has no exchanges.
    for command in ["diff", "apply", "prune"] {
        let ran = jobq(&test.store, &["topology", command, &path, "--yes"]).await;
        assert!(ran.error(5).contains("only RabbitMQ has a topology"), "{ran:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_is_compared_and_declared() {
    let test = TestStore::on(Store::rabbitmq().await).await;
    let folder = Directory::new();
    let path = file(&test, &folder);
    let diff = jobq(&test.store, &["topology", "diff", &path, "--json"]).await;
    let diff = diff.json(1, "topology-diff");
    let work = format!("queue `{}:scripted`", test.store.namespace);
    assert!(diff["missing"].as_array().unwrap().contains(&work.clone().into()), "{diff:#}");
    // Bindings are shown by the management API alone.
    assert_eq!(diff["unknown"][0]["about"], "bindings");

    // Many queues on a machine that is busy with other tests.
    let apply = ["topology", "apply", &path, "--json"];
    let applied = jobq(&test.store, &apply).await;
    assert_eq!(applied.json(0, "topology-apply")["created"], true);
    let ran = jobq(&test.store, &["topology", "diff", &path]).await;
    let [line] = ran.lines(1)[..] else { panic!("{ran:#?}") };
    assert!(line.starts_with("unknown: bindings: "), "{ran:#?}");
    let ran = jobq(&test.store, &["topology", "apply", &path]).await;
    assert_eq!(ran.lines(0), ["all was there"]);

    let ran = jobq(&test.store, &["topology", "prune", &path, "--yes"]).await;
    assert!(ran.error(5).contains("management API"), "{ran:#?}");
    let other = [&["topology", "diff", &path][..], &["--namespace", "other"]].concat();
    let mut command = crate::process::command(&other);
    command.env("JOBQ_URL", &test.store.url);
    assert!(run(command).await.error(2).contains("which is not in namespace `other`"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_declares_is_pruned() {
    let test = "topology::what_nobody_declares_is_pruned";
    let Some((node, management)) = broker::shared_with_management(test).await else { return };
    let test = TestStore::on(Store::on_broker(node.url())).await;
    let folder = Directory::new();
    let path = file(&test, &folder);
    let managed = async |arguments: &[&str]| -> Ran {
        let arguments = [&["topology"], arguments, &["--management", management]].concat();
        run(on(&test.store, &arguments)).await
    };
    managed(&["apply", &path]).await.lines(0);
    assert_eq!(managed(&["diff", &path]).await.lines(0), ["all is as declared"]);

    // Two queues of earlier versions, of which one has a failed job.
    let client = &test.client;
    client.enqueue_named("old", "used", &Value::Null).await.unwrap();
    let unused = WorkerPool::new(client).register::<Old>().spawn().await.unwrap();
    unused.shutdown().await.unwrap();
    client.admin().pause("old", "it goes").await.unwrap();
    let namespace = &test.store.namespace;
    let name = |part: &str| Value::from(format!("{namespace}:{part}"));
    let is_counted = |ran: &Ran| !ran.out.contains("not counted") && ran.out.contains("1 messages");
    let prune = ["topology", "prune", &path, "--dry-run", "--json", "--management", management];
    let ran = eventually(&test.store, &prune, is_counted).await;
    let planned = ran.json(0, "topology-prune");
    let deleted = planned["deleted"].as_array().unwrap();
    assert!(deleted.contains(&name("old")) && deleted.contains(&name("old@failed")), "{planned:#}");
    assert!(!deleted.contains(&name("scripted")), "{planned:#}");
    let kept = planned["kept"].as_array().unwrap();
    assert!(kept.iter().any(|kept| kept["about"] == name("used@failed")), "{planned:#}");

    let ran = managed(&["prune", &path]).await;
    assert!(ran.error(2).contains("--yes"), "{ran:#?}");
    // A user who may not delete one of them.
    let user = &*format!("{namespace}-user");
    node.ctl(&["add_user", user, "secret"]).await;
    node.ctl(&["set_user_tags", user, "monitoring"]).await;
    node.ctl(&["set_permissions", user, &format!("^{namespace}:.*@"), ".*", ".*"]).await;
    let arguments = [&prune[..3], &["--yes", "--json"], &prune[5..]].concat();
    let mut limited = on(&test.store, &arguments);
    limited.env("JOBQ_URL", format!("amqp://{user}:secret@{}", node.host()));
    let partly = run(limited).await.json(3, "topology-prune");
    let failed = &partly["failed"];
    assert_eq!((failed.as_array().unwrap().len(), &failed[0]["about"]), (1, &name("old")));
    assert!(failed[0]["why"].as_str().unwrap().contains("set_permissions"), "{failed:#}");
    assert!(partly["deleted"].as_array().unwrap().contains(&name("old@failed")), "{partly:#}");

    let pruned = managed(&["prune", &path, "--yes", "--json"]).await.json(0, "topology-prune");
    assert_eq!(pruned["deleted"], Value::from(vec![name("old")]));
    assert_eq!(client.counts("used").await.unwrap().ready, 1);
    let old = client.admin().overview(Queues::one("old")).await.unwrap().queues.remove(0);
    assert!(old.paused == None, "the pause ends with the queue: {old:?}");
    assert_eq!(managed(&["diff", &path]).await.lines(0), ["all is as declared"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dashboard_compares_a_broker_with_files() {
    let test = TestStore::on(Store::rabbitmq().await).await;
    let folder = Directory::new();
    let path = file(&test, &folder);
    let server = Server::start(&test.store, &["--topology", &path]).await;
    let answer = server.get("/doctor").await;
    let work = format!("queue `{}:scripted`", test.store.namespace);
    assert!(answer.contains(&work) && answer.contains("missing</span>"), "{answer}");

    fs::write(&path, "{}").unwrap();
    let ran = jobq(&test.store, &["dashboard", "--topology", &path]).await;
    assert!(ran.error(2).contains("does not contain declarations"), "{ran:#?}");
}

/// A job of an earlier version.
#[jobq::job]
async fn old() -> Result<(), jobq::BoxError> {
    Ok(())
}
