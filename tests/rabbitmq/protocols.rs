//! Clients of other protocols enqueue jobs and publish events as `docs/wire.md` says.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use jobq::{BoxError, Client, FailedReason, State, WorkerPool, job};
use jobq_tests::broker::{self, Broker};
use jobq_tests::port::free_port;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{soon, until};
use jobq_tests::vhost::Vhost;
use lapin::options::ExchangeBindOptions;
use lapin::types::FieldTable;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// The kind of each function that ran, and its arguments.
type Ran = UnboundedSender<(&'static str, u32, String)>;

#[job(queue = "protocols")]
async fn greet(id: u32, to: String, ran: State<Ran>) -> Result<(), BoxError> {
    Ok(ran.send(("job", id, to))?)
}

#[derive(Debug, Serialize, Deserialize)]
struct Created {
    id: u32,
    to: String,
}

#[job(on = "#.created")]
async fn welcome(event: Created, ran: State<Ran>) -> Result<(), BoxError> {
    Ok(ran.send(("event", event.id, event.to))?)
}

/// The end of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Runs(&'static str),
    Fails(&'static str),
}

/// Sends a message by a client in Python.
async fn send(python: &str, protocol: &str, port: u16, namespace: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/rabbitmq/clients.py");
    let mut command = Command::new(python);
    command.arg(script).arg(protocol).arg(port.to_string()).arg(namespace);
    let sent = command.stdin(Stdio::null()).output().await.expect("Python runs");
    let errors = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success(), "{protocol}: {errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_other_protocols_enqueue_and_publish() {
    let test = "clients_of_other_protocols_enqueue_and_publish";
    let Ok(python) = env::var("JOBQ_TEST_PYTHON") else {
        eprintln!("SKIPPED: {test} needs the clients in Python that ./tests/run --all installs");
        return;
    };
    let (mqtt, stomp) = (free_port(), free_port());
    let files = move |_: &std::path::Path| {
        let listens = format!(
            "mqtt.listeners.tcp.1 = 127.0.0.1:{mqtt}\nstomp.listeners.tcp.1 = 127.0.0.1:{stomp}\n"
        );
        let plugins = "[rabbitmq_mqtt,rabbitmq_stomp].".to_owned();
        vec![("plugins", plugins), ("rabbitmq.conf", listens)]
    };
    let Some(node) = Broker::with_files(test, files).await else { return };
    let amqp = node.host().rsplit(':').next().and_then(|port| port.parse().ok());
    let (namespace, amqp) = (broker::namespace(), amqp.expect("a port"));
    let client = Client::builder(node.url()).namespace(&*namespace).connect().await;
    let client = client.expect("connects");
    let (ran, mut runs) = unbounded_channel();
    let pool = WorkerPool::new(&client).state::<Ran>(ran);
    let pool = pool.register::<Greet>().register::<Welcome>().spawn().await.expect("it starts");
    let raw = Raw::connect(&node.url()).await;
    let (from, events) = ("amq.topic".into(), format!("{namespace}.events"));
    let (options, arguments) = (ExchangeBindOptions::default(), FieldTable::default());
    let key = "#.created".into();
    raw.channel.exchange_bind(events.into(), from, key, options, arguments).await.expect("binds");

    let is_old = node.ctl(&["version"]).await.trim().starts_with("3.");
    let table = [
        // 3.10 has AMQP 1.0 in a plugin, with other addresses.
        ("data", amqp, (!is_old).then_some(End::Runs("job"))),
        ("value", amqp, (!is_old).then_some(End::Fails("send the JSON as one `data` section"))),
        ("mqtt", mqtt, Some(End::Runs("event"))),
        ("stomp", stomp, Some(End::Runs("job"))),
        ("celery", amqp, Some(End::Fails("it is an array; expected an object"))),
    ];
    let failed = client.failed("protocols");
    for (protocol, port, end) in table {
        let Some(end) = end else { continue };
        send(&python, protocol, port, &namespace).await;
        match end {
            End::Runs(what) => {
                let ran = tokio::time::timeout(Duration::from_secs(60), runs.recv()).await;
                let ran = ran.unwrap_or_else(|_| panic!("{protocol}: nothing ran"));
                let expected = (what, 7, "a@example.org".to_owned());
                assert_eq!(ran.expect("the pool runs"), expected, "{protocol}");
            }
            End::Fails(reason) => {
                let job = until("the failed job", async || {
                    failed.list(1).await.expect("lists").into_iter().next()
                });
                let job = job.await;
                assert_eq!(job.reason(), FailedReason::UnreadablePayload, "{protocol}: {job:?}");
                assert!(job.error().contains(reason), "{protocol}: {}", job.error());
                failed.discard(job.id()).await.expect("it is discarded");
            }
        }
    }
    pool.shutdown().await.expect("it ends");
}

/// The jobs of the example in `docs/wire.md`.
mod example {
    use jobq::{BoxError, State, job};
    use serde::{Deserialize, Serialize};

    use super::Ran;

    #[job(queue = "mail")]
    pub(super) async fn welcome(
        user_id: u32,
        email: String,
        ran: State<Ran>,
    ) -> Result<(), BoxError> {
        Ok(ran.send(("welcome", user_id, email))?)
    }

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct UserCreated {
        user_id: u32,
    }

    #[job(on = "user.created")]
    pub(super) async fn audit(event: UserCreated, ran: State<Ran>) -> Result<(), BoxError> {
        Ok(ran.send(("audit", event.user_id, String::new()))?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_in_python_runs_as_it_stands() {
    let test = "the_example_in_python_runs_as_it_stands";
    let Ok(python) = env::var("JOBQ_TEST_PYTHON") else {
        eprintln!("SKIPPED: {test} needs the clients in Python that ./tests/run --all installs");
        return;
    };
    let page = include_str!("../../docs/wire.md");
    let (_, example) = page.split_once("```python\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    // The example is in jobq's own namespace.
    let Some(vhost) = Vhost::of(test).await else { return };
    let client = Client::connect(&vhost.url()).await.expect("connects");
    client.declare_delays().await.expect("declares the levels");
    let (ran, mut runs) = unbounded_channel();
    let pool = WorkerPool::new(&client).state::<Ran>(ran).register::<example::Welcome>();
    let pool = pool.register::<example::Audit>().spawn().await.expect("it starts");
    let mut command = Command::new(python);
    command.args(["-c", example]).env("AMQP_URL", vhost.url()).stdin(Stdio::null());
    let sent = command.output().await.expect("Python runs");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(soon("a job to run", runs.recv()).await.expect("the pool runs"));
    }
    all.sort();
    let welcome = ("welcome", 7, "ann@example.org".to_owned());
    assert_eq!(all, [("audit", 7, String::new()), welcome.clone(), welcome]);
    pool.shutdown().await.expect("it ends");
}
