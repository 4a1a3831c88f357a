//! Periodic jobs: one with its times in the code, and one for each shop, made at run time.
//!
//! ```text
//! cargo run --example cron
//! JOBQ_URL=amqp://localhost cargo run --example cron
//! ```

use std::time::Duration;

use jobq::admin::Queues;
use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Lines = UnboundedSender<String>;

/// Due each second. In a real program: `cron = "30 2 * * MON-FRI", zone = "Europe/Berlin"`.
#[job(queue = "reports", every = "1s", missed = "skip")]
async fn clean_up(lines: State<Lines>) -> Result<(), BoxError> {
    Ok(lines.send("cleaned up".to_owned())?)
}

/// Enqueued by a schedule of each shop.
#[job(queue = "reports")]
async fn report(shop: u64, ctx: JobContext, lines: State<Lines>) -> Result<(), BoxError> {
    let schedule = ctx.schedule().unwrap_or("nobody");
    let late = ctx.now().duration_since(ctx.due())? < Duration::from_secs(5);
    Ok(lines.send(format!("report of shop {shop}, by {schedule}, in time: {late}"))?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;

    // Any process may do this, also while no pool runs. Doing it again changes nothing.
    client.schedule("report-7", Report { shop: 7 }).every("2s").await?;
    client
        .schedule("report-8", Report { shop: 8 })
        .cron("0 6 * * MON")
        .zone("Europe/Berlin")
        .jitter("5m")
        .await?;

    let (lines, mut shown) = unbounded_channel::<String>();
    let pool = WorkerPool::new(&client).state(lines).register::<CleanUp>().register::<Report>();
    let running = pool.spawn().await?;
    let (mut cleaned, mut reported) = (0, 0);
    while cleaned < 2 || reported < 1 {
        let line = shown.recv().await.ok_or("the pool has ended")?;
        println!("{line}");
        match line.as_str() {
            "cleaned up" => cleaned += 1,
            _ => reported += 1,
        }
    }

    for schedule in client.schedules().await?.schedules {
        println!("{}: {}", schedule.name, schedule.times.join(", "));
    }
    client.admin().run_schedule("report-8", Queues::All).await?;
    loop {
        let line = shown.recv().await.ok_or("the pool has ended")?;
        if line.contains("shop 8") {
            println!("{line}");
            break;
        }
    }
    for name in ["report-7", "report-8"] {
        client.unschedule(name).await?;
    }
    Ok(running.shutdown().await?)
}
