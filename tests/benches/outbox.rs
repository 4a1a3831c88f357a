//! What the outbox costs a transaction, how soon its jobs start, and how fast a relay is.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench outbox -- rabbitmq|sqlite [--writers 16] [--seconds 10] [--rows 100000]
//! ```
//!
//! PostgreSQL is that of the machine, with its own settings for durability. The broker is started on the
//! machine's RabbitMQ, or on the one in `JOBQ_TEST_BROKER_ROOT`. The tables in Markdown go to standard
//! output.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use futures_util::future::try_join_all;
use jobq::relay::{Relay, Settled, Source as _, Take, Taking};
use jobq::{BoxError, Client, State, WorkerPool, job};
use jobq_outbox_facts::Postgres;
use jobq_tests::measured::{Measured, arguments, number};
use jobq_tokio_postgres::{PgOutbox, Within as _};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

const USAGE: &str = "cargo bench -p jobq-tests --bench outbox -- rabbitmq|sqlite [--writers 16] \
                     [--seconds 10] [--rows 100000]";

/// The time between two transactions of a writer that does not write as fast as it can.
const PAUSE: Duration = Duration::from_millis(50);

type Starts = mpsc::UnboundedSender<(u64, SystemTime)>;

/// Tells when it starts.
#[job]
async fn ship(order: u64, starts: State<Starts>) -> Result<(), BoxError> {
    Ok(starts.send((order, SystemTime::now()))?)
}

/// What a transaction writes beside its order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// A row of another table.
    Row,
    /// A job.
    Job,
}

