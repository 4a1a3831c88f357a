//! A process of its own on a file of jobs, for the tests of `sqlite`: it says what it
//! does on its output, a line each, and can be killed at any moment.
//!
//! `sqlite_process URL LEASE_MS push` pushes jobs until it is killed, and says
//! `accepted ID`.
//!
//! `sqlite_process URL LEASE_MS work` completes jobs until it is killed, and says
//! `completed ID`.
//!
//! `sqlite_process URL LEASE_MS hold` takes up to three jobs and does what its input
//! says: `next` takes the next one in hand and says `taken ID ATTEMPT`; `retry` settles
//! the one that it took last and says `settled` or the kind of the error; `waits` says `ready`.

use jobq::engine::conformance::EngineExt as _;
use std::sync::Arc;
use std::time::Duration;

use jobq::engine::{Engine, Settlement};
use jobq_tests::jobs::{job, ready};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, url, lease, mode] = &arguments[..] else { panic!("expected URL LEASE_MS MODE") };
    let lease = Duration::from_millis(lease.parse().expect("milliseconds"));
    let engine =
        jobq::engine::conformance::open_with_lease(url, "jobq", lease).await.expect("opens");
    ready(&*engine, "mail").await;
    match &**mode {
        "push" => push(engine).await,
        "work" => work(&*engine).await,
        "hold" => hold(&*engine).await,
        other => panic!("no mode {other}"),
    }
}

async fn push(engine: Arc<dyn Engine>) {
    let mut pushers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let engine = Arc::clone(&engine);
        pushers.spawn(async move {
            loop {
                let job = job("mail");
                let id = job.id;
                engine.push(job).await.expect("accepted");
                println!("accepted {id}");
            }
        });
    }
    pushers.join_all().await;
}

async fn work(engine: &dyn Engine) {
    let mut consumer = engine.consume_from("mail", 10).await.expect("consumes");
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery.expect("a job");
        let id = delivery.envelope().id;
        delivery.settle(Settlement::Complete).await.expect("settles");
        println!("completed {id}");
    }
}

async fn hold(engine: &dyn Engine) {
    let mut consumer = engine.consume_from("mail", 3).await.expect("consumes");
    let mut held = Vec::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.expect("a line") {
        match &*line {
            "next" => {
                let delivery = consumer.next().await.expect("goes on").expect("a job");
                println!("taken {} {}", delivery.envelope().id, delivery.attempt);
                held.push(delivery);
            }
            "waits" => println!("ready"),
            "retry" => {
                let delivery = held.pop().expect("a job in hand");
                match delivery.settle(Settlement::Retry(Duration::ZERO)).await {
                    Ok(()) => println!("settled"),
                    Err(error) => println!("{:?}", error.kind()),
                }
            }
            other => panic!("cannot {other}"),
        }
    }
}
