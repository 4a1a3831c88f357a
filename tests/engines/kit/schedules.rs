//! Periodic jobs in the test kit, whose clock drives them.

use std::time::{Duration, UNIX_EPOCH};

use jobq::testing::Jobs;
use jobq::{BoxError, JobContext, Missed, State, job};

use super::Trace;

#[job(cron = "30 2 * * MON-FRI", zone = "Europe/Berlin")]
async fn report(ctx: JobContext, trace: State<Trace>) -> Result<(), BoxError> {
    let due = ctx.due().duration_since(UNIX_EPOCH)?.as_secs();
    trace.push(format!("{due} {}", ctx.missed()));
    Ok(())
}

#[job(every = "1m")]
async fn sample() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 1, delay = "10s")]
async fn poll(feed: u64, trace: State<Trace>, ctx: JobContext) -> Result<(), BoxError> {
    trace.push(format!("{} feed {feed} {}", ctx.schedule().unwrap_or("-"), ctx.attempt()));
    if ctx.attempt() == 1 { Err("busy".into()) } else { Ok(()) }
}

#[tokio::test]
async fn a_month_of_times_passes_at_once() {
    let trace = Trace::default();
    // 1 March 2027, 00:00 in UTC: a Monday.
    let start = UNIX_EPOCH + Duration::from_secs(1_803_859_200);
    let jobs = Jobs::new().starting_at(start).state(trace.clone());
    let jobs = jobs.register::<Report>().register::<Sample>().start().await;
    let ran = jobs.advance("31d").await;
    let samples = ran.attempts().iter().filter(|ran| ran.job() == "sample").count();
    assert_eq!(samples, 31 * 24 * 60);
    let reports = trace.take();
    // 23 working days; from 28 March on, the clocks of Berlin are an hour ahead.
    assert_eq!(reports.len(), 23);
    assert_eq!(reports[0], format!("{} 0", 1_803_859_200 + 5_400));
    assert_eq!(reports[20], format!("{} 0", 1_803_859_200 + 28 * 86_400 + 1_800));
    ran.all_completed();
}

#[tokio::test]
async fn a_job_makes_and_removes_schedules() {
    let trace = Trace::default();
    let jobs = Jobs::new().starting_at(UNIX_EPOCH + Duration::from_secs(1_803_859_260));
    let jobs = jobs.state(trace.clone()).register::<Poll>().start().await;
    let client = jobs.client();
    let feed = client.schedule("feed-7", Poll { feed: 7 }).every("1h").missed(Missed::Skip);
    feed.await.unwrap();
    let schedules = client.schedules().await.unwrap().schedules;
    assert_eq!((schedules.len(), schedules[0].name.as_str()), (1, "feed-7"));
    let _ = jobs.advance("2h").await;
    let runs = ["feed-7 feed 7 1", "feed-7 feed 7 2"];
    assert_eq!(trace.take(), [runs, runs].concat());
    client.unschedule("feed-7").await.unwrap();
    assert_eq!(jobs.advance("1d").await.attempts().len(), 0);
}

#[tokio::test]
async fn times_may_come_from_the_configuration() {
    let jobs = Jobs::new().register::<Sample>().cron::<Sample>("@hourly").start().await;
    assert_eq!(jobs.advance("2h").await.of::<Sample>().count(), 2);
}
