//! The nights of an operator: each trouble is told.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use jobq::admin::{Passage, Queues, State};
use jobq::engine::conformance::{EngineExt as _, open};
use jobq::{Client, Clock};
use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Step, Store, TestStore, soon, until};
use jobq_tests::vhost::Vhost;
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;

use crate::control::Held;
use crate::process::{eventually, jobq, on};
use crate::server;

/// `jobq metrics` as a process. Dropping it kills it.
pub(crate) struct Metrics {
    address: String,
    _process: Child,
    /// Its log.
    said: LogCapture,
}

impl Metrics {
    /// Starts it on a store, with these further arguments.
    pub(crate) async fn start(store: &Store, arguments: &[&str]) -> Self {
        let all = [&["metrics", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut process = on(store, &all).stderr(Stdio::piped()).spawn().unwrap();
        let said = LogCapture::default();
        let (mut log, mut writer) = (process.stderr.take().unwrap(), said.clone());
        tokio::spawn(async move {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = log.read(&mut part).await {
                std::io::Write::write_all(&mut writer, &part[..read]).unwrap();
            }
        });
        let address = until("the address", async || {
            let text = said.text();
            let (_, address) = text.split_once("listening on http://")?;
            Some(address.split_once("/metrics\n")?.0.to_owned())
        })
        .await;
        Self { address, _process: process, said }
    }

    /// The answer to a scrape, with its head.
    pub(crate) async fn scrape(&self) -> String {
        server::get(&self.address, "/metrics").await
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
async fn a_queue_whose_last_pool_died_is_told() {
    let Some(vhost) = Vhost::of("a_queue_whose_last_pool_died_is_told").await else {
        return;
    };
    let test = TestStore::on(Store::on_broker(vhost.url())).await;
    let pool = test.pool().spawn().await.unwrap();
    let metrics = Metrics::start(&test.store, &["--timeout", "1s"]).await;
    // It enqueues nothing, and so knows of no queue by itself.
    let operator = test.store.client().await;
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
    test.enqueue([Step::Succeed]).await;
    metrics
        .says(&[
            "jobq_pools{queue=\"scripted\"} 0",
            "jobq_queue_jobs{queue=\"scripted\",state=\"ready\"} 1",
        ])
        .await;
    assert_eq!(found().await, Some(State::Unattended));
    let check = ["check", "--min-pools", "1"];
    let ran = jobq(&test.store, &check).await;
    let error = ran.error(2);
    assert!(error.contains("`--queues-from`") && error.contains("`--management`"), "{error}");
    let folder = Directory::new();
    let path = folder.file("queues.json");
    let topology = test.pool().topology().unwrap();
    std::fs::write(&path, serde_json::to_string(&topology).unwrap()).unwrap();
    let from = ["--queues-from", path.to_str().unwrap()];
    let ran = jobq(&test.store, &[&check[..], &from].concat()).await;
    let said = "scripted: pools: expected at least 1, found 0";
    assert!(ran.lines(1).contains(&said), "{ran:#?}");
    let api = ["--management", "http://127.0.0.1:1"];
    let ran = jobq(&test.store, &[&check[..], &api].concat()).await;
    let lines = ran.lines(1);
    assert!(lines.last().unwrap().contains("cannot reach http://127.0.0.1:1/"), "{ran:#?}");
    let ran = jobq(&test.store, &[&check[..], &api, &["--json"]].concat()).await;
    let document = ran.json(1, "check");
    let incomplete = document["incomplete"].as_str().unwrap_or_default();
    assert!(incomplete.contains("cannot reach http://127.0.0.1:1/"), "{document}");

    // Somebody who may not ask pools learns that, and not that there is no queue.
    let eve = &*test.store.namespace;
    vhost.node().ctl(&["add_user", eve, "geheim"]).await;
    vhost.permit(eve, ["^$"; 3]).await;
    let url = test.store.url.replace("amqp://", &format!("amqp://{eve}:geheim@"));
    let mut store = Store::on_broker(url);
    store.namespace.clone_from(&test.store.namespace);
    let ran = jobq(&store, &["queues"]).await;
    assert!(ran.error(5).contains("set_permissions"), "{ran:#?}");

    // It would declare them again.
    soon("the client to close", test.client.close()).await;
    let (space, raw) = (&test.store.namespace, Raw::connect(&vhost.url()).await);
    for queue in ["hasty", "hasty@failed", "scripted", "scripted@failed"] {
        raw.delete(&format!("{space}:{queue}")).await;
    }
    until("the queue to be missing", async || {
        (found().await == Some(State::Missing)).then_some(())
    })
    .await;
}

/// The end of a night.
struct Night<'n> {
    /// The limits of a check that fails, its exit code, and what it says.
    check: &'n [&'n str],
    code: i32,
    says: &'n str,
    /// The scraped lines: alerts stand on them.
    metrics: &'n [&'n str],
    /// The words of a line in the log of the process that is scraped.
    log: &'n [&'n str],
}

/// Those who watch a broker: with the management API, and without.
struct Watch<'w> {
    store: &'w Store,
    by: Vec<(Metrics, Vec<&'w str>)>,
}

