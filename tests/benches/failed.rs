//! What looks at failed jobs and operations on them cost.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench failed -- rabbitmq|sqlite [--jobs 100000]
//! ```
//!
//! It fails so many jobs on a store of its own, and measures a page, groups, operations that settle
//! a few jobs among them, and one that settles all. The broker is started on the machine's RabbitMQ,
//! or on the one in `JOBQ_TEST_BROKER_ROOT`. The table in Markdown goes to standard output.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use jobq::admin::{End, Filter};
use jobq::engine::Envelope;
use jobq::engine::conformance::open;
use jobq::{Client, FailedJob, FailedJobs, JobId};
use jobq_tests::failures::fail;
use jobq_tests::measured::{Measured, arguments, number, resident};

const QUEUE: &str = "letters";
const USAGE: &str = "cargo bench -p jobq-tests --bench failed -- rabbitmq|sqlite [--jobs 100000]";

/// The memory of a process, in MiB.
fn mib(pid: u32) -> u64 {
    resident(pid) / 1024
}

/// Measures a call: its time, and by how much memory grows meanwhile here and in the broker.
async fn measure<T>(
    what: &str,
    broker: Option<u32>,
    call: impl Future<Output = jobq::Result<T>>,
) -> anyhow::Result<T> {
    let pids = [Some(std::process::id()), broker];
    let before = pids.map(|pid| pid.map_or(0, mib));
    let most = Arc::new(before.map(AtomicU64::new));
    let ended = Arc::new(AtomicBool::new(false));
    let sampler = std::thread::spawn({
        let (most, ended) = (Arc::clone(&most), Arc::clone(&ended));
        move || {
            while !ended.load(Ordering::Relaxed) {
                for (pid, most) in pids.iter().zip(&*most) {
                    most.fetch_max(pid.map_or(0, mib), Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let start = Instant::now();
    let answer = call.await;
    let took = start.elapsed();
    ended.store(true, Ordering::Relaxed);
    let _ = sampler.join();
    let [here, there] =
        [0, 1].map(|place: usize| most[place].load(Ordering::Relaxed) - before[place]);
    let there = broker.map_or_else(|| "-".to_owned(), |_| format!("+{there} MiB"));
    println!("| {what} | {:.2} s | +{here} MiB | {there} |", took.as_secs_f64());
    Ok(answer?)
}

async fn ids(failed: &FailedJobs) -> jobq::Result<Vec<JobId>> {
    Ok(failed.list(usize::MAX).await?.iter().map(FailedJob::id).collect())
}

fn letter(number: usize) -> Envelope {
    let text = "x".repeat(200);
    let payload = format!(r#"{{"number": {number}, "group": {}, "text": "{text}"}}"#, number % 892);
    let mut job = Envelope::new(QUEUE, payload.into_bytes());
    job.name = Some("greet".into());
    job
}

async fn run(engine: &str, count: usize) -> anyhow::Result<()> {
    let store = Measured::new(engine).await.context(USAGE)?;
    let (url, broker) = (store.url(), store.broker());
    let filler = open(&url, "jobq").await?;
    let start = Instant::now();
    fail(&*filler, QUEUE, (0..count).map(letter)).await;
    eprintln!("{count} jobs failed in {:.0} s", start.elapsed().as_secs_f64());
    filler.close().await;
    drop(filler);
    let client = Client::builder(&url).timeout(Duration::from_secs(60)).connect().await?;
    let failed = client.failed(QUEUE);
    println!("| {count} failed jobs | time | memory here | memory of the broker |");
    println!("|---|---|---|---|");
    let none = Filter::new();
    measure("the first page, 50 jobs", broker, failed.page(&none, None, 50)).await?;
    let some = Filter::new().value("/group", "7")?;
    let page =
        measure("50 by a value in the payload", broker, failed.page(&some, None, 50)).await?;
    measure("groups", broker, failed.groups(&none)).await?;
    let all = ids(&failed).await?;
    ensure!(all.len() == count, "{} are failed", all.len());
    let middle = all[count / 2];
    measure("retry of one in the middle", broker, failed.retry(middle)).await?;
    let retrying = failed.retry_where(some.clone()).into_future();
    let done = measure("retry of all with that value", broker, retrying).await?;
    ensure!(matches!(done.end, End::Finished) && done.settled == page.matching, "{done:?}");
    let left = ids(&failed).await?;
    let stay: std::collections::HashSet<_> = left.iter().copied().collect();
    let expected: Vec<_> = all.iter().copied().filter(|id| stay.contains(id)).collect();
    ensure!(left == expected, "the order is kept");
    println!("| order of the {} others | kept | | |", left.len());
    let back = measure("retry of all", broker, failed.retry_all()).await?;
    ensure!(back == left.len() as u64, "{back} went back");
    client.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    run(&words[0], number(&words, "--jobs", 100_000)).await
}
