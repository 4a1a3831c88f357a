//! Jobs that failed for good: listed, shown as JSON, retried, and discarded.
//!
//! ```text
//! cargo run --example failed_jobs                              # in memory: no server, no file
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobq::{BoxError, Client, State, WorkerPool, job};
use tokio::sync::mpsc;

/// Fails while the printer has no paper, and at once for a parcel that does not exist.
#[job(retries = 1, delay = "100ms")]
async fn print_label(parcel: u64, printer: State<Printer>) -> Result<(), BoxError> {
    if parcel == 0 {
        Err(jobq::abort("there is no parcel 0"))?;
    }
    if !printer.has_paper.load(Ordering::Relaxed) {
        return Err("the printer has no paper".into());
    }
    printer.labels.send(parcel)?;
    Ok(())
}

struct Printer {
    has_paper: Arc<AtomicBool>,
    labels: mpsc::UnboundedSender<u64>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::connect("sqlite::memory:").await?;
    let has_paper = Arc::new(AtomicBool::new(false));
    let (labels, mut finished) = mpsc::unbounded_channel();
    let printer = Printer { has_paper: Arc::clone(&has_paper), labels };
    let pool = WorkerPool::new(&client).state(printer).register::<PrintLabel>();
    let running = pool.spawn().await?;

    let unlucky = client.enqueue(PrintLabel { parcel: 5 }).header("clerk", "ann").await?;
    let wrong = client.enqueue(PrintLabel { parcel: 0 }).await?;

    // The queue has the name of its job, `print_label`.
    let failed = client.failed("print_label");
    while failed.list(10).await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for job in failed.list(10).await? {
        let (attempts, error, reason) = (job.attempts(), job.error(), job.reason());
        println!("listed {}: {error} ({reason}), attempts: {attempts}", job.payload());
    }

    // A failed job is `Serialize`, for an API or a page of your own.
    let job = failed.show(unlucky).await?;
    println!("{}", serde_json::to_string_pretty(&job)?);

    // Retried before its cause is mended, it would fail again.
    has_paper.store(true, Ordering::Relaxed);
    failed.retry(unlucky).await?;
    println!("printed parcel {}", finished.recv().await.ok_or("the printer is gone")?);

    // No attempt can help this one.
    failed.discard(wrong).await?;
    println!("failed jobs left: {}", failed.list(10).await?.len());

    running.shutdown().await?;
    client.close().await;
    Ok(())
}
