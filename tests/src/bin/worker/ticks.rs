//! A worker of periodic jobs: `ticks URL NAMESPACE FILE`. It appends a line to the file for each job that runs, and prints
//! a line when it holds the schedules.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jobq::{BoxError, Client, WorkerPool};
use jobq_tests::jobs::tick::Tick;
use jobq_tests::test_store::DEADLINE;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub(super) async fn work(arguments: &[String]) -> Result<(), BoxError> {
    let [url, namespace, file] = arguments else { return Err("three arguments".into()) };
    // Its lines tell the test which process to kill.
    let held = Targets::new().with_target("jobq::worker::schedules", tracing::Level::DEBUG);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false);
    tracing_subscriber::registry().with(lines).with(held).init();
    let file: File = OpenOptions::new().append(true).create(true).open(file)?;
    let client = Client::builder(url).namespace(namespace).timeout(DEADLINE).connect().await?;
    let pool = WorkerPool::new(&client).state(Arc::new(file)).register::<Tick>();
    println!("ready");
    std::io::stdout().flush()?;
    pool.shutdown_timeout(Duration::from_secs(5)).run().await?;
    Ok(())
}
