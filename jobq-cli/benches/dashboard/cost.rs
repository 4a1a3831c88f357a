//! What many queues and many viewers cost.

use std::future::IntoFuture as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jobq::{BoxError, Client, WorkerPool, job};
use jobq_tests::measured::{Measured, number, resident, spread, used};
use tokio::time::{interval, sleep};

use crate::page::Dashboard;
use crate::viewer::Viewers;

/// How often a page is fetched for its time.
const FETCHES: usize = 50;
/// How many queues are made together.
const AT_ONCE: usize = 16;
/// The pools of the queue that is worked on.
const POOLS: usize = 20;

#[job(queue = "letters")]
async fn write_letter() -> Result<(), BoxError> {
    Ok(())
}

pub(crate) async fn run(engine: &str, store: &Measured, words: &[String]) -> anyhow::Result<()> {
    let (queues, viewers) = (number(words, "--queues", 300), number(words, "--viewers", 50));
    let lasts = Duration::from_secs(number(words, "--seconds", 30) as u64);
    let minutes = number(words, "--minutes", 0);
    let url = store.url();
    let client = Client::builder(&url).timeout(Duration::from_secs(600)).connect().await?;
    let start = Instant::now();
    let calls = stream::iter(1..queues).map(|queue| {
        client.enqueue_named("work", format!("queue-{queue:03}"), &queue).into_future()
    });
    let made: Vec<_> = calls.buffer_unordered(AT_ONCE).try_collect().await?;
    eprintln!("{} queues were made in {:.0} s", made.len(), start.elapsed().as_secs_f64());
    let mut pools = Vec::new();
    for _ in 0..POOLS {
        pools.push(WorkerPool::new(&client).register::<WriteLetter>().spawn().await?);
    }
    // Figures that change are sent to all viewers.
    let work = tokio::spawn({
        let (client, mut pace) = (client.clone(), interval(Duration::from_millis(100)));
        async move {
            loop {
                pace.tick().await;
                client.enqueue(WriteLetter {}).await.expect("it is accepted");
            }
        }
    });

    println!("| {queues} queues on {engine} | dashboard | broker | sent | memory |");
    println!("|---|---|---|---|---|");
    let before = store.broker().map(used);
    sleep(lasts).await;
    row("no dashboard", lasts, None, store.broker().zip(before), 0, 0);
    let dashboard = Dashboard::start(store).await?;
    let pid = dashboard.pid()?;
    dashboard.get("/").await?;
    for count in [0, 1, viewers] {
        let watching = Viewers::of(&dashboard.address, (0..count).map(|_| "/".to_owned()));
        // The first content is no cost of looking on, and a look counts for half a minute.
        sleep(Duration::from_secs(if count == 0 { 40 } else { 5 })).await;
        let (own, broker, bytes) = (used(pid), store.broker().map(used), watching.bytes());
        sleep(lasts).await;
        let sent = watching.bytes() - bytes;
        let what = format!("{count} viewers");
        row(&what, lasts, Some((pid, own)), store.broker().zip(broker), sent, resident(pid));
    }
    let shown = dashboard.get("/").await?.body.matches("queue-").count();
    ensure!(shown >= queues - 1, "the page shows {shown} of {queues} queues");
    weights(&dashboard).await?;
    if minutes > 0 {
        memory(&dashboard, viewers, minutes).await?;
    }
    work.abort();
    for pool in pools {
        pool.shutdown().await?;
    }
    Ok(())
}

/// Prints the shares of a processor that two processes used in this time.
fn row(
    what: &str,
    lasts: Duration,
    dashboard: Option<(u32, Duration)>,
    broker: Option<(u32, Duration)>,
    sent: u64,
    memory: u64,
) {
    let share = |process: Option<(u32, Duration)>| match process {
        Some((pid, before)) => {
            let used = used(pid).saturating_sub(before);
            format!("{:.1} %", used.as_secs_f64() / lasts.as_secs_f64() * 100.0)
        }
        None => "-".to_owned(),
    };
    println!(
        "| {what} | {} | {} | {} KiB/s | {:.1} MiB |",
        share(dashboard),
        share(broker),
        sent / 1024 / lasts.as_secs(),
        mib(memory)
    );
}

#[allow(clippy::cast_precision_loss)] // For people.
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Prints the weight of pages and their times.
async fn weights(dashboard: &Dashboard) -> anyhow::Result<()> {
    println!("\n| page | weight | first byte | whole |");
    println!("|---|---|---|---|");
    let mut assets = Vec::new();
    for path in ["/", "/queues/letters", "/pools"] {
        let (mut first, mut whole) = (Vec::new(), Vec::new());
        let mut weight = 0;
        for _ in 0..FETCHES {
            let got = dashboard.get(path).await?;
            weight = got.body.len();
            first.push(got.first.as_secs_f64() * 1_000.0);
            whole.push(got.whole.as_secs_f64() * 1_000.0);
            assets = got.assets().into_iter().map(str::to_owned).collect();
        }
        let ((first, ..), (whole, ..)) = (spread(first), spread(whole));
        println!("| `{path}` | {weight} bytes | {first:.1} ms | {whole:.1} ms |");
    }
    for asset in assets {
        let got = dashboard.get(&asset).await?;
        let name = asset.rsplit('/').next().context("a name")?;
        println!("| `{name}` | {} bytes | | |", got.body.len());
    }
    Ok(())
}

/// Prints the memory of the dashboard as time goes by, with all viewers.
async fn memory(dashboard: &Dashboard, viewers: usize, minutes: usize) -> anyhow::Result<()> {
    let pid = dashboard.pid()?;
    let _watching = Viewers::of(&dashboard.address, (0..viewers).map(|_| "/".to_owned()));
    println!("\n| minutes with {viewers} viewers | memory |");
    println!("|---|---|");
    let start = Instant::now();
    for minute in 0..=minutes {
        if minute % 5 == 0 || minute == minutes {
            println!("| {} | {:.1} MiB |", start.elapsed().as_secs() / 60, mib(resident(pid)));
        }
        if minute < minutes {
            sleep(Duration::from_secs(60)).await;
        }
    }
    Ok(())
}
