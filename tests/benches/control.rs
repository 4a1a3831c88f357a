//! What questions to pools cost.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench control -- rabbitmq|sqlite [--pools 200]
//! ```
//!
//! It starts so many pools, ten to a client, and asks all of them for their reports, one question
//! after the other. The broker is started on the machine's RabbitMQ, or on the one in
//! `JOBQ_TEST_BROKER_ROOT`. The table in Markdown goes to standard output.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use jobq::admin::Queues;
use jobq::{BoxError, Client, WorkerPool, job};
use jobq_tests::measured::{Measured, arguments, number, used};

const USAGE: &str = "cargo bench -p jobq-tests --bench control -- rabbitmq|sqlite [--pools 200]";
/// How many pools share the connections of a client.
const POOLS_OF_A_CLIENT: usize = 10;
const QUESTIONS: usize = 50;

#[job(queue = "letters")]
async fn write_letter() -> Result<(), BoxError> {
    Ok(())
}

async fn run(engine: &str, count: usize) -> anyhow::Result<()> {
    let store = Measured::new(engine).await.context(USAGE)?;
    let url = store.url();
    let (mut clients, mut pools) = (Vec::new(), Vec::new());
    for number in 0..count {
        if number % POOLS_OF_A_CLIENT == 0 {
            let builder = Client::builder(&url).timeout(Duration::from_secs(60));
            clients.push(builder.connect().await?);
        }
        let client = clients.last().context("a client")?;
        pools.push(WorkerPool::new(client).register::<WriteLetter>().spawn().await?);
    }
    let operator = Client::connect(&url).await?;
    let admin = operator.admin();
    let patience = Duration::from_secs(10);
    // The first question makes the operator's own queue.
    admin.pools(Queues::one("letters"), patience).await?;
    let read = || [Some(std::process::id()), store.broker()].map(|pid| pid.map(used));
    let before = read();
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let start = Instant::now();
        let answers = admin.pools(Queues::one("letters"), patience).await?;
        times.push(start.elapsed());
        ensure!(answers.pools.len() == count, "{} answered", answers.pools.len());
        ensure!(answers.unaccounted == 0, "{:?}", answers.unaccounted);
    }
    let after = read();
    times.sort_unstable();
    let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
    println!("| {count} pools on {engine} | a question |");
    println!("|---|---|");
    println!("| time, median | {:.1} ms |", millis(times[QUESTIONS / 2]));
    println!("| time, longest of {QUESTIONS} | {:.1} ms |", millis(times[QUESTIONS - 1]));
    for (what, (before, after)) in ["this process, which has all pools", "the broker"]
        .iter()
        .zip(before.into_iter().zip(after))
    {
        if let (Some(before), Some(after)) = (before, after) {
            let questions = f64::from(u32::try_from(QUESTIONS)?);
            println!(
                "| processor time of {what} | {:.1} ms |",
                millis(after.saturating_sub(before)) / questions
            );
        }
    }
    for pool in pools {
        pool.shutdown().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    run(&words[0], number(&words, "--pools", 200)).await
}
