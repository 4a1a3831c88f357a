//! How much a pool holds ahead of its slots: little where payloads are large, and nothing where
//! another pool has a free slot.

use jobq::{BoxError, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use tokio::sync::{mpsc, watch};

both_engines!(few_large_jobs_are_taken_ahead, jobs_that_wait_behind_a_long_one_go_to_a_free_pool,);

const LARGE: usize = 1 << 20;
/// How many large jobs there are. The first one shows the pool how large they are.
const JOBS: u32 = 80;
/// How many small jobs come after it. They are quick, so that the pool takes many ahead.
const QUICK: u32 = 50;
/// A payload is a little more than its text, so that 64 of them have no room in 64 MiB.
const AHEAD: u64 = 63;

#[job(concurrency = 2)]
async fn sized(
    number: u32,
    text: String,
    began: State<mpsc::UnboundedSender<u32>>,
    go: State<watch::Receiver<bool>>,
) -> Result<(), BoxError> {
    began.send(number)?;
    if text.len() == LARGE {
        (*go).clone().wait_for(|go| *go).await?;
    }
    Ok(())
}

async fn few_large_jobs_are_taken_ahead(store: Store) {
    let client = store.client().await;
    let enqueue = async |number, size| {
        let job = Sized { number, text: "x".repeat(size) };
        client.enqueue(job).await.expect("it is accepted");
    };
    client.declare::<Sized>().await.unwrap();
    let is_small = |number: u32| (1..=QUICK).contains(&number);
    for number in 0..JOBS + QUICK {
        enqueue(number, if is_small(number) { 0 } else { LARGE }).await;
    }
    let (began, mut begins) = mpsc::unbounded_channel::<u32>();
    let (go, gone) = watch::channel(false);
    let pool = WorkerPool::new(&client).state(began).state(gone).register::<Sized>();
    let running = pool.spawn().await.unwrap();
    // Two large jobs run now.
    for _ in 0..QUICK + 2 {
        soon("the next job", begins.recv()).await.unwrap();
    }

    let ready = async || client.counts("sized").await.unwrap().ready;
    let waiting = u64::from(JOBS - 2);
    // A pool on a loaded machine takes fewer, as its jobs are slower.
    until("jobs to be taken ahead", async || (ready().await <= waiting - AHEAD / 2).then_some(()))
        .await;
    // On RabbitMQ one may be of the prefetch before.
    let least = waiting - AHEAD - 1;
    assert!(ready().await >= least);
    // With others there to be taken, it stays so.
    enqueue(JOBS + QUICK, LARGE).await;
    enqueue(JOBS + QUICK + 1, LARGE).await;
    let now = ready().await;
    assert!(now >= least + 2, "{now} of {waiting} and two more are ready");

    go.send_replace(true);
    for _ in 2..JOBS + 2 {
        soon("the next job", begins.recv()).await.unwrap();
    }
    running.shutdown().await.unwrap();
}

/// Tells which pool began which job.
#[derive(Debug, Clone)]
struct Log {
    pool: &'static str,
    began: mpsc::UnboundedSender<(&'static str, u32)>,
}

/// The number of the job that waits for the test. The ones before it are quick, so that a pool takes
/// many ahead.
const LONG: u32 = 20;

#[job(concurrency = 1)]
async fn numbered(
    number: u32,
    log: State<Log>,
    go: State<watch::Receiver<bool>>,
) -> Result<(), BoxError> {
    log.began.send((log.pool, number))?;
    if number == LONG {
        (*go).clone().wait_for(|go| *go).await?;
    }
    Ok(())
}

async fn jobs_that_wait_behind_a_long_one_go_to_a_free_pool(store: Store) {
    let client = store.client().await;
    client.declare::<Numbered>().await.unwrap();
    let enqueue = async |number| {
        client.enqueue(Numbered { number }).await.expect("it is accepted");
    };
    for number in 0..=LONG + 10 {
        enqueue(number).await;
    }
    let (began, mut begins) = mpsc::unbounded_channel();
    let mut next = async || soon("the next job", begins.recv()).await.unwrap();
    let (go, gone) = watch::channel(false);
    let pool = |client, pool| {
        let log = Log { pool, began: began.clone() };
        WorkerPool::new(client).state(log).state(gone.clone()).register::<Numbered>()
    };
    let first = pool(&client, "first").spawn().await.unwrap();
    for number in 0..=LONG {
        assert_eq!(next().await, ("first", number));
    }
    until("all jobs to be taken ahead", async || {
        (client.counts("numbered").await.unwrap().ready == 0).then_some(())
    })
    .await;

    let other = store.client().await;
    let second = pool(&other, "second").spawn().await.unwrap();
    // On RabbitMQ jobs of two channels may change places.
    let mut handed_back = Vec::new();
    for _ in 0..10 {
        handed_back.push(next().await);
    }
    handed_back.sort_unstable();
    assert!(handed_back.into_iter().eq((LONG + 1..=LONG + 10).map(|number| ("second", number))));
    // The first pool takes nothing until its slot ends, and goes on then.
    enqueue(LONG + 11).await;
    assert_eq!(next().await, ("second", LONG + 11));
    second.shutdown().await.unwrap();
    enqueue(LONG + 12).await;
    enqueue(LONG + 13).await;
    go.send_replace(true);
    assert_eq!(next().await, ("first", LONG + 12));
    assert_eq!(next().await, ("first", LONG + 13));
    first.shutdown().await.unwrap();
}
