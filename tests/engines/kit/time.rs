//! The clock of a test, and the clock of tokio.

use std::time::{Duration, UNIX_EPOCH};

use jobq::testing::Jobs;
use jobq::{BoxError, FailedReason, JobContext, State, job, snooze};

use super::Trace;

fn seconds(ctx: &JobContext) -> u64 {
    ctx.now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

const DAY: u64 = 86_400;

#[job(retries = 3, delay = ["1h", "1d", "2d"])]
async fn charge(order: u64, ctx: JobContext, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(format!("{order} at {}", seconds(&ctx)));
    Err("no money".into())
}

#[tokio::test]
async fn days_of_retries_run_in_the_order_of_their_times() {
    let trace = Trace::default();
    let jobs = Jobs::new().state(trace.clone()).register::<Charge>().starting_at(UNIX_EPOCH);
    let jobs = jobs.start().await;
    jobs.client().enqueue(Charge { order: 1 }).await.unwrap();
    jobs.client().enqueue(Charge { order: 2 }).delay("30m").await.unwrap();
    let ran = jobs.advance("4d").await;
    let expected = [
        (1, 0),
        (2, 1_800),
        (1, 3_600),
        (2, 5_400),
        (1, 3_600 + DAY),
        (2, 5_400 + DAY),
        (1, 3_600 + 3 * DAY),
        (2, 5_400 + 3 * DAY),
    ];
    assert_eq!(trace.take(), expected.map(|(order, at)| format!("{order} at {at}")));
    assert_eq!(jobs.now(), UNIX_EPOCH + Duration::from_secs(4 * DAY));
    let last = &ran.attempts()[7];
    assert_eq!((last.attempt(), last.failed_as()), (4, Some(FailedReason::Exhausted)));
    assert_eq!(last.at(), UNIX_EPOCH + Duration::from_secs(5_400 + 3 * DAY));
    let failed = jobs.failed::<Charge>();
    assert_eq!(failed[0].failed_at(), UNIX_EPOCH + Duration::from_secs(3_600 + 3 * DAY));
}

#[job(expires = "1h")]
async fn alert(text: String, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(text.clone());
    if text == "not yet" { Err(snooze(Duration::from_secs(3_700)).into()) } else { Ok(()) }
}

#[tokio::test]
async fn a_job_expires_by_the_clock_of_the_test() {
    let trace = Trace::default();
    let jobs = Jobs::new().state(trace.clone()).register::<Alert>().start().await;
    jobs.client().enqueue(Alert { text: "not yet".into() }).await.unwrap();
    let ran = jobs.advance("2h").await;
    assert_eq!(ran.attempts().len(), 2);
    assert_eq!(ran.attempts()[1].failed_as(), Some(FailedReason::Expired));
    assert_eq!(trace.take(), ["not yet"]);
}

#[job(timeout = "10m")]
async fn slow(minutes: u64) -> Result<(), BoxError> {
    tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn paused_time_covers_sleeps_and_timeouts_of_jobs() {
    let jobs = Jobs::new().register::<Slow>().start().await;
    assert!(jobs.run(Slow { minutes: 9 }).await.is_completed());
    let slow = jobs.run(Slow { minutes: 11 }).await;
    assert_eq!(slow.error(), Some("it took longer than its timeout of 10m"));
}

#[job(timeout = "10ms")]
fn blocking(trace: State<Trace>) -> Result<(), BoxError> {
    trace.push("began");
    // Long enough for a clock that would run away.
    std::thread::sleep(Duration::from_millis(1));
    trace.push("ended");
    Ok(())
}

/// Paused time runs on by itself where a runtime has nothing to do.
#[tokio::test(start_paused = true)]
async fn paused_time_stands_still_while_a_plain_function_runs() {
    let trace = Trace::default();
    let jobs = Jobs::new().state(trace.clone()).register::<Blocking>().start().await;
    for _ in 0..20 {
        jobs.client().enqueue(Blocking {}).await.unwrap();
    }
    jobs.drain().await.all_completed();
    assert_eq!(trace.take().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_of_tokio_moves_with_the_clock_of_the_test() {
    let jobs = Jobs::new().register::<Slow>().start().await;
    let start = tokio::time::Instant::now();
    jobs.client().enqueue(Slow { minutes: 0 }).delay("1h").await.unwrap();
    jobs.advance("2h").await.all_completed();
    assert_eq!(start.elapsed().as_secs(), 7_200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_may_have_several_threads() {
    let jobs = Jobs::new().register::<Slow>().start().await;
    jobs.client().enqueue(Slow { minutes: 0 }).delay("1d").await.unwrap();
    jobs.advance("2d").await.all_completed();
}
