//! Whether jobs are as fast while five pages are open.

use std::future::IntoFuture as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jobq::{BoxError, Client, WorkerPool, job};
use jobq_tests::measured::{Measured, number, spread};
use jobq_tests::stage::until;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::page::Dashboard;
use crate::viewer::Viewers;

/// The pages that are open, which are all live.
const PAGES: [&str; 5] = ["/", "/queues/post", "/pools", "/failed", "/activity"];
/// The callers that enqueue at once.
const CALLERS: usize = 64;

/// How long the pages are open, or none is, before jobs are measured.
const SETTLES: Duration = Duration::from_secs(5);

/// The jobs that are still to be done.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static ALL_DONE: Notify = Notify::const_new();

#[job(queue = "post", concurrency = 100)]
async fn post() -> Result<(), BoxError> {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        ALL_DONE.notify_one();
    }
    Ok(())
}

pub(crate) async fn run(engine: &str, store: &Measured, words: &[String]) -> anyhow::Result<()> {
    let (pairs, jobs) = (number(words, "--pairs", 7), number(words, "--jobs", 100_000));
    let url = store.url();
    let client = Client::connect(&url).await?;
    once(&client, jobs / 10).await?;
    let dashboard = Dashboard::start(store).await?;
    let (mut enqueued, mut drained) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let mut rates = [(0.0, 0.0); 2];
        // Neither is always first.
        for open in [pair % 2, 1 - pair % 2] {
            let pages = PAGES.iter().take(PAGES.len() * open).map(|page| (*page).to_owned());
            let viewers = Viewers::of(&dashboard.address, pages);
            if open == 1 {
                until("the content of a page", async || (viewers.bytes() > 0).then_some(())).await;
            }
            // The cost of opening them is no part of looking on. Both sides have the same rest.
            sleep(SETTLES).await;
            rates[open] = once(&client, jobs).await?;
        }
        let [closed, open] = rates;
        enqueued.push(open.0 / closed.0);
        drained.push(open.1 / closed.1);
    }
    println!("| {engine}, {pairs} pairs of {jobs} jobs | with five pages open / with none |");
    println!("|---|---|");
    for (what, ratios) in [("enqueue, jobs a second", enqueued), ("drain, jobs a second", drained)]
    {
        let (middle, lowest, highest) = spread(ratios);
        println!("| {what} | {middle:.2} ({lowest:.2} to {highest:.2}) |");
    }
    Ok(())
}

/// Enqueues and drains so many jobs, and returns how many of them a second.
async fn once(client: &Client, jobs: usize) -> anyhow::Result<(f64, f64)> {
    LEFT.store(jobs, Ordering::Relaxed);
    let start = Instant::now();
    let calls = stream::iter(0..jobs).map(|_| client.enqueue(Post {}).into_future());
    let ids: Vec<_> = calls.buffer_unordered(CALLERS).try_collect().await?;
    let enqueued = rate(jobs, start);
    ensure!(ids.len() == jobs, "{} were enqueued", ids.len());
    let start = Instant::now();
    let pool = WorkerPool::new(client).register::<Post>().spawn().await?;
    ALL_DONE.notified().await;
    let drained = rate(jobs, start);
    pool.shutdown().await?;
    Ok((enqueued, drained))
}

#[allow(clippy::cast_precision_loss)] // For people.
fn rate(jobs: usize, start: Instant) -> f64 {
    jobs as f64 / start.elapsed().as_secs_f64()
}
