//! A simulated shop, in memory, to look at: the command `jobq dashboard --demo` shows it.
//!
//! Its jobs succeed, are retried, fail in groups and wait for days, and its pools come and go.
//!
//! ```no_run
//! # async fn example() -> jobq::Result<()> {
//! let shop = jobq_dashboard::demo::open().await?;
//! let serving = jobq_dashboard::Standalone::new(shop.client()).start().await?;
//! serving.run_until(async { let _ = tokio::signal::ctrl_c().await; }).await
//! # }
//! ```

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobq::{
    BoxError, Client, JobContext, JobId, Result, RunningPool, State, WorkerPool, abort, job,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The jobs of each kind at the start.
const AT_FIRST: u64 = 60;

/// The state of the simulated jobs.
#[derive(Debug, Clone, Default)]
struct Shop {
    /// Jobs that have failed for good: they succeed when they are retried, as if the cause were
    /// repaired.
    repaired: Arc<Mutex<HashSet<JobId>>>,
}

impl Shop {
    /// Whether this is the first life of a job. At the last attempt it becomes a repaired one.
    fn is_broken(&self, ctx: &JobContext) -> bool {
        let mut repaired = self.repaired.lock().unwrap_or_else(PoisonError::into_inner);
        if ctx.attempt() == 1 && repaired.contains(&ctx.id()) {
            return false;
        }
        if ctx.attempt() == 3 {
            repaired.insert(ctx.id());
        }
        true
    }
}

async fn work(from: u64, to: u64) {
    sleep(Duration::from_millis(fastrand::u64(from..to))).await;
}

#[job(queue = "mail", retries = 2, delay = "2s")]
async fn send_receipt(order: u64, email: String, ctx: JobContext) -> Result<(), BoxError> {
    work(20, 120).await;
    match order % 11 {
        0 if ctx.attempt() == 1 => {
            Err(format!("mail server 10.0.0.25:587 is busy, {email} waits").into())
        }
        _ => Ok(()),
    }
}

#[job(queue = "payments", retries = 2, delay = "1s")]
async fn charge_card(
    order: u64,
    cents: u64,
    card: serde_json::Value,
    ctx: JobContext,
    shop: State<Shop>,
) -> Result<(), BoxError> {
    work(50, 300).await;
    let customer = card["customer"].as_u64().unwrap_or_default();
    match order % 6 {
        0 if shop.is_broken(&ctx) => {
            Err(format!("gateway payments.example:443 refused the connection for order {order}")
                .into())
        }
        3 => Err(abort(format!(
            "the bank declined {cents} cents for customer {customer}: card expired"
        ))
        .into()),
        _ => Ok(()),
    }
}

#[job(queue = "images", retries = 1, delay = "5s", timeout = "20s")]
async fn resize_image(product: u64, width: u32) -> Result<(), BoxError> {
    work(1_500, 6_000).await;
    match product % 17 {
        0 => Err(abort(format!(
            "product {product}: not a JPEG of {width} pixels, but 0x89504e470d0a"
        ))
        .into()),
        _ => Ok(()),
    }
}

#[job(queue = "search", retries = 2, delay = "3s")]
async fn index_product(product: u64, ctx: JobContext) -> Result<(), BoxError> {
    work(10, 60).await;
    match product % 13 {
        0 if ctx.attempt() < 3 => Err(format!("index shard {} is locked", product % 4).into()),
        _ => Ok(()),
    }
}

#[job(queue = "reports")]
async fn send_report(month: String) -> Result<(), BoxError> {
    work(500, 1_500).await;
    tracing::debug!(month, "report sent");
    Ok(())
}

#[job(queue = "reports", cron = "30 2 * * MON-FRI", zone = "Europe/Berlin", missed = "skip")]
async fn close_books() -> Result<(), BoxError> {
    work(500, 1_500).await;
    Ok(())
}

#[job(queue = "newsletter")]
async fn send_newsletter(subscriber: u64) -> Result<(), BoxError> {
    work(20, 60).await;
    tracing::debug!(subscriber, "newsletter sent");
    Ok(())
}

/// The shop. Dropping it ends it.
#[derive(Debug)]
pub struct Demo {
    client: Client,
    _pools: Vec<RunningPool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Demo {
    /// A client of its queues.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Opens the shop.
///
/// # Errors
///
/// A process in which an in-memory queue cannot be opened.
pub async fn open() -> Result<Demo> {
    let client = Client::builder("sqlite::memory:").program("shop-web").connect().await?;
    let shop = Shop::default();
    let office = WorkerPool::new(&client)
        .state(shop.clone())
        .register::<SendReceipt>()
        .register::<ChargeCard>()
        .register::<SendReport>()
        .register::<CloseBooks>()
        .concurrency(4)
        .shutdown_timeout(Duration::from_secs(1));
    let studio = WorkerPool::new(&client)
        .register::<ResizeImage>()
        .concurrency(2)
        .shutdown_timeout(Duration::from_secs(1));
    let pools = vec![office.spawn().await?, studio.spawn().await?];
    fill(&client).await?;
    let tasks =
        vec![tokio::spawn(customers(client.clone())), tokio::spawn(come_and_go(client.clone()))];
    Ok(Demo { client, _pools: pools, tasks })
}

/// Enqueues the jobs of the start.
async fn fill(client: &Client) -> Result<()> {
    for number in 0..AT_FIRST {
        order(client, number).await?;
        client.enqueue(ResizeImage { product: number, width: 1_200 }).await?;
        client.enqueue(SendNewsletter { subscriber: number }).await?;
    }
    for (shop, hour) in [("lyon", 6), ("oslo", 7)] {
        let report = SendReport { month: "the last".to_owned() };
        let weekly = client.schedule(format!("weekly-{shop}"), report);
        weekly.cron(format!("0 {hour} * * MON")).zone("Europe/Paris").jitter("5m").await?;
    }
    for (month, delay) in [("2026-12", "3d"), ("2027-01", "34d"), ("2027-02", "65d")] {
        client.enqueue(SendReport { month: month.into() }).delay(delay).await?;
    }
    Ok(())
}

async fn order(client: &Client, number: u64) -> Result<()> {
    let email = format!("customer{number}@example.com");
    let card = serde_json::json!({
        "customer": 4_000 + number, "number": "4111 1111 1111 1111",
        "address": {"city": "Lyon", "lines": ["12 rue de la Gare", "2e étage"]},
    });
    client.enqueue(SendReceipt { order: number, email }).await?;
    client.enqueue(ChargeCard { order: number, cents: 1_999 + number, card }).await?;
    Ok(())
}

/// Customers order, for ever.
async fn customers(client: Client) {
    for number in AT_FIRST.. {
        // A client of a shop that ends.
        if order(&client, number).await.is_err() {
            return;
        }
        if number % 2 == 0 {
            let image = ResizeImage { product: number, width: 800 };
            let _ = client.enqueue(image).await;
        }
        let _ = client.enqueue(IndexProduct { product: number }).await;
        work(200, 1_000).await;
    }
}

/// A pool that comes and goes, as those of a deploy or an autoscaler.
async fn come_and_go(client: Client) {
    loop {
        let pool = WorkerPool::new(&client)
            .register::<IndexProduct>()
            .concurrency(3)
            .shutdown_timeout(Duration::from_secs(1));
        let Ok(pool) = pool.spawn().await else { return };
        sleep(Duration::from_secs(45)).await;
        let _ = pool.shutdown().await;
        sleep(Duration::from_secs(20)).await;
    }
}
