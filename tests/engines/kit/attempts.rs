//! Attempts: drained, single, delivered twice, crashed.

use std::time::Duration;

use jobq::testing::Jobs;
use jobq::{
    BoxError, Event, FailedReason, Job, JobContext, JobId, State, abort, job, retry_in, snooze,
};
use serde::{Deserialize, Serialize};

use super::{Trace, panic_of};

#[job(retries = 2, delay = "1m")]
async fn order(id: u64, ctx: JobContext, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(format!("order {id}"));
    for part in 1..=2 {
        ctx.client().enqueue(Ship { order: id, part }).await?;
    }
    Ok(())
}

#[job(queue = "warehouse")]
fn ship(order: u64, part: u64, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(format!("ship {order}/{part}"));
    Ok(())
}

async fn shop() -> (Jobs, Trace) {
    let trace = Trace::default();
    let jobs = Jobs::new().state(trace.clone()).register::<Order>().register::<Ship>();
    (jobs.start().await, trace)
}

#[tokio::test]
async fn a_drain_runs_what_is_due_and_what_that_enqueues() {
    let (jobs, trace) = shop().await;
    for id in [1, 2] {
        jobs.client().enqueue(Order { id }).await.unwrap();
    }
    jobs.client().enqueue(Order { id: 3 }).delay("1h").await.unwrap();
    let ran = jobs.drain().await;
    ran.all_completed();
    assert_eq!(
        trace.take(),
        ["order 1", "order 2", "ship 1/1", "ship 1/2", "ship 2/1", "ship 2/2"]
    );
    assert_eq!((ran.attempts().len(), ran.of::<Ship>().count()), (6, 4));
    assert_eq!(
        panic_of(async { jobs.drain().await.all_completed() }).await,
        "no job ran: none was due"
    );
    assert_eq!(jobs.enqueued::<Order>().len(), 1);
}

#[tokio::test]
async fn tests_share_nothing() {
    let ((one, traced), (other, untraced)) = (shop().await, shop().await);
    one.client().enqueue(Order { id: 1 }).await.unwrap();
    assert_eq!(other.drain().await.attempts().len(), 0);
    assert_eq!(one.drain().await.attempts().len(), 3);
    assert_eq!((traced.take().len(), untraced.take().len()), (3, 0));
}

#[derive(Serialize, Deserialize, Job)]
struct Elsewhere {
    id: u64,
}

#[tokio::test]
async fn jobs_of_other_programs_stay_enqueued() {
    let (jobs, _) = shop().await;
    let id = jobs.client().enqueue(Elsewhere { id: 7 }).await.unwrap();
    assert_eq!(jobs.drain().await.attempts().len(), 0);
    assert_eq!(jobs.enqueued::<Elsewhere>()[0].id, 7);
    let text = panic_of(jobs.deliver_twice(id)).await;
    assert!(text.contains("`elsewhere` has no function here"), "{text}");
    let text = panic_of(async { jobs.run(Elsewhere { id: 7 }).await }).await;
    assert!(text.contains("`elsewhere` has no function here"), "{text}");
}

#[job(retries = 3, delay = "30s")]
async fn end(how: String, ctx: JobContext) -> Result<(), BoxError> {
    let wait = Duration::from_secs(90);
    match &*how {
        "fail" => Err(format!("no {}", ctx.attempt()).into()),
        "abort" => Err(abort("closed").into()),
        "retry_in" => Err(retry_in(wait, "busy").into()),
        "snooze" => Err(snooze(wait).into()),
        "panic" => panic!("the fake expected 1 letter"),
        _ => Ok(()),
    }
}

fn how(how: &str) -> End {
    End { how: how.to_owned() }
}

#[tokio::test]
async fn a_single_attempt_says_how_it_ended() {
    let jobs = Jobs::new().register::<End>().start().await;
    let attempt = |what: &str, number| jobs.run(how(what)).attempt(number);
    assert!(attempt("complete", 1).await.is_completed());
    let failed = attempt("fail", 3).await;
    assert_eq!((failed.error(), failed.attempt()), (Some("no 3"), 3));
    assert_eq!(failed.retried_after(), Some(Duration::from_secs(30)));
    let exhausted = attempt("fail", 4).await;
    assert_eq!(exhausted.failed_as(), Some(FailedReason::Exhausted));
    assert_eq!(exhausted.to_string(), "end, attempt 4: failed for good (exhausted): no 4");
    assert_eq!(attempt("abort", 1).await.failed_as(), Some(FailedReason::Aborted));
    assert_eq!(attempt("retry_in", 1).await.retried_after(), Some(Duration::from_secs(90)));
    assert_eq!(attempt("snooze", 1).await.snoozed_for(), Some(Duration::from_secs(90)));
    // They are in no queue.
    assert!(jobs.enqueued::<End>().is_empty() && jobs.failed::<End>().is_empty());
}