async fn connect(database: &Postgres) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(&database.url("postgres"), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The work of the writers.
#[derive(Clone, Copy)]
struct Load {
    writers: usize,
    seconds: usize,
    beside: Beside,
    /// The time between two transactions of a writer.
    pause: Duration,
    /// Tells the orders of this load from those of others.
    round: u64,
}

/// The transactions of one writer, with the time after each commit.
async fn write(
    mut db: tokio_postgres::Client,
    client: Client,
    Load { beside, pause, .. }: Load,
    (first, end): (u64, Instant),
) -> anyhow::Result<Vec<(u64, SystemTime)>> {
    let order_row = db.prepare("INSERT INTO orders (number, paid) VALUES ($1, 'paid')").await?;
    let row = "INSERT INTO notes (number, at, body) VALUES ($1, now(), $2)";
    let row = db.prepare(row).await?;
    let (mut committed, mut order) = (Vec::new(), first);
    while Instant::now() < end {
        let number = i64::try_from(order)?;
        let tx = db.transaction().await?;
        tx.execute(&order_row, &[&number]).await?;
        match beside {
            Beside::Nothing => {}
            Beside::Row => _ = tx.execute(&row, &[&number, &vec![7_u8; 150]]).await?,
            Beside::Job => _ = client.enqueue(Ship { order }).within(&tx).await?,
        }
        tx.commit().await?;
        committed.push((order, SystemTime::now()));
        order += 1;
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
    Ok(committed)
}

/// The transactions of so many writers.
async fn write_all(
    database: &Postgres,
    client: &Client,
    load: Load,
) -> anyhow::Result<Vec<(u64, SystemTime)>> {
    let end = Instant::now() + Duration::from_secs(load.seconds as u64);
    let mut writing = Vec::new();
    for writer in 0..load.writers as u64 {
        let db = connect(database).await?;
        let first = (load.round * 1_000 + writer) * 10_000_000;
        writing.push(tokio::spawn(write(db, client.clone(), load, (first, end))));
    }
    let written: Result<Vec<_>, _> = try_join_all(writing).await?.into_iter().collect();
    Ok(written?.concat())
}

fn per_second(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64()
}

async fn transactions(store: &Measured, (writers, seconds): (usize, usize)) -> anyhow::Result<()> {
    let database = Postgres::durable();
    database.sql(
        "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number bigint, \
         paid text); CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
         number bigint, at timestamptz, body bytea)",
    );
    let client = Client::connect(&store.url()).await?;
    println!("| {writers} writers, {seconds} s | transactions a second | of an order alone |");
    println!("|---|---|---|");
    let mut alone = 0.0;
    // The first run warms up.
    for (round, (what, beside)) in [
        ("", Beside::Nothing),
        ("an order alone", Beside::Nothing),
        ("an order and another row", Beside::Row),
        ("an order and a job in the outbox", Beside::Job),
    ]
    .into_iter()
    .enumerate()
    {
        let load = Load { writers, seconds, beside, pause: Duration::ZERO, round: round as u64 };
        let written = write_all(&database, &client, load).await?.len();
        let rate = per_second(written, Duration::from_secs(seconds as u64));
        if beside == Beside::Nothing {
            alone = rate;
        }
        if !what.is_empty() {
            println!("| {what} | {rate:.0} | {:.2} |", rate / alone);
        }
    }
    database.sql("TRUNCATE jobq_outbox");
    let (tell, mut starts) = mpsc::unbounded_channel();
    let outbox = PgOutbox::connect(database.url("postgres")).await?;
    let pool = WorkerPool::new(&client).register::<Ship>().state(tell).relay(outbox);
    let pool = pool.spawn().await?;
    let (beside, mut late) = (Beside::Job, Vec::new());
    for (round, pause) in [(8, Duration::ZERO), (9, PAUSE)] {
        let load = Load { writers, seconds, beside, pause, round };
        let committed = write_all(&database, &client, load).await?;
        if pause.is_zero() {
            let rate = per_second(committed.len(), Duration::from_secs(seconds as u64));
            let of_alone = rate / alone;
            println!(
                "| an order and a job, while a relay and a pool run | {rate:.0} | {of_alone:.2} |"
            );
        }
        late.push(started(committed, &mut starts).await?);
    }
    let each = 1_000 / PAUSE.as_millis();
    println!(
        "\n| ms from the commit to the start of the job | as fast as they can | {each} a second each |"
    );
    println!("|---|---|---|");
    for (what, hundredths) in [("median", 50), ("99 of 100", 99), ("longest", 100)] {
        let [full, calm] = [&late[0], &late[1]].map(|late: &Vec<Duration>| {
            late[(late.len() - 1) * hundredths / 100].as_secs_f64() * 1_000.0
        });
        println!("| {what} | {full:.0} | {calm:.0} |");
    }
    pool.shutdown().await?;
    Ok(())
}

/// The times from the commits to the starts of the jobs, the shortest first.
async fn started(
    committed: Vec<(u64, SystemTime)>,
    starts: &mut mpsc::UnboundedReceiver<(u64, SystemTime)>,
) -> anyhow::Result<Vec<Duration>> {
    let committed: HashMap<_, _> = committed.into_iter().collect();
    let mut late = Vec::new();
    while late.len() < committed.len() {
        let next = timeout(Duration::from_secs(60), starts.recv()).await?;
        let (order, started) = next.context("the pool runs")?;
        late.push(started.duration_since(committed[&order]).unwrap_or_default());
    }
    late.sort_unstable();
    Ok(late)
}

/// Fills the outbox.
fn fill(database: &Postgres, rows: usize) {
    database.sql(&format!(
        "TRUNCATE jobq_outbox; INSERT INTO jobq_outbox (queue, name, job_id, payload) \
         SELECT 'ship', 'ship', gen_random_uuid(), convert_to('{{\"order\":' || n || '}}', 'UTF8') \
         FROM generate_series(1, {rows}) AS n; ANALYZE jobq_outbox"
    ));
}

/// Takes and deletes rows, without an engine.
async fn take_all(outbox: &PgOutbox, rows: usize) -> anyhow::Result<f64> {
    let (began, mut left) = (Instant::now(), rows);
    let mut take = Take::new("jobq");
    while left > 0 {
        let Taking::Rows { rows, taken, .. } = outbox.take(&take).await? else { break };
        take.after = rows.last().map_or(0, |row| row.seq);
        let mut settled = Settled::default();
        settled.sent = rows.iter().map(|row| row.seq).collect();
        taken.settle(settled).await?;
        left = left.saturating_sub(rows.len());
    }
    Ok(per_second(rows, began.elapsed()))
}

/// Has a relay send all rows.
async fn relay_all(database: &Postgres, client: &Client, rows: usize) -> anyhow::Result<f64> {
    let outbox = PgOutbox::connect(database.url("postgres")).await?;
    let began = Instant::now();
    let relay = Relay::new(client, outbox).spawn()?;
    while relay.health().sent < rows as u64 {
        sleep(Duration::from_millis(2)).await;
    }
    let rate = per_second(rows, began.elapsed());
    relay.shutdown().await?;
    Ok(rate)
}

async fn relays(store: &Measured, rows: usize) -> anyhow::Result<()> {
    let database = Postgres::durable();
    let client = Arc::new(Client::connect(&store.url()).await?);
    client.declare::<Ship>().await?;
    let outbox = PgOutbox::connect(database.url("postgres")).await?;
    println!("\n| {rows} rows | rows a second | of taking alone |\n|---|---|---|");
    fill(&database, rows);
    let raw = take_all(&outbox, rows).await?;
    println!("| taken and deleted, no engine | {raw:.0} | 1 |");
    fill(&database, rows);
    let relayed = relay_all(&database, &client, rows).await?;
    println!("| relayed | {relayed:.0} | {:.2} |", relayed / raw);
    // It sees the rows of before, so the database may not clean them up.
    let mut long = connect(&database).await?;
    let tx = long.transaction().await?;
    tx.query("SELECT count(*) FROM jobq_inbox", &[]).await?;
    database.sql("SELECT txid_current()");
    fill_beside(&database, rows);
    let beside = relay_all(&database, &client, rows).await?;
    println!("| relayed beside a long transaction | {beside:.0} | {:.2} |", beside / raw);
    tx.rollback().await?;
    Ok(())
}

/// Fills the outbox behind as many rows that were deleted, while a transaction is open.
fn fill_beside(database: &Postgres, rows: usize) {
    let insert = format!(
        "INSERT INTO jobq_outbox (queue, name, job_id, payload) \
         SELECT 'ship', 'ship', gen_random_uuid(), convert_to('{{\"order\":' || n || '}}', 'UTF8') \
         FROM generate_series(1, {rows}) AS n"
    );
    database.sql(&format!("{insert}; DELETE FROM jobq_outbox; {insert}"));
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    let store = Measured::new(&words[0]).await.context(USAGE)?;
    let plan = (number(&words, "--writers", 16), number(&words, "--seconds", 10));
    transactions(&store, plan).await?;
    relays(&store, number(&words, "--rows", 100_000)).await
}
