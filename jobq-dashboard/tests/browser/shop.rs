//! Queues, pools and failed jobs, with a dashboard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobq::{BoxError, Client, RunningPool, State, WorkerPool, abort, job};
use jobq_dashboard::Standalone;
use jobq_tests::test_store::{Store, until};

/// Whether what makes jobs fail is repaired.
pub(crate) type Repaired = Arc<AtomicBool>;

/// Fails with this text until it is repaired.
#[job(queue = "payments")]
async fn charge(order: u64, error: String, repaired: State<Repaired>) -> Result<(), BoxError> {
    if repaired.load(Ordering::Relaxed) || error.is_empty() {
        return Ok(());
    }
    Err(abort(format!("order {order}: {error}")).into())
}

/// Runs until its pool ends.
#[job(queue = "images", timeout = "1h")]
async fn resize(product: u64) -> Result<(), BoxError> {
    std::future::pending::<()>().await;
    let _ = product;
    Ok(())
}

/// A shop with a dashboard.
pub(crate) struct Shop {
    pub(crate) client: Client,
    /// Where a browser finds the dashboard.
    pub(crate) url: String,
    /// Where it listens.
    pub(crate) address: String,
    pub(crate) repaired: Repaired,
    store: Store,
}

impl Shop {
    /// On a file, for what no engine changes.
    pub(crate) async fn open() -> Self {
        Self::on(Store::sqlite().await, "").await
    }

    /// On this store, below a path.
    pub(crate) async fn on(store: Store, prefix: &str) -> Self {
        Self::served(store, |standalone| standalone.prefix(prefix)).await
    }

    /// On this store, with a server that is set so.
    pub(crate) async fn served(store: Store, set: impl FnOnce(Standalone) -> Standalone) -> Self {
        let mut shop = Self::without_server(store).await;
        let standalone = Standalone::new(&shop.client).bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let serving = set(standalone.actor("ann")).start().await.expect("it listens");
        serving.url().trim_end_matches('/').clone_into(&mut shop.url);
        shop.address = serving.address().to_string();
        tokio::spawn(serving.run_until(std::future::pending()));
        shop
    }

    /// On this store, without a dashboard.
    pub(crate) async fn without_server(store: Store) -> Self {
        let client = store.client().await;
        client.declare::<Charge>().await.expect("the queue is declared");
        client.declare::<Resize>().await.expect("the queue is declared");
        let (url, address) = (String::new(), String::new());
        Self { client, url, address, repaired: Repaired::default(), store }
    }

    pub(crate) async fn pool(&self) -> RunningPool {
        let pool = WorkerPool::new(&self.client)
            .state(Arc::clone(&self.repaired))
            .register::<Charge>()
            .register::<Resize>()
            .shutdown_timeout(Duration::ZERO);
        pool.spawn().await.expect("the pool starts")
    }

    pub(crate) async fn charge(&self, orders: std::ops::Range<u64>, error: &str) {
        let jobs = orders.map(|order| Charge { order, error: error.to_owned() });
        self.client.enqueue_all(jobs).await.expect("they are accepted");
    }

    pub(crate) async fn resize(&self, product: u64) {
        self.client.enqueue(Resize { product }).await.expect("it is accepted");
    }

    /// Waits until there are so many failed payments.
    pub(crate) async fn failed(&self, count: u64) {
        until("the jobs have failed", async || {
            let counts = self.client.counts("payments").await.ok()?;
            (counts.failed == count).then_some(())
        })
        .await;
    }

    /// Removes the file of its jobs, so that nothing can be read any more.
    pub(crate) fn remove_file(&self) {
        let path = self.store.url.strip_prefix("sqlite://").expect("it is on a file");
        std::fs::remove_file(path).expect("the file is there");
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}
