//! Publish once: every subscriber has its own queue, its own retries and its own failed
//! jobs. The shop publishes; two jobs of its own subscribe, and so does another service,
//! which is another process, with a wildcard.
//!
//! ```text
//! cargo run --example events                                   # on the file jobq.db
//! JOBQ_URL=amqp://localhost cargo run --example events         # on RabbitMQ
//! ```

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jobq::{BoxError, Client, Event, JobContext, State, WorkerPool, job};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// An event whose topic is part of its type.
#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user: String,
}

/// Succeeds.
#[job(on = "user.created")]
async fn welcome(event: UserCreated, shop: State<Shop>) -> Result<(), BoxError> {
    shop.say(&format!("welcome:      a letter to {}", event.user));
    shop.done.send(())?;
    Ok(())
}

/// Fails for as long as the newsletter's server is down.
#[job(on = "user.created", retries = 1, delay = "300ms")]
async fn add_reader(
    event: UserCreated,
    ctx: JobContext,
    shop: State<Shop>,
) -> Result<(), BoxError> {
    let attempt = format!("attempt {} of {}", ctx.attempt(), ctx.max_attempts());
    if shop.server_down.load(Ordering::Relaxed) {
        shop.say(&format!("add_reader:   {}, {attempt}: the server is down", event.user));
        return Err("the server is down".into());
    }
    shop.say(&format!("add_reader:   {}, {attempt}: added", event.user));
    shop.done.send(())?;
    Ok(())
}

/// The job of the other service: whatever happens in the shop, it writes down.
#[job(on = ["user.*", "order.#"])]
async fn audit(event: Value, ctx: JobContext) -> Result<(), BoxError> {
    println!("audit:        {} {event}", ctx.topic().unwrap_or_default());
    Ok(())
}

/// The other service: runs until its input ends.
async fn audit_service() -> Result<(), BoxError> {
    let client = Client::from_env().await?;
    let running = WorkerPool::new(&client).register::<Audit>().spawn().await?;
    println!("audit:        subscribed to user.* and order.#, in a process of its own");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    running.shutdown().await?;
    client.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    if std::env::args().nth(1).as_deref() == Some("audit") {
        return audit_service().await;
    }
    let client = Client::from_env().await?;
    let (done, mut completed) = mpsc::unbounded_channel();
    let server_down = Arc::new(AtomicBool::new(true));
    let shop = Shop { started: Instant::now(), server_down, done };
    let mut audit = start_audit(&shop)?;
    let running = WorkerPool::new(&client)
        .state(shop.clone())
        .register::<Welcome>()
        .register::<AddReader>()
        .spawn()
        .await?;
    // From here on both services are subscribed.
    completed.recv().await;

    shop.say("shop:         ann signs up and orders");
    let event = client.publish_event(&UserCreated { user: "ann".into() }).await?;
    client.publish("order.paid.card", &serde_json::json!({ "order": 17 })).await?;
    // Two lines of the audit and one letter.
    for _ in 0..3 {
        completed.recv().await;
    }

    // One subscriber used up its attempts. Its copy of the event is kept, with its error.
    let failed = client.failed("add_reader");
    while failed.list(10).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for job in failed.list(10).await? {
        shop.say(&format!(
            "failed:       {} {} {} after {} attempts: {} ({})",
            job.queue(),
            job.topic().unwrap_or_default(),
            job.payload(),
            job.attempts(),
            job.error(),
            job.reason(),
        ));
    }

    shop.server_down.store(false, Ordering::Relaxed);
    shop.say("shop:         the server is up, and the event is retried: for add_reader alone");
    failed.retry(event).await?;
    completed.recv().await;

    running.shutdown().await?;
    drop(audit.stdin.take());
    audit.wait().await?;
    shop.say("shop:         all done");
    client.close().await;
    Ok(())
}

/// Starts the other service, and passes on what it prints.
fn start_audit(shop: &Shop) -> std::io::Result<Child> {
    let mut audit = Command::new(std::env::current_exe()?)
        .arg("audit")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let shop = shop.clone();
    if let Some(output) = audit.stdout.take() {
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                shop.say(&line);
                let _ = shop.done.send(());
            }
        });
    }
    Ok(audit)
}

/// What the job functions and `main` share.
#[derive(Clone)]
struct Shop {
    started: Instant,
    server_down: Arc<AtomicBool>,
    done: mpsc::UnboundedSender<()>,
}

impl Shop {
    fn say(&self, text: &str) {
        println!("[{:4.1} s] {text}", self.started.elapsed().as_secs_f32());
    }
}
