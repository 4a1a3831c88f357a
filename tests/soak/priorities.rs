//! High jobs behind thousands of low ones, on both engines.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobq::{BoxError, JobContext, Priority, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon};

use super::{place, rounds};

both_engines!(a_high_job_behind_thousands_of_low_ones_starts_soon);

const SLOTS: u16 = 4;
const LOW: u64 = 10_000;
/// How long a job runs.
const WORK: Duration = Duration::from_millis(50);
/// How long a test waits before it enqueues the next high job.
const BETWEEN: Duration = Duration::from_millis(130);
/// How many jobs may start between the confirm of a high job and its own start: what all slots do in
/// a second.
const MOST: usize = 80;

/// The starts and ends of jobs.
#[derive(Default)]
struct Seen {
    starts: Vec<(Instant, Option<u64>)>,
    ends: Vec<Instant>,
}

type Shared = Arc<Mutex<Seen>>;

#[job(queue = "work", priorities)]
async fn work(number: u64, ctx: JobContext, seen: State<Shared>) -> Result<(), BoxError> {
    let high = (ctx.priority() == Priority::High).then_some(number);
    seen.lock().unwrap().starts.push((Instant::now(), high));
    tokio::time::sleep(WORK).await;
    seen.lock().unwrap().ends.push(Instant::now());
    Ok(())
}

async fn a_high_job_behind_thousands_of_low_ones_starts_soon(store: Store) {
    let client = store.client().await;
    let low = (0..LOW).map(|number| Work { number });
    client.enqueue_all(low).priority(Priority::Low).await.unwrap();
    let seen = Shared::default();
    let pool = WorkerPool::new(&client).register::<Work>().state(Arc::clone(&seen));
    let running = pool.concurrency(SLOTS).spawn().await.unwrap();
    let mut confirms = Vec::new();
    for number in 0..rounds(20, 200) as u64 {
        tokio::time::sleep(BETWEEN).await;
        client.enqueue(Work { number }).priority(Priority::High).await.unwrap();
        confirms.push(Instant::now());
    }
    let started = async {
        while seen.lock().unwrap().starts.iter().filter(|(_, high)| high.is_some()).count()
            < confirms.len()
        {
            tokio::time::sleep(WORK).await;
        }
    };
    soon("all high jobs to start", started).await;
    drop(running);
    let seen = seen.lock().unwrap();
    let (mut waits, mut beyond, mut most) = (Vec::new(), Vec::new(), 0);
    for (number, confirm) in confirms.iter().enumerate() {
        let is_it = |(_, high): &&(Instant, Option<u64>)| *high == Some(number as u64);
        let start = seen.starts.iter().find(is_it).unwrap().0;
        let free = seen.ends.iter().filter(|end| *end >= confirm).min().unwrap();
        let between = seen.starts.iter().filter(|(at, _)| at > confirm && *at < start).count();
        waits.push(start.saturating_duration_since(*confirm));
        beyond.push(start.saturating_duration_since(*free));
        most = most.max(between);
        assert!(between <= MOST, "{between} jobs started before high job {number}");
    }
    waits.sort_unstable();
    beyond.sort_unstable();
    let of = |times: &[Duration], hundredths: usize| {
        times[(times.len() - 1) * hundredths / 100].as_millis()
    };
    println!(
        "high jobs behind {LOW} low ones of {} ms, {SLOTS} slots, {}: {} jobs; started {} ms (median), {} ms (p99), \
         {} ms (max) after the next free slot, {} ms (median), {} ms (p99) after the confirm; at most {most} starts \
         between",
        WORK.as_millis(),
        place(&store),
        waits.len(),
        of(&beyond, 50),
        of(&beyond, 99),
        of(&beyond, 100),
        of(&waits, 50),
        of(&waits, 99),
    );
}
