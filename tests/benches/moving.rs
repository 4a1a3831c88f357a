//! How fast jobs of a file get to a broker, or to another file.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench moving -- rabbitmq|sqlite [--jobs 1000000]
//! ```
//!
//! The broker is started on the machine's RabbitMQ, or on the one in `JOBQ_TEST_BROKER_ROOT`. The table in
//! Markdown goes to standard output.

use std::future::pending;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use jobq::moving::Move;
use jobq::{BoxError, Client, job};
use jobq_tests::files::Directory;
use jobq_tests::measured::{Measured, arguments, number};
use rusqlite::Connection;

const USAGE: &str = "cargo bench -p jobq-tests --bench moving -- rabbitmq|sqlite [--jobs 1000000]";

#[job]
async fn ship(order: u64) -> Result<(), BoxError> {
    println!("order {order}");
    Ok(())
}

fn jobs(count: usize) -> impl Iterator<Item = Ship> + Send {
    (0..count as u64).map(|order| Ship { order })
}

fn per_second(count: usize, began: Instant) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / began.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    let store = Measured::new(&words[0]).await.context(USAGE)?;
    let count = number(&words, "--jobs", 1_000_000);
    let folder = Directory::new();
    let source = Client::connect(folder.url("source.db")).await?;
    let file = Connection::open(folder.file("source.db"))?;
    let client = |namespace| Client::builder(store.url()).namespace(namespace).connect();
    let target = client("enqueued").await?;
    target.declare_delays().await?;

    println!("| {count} jobs | jobs a second | of `enqueue_all` |\n|---|---|---|");
    let began = Instant::now();
    target.enqueue_all(jobs(count)).await?;
    let enqueued = per_second(count, began);
    println!("| `enqueue_all` to the target | {enqueued:.0} | 1 |");
    for (what, wait_ms) in [("moved, due", 0), ("moved, due in an hour", 3_600_000)] {
        source.enqueue_all(jobs(count)).await?;
        file.execute("UPDATE jobs SET due = due + ?1", [wait_ms])?;
        let target = client("jobq").await?;
        let began = Instant::now();
        let moved = Move::new(&source, &target).run_until(pending(), |_| {}).await?;
        let rate = per_second(count, began);
        ensure!(moved.jobs == count as u64 && moved.end.is_none(), "{moved:?}");
        println!("| {what} | {rate:.0} | {:.2} |", rate / enqueued);
        target.close().await;
    }
    Ok(())
}
