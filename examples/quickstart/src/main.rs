//! A first look at jobq: jobs that succeed, one that fails twice before it does, and one that
//! fails for good, is looked at, and is retried.
//!
//! ```text
//! cargo run -p quickstart                                # on the file jobq.db
//! JOBQ_URL=amqp://localhost cargo run -p quickstart      # on RabbitMQ
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jobq::{Client, JobContext, State, WorkerPool, job};
use tokio::sync::mpsc;

/// Succeeds at once.
#[job]
async fn send_welcome(user: String, shop: State<Shop>) -> Result<(), jobq::BoxError> {
    shop.say(&format!("send_welcome: a letter to {user}"));
    shop.done.send(())?;
    Ok(())
}

/// Fails twice. The broker (or the file) holds it until its next attempt, not the worker.
#[job(retries = 3, delay = ["500ms", "1s"])]
async fn charge_card(order: u64, ctx: JobContext, shop: State<Shop>) -> Result<(), jobq::BoxError> {
    let attempt = format!("attempt {} of {}", ctx.attempt(), ctx.max_attempts());
    if ctx.attempt() < 3 {
        shop.say(&format!("charge_card:  order {order}, {attempt}: the bank is busy"));
        return Err("the bank is busy".into());
    }
    shop.say(&format!("charge_card:  order {order}, {attempt}: charged"));
    shop.done.send(())?;
    Ok(())
}

/// Fails for as long as the depot is closed. A plain `fn` may block its thread.
#[job(retries = 1, delay = "500ms")]
fn ship_parcel(parcel: u64, ctx: JobContext, shop: State<Shop>) -> Result<(), jobq::BoxError> {
    let attempt = format!("attempt {} of {}", ctx.attempt(), ctx.max_attempts());
    if shop.depot_closed.load(Ordering::Relaxed) {
        shop.say(&format!("ship_parcel:  parcel {parcel}, {attempt}: the depot is closed"));
        return Err("the depot is closed".into());
    }
    shop.say(&format!("ship_parcel:  parcel {parcel}, {attempt}: on its way"));
    shop.done.send(())?;
    Ok(())
}

/// What the job functions and `main` share.
#[derive(Clone)]
struct Shop {
    started: Instant,
    depot_closed: Arc<AtomicBool>,
    done: mpsc::UnboundedSender<()>,
}

impl Shop {
    fn say(&self, text: &str) {
        println!("[{:4.1} s] {text}", self.started.elapsed().as_secs_f32());
    }
}

#[tokio::main]
async fn main() -> Result<(), jobq::BoxError> {
    let client = Client::from_env().await?;
    let (done, mut completed) = mpsc::unbounded_channel();
    let depot_closed = Arc::new(AtomicBool::new(true));
    let shop = Shop { started: Instant::now(), depot_closed, done };
    let running = WorkerPool::new(&client)
        .state(shop.clone())
        .register::<SendWelcome>()
        .register::<ChargeCard>()
        .register::<ShipParcel>()
        .spawn()
        .await?;

    for user in ["ann", "bob", "eve"] {
        client.enqueue(SendWelcome { user: user.into() }).await?;
    }
    client.enqueue(ChargeCard { order: 17 }).await?;
    let parcel = client.enqueue(ShipParcel { parcel: 5 }).await?;
    shop.say("main:         5 jobs enqueued");

    // Three letters and the charge.
    for _ in 0..4 {
        completed.recv().await;
    }

    // The parcel used up its attempts. It is kept, with its error.
    let failed = client.failed("ship_parcel");
    while failed.list(10).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for job in failed.list(10).await? {
        shop.say(&format!(
            "failed:       {} {} after {} attempts: {} ({})",
            job.name(),
            job.payload(),
            job.attempts(),
            job.error(),
            job.reason(),
        ));
    }

    shop.depot_closed.store(false, Ordering::Relaxed);
    shop.say("main:         the depot opens, and the parcel is retried");
    failed.retry(parcel).await?;
    completed.recv().await;

    running.shutdown().await?;
    shop.say("main:         all done");
    client.close().await;
    Ok(())
}
