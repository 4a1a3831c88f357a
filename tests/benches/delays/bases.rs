//! The delay levels in base 2, 8 and 16, in turn, and what they have in jobq: a queue of each
//! work queue's own behind them.
//!
//! Each figure is taken on a fresh broker. The levels are declared as they are in jobq, with the unit of
//! 100 ms, and a thousand messages show how late they come out. Then they are declared on
//! faster clocks, on which ten minutes, and then a day, pass in a second. All jobs are published
//! as fast as the broker takes them, so that they are due long before it has passed them on:
//! the rate is the broker's and not the schedule's. The time of processors that the broker
//! used for each job depends less on what else runs on the machine.

use std::ops::Range;
use std::time::{Duration, Instant};

use jobq_tests::raw::Raw;

use crate::lateness::Lateness;
use crate::levels::{Levels, Shape, mean_hops};
use crate::options::Options;
use crate::place::Place;
use crate::table::{head, number, row, spread};

const SHAPES: [Shape; 4] = [
    Shape { radix: 2, own: false },
    Shape { radix: 8, own: false },
    Shape { radix: 16, own: false },
    Shape { radix: 16, own: true },
];
/// Units of 100 ms.
const SECOND: u64 = 10;
const TEN_MINUTES: u64 = 600 * SECOND;
const DAY: u64 = 24 * 3_600 * SECOND;
/// The messages whose lateness is measured.
const TIMED: usize = 1_000;
/// How long a broker is left alone after it started, and after it declared.
const SETTLING: Duration = Duration::from_secs(3);

/// What one run found.
#[derive(Debug)]
struct Found {
    shape: Shape,
    queues: usize,
    declared: Duration,
    megabytes: f64,
    lateness: Lateness,
    /// For waits of ten minutes and of a day.
    costs: [Cost; 2],
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    jobs_a_second: f64,
    micros_a_job: f64,
}

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let rounds = options.take("--rounds", "3", str::parse::<usize>)?;
    let jobs = options.take("--jobs", "10000", str::parse::<u32>)?;
    let least = options.take("--from", "2", str::parse::<u64>)?;
    options.finish()?;
    let shapes: Vec<_> = SHAPES.into_iter().filter(|shape| shape.radix >= least).collect();
    let broker = Place::broker().await?.name().await;
    let mut found = Vec::new();
    for round in 1..=rounds {
        for &shape in &shapes {
            let one = measure(shape, jobs).await?;
            let (declared, [minutes, day]) = (one.declared, one.costs);
            eprintln!(
                "{broker}, round {round}, {}: {declared:.2?} {minutes:?} {day:?}",
                name(shape)
            );
            found.push(one);
        }
    }
    println!("{broker}: medians of {rounds} rounds (lowest to highest); {jobs} jobs a rate\n");
    print(&shapes, &found);
    Ok(())
}

async fn measure(shape: Shape, jobs: u32) -> anyhow::Result<Found> {
    let (place, raw) = fresh().await?;
    let used = async || anyhow::Ok(place.used().await?.map_or(0.0, bytes));
    // The first question makes the broker load what answers it.
    used().await?;
    let before = used().await?;
    let begin = Instant::now();
    let levels = Levels::declare(&raw, shape, SECOND).await?;
    let declared = begin.elapsed();
    tokio::time::sleep(SETTLING).await;
    let megabytes = (used().await? - before) / 1e6;

    let waits = random_waits(TIMED, 2 * SECOND..12 * SECOND);
    let lateness = levels.pass_through(waits, Duration::from_millis(1)).await?;
    let costs = [cost(shape, TEN_MINUTES, jobs).await?, cost(shape, DAY, jobs).await?];
    Ok(Found { shape, queues: levels.queues, declared, megabytes, lateness, costs })
}

/// What waits of up to so many units cost, where that many pass in a second.
async fn cost(shape: Shape, units: u64, jobs: u32) -> anyhow::Result<Cost> {
    let (place, raw) = fresh().await?;
    let levels = Levels::declare(&raw, shape, units).await?;
    tokio::time::sleep(SETTLING).await;
    let waits = random_waits(jobs as usize, 1..units + 1);
    let (begin, cpu) = (Instant::now(), place.cpu());
    levels.pass_through(waits, Duration::ZERO).await?;
    let (elapsed, cpu) = (begin.elapsed(), place.cpu().saturating_sub(cpu));
    let jobs = f64::from(jobs);
    let micros_a_job = cpu.as_secs_f64() * 1e6 / jobs;
    Ok(Cost { jobs_a_second: jobs / elapsed.as_secs_f64(), micros_a_job })
}

/// A broker that has nothing to do.
async fn fresh() -> anyhow::Result<(Place, Raw)> {
    let place = Place::broker().await?;
    let raw = Raw::connect(&place.url()).await;
    tokio::time::sleep(SETTLING).await;
    Ok((place, raw))
}

/// The same ones in every run.
fn random_waits(count: usize, units: Range<u64>) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(3);
    (0..count).map(|_| random.u64(units.clone())).collect()
}

// No memory has so many bytes that they would not fit.
#[allow(clippy::cast_precision_loss)]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

fn name(shape: Shape) -> String {
    format!("{}{}", shape.radix, if shape.own { ", own queue" } else { "" })
}

fn print(shapes: &[Shape], found: &[Found]) {
    println!(
        "{}",
        head(&[
            "base",
            "queues",
            "declared in, s",
            "memory, MB",
            "late, ms: median",
            "99 of 100",
            "worst",
        ])
    );
    for &shape in shapes {
        let of = |figure: &dyn Fn(&Found) -> f64, decimals| all(found, shape, figure, decimals);
        let queues = found.iter().find(|run| run.shape == shape).map_or(0, |run| run.queues);
        println!(
            "{}",
            row(&[
                name(shape),
                queues.to_string(),
                of(&|run| run.declared.as_secs_f64(), 2),
                of(&|run| run.megabytes, 1),
                of(&|run| run.lateness.millis(0.5), 0),
                of(&|run| run.lateness.millis(0.99), 0),
                of(&|run| run.lateness.millis(1.0), 0),
            ])
        );
    }
    println!(
        "\n{}",
        head(&["waits up to", "base", "hops", "jobs a second", "broker's CPU a job, µs"])
    );
    for (at, (waits, units)) in [("10 minutes", TEN_MINUTES), ("a day", DAY)].iter().enumerate() {
        for &shape in shapes {
            println!(
                "{}",
                row(&[
                    (*waits).to_owned(),
                    name(shape),
                    number(mean_hops(shape, *units), 1),
                    all(found, shape, &|run| run.costs[at].jobs_a_second, 0),
                    all(found, shape, &|run| run.costs[at].micros_a_job, 0),
                ])
            );
        }
    }
}

/// One figure of all runs with a shape.
fn all(found: &[Found], shape: Shape, figure: &dyn Fn(&Found) -> f64, decimals: usize) -> String {
    let runs = found.iter().filter(|run| run.shape == shape);
    spread(runs.map(figure).collect(), decimals)
}
