//! Delays before the first attempt, delays before retries, and an expiry. The engine keeps a job
//! until it is due; no worker waits.
//!
//! ```text
//! cargo run --example delays                                   # in memory: no server, no file
//! ```

use std::time::{Duration, Instant, SystemTime};

use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use tokio::sync::mpsc::{self, UnboundedSender};

/// A message of the jobs, which `main` prints with its time.
type Lines = UnboundedSender<String>;

#[job]
async fn remind(text: String, lines: State<Lines>) -> Result<(), BoxError> {
    lines.send(format!("remind:     {text}"))?;
    Ok(())
}

#[job]
async fn send_offer(user: String, lines: State<Lines>) -> Result<(), BoxError> {
    lines.send(format!("send_offer: to {user}"))?;
    Ok(())
}

/// 100 ms before the second attempt, and 300 ms before each later one.
#[job(retries = 3, delay = ["100ms", "300ms"])]
async fn call_bank(ctx: JobContext, lines: State<Lines>) -> Result<(), BoxError> {
    call("call_bank: ", &ctx, &lines)
}

/// 100 ms, 200 ms, and 300 ms: the maximum instead of 400 ms.
#[job(retries = 3, delay = exponential("100ms", max = "300ms", factor = 2))]
async fn call_depot(ctx: JobContext, lines: State<Lines>) -> Result<(), BoxError> {
    call("call_depot:", &ctx, &lines)
}

/// Fails on every attempt but the last.
fn call(job: &str, ctx: &JobContext, lines: &Lines) -> Result<(), BoxError> {
    let (attempt, of) = (ctx.attempt(), ctx.max_attempts());
    let answer = if attempt < of { "no answer" } else { "answered" };
    lines.send(format!("{job} attempt {attempt} of {of}: {answer}"))?;
    if attempt < of { Err(answer.into()) } else { Ok(()) }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let started = Instant::now();
    let say = |text: &str| println!("[{:4.1} s] {text}", started.elapsed().as_secs_f32());
    let client = Client::connect("sqlite::memory:").await?;
    let (lines, mut told) = mpsc::unbounded_channel();

    // A delay is a `Duration`, or its text as in the attributes. `at` takes a time.
    client.enqueue(Remind { text: "after 400 ms".into() }).delay("400ms").await?;
    let time = SystemTime::now() + Duration::from_millis(800);
    client.enqueue(Remind { text: "at its time".into() }).at(time).await?;
    client.enqueue(SendOffer { user: "ann".into() }).expires_in("100ms").await?;
    client.enqueue(CallBank {}).await?;
    client.enqueue(CallDepot {}).await?;

    // The first worker comes too late for the offer.
    tokio::time::sleep(Duration::from_millis(200)).await;
    say("main:       the pool starts");
    let running = WorkerPool::new(&client)
        .state::<Lines>(lines)
        .register::<Remind>()
        .register::<SendOffer>()
        .register::<CallBank>()
        .register::<CallDepot>()
        .spawn()
        .await?;

    // Two reminders, and two calls of four attempts each.
    for _ in 0..10 {
        say(&told.recv().await.ok_or("the pool is gone")?);
    }
    let failed = client.failed("send_offer");
    while failed.list(10).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for job in failed.list(10).await? {
        say(&format!("failed:     {} {} ({})", job.name(), job.payload(), job.reason()));
    }
    running.shutdown().await?;
    client.close().await;
    Ok(())
}
