//! The log of a program.

use std::time::Duration;

use jobq::{BoxError, State, WorkerPool, abort, job};
use jobq_tests::both_engines;
use jobq_tests::seen::Seen;
use jobq_tests::stage::{Store, soon, until};
use tokio::sync::mpsc;

both_engines!(a_healthy_program_logs_nothing_above_info, a_pool_tells_what_it_did);

#[job(retries = 5, delay = "100ms", timeout = "1m")]
async fn check(
    until: u32,
    began: State<mpsc::UnboundedSender<u32>>,
    ctx: jobq::JobContext,
) -> Result<(), BoxError> {
    began.send(ctx.attempt())?;
    match ctx.attempt() {
        attempt if attempt < until => Err("not yet".into()),
        6 => Err(abort("never").into()),
        _ => Ok(()),
    }
}

async fn a_healthy_program_logs_nothing_above_info(store: Store) {
    let log = Seen::log();
    let client = store.client().await;
    assert!(client.counts("missing").await.unwrap().is_empty());
    client.enqueue(Check { until: 0 }).await.unwrap();
    client.enqueue(Check { until: 0 }).delay(Duration::from_millis(700)).await.unwrap();
    client.declare::<Check>().await.unwrap();
    let (began, mut attempts) = mpsc::unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(began).register::<Check>().spawn().await.unwrap();
    for _ in 0..2 {
        assert_eq!(soon("an attempt", attempts.recv()).await, Some(1));
    }
    pool.shutdown().await.unwrap();
    client.failed("missing").list(1).await.unwrap();
    client.close().await;
    let alarming = [log.lines(&[" ERROR "]), log.lines(&[" WARN "])].concat();
    assert!(alarming.is_empty(), "{}", alarming.join("\n"));
}

async fn a_pool_tells_what_it_did(store: Store) {
    let log = Seen::log();
    let client = store.client().await;
    let (began, mut attempts) = mpsc::unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(began).concurrency(7).register::<Check>();
    let running = pool.spawn().await.unwrap();
    let [started] = &log.lines(&["pool takes jobs"])[..] else { panic!("{}", log.text()) };
    let engine = if store.url.starts_with("amqp") { "RabbitMQ" } else { "SQLite" };
    for part in [" INFO ", engine, "check=7"] {
        assert!(started.contains(part), "{part}: {started}");
    }
    let version = started.split(engine).nth(1).unwrap().trim_start();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{started}");

    for (until_attempt, last) in [(1, 1), (3, 3), (6, 6)] {
        client.enqueue(Check { until: until_attempt }).await.unwrap();
        for attempt in 1..=last {
            assert_eq!(soon("an attempt", attempts.recv()).await, Some(attempt));
        }
    }
    until("the last to have failed", async || {
        (client.counts("check").await.ok()?.failed == 1).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
    assert_eq!(log.lines(&[" WARN ", "attempt=2 of=6"]).len(), 2, "{}", log.text());
    assert_eq!(log.lines(&[" ERROR ", "attempt=6 of=6", "aborted"]).len(), 1, "{}", log.text());
    let ended = "pool ended completed=2 retried=7 failed=1";
    assert_eq!(log.lines(&[" INFO ", ended]).len(), 1, "{}", log.text());
}
