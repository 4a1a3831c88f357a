//! What looks at failed jobs and operations on them cost.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench failed -- rabbitmq|sqlite [--jobs 100000]
//! ```
//!
//! It fails so many jobs on a store of its own, and measures a page, groups, operations that settle
//! a few jobs among them, and one that settles all. The broker is started on the machine's RabbitMQ,
//! or on the one in `JOBQ_TEST_BROKER_ROOT`. The table in Markdown goes to standard output.

use std::fs;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jobq::admin::{End, Filter};
use jobq::engine::conformance::open;
use jobq::{Client, Envelope, FailedJob, FailedJobs, JobId};
use jobq_tests::broker::Broker;
use jobq_tests::failures::fail;
use jobq_tests::files::Directory;

const QUEUE: &str = "letters";
const USAGE: &str = "cargo bench -p jobq-tests --bench failed -- rabbitmq|sqlite [--jobs 100000]";

/// The store, and the process of its broker.
enum Store {
    Broker(Broker, u32),
    File(Directory),
}

impl Store {
    async fn new(engine: &str) -> anyhow::Result<Self> {
        match engine {
            "sqlite" => Ok(Self::File(Directory::new())),
            "rabbitmq" => {
                let broker = Broker::start().await;
                let pid = broker.ctl(&["eval", "os:getpid()."]).await;
                let pid = pid.trim().trim_matches('"').parse()?;
                Ok(Self::Broker(broker, pid))
            }
            other => bail!("there is no engine `{other}`\n{USAGE}"),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Broker(broker, _) => broker.url(),
            Self::File(folder) => folder.url("jobs.db"),
        }
    }

    fn broker(&self) -> Option<u32> {
        match self {
            Self::Broker(_, pid) => Some(*pid),
            Self::File(_) => None,
        }
    }
}

/// The memory of a process, in MiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Measures a call: its time, and by how much memory grows meanwhile here and in the broker.
async fn measure<T>(
    what: &str,
    broker: Option<u32>,
    call: impl Future<Output = jobq::Result<T>>,
) -> anyhow::Result<T> {
    let pids = [Some(std::process::id()), broker];
    let before = pids.map(|pid| pid.map_or(0, resident));
    let most = Arc::new(before.map(AtomicU64::new));
    let ended = Arc::new(AtomicBool::new(false));
    let sampler = std::thread::spawn({
        let (most, ended) = (Arc::clone(&most), Arc::clone(&ended));
        move || {
            while !ended.load(Ordering::Relaxed) {
                for (pid, most) in pids.iter().zip(&*most) {
                    most.fetch_max(pid.map_or(0, resident), Ordering::Relaxed);
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
    let store = Store::new(engine).await?;
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
    let mut words: Vec<_> = std::env::args().skip(1).collect();
    let given = words.len();
    words.retain(|word| word != "--bench");
    // `cargo bench` passes it. `cargo test --all-targets` does not, and measures nothing.
    if words.len() == given || words.is_empty() {
        println!("{USAGE}");
        return Ok(());
    }
    let count = match words.iter().position(|word| word == "--jobs") {
        Some(place) => words.get(place + 1).context(USAGE)?.parse()?,
        None => 100_000,
    };
    run(&words[0], count).await
}
