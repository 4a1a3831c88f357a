//! What questions to pools cost.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench control -- rabbitmq|sqlite [--pools 200]
//! ```
//!
//! It starts so many pools, ten to a client, and asks all of them for their reports, one question
//! after the other. The broker is started on the machine's RabbitMQ, or on the one in
//! `JOBQ_TEST_BROKER_ROOT`. The table in Markdown goes to standard output.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jobq::admin::Queues;
use jobq::{BoxError, Client, WorkerPool, job};
use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;

const USAGE: &str = "cargo bench -p jobq-tests --bench control -- rabbitmq|sqlite [--pools 200]";
/// How many pools share the connections of a client.
const POOLS_OF_A_CLIENT: usize = 10;
const QUESTIONS: usize = 50;

#[job(queue = "letters")]
async fn write_letter() -> Result<(), BoxError> {
    Ok(())
}

/// The store of the pools.
enum Store {
    Broker(Broker),
    File(Directory),
}

impl Store {
    async fn new(engine: &str) -> anyhow::Result<Self> {
        match engine {
            "sqlite" => Ok(Self::File(Directory::new())),
            "rabbitmq" => Ok(Self::Broker(Broker::start().await)),
            other => bail!("there is no engine `{other}`\n{USAGE}"),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Broker(broker) => broker.url(),
            Self::File(folder) => folder.url("jobs.db"),
        }
    }

    /// The process of the broker.
    async fn process(&self) -> anyhow::Result<Option<u32>> {
        let Self::Broker(broker) = self else { return Ok(None) };
        let pid = broker.ctl(&["eval", "os:getpid()."]).await;
        Ok(Some(pid.trim().trim_matches('"').parse()?))
    }
}

/// The processor time of a process so far.
fn used(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(')').context("no fields")?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // Linux counts in hundredths of a second for programs.
    Ok(Duration::from_millis(ticks * 10))
}

async fn run(engine: &str, count: usize) -> anyhow::Result<()> {
    let store = Store::new(engine).await?;
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
    let broker = store.process().await?;
    let read = || -> anyhow::Result<_> {
        Ok([Some(std::process::id()), broker].map(|pid| pid.map(used).transpose()))
    };
    let before = read()?;
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let start = Instant::now();
        let answers = admin.pools(Queues::one("letters"), patience).await?;
        times.push(start.elapsed());
        ensure!(answers.pools.len() == count, "{} answered", answers.pools.len());
        ensure!(answers.unaccounted == 0, "{:?}", answers.unaccounted);
    }
    let after = read()?;
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
        if let (Some(before), Some(after)) = (before?, after?) {
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
    let mut words: Vec<_> = std::env::args().skip(1).collect();
    let given = words.len();
    words.retain(|word| word != "--bench");
    // `cargo bench` passes it. `cargo test --all-targets` does not, and measures nothing.
    if words.len() == given || words.is_empty() {
        println!("{USAGE}");
        return Ok(());
    }
    let count = match words.iter().position(|word| word == "--pools") {
        Some(place) => words.get(place + 1).context(USAGE)?.parse()?,
        None => 200,
    };
    run(&words[0], count).await
}
