//! Relays, the database and the broker die, while transactions leave jobs in an outbox.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobq::relay::RelayState;
use jobq::{BoxError, Client, JobContext, RunningPool, State, WorkerPool, job};
use jobq_outbox_facts::Postgres;
use jobq_tests::broker::Broker;
use jobq_tests::test_store::Store;
use jobq_tokio_postgres::{Once as _, PgOutbox, Within as _};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::NoTls;

use super::{PATIENCE, is_full, place, rounds};

const WRITERS: usize = 4;
/// The most orders that are committed and whose jobs have not begun.
const AHEAD: usize = 500;

/// What the job functions share.
struct Shop {
    database: String,
    committed: AtomicUsize,
    /// How often the job of each order began.
    runs: Mutex<BTreeMap<i64, usize>>,
}

impl Shop {
    fn new(database: String) -> Arc<Self> {
        Arc::new(Self { database, committed: AtomicUsize::default(), runs: Mutex::default() })
    }

    /// Whether the pool is far behind the writers: they would leave it hours of work.
    fn is_behind(&self) -> bool {
        self.committed.load(Ordering::Relaxed) > self.runs.lock().unwrap().len() + AHEAD
    }

    async fn connect(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.database, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Ships an order, once.
#[job(queue = "orders", retries = 10_000, delay = "200ms")]
async fn ship(order: i64, shop: State<Arc<Shop>>, ctx: JobContext) -> Result<(), BoxError> {
    *shop.runs.lock().unwrap().entry(order).or_default() += 1;
    let mut db = shop.connect().await?;
    let tx = db.transaction().await?;
    if ctx.once(&tx, "ship").await?.is_first() {
        tx.execute("INSERT INTO shipped VALUES ($1)", &[&order]).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Writes orders until it is told to stop. Each fourth is rolled back.
async fn write(shop: Arc<Shop>, client: Client, next: Arc<AtomicI64>, enough: Arc<AtomicBool>) {
    while !enough.load(Ordering::Relaxed) {
        // The database may be away.
        let _ = write_on(&shop, &client, &next, &enough).await;
        sleep(Duration::from_millis(20)).await;
    }
}

async fn write_on(
    shop: &Shop,
    client: &Client,
    next: &AtomicI64,
    enough: &AtomicBool,
) -> Result<(), BoxError> {
    let mut db = shop.connect().await?;
    while !enough.load(Ordering::Relaxed) {
        if shop.is_behind() {
            sleep(Duration::from_millis(20)).await;
            continue;
        }
        let order = next.fetch_add(1, Ordering::Relaxed);
        let tx = db.transaction().await?;
        tx.execute("INSERT INTO orders VALUES ($1)", &[&order]).await?;
        client.enqueue(Ship { order }).within(&tx).await?;
        if order % 4 == 0 {
            tx.rollback().await?;
        } else {
            // A killed database may have committed it and not said so.
            shop.committed.fetch_add(1, Ordering::Relaxed);
            tx.commit().await?;
        }
        sleep(Duration::from_millis(fastrand::u64(0..20))).await;
    }
    Ok(())
}

/// A relay as a process.
struct Relaying(Child);

impl Relaying {
    fn start(store: &Store, database: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay"));
        command.args([&store.url, &store.namespace]).arg(database);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Relaying {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_committed_order_is_shipped_once() {
    let Some(node) = Broker::to_kill("every_committed_order_is_shipped_once").await else {
        return;
    };
    node.set("dead_letter_worker_publisher_confirm_timeout", 500);
    let store = Store::on_broker(node.url());
    let mut database = Postgres::start();
    database.sql("CREATE TABLE orders (id bigint PRIMARY KEY); CREATE TABLE shipped (id bigint)");
    let url = database.url("postgres");
    let shop = Shop::new(url.clone());
    let client = store.client().await;
    let pool = WorkerPool::new(&client).state(Arc::clone(&shop)).register::<Ship>();
    let running = pool.spawn().await.unwrap();
    // A queue whose broker is killed in the first moments of its life may not come back.
    sleep(Duration::from_secs(3)).await;

    let mut relays = [Relaying::start(&store, &url), Relaying::start(&store, &url)];
    let (next, enough) = (Arc::new(AtomicI64::new(1)), Arc::new(AtomicBool::new(false)));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write(
            Arc::clone(&shop),
            client.clone(),
            Arc::clone(&next),
            Arc::clone(&enough),
        ));
    }
    let (kills, began) = (rounds(12, 200), Instant::now());
    let mut killed = [0; 3];
    for round in 0..kills {
        progress(&shop, 20).await;
        sleep(Duration::from_millis(fastrand::u64(0..300))).await;
        // The first of each kind comes soon.
        let kind = if round < 3 { round } else { fastrand::usize(0..3) };
        killed[kind] += 1;
        match kind {
            0 => relays.iter_mut().for_each(|relay| *relay = Relaying::start(&store, &url)),
            1 => {
                database.kill();
                sleep(Duration::from_millis(fastrand::u64(0..500))).await;
                database.restart();
            }
            _ => {
                node.kill();
                node.restart().await;
            }
        }
    }
    progress(&shop, 20).await;
    enough.store(true, Ordering::Relaxed);
    while writers.join_next().await.is_some() {}
    all_shipped(&database, &shop).await;
    let report = judge(&database, &shop, &running, &client).await;
    let seconds = began.elapsed().as_secs();
    let [of_relays, of_databases, of_brokers] = killed;
    println!(
        "an outbox, {}: {seconds} s; killed were both relays {of_relays} times, the database \
         {of_databases}, the broker {of_brokers}: {report}",
        place(&store)
    );
    running.shutdown().await.unwrap();
}

/// Relay and pool wait for a database that is away, and go on when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_may_be_away_for_ten_minutes() {
    let away = Duration::from_secs(if is_full() { 600 } else { 5 });
    let mut database = Postgres::start();
    database.sql("CREATE TABLE orders (id bigint PRIMARY KEY); CREATE TABLE shipped (id bigint)");
    let shop = Shop::new(database.url("postgres"));
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let outbox = PgOutbox::connect(&shop.database).await.unwrap();
    let pool = WorkerPool::new(&client).state(Arc::clone(&shop)).register::<Ship>().relay(outbox);
    let running = pool.spawn().await.unwrap();
    let (next, enough) = (AtomicI64::new(1), AtomicBool::new(false));
    let writing = write_on(&shop, &client, &next, &enough);
    let killing = async {
        progress(&shop, 20).await;
        database.kill();
    };
    assert!(tokio::join!(writing, killing).0.is_err(), "the database was killed");
    sleep(away).await;
    let health = running.health();
    assert!(matches!(health.relays[0].state, RelayState::Interrupted { .. }), "{health:?}");
    database.restart();
    all_shipped(&database, &shop).await;
    let report = judge(&database, &shop, &running, &client).await;
    println!("a database that was away for {} s: {report}", away.as_secs());
    running.shutdown().await.unwrap();
}

/// Waits until so many more jobs began.
async fn progress(shop: &Shop, more: usize) {
    let began = || shop.runs.lock().unwrap().values().sum::<usize>();
    let (wanted, start) = (began() + more, Instant::now());
    while began() < wanted {
        assert!(start.elapsed() < PATIENCE, "nothing happens");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until each order is shipped and the outbox is empty, or nothing happens any more.
async fn all_shipped(database: &Postgres, shop: &Shop) {
    let left = "SELECT (SELECT count(*) FROM jobq_outbox), (SELECT count(*) FROM orders \
                WHERE NOT EXISTS (SELECT FROM shipped WHERE shipped.id = orders.id))";
    let mut seen = (String::new(), 0, Instant::now());
    loop {
        let now = database.sql(left);
        if now == "0|0" {
            return;
        }
        let runs = shop.runs.lock().unwrap().values().sum::<usize>();
        if (&*seen.0, seen.1) != (&*now, runs) {
            seen = (now, runs, Instant::now());
        }
        assert!(seen.2.elapsed() < PATIENCE, "rows in the outbox, orders not shipped: {}", seen.0);
        sleep(Duration::from_millis(200)).await;
    }
}

/// Compares what was shipped with what was committed.
async fn judge(database: &Postgres, shop: &Shop, pool: &RunningPool, client: &Client) -> String {
    let number = |query: &str| database.sql(query).parse::<usize>().unwrap();
    let orders = number("SELECT count(*) FROM orders");
    let twice = database.sql("SELECT id FROM shipped GROUP BY id HAVING count(*) > 1");
    assert_eq!(twice, "", "these were shipped twice");
    assert_eq!(number("SELECT count(*) FROM shipped"), orders);
    assert_eq!(number("SELECT count(*) FROM shipped WHERE id % 4 = 0"), 0, "were rolled back");
    let runs = shop.runs.lock().unwrap().clone();
    let rolled_back: Vec<_> = runs.keys().filter(|order| *order % 4 == 0).collect();
    assert!(rolled_back.is_empty(), "began though rolled back: {rolled_back:?}");
    assert!(client.failed("orders").list(10).await.unwrap().is_empty());
    assert!(pool.health().is_consuming(), "{:?}", pool.health());
    let again = runs.values().sum::<usize>() - orders;
    format!("{orders} orders committed, none lost, none shipped twice, {again} attempts more")
}
