//! A job function that blocks its thread holds up nothing of jobq's own.

use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobq::{BoxError, Client, ErrorKind, RunningPool, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use jobq_tests::vhost::Vhost;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// Longer than a broker waits for heartbeats that come every second.
const BLOCKED_FOR: Duration = Duration::from_secs(6);

/// What the jobs tell the test, and what lets the stubborn one go on.
#[derive(Clone)]
struct Strings {
    tell: mpsc::UnboundedSender<&'static str>,
    go: Arc<Mutex<std_mpsc::Receiver<()>>>,
}

/// Does what an `async fn` must not: it blocks its thread.
#[job(retries = 0)]
async fn stubborn(strings: State<Strings>) -> Result<(), BoxError> {
    strings.tell.send("blocks")?;
    strings.go.lock().unwrap_or_else(PoisonError::into_inner).recv()?;
    Ok(strings.tell.send("stubborn")?)
}

#[job(retries = 0)]
fn plain(strings: State<Strings>) -> Result<(), BoxError> {
    Ok(strings.tell.send("plain")?)
}

#[job(retries = 0)]
async fn quick(strings: State<Strings>) -> Result<(), BoxError> {
    Ok(strings.tell.send("quick")?)
}

/// A program with a runtime of its own, in which a job blocks a thread.
struct Program {
    runtime: Option<Runtime>,
    /// A client of another program.
    client: Client,
    pool: RunningPool,
    told: mpsc::UnboundedReceiver<&'static str>,
    go: std_mpsc::Sender<()>,
}

impl Program {
    async fn start(store: &Store, query: &str, threads: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let (go, gone) = std_mpsc::channel();
        let strings = Strings { tell, go: Arc::new(Mutex::new(gone)) };
        let url = format!("{}{query}", store.url);
        let builder =
            Client::builder(url).namespace(&store.namespace).connection_name(&store.namespace);
        let pool = runtime.spawn(async move {
            let client = builder.connect().await?;
            let pool = WorkerPool::new(&client).state(strings);
            pool.register::<Stubborn>().register::<Plain>().register::<Quick>().spawn().await
        });
        let pool = soon("the pool to start", pool).await.unwrap().unwrap();
        let client = store.client().await;
        let mut program = Self { runtime: Some(runtime), client, pool, told, go };
        program.client.enqueue(Stubborn {}).await.unwrap();
        program.hears("blocks").await;
        program
    }

    async fn hears(&mut self, word: &str) {
        assert_eq!(soon(word, self.told.recv()).await, Some(word));
    }

    /// Lets the stubborn job go, and sees it end once.
    async fn end(mut self) {
        self.go.send(()).unwrap();
        self.hears("stubborn").await;
        self.pool.shutdown().await.unwrap();
        let counts = self.client.counts("stubborn").await.unwrap();
        assert_eq!(
            (counts.ready, counts.failed),
            (0.into(), 0.into()),
            "it ran once and completed"
        );
        assert!(self.told.is_empty(), "nothing ran twice");
        self.runtime.take().unwrap().shutdown_background();
    }
}

both_engines!(jobs_on_other_threads_go_on, functions_of_a_queue_that_block_run_side_by_side);

async fn jobs_on_other_threads_go_on(store: Store) {
    let mut program = Program::start(&store, "", 2).await;
    for _ in 0..100 {
        program.client.enqueue(Quick {}).await.unwrap();
        program.hears("quick").await;
        program.client.enqueue(Plain {}).await.unwrap();
        program.hears("plain").await;
    }
    program.end().await;
}

/// Blocks its thread until another one has come.
#[job(retries = 0)]
async fn meet(
    place: State<Arc<Barrier>>,
    tell: State<mpsc::UnboundedSender<()>>,
) -> Result<(), BoxError> {
    place.wait();
    Ok(tell.send(())?)
}

async fn functions_of_a_queue_that_block_run_side_by_side(store: Store) {
    let client = store.client().await;
    client.declare::<Meet>().await.unwrap();
    for _ in 0..2 {
        client.enqueue(Meet {}).await.unwrap();
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (tell, mut told) = mpsc::unbounded_channel::<()>();
    let pool = WorkerPool::new(&client).state(Arc::new(Barrier::new(2))).state(tell);
    let pool = pool.register::<Meet>();
    let pool = runtime.spawn(async move { pool.spawn().await }).await.unwrap().unwrap();
    for _ in 0..2 {
        soon("both to meet", told.recv()).await.unwrap();
    }
    pool.shutdown().await.unwrap();
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_and_acks_go_on_while_all_threads_are_blocked() {
    let test = "heartbeats_and_acks_go_on_while_all_threads_are_blocked";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let store = Store::on_broker(vhost.url());
    let mut program = Program::start(&store, "?heartbeat=1", 1).await;
    let before = connections(&vhost, &store.namespace).await;
    assert_eq!(before.lines().count(), 2, "one for publishing and one for consuming: {before}");
    let since = Instant::now();
    // The span itself is the test: a broker that hears nothing for so long ends a connection.
    while since.elapsed() < BLOCKED_FOR {
        program.client.enqueue(Plain {}).await.unwrap();
        program.hears("plain").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until("all but the one that runs to be acknowledged", async || {
        let queues = vhost.list("list_queues", &["name", "messages", "--silent"]).await;
        let line = |queue: &str, count: u32| {
            let line = format!("{}:{queue}\t{count}", store.namespace);
            queues.lines().any(|found| found == line)
        };
        (line("plain", 0) && line("stubborn", 1)).then_some(())
    })
    .await;
    assert_eq!(
        connections(&vhost, &store.namespace).await,
        before,
        "the connections have lived all the time"
    );
    assert!(program.pool.health().is_consuming());
    program.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_ends_with_the_runtime_of_its_jobs() {
    let store = Store::sqlite().await;
    let mut program = Program::start(&store, "", 2).await;
    program.runtime.take().unwrap().shutdown_background();
    let error = soon("the end of the pool", program.pool.wait()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    assert!(error.to_string().contains("runtime"), "{error}");
    // Its job was handed back, whether or not its thread is still blocked.
    until("the job to be there", async || {
        (program.client.counts("stubborn").await.ok()?.ready == 1).then_some(())
    })
    .await;
    drop(program.go);
}

/// The connections of the program whose job blocks.
async fn connections(vhost: &Vhost, name: &str) -> String {
    let columns = ["list_connections", "pid", "client_properties", "--silent"];
    let all = vhost.node().ctl(&columns).await;
    let mut lines: Vec<_> = all.lines().filter(|line| line.contains(name)).collect();
    lines.sort_unstable();
    lines.join("\n")
}