impl<'w> Watch<'w> {
    async fn start(store: &'w Store, management: &'w str) -> Self {
        let api = vec!["--management", management];
        let mut by = Vec::new();
        // Without the API, the queue is named.
        for (metrics, check) in [(&api[..], api.clone()), (&[], vec!["scripted"])] {
            let all = [&["--timeout", "1s"], metrics].concat();
            by.push((Metrics::start(store, &all).await, check));
        }
        Self { store, by }
    }

    async fn tells(&self, night: &Night<'_>) {
        for (metrics, arguments) in &self.by {
            metrics.says(night.metrics).await;
            let check = [&["check"], &arguments[..], night.check].concat();
            let says = |text: &str| text.contains(night.says);
            eventually(self.store, &check, |ran| {
                ran.code == night.code && (says(&ran.out) || says(&ran.err))
            })
            .await;
            until("the line in the log", async || {
                let lines = metrics.said.lines(night.log);
                assert!(lines.len() < 2, "it is told once: {lines:#?}");
                lines.first().cloned()
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_night_is_told_by_a_check_a_metric_and_a_log() {
    let test = "each_night_is_told_by_a_check_a_metric_and_a_log";
    let Some((broker, management)) = Broker::with_management(test).await else {
        return;
    };
    let test = TestStore::on(Store::on_broker(broker.url())).await;
    let clock = Clock::stopped_at(SystemTime::now());
    let builder = Client::builder(&test.store.url).namespace(&test.store.namespace);
    let client = builder.clock(clock.clone()).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    let watch = Watch::start(&test.store, &management).await;

    // Jobs are taken ahead and stand, beside a pool that is idle.
    let engine = open(&test.store.url, &test.store.namespace).await.unwrap();
    let held = engine.admin().join(Held::with(3)).await.unwrap();
    watch
        .tells(&Night {
            check: &["--waited-max", "1h"],
            code: 1,
            says: "scripted: waited: expected at most 1h, found unknown (a pool whose slots are held",
            metrics: &["jobq_queue_state{queue=\"scripted\",state=\"withheld\"} 1"],
            log: &["WARN", "queue in trouble", "\"scripted\"", "has taken jobs ahead"],
        })
        .await;
    drop(held);
    soon("the engine to close", engine.close()).await;

    // Waits stop.
    let reaches = async |expected: Passage, step: u64| {
        until("what is known of waiting jobs", async || {
            clock.advance(Duration::from_secs(step));
            let overview = test.client.admin().overview(Queues::one("scripted")).await.ok()?;
            (overview.queues[0].waits == Some(expected)).then_some(())
        })
        .await;
    };
    reaches(Passage::Passing, 1).await;
    let workers = |call: &str| {
        let all = "supervisor:which_children(rabbit_fifo_dlx_sup)";
        format!("[sys:{call}(P) || {{_, P, _, _}} <- {all}].")
    };
    broker.ctl(&["eval", &workers("suspend")]).await;
    reaches(Passage::Stuck, 10).await;
    watch
        .tells(&Night {
            check: &["--failed-max", "100"],
            code: 1,
            says: "scripted: waiting jobs are stuck, as 1 of its pools report",
            metrics: &[
                "jobq_waits_stuck{queue=\"scripted\"} 1",
                "jobq_waits_late{queue=\"scripted\"} 1",
            ],
            log: &["WARN", "queue in trouble", "\"scripted\"", "do not come through"],
        })
        .await;
    let ran = jobq(&test.store, &["queues", "scripted"]).await;
    assert!(ran.lines(0)[1].ends_with("  consumed, waits stuck"), "{ran:#?}");
    broker.ctl(&["eval", &workers("resume")]).await;

    // The last pool dies.
    pool.shutdown().await.unwrap();
    test.enqueue([Step::Succeed]).await;
    watch
        .tells(&Night {
            check: &["--min-pools", "1"],
            code: 1,
            says: "scripted: pools: expected at least 1, found 0",
            metrics: &[
                "jobq_pools{queue=\"scripted\"} 0",
                "jobq_queue_jobs{queue=\"scripted\",state=\"ready\"} 1",
            ],
            log: &["WARN", "queue in trouble", "\"scripted\"", "no pool takes them"],
        })
        .await;
    // Nobody knows whether what waits comes through.
    let ran = jobq(&test.store, &["queues", "scripted"]).await;
    assert!(ran.err.contains("? waits of scripted: no pool reports it"), "{ran:#?}");

    // The broker dies.
    let stranger = test.store.client().await;
    broker.kill();
    watch
        .tells(&Night {
            check: &["--failed-max", "0"],
            code: 5,
            says: "",
            metrics: &["HTTP/1.0 503", "jobq_up 0"],
            log: &["ERROR", "metrics unavailable"],
        })
        .await;
    eventually(&test.store, &["check", "scripted", "--min-pools", "1"], |ran| ran.code == 5).await;
    let admin = stranger.admin();
    let looked = tokio::time::timeout(Duration::from_secs(30), admin.overview(Queues::All));
    let error = looked.await.expect("nobody waits for long").unwrap_err();
    assert!(error.is_timeout() || error.is_connection(), "{error:?}");
    let named = admin.overview(Queues::one("scripted")).await.unwrap();
    let queue = &named.queues[0];
    assert!(queue.ready.known().is_none() && queue.state == State::Unknown, "{queue:?}");
}