#[tokio::test]
async fn attempts_that_did_not_complete_are_listed_with_their_errors() {
    let jobs = Jobs::new().register::<End>().start().await;
    for what in ["complete", "fail", "snooze", "abort"] {
        jobs.client().enqueue(how(what)).await.unwrap();
    }
    let text = panic_of(async { jobs.drain().await.all_completed() }).await;
    let expected = "3 of 4 attempts did not complete their job:\n  \
        end, attempt 1: retried after 30s: no 1\n  \
        end, attempt 1: snoozed for 1m30s\n  \
        end, attempt 1: failed for good (aborted): closed";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_panic_fails_the_test_with_the_jobs_name() {
    let jobs = Jobs::new().register::<End>().start().await;
    let id = jobs.client().enqueue(how("panic")).await.unwrap();
    let expected = format!("job `end` ({id}), attempt 1: it panicked: the fake expected 1 letter");
    assert_eq!(panic_of(jobs.drain()).await, expected);
    let jobs = Jobs::new().allow_panics().register::<End>().start().await;
    let ended = jobs.run(how("panic")).await;
    assert_eq!(ended.error(), Some("it panicked: the fake expected 1 letter"));
    assert_eq!(ended.retried_after(), Some(Duration::from_secs(30)));
}

#[job]
async fn echo(ctx: JobContext) -> Result<(), BoxError> {
    ctx.client().enqueue(Echo {}).await?;
    Ok(())
}

#[tokio::test]
async fn jobs_without_end_are_named() {
    let jobs = Jobs::new().register::<Echo>().register::<End>().start().await;
    jobs.client().enqueue(how("complete")).await.unwrap();
    jobs.client().enqueue(Echo {}).await.unwrap();
    let text = panic_of(jobs.drain()).await;
    assert!(text.contains("10000 attempts were made"), "{text}");
    assert!(text.contains("`echo` 9999 times, `end` 1 times ran"), "{text}");
}

#[tokio::test]
async fn a_job_can_be_delivered_twice_or_lose_its_worker() {
    let (jobs, trace) = shop().await;
    let id = jobs.client().enqueue(Order { id: 1 }).await.unwrap();
    let ran = jobs.deliver_twice(id).await;
    ran.all_completed();
    assert_eq!(
        ran.attempts().iter().map(jobq::testing::Attempted::attempt).collect::<Vec<_>>(),
        [1, 1]
    );
    assert_eq!(trace.take(), ["order 1", "order 1"]);
    assert_eq!(jobs.enqueued::<Ship>().len(), 4);
    let text = panic_of(jobs.deliver_twice(id)).await;
    assert_eq!(text, format!("no job {id} is enqueued: it has ended, or never was"));

    let id = jobs.client().enqueue(Order { id: 2 }).await.unwrap();
    assert!(jobs.crash_before_ack(id).await.is_completed());
    assert_eq!(trace.take(), ["order 2"]);
    jobs.drain().await.all_completed();
    assert_eq!(trace.take().iter().filter(|what| *what == "order 2").count(), 1);

    let id = jobs.client().enqueue(Order { id: 3 }).delay("10m").await.unwrap();
    let text = panic_of(jobs.crash_before_ack(id)).await;
    assert!(text.contains("is not due yet but in 10m; move the clock by `advance`"), "{text}");
}

#[tokio::test]
async fn failed_jobs_are_listed_and_retried() {
    let jobs = Jobs::new().register::<End>().start().await;
    let id = jobs.client().enqueue(how("abort")).header("tenant", "7").await.unwrap();
    jobs.drain().await.of::<End>().next().unwrap();
    let failed = jobs.failed::<End>();
    assert_eq!((failed[0].id(), failed[0].error(), failed.len()), (id, "closed", 1));
    assert_eq!(failed[0].header("tenant"), Some("7"));
    jobs.client().failed("end").retry(id).await.unwrap();
    assert_eq!(jobs.drain().await.attempts()[0].attempt(), 1);
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

#[job(on = "user.*")]
async fn greet(event: UserCreated, ctx: JobContext, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(format!("greet {} of {}", event.user_id, ctx.topic().unwrap_or_default()));
    Ok(())
}

#[job(on = "user.created", retries = 1)]
async fn index(event: UserCreated, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(format!("index {}", event.user_id));
    Err("the index is down".into())
}

#[tokio::test]
async fn an_event_reaches_its_subscribers() {
    let trace = Trace::default();
    let jobs = Jobs::new().state(trace.clone()).register::<Greet>().register::<Index>();
    let jobs = jobs.start().await;
    jobs.client().publish_event(&UserCreated { user_id: 7 }).await.unwrap();
    assert_eq!(jobs.drain().await.attempts().len(), 2);
    assert_eq!(trace.take(), ["greet 7 of user.created", "index 7"]);
    assert_eq!(jobs.advance("1h").await.of::<Index>().count(), 1);
    assert_eq!(jobs.failed::<Index>()[0].topic(), Some("user.created"));
    let missing = jobs.client().publish("order.paid", &7).mandatory().await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    // It is delivered to the subscribers at its time.
    jobs.client().publish_event(&UserCreated { user_id: 8 }).delay("1d").await.unwrap();
    trace.take();
    assert_eq!(jobs.drain().await.attempts().len(), 0);
    assert_eq!(jobs.advance("1d").await.attempts().len(), 2);
    let ended = jobs.run(Greet { event: UserCreated { user_id: 9 } }).topic("user.renamed").await;
    assert!(ended.is_completed());
    assert_eq!(trace.take()[2], "greet 9 of user.renamed");
}

#[tokio::test]
async fn jobs_that_do_not_start_say_why() {
    let text = panic_of(Jobs::new().register::<Greet>().start()).await;
    assert!(text.contains("kit/attempts.rs") && text.contains("needs a state of type"), "{text}");
}

#[tokio::test]
async fn two_jobs_of_one_id_are_told_apart() {
    let (jobs, trace) = shop().await;
    let id = JobId::of_key("order-1");
    for order in [1, 2] {
        jobs.client().enqueue(Order { id: order }).id(id).await.unwrap();
    }
    assert!(jobs.crash_before_ack(id).await.is_completed());
    jobs.drain().await.all_completed();
    assert_eq!(trace.take()[..3], ["order 1", "order 1", "order 2"]);
}
