//! Plain functions run on threads that the program's runtime does not have: as many at once as
//! there are slots, none of them in the way of that runtime's end.

use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;

use jobq::{BoxError, Client, Job, JobContext, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{DEADLINE, Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

both_engines!(
    as_many_run_at_once_as_there_are_slots,
    the_runtime_of_the_program_is_entered,
    a_queue_may_have_both_kinds,
    a_plain_function_handles_jobs_of_a_declared_type,
    a_stuck_one_is_in_nobodys_way,
    the_end_of_the_runtime_costs_no_attempt,
);

const PROGRAM: &str = "the program";

/// Runs on a thread of its own, in each kind of runtime, with a client, and ends when the
/// runtime has.
async fn in_each_runtime<F: Future<Output = jobq::Result<()>>>(
    store: &Store,
    main: impl Fn(Client) -> F + Clone + Send + 'static,
) {
    let kinds: [fn() -> Builder; 2] = [Builder::new_multi_thread, Builder::new_current_thread];
    for kind in kinds {
        let (url, namespace, main) = (store.url.clone(), store.namespace.clone(), main.clone());
        let named = thread::Builder::new().name(PROGRAM.into());
        let program = named.spawn(move || {
            let mut builder = kind();
            // The threads for what blocks are scarce.
            builder.worker_threads(1).max_blocking_threads(1).thread_name(PROGRAM).enable_all();
            let runtime: Runtime = builder.build().unwrap();
            runtime.block_on(async {
                let builder = Client::builder(url).namespace(namespace).timeout(DEADLINE);
                main(builder.connect().await?).await
            })
        });
        let joining = tokio::task::spawn_blocking(move || program.unwrap().join());
        soon("the program to end", joining).await.unwrap().expect("no panic").unwrap();
    }
}

/// Where so many wait for each other.
struct Meeting {
    missing: Mutex<usize>,
    all: Condvar,
}

impl Meeting {
    fn of(many: usize) -> Arc<Self> {
        Arc::new(Self { missing: Mutex::new(many), all: Condvar::new() })
    }

    /// Whether all came while this one waited.
    fn join(&self) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing -= 1;
        self.all.notify_all();
        let waiting = self.all.wait_timeout_while(missing, DEADLINE, |missing| *missing > 0);
        !waiting.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

#[job(retries = 0, timeout = "10m", concurrency = 10)]
fn meet(
    meeting: State<Arc<Meeting>>,
    met: State<mpsc::UnboundedSender<bool>>,
) -> Result<(), BoxError> {
    Ok(met.send(meeting.join())?)
}

async fn as_many_run_at_once_as_there_are_slots(store: Store) {
    in_each_runtime(&store, |client| async move {
        let (met, mut meetings) = mpsc::unbounded_channel::<bool>();
        let pool = WorkerPool::new(&client).state(met).state(Meeting::of(10));
        let pool = pool.register::<Meet>().spawn().await?;
        client.enqueue_all((0..10).map(|_| Meet {})).await.expect("all are accepted");
        for _ in 0..10 {
            assert_eq!(meetings.recv().await, Some(true), "one waited for a thread");
        }
        pool.shutdown().await
    })
    .await;
}

/// The name of the thread that a task of this runtime has.
async fn whose() -> Result<String, BoxError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let task = tokio::spawn(async { thread::current().name().unwrap_or_default().to_owned() });
    Ok(task.await?)
}

/// Who ran, the thread that it ran on, and the one that its tasks have.
type Seen = (&'static str, String, String);

fn this_thread() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

#[job(queue = "both", retries = 0)]
fn plain_kind(seen: State<mpsc::UnboundedSender<Seen>>) -> Result<(), BoxError> {
    let tasks = Handle::current().block_on(whose())?;
    Ok(seen.send(("plain", this_thread(), tasks))?)
}

#[job(queue = "both", retries = 0)]
async fn async_kind(seen: State<mpsc::UnboundedSender<Seen>>) -> Result<(), BoxError> {
    Ok(seen.send(("async", this_thread(), whose().await?))?)
}

async fn the_runtime_of_the_program_is_entered(store: Store) {
    in_each_runtime(&store, |client| async move {
        let (seen, mut kinds) = mpsc::unbounded_channel::<Seen>();
        let pool = WorkerPool::new(&client).state(seen).register::<PlainKind>().spawn().await?;
        client.enqueue(PlainKind {}).await?;
        let (_, thread, tasks) = kinds.recv().await.expect("the pool runs");
        assert_ne!(thread, PROGRAM, "it blocks a thread of its own");
        assert_eq!(tasks, PROGRAM);
        pool.shutdown().await
    })
    .await;
}

async fn a_queue_may_have_both_kinds(store: Store) {
    in_each_runtime(&store, |client| async move {
        let (seen, mut kinds) = mpsc::unbounded_channel::<Seen>();
        let pool = WorkerPool::new(&client).state(seen).concurrency(3);
        let pool = pool.register::<PlainKind>().register::<AsyncKind>().spawn().await?;
        for _ in 0..20 {
            client.enqueue(PlainKind {}).await?;
            client.enqueue(AsyncKind {}).await?;
        }
        let mut count = [0, 0];
        for _ in 0..40 {
            let (kind, thread, tasks) = kinds.recv().await.expect("the pool runs");
            assert_eq!((kind == "async", &*tasks), (thread == PROGRAM, PROGRAM));
            count[usize::from(kind == "async")] += 1;
        }
        assert_eq!(count, [20, 20]);
        pool.shutdown().await
    })
    .await;
}

#[derive(Serialize, Deserialize, Job)]
#[job(retries = 1, delay = "100ms")]
struct Resize {
    image: u64,
}

#[allow(clippy::needless_pass_by_value)] // as the pool gives them
fn resize(
    ctx: JobContext,
    job: Resize,
    seen: State<mpsc::UnboundedSender<(u64, u32, String)>>,
) -> Result<(), BoxError> {
    seen.send((job.image, ctx.attempt(), this_thread()))?;
    if ctx.attempt() == 1 { Err("again".into()) } else { Ok(()) }
}

async fn a_plain_function_handles_jobs_of_a_declared_type(store: Store) {
    in_each_runtime(&store, |client| async move {
        let (seen, mut images) = mpsc::unbounded_channel::<(u64, u32, String)>();
        let pool = WorkerPool::new(&client).state(seen).handle(resize).spawn().await?;
        client.enqueue(Resize { image: 7 }).await?;
        for attempt in 1..=2 {
            let (image, of, thread) = images.recv().await.expect("the pool runs");
            assert_eq!((image, of), (7, attempt));
            assert_ne!(thread, PROGRAM, "it blocks a thread of its own");
        }
        pool.shutdown().await
    })
    .await;
}

/// Tells that it runs, and blocks its thread until it may go.
#[derive(Clone)]
struct Lock {
    tell: mpsc::UnboundedSender<&'static str>,
    go: Arc<Mutex<std_mpsc::Receiver<()>>>,
}

#[job(queue = "locked", retries = 0, timeout = "100ms")]
fn stuck(lock: State<Lock>) -> Result<(), BoxError> {
    lock.tell.send("stuck")?;
    Ok(lock.go.lock().unwrap_or_else(PoisonError::into_inner).recv()?)
}

#[job(queue = "locked", retries = 0)]
fn quick(lock: State<Lock>) -> Result<(), BoxError> {
    Ok(lock.tell.send("quick")?)
}

async fn a_stuck_one_is_in_nobodys_way(store: Store) {
    // Those that are stuck stay so to the end of the test.
    let (go, lock) = std_mpsc::channel();
    let lock = Arc::new(Mutex::new(lock));
    in_each_runtime(&store, move |client| {
        let go = Arc::clone(&lock);
        async move {
            let (tell, mut told) = mpsc::unbounded_channel();
            let pool = WorkerPool::new(&client).state(Lock { tell, go }).concurrency(2);
            let pool = pool.register::<Stuck>().register::<Quick>().spawn().await?;
            client.enqueue(Stuck {}).await?;
            assert_eq!(told.recv().await, Some("stuck"));
            until("its attempt to fail", async || {
                (client.counts("locked").await.ok()?.failed == 1).then_some(())
            })
            .await;
            for _ in 0..10 {
                client.enqueue(Quick {}).await?;
                assert_eq!(told.recv().await, Some("quick"));
            }
            pool.shutdown().await?;
            client.failed("locked").purge().await.map(|_| ())
        }
    })
    .await;
    drop(go);
}

#[job(retries = 0)]
fn outlast(
    ctx: JobContext,
    began: State<mpsc::UnboundedSender<u32>>,
    lasts: State<bool>,
) -> Result<(), BoxError> {
    began.send(ctx.attempt())?;
    if *lasts {
        loop {
            // Panics when the runtime has no timers any more.
            Handle::current().block_on(tokio::time::sleep(Duration::from_millis(1)));
        }
    }
    Ok(())
}

async fn the_end_of_the_runtime_costs_no_attempt(store: Store) {
    in_each_runtime(&store, |client| async move {
        let (began, mut begins) = mpsc::unbounded_channel::<u32>();
        let pool = WorkerPool::new(&client).state(began).state(true);
        let _running = pool.register::<Outlast>().spawn().await?;
        client.enqueue(Outlast {}).await?;
        assert_eq!(begins.recv().await, Some(1));
        Ok(())
    })
    .await;
    let client = store.client().await;
    let (began, mut begins) = mpsc::unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(began).state(false);
    let running = pool.register::<Outlast>().spawn().await.unwrap();
    // One job of each runtime.
    for _ in 0..2 {
        assert_eq!(soon("the next attempt", begins.recv()).await, Some(1));
    }
    running.shutdown().await.unwrap();
    let counts = client.counts("outlast").await.unwrap();
    assert_eq!((counts.ready, counts.failed), (0.into(), 0.into()));
}
