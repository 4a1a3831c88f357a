//! Many jobs that wait, through jobq as its users call it.
//!
//! Each job is due at its own time (`enqueue(..).at(..)`), spread evenly over the hour (`--over`)
//! that begins when all of them are enqueued. One pool with the default settings runs them.
//! Late is when a job function starts, less when its job was due; on RabbitMQ jobq rounds
//! every wait up to 100 ms, which is part of it.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use jobq::{Client, WorkerPool, period};

use crate::enqueueing::{self, Sample};
use crate::lateness::Lateness;
use crate::ledger::{Entries, Ledger, Measured, PARTS};
use crate::options::Options;
use crate::place::Place;
use jobq_tests::measured::table::{head, number, row};

/// How many jobs are surely enqueued in a second, so that all are before the hour begins.
const ENQUEUED_A_SECOND: u32 = 2_500;
/// What is kept for the rest that comes before it.
const PREPARING: Duration = Duration::from_secs(10);
/// How long after the end of the hour a job that did not come is lost. A job may be handed
/// over again after three minutes.
const LOST: Duration = Duration::from_secs(300);
/// How long a second start of a job is waited for.
const AGAIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let jobs = options.take("--jobs", "1000000", str::parse::<u32>)?;
    let over = options.take("--over", "1h", period::parse)?;
    let place = match options.take("--engine", "", |name| anyhow::Ok(name.to_owned()))?.as_str() {
        "rabbitmq" => Place::broker().await?,
        "sqlite" => Place::file(),
        _ => bail!("--engine is rabbitmq or sqlite"),
    };
    options.finish()?;
    ensure!(jobs > 0 && !over.is_zero(), "there is nothing to measure");

    let client = Client::connect(place.url()).await?;
    client.declare::<Measured>().await?;
    let begin = SystemTime::now() + PREPARING + Duration::from_secs(1) * jobs / ENQUEUED_A_SECOND;
    let mut samples = enqueueing::enqueue_all(&client, &place, jobs, begin, over).await?;

    let cpu = place.cpu();
    let ledger = Ledger::new(jobs, begin, over);
    let pool = WorkerPool::new(&client).state(ledger.clone()).register::<Measured>();
    let pool = pool.spawn().await?;
    let left = begin.duration_since(SystemTime::now());
    let left = left.context("the hour began while jobs were still being enqueued")?;
    eprintln!("all are enqueued, {left:.1?} before the first can be due");
    tokio::select! {
        () = ledger.complete() => (),
        () = tokio::time::sleep(left + over + LOST) => (),
        () = report(&ledger, left, over) => (),
    }
    let cpu = place.cpu().saturating_sub(cpu);
    tokio::time::sleep(AGAIN).await;
    pool.shutdown().await?;
    let entries = ledger.entries().clone();
    let rest = u32::try_from(jobs as usize - entries.started)?;
    samples.push(Sample { waiting: rest, jobs_a_second: None, size: place.size().await? });

    println!("{}: {jobs} jobs over {}\n", place.name().await, period::format(over));
    enqueueing::print(&samples);
    print(&entries, over);
    let micros = cpu.as_secs_f64() * 1e6 / f64::from(jobs);
    println!("\nCPU of its process from the first to the last start: {micros:.0} µs a job");
    println!(
        "{} jobs started, {rest} did not; {} starts of a job that had started; {} before their time",
        entries.started, entries.again, entries.early
    );
    client.close().await;
    ensure!(rest == 0 && entries.again == 0 && entries.early == 0, "a promise was not kept");
    Ok(())
}

/// Says on standard error how far it is.
async fn report(ledger: &Ledger, left: Duration, over: Duration) {
    tokio::time::sleep(left).await;
    for _ in 0..PARTS {
        tokio::time::sleep(over / PARTS).await;
        eprintln!("{} jobs have started", ledger.entries().started);
    }
    std::future::pending::<()>().await;
}

fn print(entries: &Entries, over: Duration) {
    println!("\n{}", head(&["due in", "jobs", "late, ms: median", "99 of 100", "worst"]));
    let line = |name: String, lateness: &Lateness| {
        let late = |share| number(lateness.millis(share), 0);
        println!(
            "{}",
            row(&[name, lateness.count().to_string(), late(0.5), late(0.99), late(1.0)])
        );
    };
    let mut whole = Lateness::new();
    for (part, lateness) in entries.lateness.iter().enumerate() {
        line(format!("part {} of {PARTS}", part + 1), lateness);
        whole.add(lateness);
    }
    line(format!("the whole {}", period::format(over)), &whole);
}
