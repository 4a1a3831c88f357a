//! `jobq enqueue` and `jobq publish`.

use std::process::Stdio;

use jobq::{BoxError, State, WorkerPool, job};
use jobq_tests::test_store::{Step, Store, TestStore, soon};
use jobq_tests::{both_engines, on_a_file};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::process::{Ran, jobq, on};

both_engines!(an_enqueued_job_runs, a_published_event_reaches_its_subscriber);

on_a_file!(
    a_payload_is_read_from_standard_input,
    a_job_has_the_options_that_are_given,
    what_is_wrong_is_said,
);

fn steps() -> String {
    serde_json::json!({"steps": [Step::Succeed]}).to_string()
}

async fn an_enqueued_job_runs(store: Store) {
    let mut test = TestStore::on(store).await;
    let ran = jobq(&test.store, &["enqueue", "scripted", "--payload", &steps()]).await;
    let [id] = ran.lines(0)[..] else { panic!("{ran:#?}") };
    assert!(ran.err.contains("no pool works on queue `scripted`"), "{ran:#?}");
    let pool = test.pool().spawn().await.unwrap();
    assert_eq!(test.end().await.to_string(), id);

    let arguments = ["enqueue", "scripted", "--json", "--payload", &steps()];
    let ran = jobq(&test.store, &arguments).await;
    assert_eq!(ran.err, "", "a pool works on the queue");
    let document = ran.json(0, "enqueue");
    assert_eq!((&document["job"], &document["queue"]), (&"scripted".into(), &"scripted".into()));
    assert_eq!(test.end().await.to_string(), document["id"]);
    pool.shutdown().await.unwrap();
}

async fn a_payload_is_read_from_standard_input(store: Store) {
    let mut command = on(&store, &["enqueue", "scripted", "--payload", "-"]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    child.stdin.take().unwrap().write_all(steps().as_bytes()).await.unwrap();
    let ran = Ran::from(child.wait_with_output().await.unwrap());
    assert_eq!(ran.lines(0).len(), 1);
    assert_eq!(store.client().await.counts("scripted").await.unwrap().ready, 1);
}

async fn a_job_has_the_options_that_are_given(store: Store) {
    let id = "01a21a6e-b2b4-74bc-a3f4-43fa36f842c4";
    let payload = r#"{"steps":[{"Abort":"no"}],"n":12345678901234567890123}"#;
    let arguments = ["enqueue", "scripted", "--queue", "scripted", "--id", id];
    let options = ["--header", "tenant=7", "--expires-in", "1h", "--payload", payload];
    let ran = jobq(&store, &[&arguments[..], &options].concat()).await;
    assert_eq!(ran.lines(0), [id]);
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let failed = test.failed("scripted").await;
    assert_eq!(failed.id().to_string(), id);
    assert_eq!(failed.header("tenant"), Some("7"));
    assert_eq!(failed.payload_bytes(), payload.as_bytes());
    assert_eq!(failed.enqueued_by(), Some("jobq"));
    pool.shutdown().await.unwrap();

    let arguments = ["enqueue", "scripted", "--delay", "1h", "--payload", &steps()];
    jobq(&test.store, &arguments).await.lines(0);
    assert_eq!(test.client.counts("scripted").await.unwrap().ready, 0, "it waits");
}

/// Is told of each user.
#[job(on = "user.*")]
async fn audit(user: User, told: State<UnboundedSender<u64>>) -> Result<(), BoxError> {
    Ok(told.send(user.user_id)?)
}

#[derive(Debug, Serialize, Deserialize)]
struct User {
    user_id: u64,
}

async fn a_published_event_reaches_its_subscriber(store: Store) {
    let client = store.client().await;
    let (told, mut users) = unbounded_channel::<u64>();
    let pool = WorkerPool::new(&client).state(told).register::<Audit>().spawn().await.unwrap();
    let event = r#"{"user_id": 7}"#;
    let arguments = ["publish", "user.created", "--payload", event, "--mandatory", "--json"];
    let document = jobq(&store, &arguments).await.json(0, "publish");
    assert_eq!(document["topic"], "user.created");
    assert_eq!(soon("the event", users.recv()).await, Some(7));
    pool.shutdown().await.unwrap();

    let ran = jobq(&store, &["publish", "order.paid", "--mandatory"]).await;
    assert!(ran.error(4).contains("order.paid"), "{ran:#?}");
    assert_eq!(jobq(&store, &["publish", "order.paid"]).await.lines(0).len(), 1);
}

async fn what_is_wrong_is_said(store: Store) {
    let table: [(&[&str], i32, &str); 5] = [
        (&["enqueue", "scripted", "--payload", "{"], 2, "the payload is not valid JSON"),
        (&["enqueue", "no name"], 2, "no name"),
        (&["enqueue", "scripted", "--delay", "soon"], 2, "soon"),
        (&["enqueue", "scripted", "--header", "tenant"], 2, "NAME=VALUE"),
        (&["enqueue"], 2, "<NAME>"),
    ];
    for (arguments, code, said) in table {
        let ran = jobq(&store, arguments).await;
        assert!(ran.error(code).contains(said), "{ran:#?}");
    }
    let mut command = on(&store, &["enqueue", "scripted"]);
    command.env("JOBQ_URL", "amqp://127.0.0.1:1");
    assert!(crate::process::run(command).await.error(5).contains("127.0.0.1:1"));
}
