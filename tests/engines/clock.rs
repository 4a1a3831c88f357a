//! Clients and pools whose clock the test moves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobq::{BoxError, Client, Clock, FailedReason, JobContext, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{DEADLINE, Store, soon, until};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

both_engines!(enqueueing_expiry_and_failure_go_by_the_clock_of_the_client);

/// Far from the system's time.
fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(4_000_000_000)
}

const HOUR: Duration = Duration::from_secs(3_600);

type Seen = UnboundedSender<(SystemTime, SystemTime)>;

#[job(retries = 2, delay = "1d")]
async fn clocked(fails: bool, seen: State<Seen>, ctx: JobContext) -> Result<(), BoxError> {
    seen.send((ctx.enqueued_at(), ctx.now()))?;
    if fails { Err("no".into()) } else { Ok(()) }
}

async fn client(store: &Store, clock: &Clock) -> Client {
    let builder = Client::builder(&store.url).namespace(&store.namespace);
    builder.timeout(DEADLINE).clock(clock.clone()).connect().await.unwrap()
}

async fn enqueueing_expiry_and_failure_go_by_the_clock_of_the_client(store: Store) {
    let clock = Clock::stopped_at(start());
    let client = client(&store, &clock).await;
    let (seen, mut runs) = unbounded_channel::<(SystemTime, SystemTime)>();
    client.enqueue(Clocked { fails: false }).await.unwrap();
    client.enqueue(Clocked { fails: false }).expires_in(HOUR).await.unwrap();
    clock.advance(HOUR);
    let pool = WorkerPool::new(&client).state(seen).register::<Clocked>().spawn().await.unwrap();
    assert_eq!(soon("the first job", runs.recv()).await, Some((start(), start() + HOUR)));
    let failed =
        until("the second job", async || client.failed("clocked").list(1).await.ok()?.pop());
    let failed = failed.await;
    assert_eq!((failed.reason(), failed.failed_at()), (FailedReason::Expired, start() + HOUR));
    pool.shutdown().await.unwrap();
    client.close().await;
}

/// Days of delays and retries pass as the test says.
#[tokio::test]
async fn waits_in_a_file_end_when_its_clock_is_moved() {
    let store = Store::sqlite().await;
    let clock = Clock::stopped_at(start());
    let client = client(&store, &clock).await;
    let (seen, mut runs) = unbounded_channel::<(SystemTime, SystemTime)>();
    let pool = WorkerPool::new(&client).state(seen).register::<Clocked>().spawn().await.unwrap();
    client.enqueue(Clocked { fails: true }).delay(24 * HOUR).await.unwrap();
    for attempt in 1..=3 {
        let counts = until("a waiting job", async || {
            client.counts("clocked").await.ok().filter(|counts| counts.waiting == 1)
        });
        counts.await;
        clock.advance(24 * HOUR);
        let now = start() + attempt * 24 * HOUR;
        assert_eq!(soon("an attempt", runs.recv()).await, Some((start(), now)));
    }
    let failed = until("a failed job", async || client.failed("clocked").list(1).await.ok()?.pop());
    assert_eq!(failed.await.failed_at(), start() + 72 * HOUR);
    pool.shutdown().await.unwrap();
    client.close().await;
}
