//! The cost of a job of a schedule beside one that a program enqueues, and how late both are.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench schedules -- rabbitmq|sqlite [--jobs 10] [--seconds 60]
//! ```
//!
//! First so many schedules are due each second, then the program enqueues as many jobs each second. One
//! pool runs them. The broker is started on the machine's RabbitMQ, or on the one in
//! `JOBQ_TEST_BROKER_ROOT`. The table in Markdown goes to standard output.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use jobq_tests::measured::{Measured, arguments, number, used};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

const USAGE: &str =
    "cargo bench -p jobq-tests --bench schedules -- rabbitmq|sqlite [--jobs 10] [--seconds 60]";
/// How long the next job is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

type Late = mpsc::UnboundedSender<Duration>;

/// Tells how late it is: the time since it was due, or since the call that enqueued it.
#[job]
async fn tick(
    called: Option<SystemTime>,
    ctx: JobContext,
    late: State<Late>,
) -> Result<(), BoxError> {
    let due = called.unwrap_or_else(|| ctx.due());
    Ok(late.send(SystemTime::now().duration_since(due).unwrap_or_default())?)
}

/// The figures of one way to enqueue jobs.
struct Figures {
    late: Vec<Duration>,
    /// Of this process, and of the broker.
    used: [Option<Duration>; 2],
}

impl Figures {
    /// Measures so many jobs.
    async fn of(
        count: usize,
        store: &Measured,
        late: &mut mpsc::UnboundedReceiver<Duration>,
    ) -> anyhow::Result<Self> {
        let read = || [Some(std::process::id()), store.broker()].map(|pid| pid.map(used));
        let before = read();
        let mut all = Vec::new();
        while all.len() < count {
            all.push(timeout(PATIENCE, late.recv()).await?.context("the pool runs")?);
        }
        let spent = |(before, after): (Option<Duration>, Option<Duration>)| {
            Some(after?.saturating_sub(before?))
        };
        let [this, broker] = read();
        let used = [(before[0], this), (before[1], broker)].map(spent);
        all.sort_unstable();
        Ok(Self { late: all, used })
    }

    fn late(&self, hundredths: usize) -> f64 {
        millis(self.late[(self.late.len() - 1) * hundredths / 100])
    }

    /// The processor time that a job takes of one of the two processes.
    fn used(&self, process: usize) -> anyhow::Result<Option<f64>> {
        let jobs = f64::from(u32::try_from(self.late.len())?);
        Ok(self.used[process].map(|used| millis(used) / jobs))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

async fn run(engine: &str, jobs: usize, seconds: usize) -> anyhow::Result<()> {
    let store = Measured::new(engine).await.context(USAGE)?;
    let client = Client::connect(&store.url()).await?;
    let (tell, mut late) = mpsc::unbounded_channel();
    let pool = WorkerPool::new(&client).register::<Tick>().state(tell).spawn().await?;
    let names: Vec<_> = (0..jobs).map(|number| format!("tick-{number}")).collect();
    for name in &names {
        client.schedule(name, Tick { called: None }).every("1s").await?;
    }
    // The first ones are late by what the schedules' beginning took.
    Figures::of(3 * jobs, &store, &mut late).await?;
    let scheduled = Figures::of(jobs * seconds, &store, &mut late).await?;
    for name in &names {
        client.unschedule(name).await?;
    }
    while timeout(Duration::from_secs(2), late.recv()).await.is_ok() {}
    let enqueuing = async {
        let mut second = interval(Duration::from_secs(1));
        for _ in 0..seconds {
            second.tick().await;
            let called = Some(SystemTime::now());
            let calls = (0..jobs).map(|_| client.enqueue(Tick { called }).into_future());
            try_join_all(calls).await?;
        }
        Ok::<_, jobq::Error>(())
    };
    let measuring = Figures::of(jobs * seconds, &store, &mut late);
    let (enqueued, measured) = tokio::join!(enqueuing, measuring);
    enqueued?;
    let enqueued = measured?;
    ensure!(late.try_recv().is_err(), "a job came twice, or a schedule was not removed");
    println!("| {jobs} jobs a second for {seconds} s on {engine} | by schedules | by `enqueue` |");
    println!("|---|---|---|");
    for (what, hundredths) in [("median", 50), ("99 of 100", 99), ("longest", 100)] {
        let [first, second] = [&scheduled, &enqueued].map(|figures| figures.late(hundredths));
        println!("| late, {what} | {first:.1} ms | {second:.1} ms |");
    }
    for (process, what) in ["this process", "the broker"].iter().enumerate() {
        if let (Some(first), Some(second)) = (scheduled.used(process)?, enqueued.used(process)?) {
            println!("| processor time of {what}, a job | {first:.2} ms | {second:.2} ms |");
        }
    }
    pool.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    run(&words[0], number(&words, "--jobs", 10), number(&words, "--seconds", 60)).await
}
