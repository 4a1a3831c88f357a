//! Enqueueing jobs that wait, and what that takes of the machine.

use std::iter;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jobq::Client;

use crate::ledger::Measured;
use crate::place::{Place, Size};
use jobq_tests::measured::table::{head, number, row};

/// How many enqueues are awaited at once.
const AT_ONCE: usize = 1_000;
/// The numbers of waiting jobs at which figures are taken.
const MARKS: [u32; 3] = [10_000, 100_000, 1_000_000];
/// The jobs before a mark over which the rate is taken, at most; and half of those that
/// there are.
const WINDOW: u32 = 50_000;

/// The figures at a number of waiting jobs.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) waiting: u32,
    pub(crate) jobs_a_second: Option<f64>,
    pub(crate) size: Size,
}

/// Enqueues jobs that are due at any time `over` this long from `begin` on, and takes the
/// figures on the way.
pub(crate) async fn enqueue_all(
    client: &Client,
    place: &Place,
    jobs: u32,
    begin: SystemTime,
    over: Duration,
) -> anyhow::Result<Vec<Sample>> {
    let mut random = fastrand::Rng::with_seed(7);
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (first, span) = (micros(begin.duration_since(UNIX_EPOCH)?), micros(over));
    let mut all = (0..jobs).map(|number| Measured { number, due: first + random.u64(..span) });
    // The first job that waits makes the delay levels.
    enqueue(client, all.by_ref().take(1)).await?;

    let mut samples = Vec::new();
    let mut enqueued = 1;
    for mark in MARKS.into_iter().filter(|mark| *mark < jobs).chain(iter::once(jobs)) {
        let window = WINDOW.min(mark / 2);
        let before = (mark - window).saturating_sub(enqueued);
        enqueue(client, all.by_ref().take(before as usize)).await?;
        let (start, timed) = (Instant::now(), mark - enqueued - before);
        enqueue(client, all.by_ref().take(timed as usize)).await?;
        let jobs_a_second = Some(f64::from(timed) / start.elapsed().as_secs_f64());
        enqueued = mark;
        let sample = Sample { waiting: mark, jobs_a_second, size: place.size().await? };
        eprintln!("{sample:?}");
        samples.push(sample);
    }
    Ok(samples)
}

/// Enqueues each job by itself, many at once.
async fn enqueue(client: &Client, jobs: impl Iterator<Item = Measured>) -> jobq::Result<()> {
    stream::iter(jobs)
        .map(|job| {
            let due = UNIX_EPOCH + Duration::from_micros(job.due);
            client.enqueue(job).at(due).into_future()
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await
}

pub(crate) fn print(samples: &[Sample]) {
    let titles = [
        "jobs waiting",
        "enqueued a second",
        "the broker's own figure, MB",
        "resident, MB",
        "on disk, MB",
    ];
    println!("{}", head(&titles));
    let megabytes = |bytes: u64| number(Duration::from_micros(bytes).as_secs_f64(), 0);
    for Sample { waiting, jobs_a_second, size } in samples {
        println!(
            "{}",
            row(&[
                number(f64::from(*waiting), 0),
                jobs_a_second.map(|rate| number(rate, 0)).unwrap_or_default(),
                size.used.map(megabytes).unwrap_or_default(),
                megabytes(size.resident),
                megabytes(size.on_disk),
            ])
        );
    }
}
