//! What a pool takes ahead of its slots is little where payloads are large.

use jobq::{BoxError, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::stage::{Store, soon, until};
use tokio::sync::{mpsc, watch};

both_engines!(few_large_jobs_are_taken_ahead);

const LARGE: usize = 1 << 20;
/// How many of them there are.
const JOBS: u32 = 70;
/// The first ones are quick, so that a pool would take many ahead of its slot.
const QUICK: u32 = 2;
/// A payload is a little more than its text, so that 64 of them have no room in 64 MiB.
const AHEAD: u64 = 63;

#[job(concurrency = 1)]
async fn large(
    number: u32,
    text: String,
    began: State<mpsc::UnboundedSender<(u32, usize)>>,
    go: State<watch::Receiver<bool>>,
) -> Result<(), BoxError> {
    began.send((number, text.len()))?;
    if number >= QUICK {
        (*go).clone().wait_for(|go| *go).await?;
    }
    Ok(())
}

async fn few_large_jobs_are_taken_ahead(store: Store) {
    let client = store.client().await;
    let enqueue = async |number| {
        client.enqueue(Large { number, text: "x".repeat(LARGE) }).await.expect("it is accepted");
    };
    client.declare::<Large>().await.unwrap();
    for number in 0..JOBS {
        enqueue(number).await;
    }
    let (began, mut begins) = mpsc::unbounded_channel::<(u32, usize)>();
    let (go, gone) = watch::channel(false);
    let pool = WorkerPool::new(&client).state(began).state(gone).register::<Large>();
    let running = pool.spawn().await.unwrap();
    for number in 0..=QUICK {
        assert_eq!(soon("the next job", begins.recv()).await, Some((number, LARGE)));
    }

    let ready = async || client.counts("large").await.unwrap().ready;
    let left = u64::from(JOBS - QUICK - 1) - AHEAD;
    until("jobs to be taken ahead", async || (ready().await <= left).then_some(())).await;
    // With others there to be taken, it stays so. On RabbitMQ one may be of the prefetch before.
    enqueue(JOBS).await;
    enqueue(JOBS + 1).await;
    let now = ready().await;
    assert!((left + 1..=left + 2).contains(&now), "{now} of {left} and two more are ready");

    go.send_replace(true);
    for number in QUICK + 1..JOBS + 2 {
        assert_eq!(soon("the next job", begins.recv()).await, Some((number, LARGE)));
    }
    running.shutdown().await.unwrap();
}
