//! What an operator is told at night, when the last pool of a queue dies, and then the broker.

use std::process::Stdio;
use std::time::Duration;

use jobq::admin::{Queues, State};
use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;
use jobq_tests::stage::{Stage, Step, Store, soon, until};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr};

use crate::process::{eventually, jobq, on};

/// `jobq metrics` as a process. Dropping it kills it.
pub(crate) struct Metrics {
    address: String,
    _process: Child,
    /// Kept, since it writes there.
    _said: BufReader<ChildStderr>,
}

impl Metrics {
    /// Starts it on a store, with these further arguments.
    pub(crate) async fn start(store: &Store, arguments: &[&str]) -> Self {
        let all = [&["metrics", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut process = on(store, &all).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        soon("the address", said.read_line(&mut line)).await.unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|line| line.strip_suffix("/metrics")).unwrap().to_owned();
        Self { address, _process: process, _said: said }
    }

    /// The answer to a scrape, with its head.
    pub(crate) async fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        soon("the answer", stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    /// Scrapes until the answer has all these lines.
    async fn says(&self, lines: &[&str]) {
        until("the metrics", async || {
            let answer = self.scrape().await;
            let has = |line: &&str| answer.lines().any(|found| found.starts_with(*line));
            let says = lines.iter().all(has);
            if !says {
                eprintln!("not yet: {answer}");
            }
            says.then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_last_pool_died_and_a_dead_broker_are_told() {
    let test = "a_queue_whose_last_pool_died_and_a_dead_broker_are_told";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    let stage = Stage::on(Store::on_broker(broker.url())).await;
    let pool = stage.pool().spawn().await.unwrap();
    let metrics = Metrics::start(&stage.store, &["--timeout", "1s"]).await;
    // It enqueues nothing, and so knows of no queue by itself.
    let operator = stage.store.client().await;
    let found = async || {
        let overview = operator.admin().overview(Queues::All).await.ok()?;
        overview.queues.iter().find(|queue| queue.queue == "scripted").map(|queue| queue.state)
    };
    until("the pool", async || (found().await == Some(State::Consumed)).then_some(())).await;
    metrics
        .says(&["jobq_pools{queue=\"scripted\"} 1", "jobq_up 1", "jobq_overview_complete 0"])
        .await;

    // The queue is named as long as it exists, and after that for an hour.
    pool.shutdown().await.unwrap();
    stage.enqueue([Step::Succeed]).await;
    metrics
        .says(&[
            "jobq_pools{queue=\"scripted\"} 0",
            "jobq_queue_jobs{queue=\"scripted\",state=\"ready\"} 1",
        ])
        .await;
    assert_eq!(found().await, Some(State::Unattended));
    let check = ["check", "--min-pools", "1"];
    let ran = jobq(&stage.store, &check).await;
    let error = ran.error(2);
    assert!(error.contains("`--queues-from`") && error.contains("`--management`"), "{error}");
    let folder = Directory::new();
    let path = folder.file("queues.json");
    let topology = stage.pool().topology().unwrap();
    std::fs::write(&path, serde_json::to_string(&topology).unwrap()).unwrap();
    let from = ["--queues-from", path.to_str().unwrap()];
    let ran = jobq(&stage.store, &[&check[..], &from].concat()).await;
    let said = "scripted: pools: expected at least 1, found 0";
    assert!(ran.lines(1).contains(&said), "{ran:#?}");
    let api = ["--management", "http://127.0.0.1:1"];
    let ran = jobq(&stage.store, &[&check[..], &api].concat()).await;
    let lines = ran.lines(1);
    assert!(lines.last().unwrap().contains("http://127.0.0.1:1/ cannot be reached"), "{ran:#?}");

    // Somebody who may not ask pools learns that, and not that there is no queue.
    broker.ctl(&["add_user", "eve", "geheim"]).await;
    broker.ctl(&["set_permissions", "eve", "^$", "^$", "^$"]).await;
    let mut store = Store::on_broker(stage.store.url.replace("amqp://", "amqp://eve:geheim@"));
    store.namespace.clone_from(&stage.store.namespace);
    let ran = jobq(&store, &["queues"]).await;
    assert!(ran.error(5).contains("set_permissions"), "{ran:#?}");

    let space = &stage.store.namespace;
    for queue in ["hasty", "scripted"] {
        broker.ctl(&["delete_queue", &format!("{space}:{queue}")]).await;
        broker.ctl(&["delete_queue", &format!("{space}:{queue}@failed")]).await;
    }
    until("the queue to be missing", async || {
        (found().await == Some(State::Missing)).then_some(())
    })
    .await;

    let stranger = stage.store.client().await;
    broker.kill();
    metrics.says(&["HTTP/1.0 503", "jobq_up 0"]).await;
    let admin = stranger.admin();
    let looked = tokio::time::timeout(Duration::from_secs(30), admin.overview(Queues::All));
    let error = looked.await.expect("nobody waits for long").unwrap_err();
    assert!(error.is_timeout() || error.is_connection(), "{error:?}");
    let named = stranger.admin().overview(Queues::one("scripted")).await.unwrap();
    let queue = &named.queues[0];
    assert!(queue.ready.known().is_none() && queue.state == State::Unknown, "{queue:?}");
    eventually(&stage.store, &["check", "scripted", "--min-pools", "1"], |ran| ran.code == 5).await;
}
