//! Several consumers on one queue, in one engine and in several.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, are_first_attempts, consume, eventually, failure, job, push, settle, soon, sorted,
};
use crate::engine::{Engine, Settlement, Verdict};
use crate::job::{FailedJob, FailedReason};

/// Pushes 500 jobs and completes them with two consumers at once, the second one of this engine.
/// None goes to both.
async fn share(bench: &Bench, second: &dyn Engine) {
    let consumers = [bench.consume("mail", &[], 7).await, consume(second, "mail", 7).await];
    let pushed = bench.push_jobs("mail", 500).await;
    let (completed, mut ids) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for mut consumer in consumers {
        let completed = completed.clone();
        tasks.spawn(async move {
            loop {
                let delivery = consumer.take().await;
                let id = delivery.envelope().id;
                settle(delivery, Settlement::Complete).await;
                completed.send(id).expect("the case waits");
            }
        });
    }
    let mut taken = Vec::new();
    while taken.len() < pushed.len() {
        taken.push(soon("a completed job", ids.recv()).await.expect("the tasks go on"));
    }
    assert_eq!(sorted(taken), sorted(pushed));
    bench.counts("mail", 0, 0, 0).await;
}

/// Two consumers share 500 jobs, and none goes to both.
pub async fn each_job_goes_to_one_of_two_consumers(bench: &Bench) {
    share(bench, bench.engine()).await;
}

/// Jobs of one queue are never delivered from another.
pub async fn a_consumer_takes_one_queue_only(bench: &Bench) {
    let mut mail = bench.consume("mail", &[], 10).await;
    let mut images = bench.consume("mail.images", &[], 10).await;
    for _ in 0..5 {
        let pushed = bench.push(vec![job("mail.images"), job("mail")]).await;
        mail.complete(pushed[1]).await;
        images.complete(pushed[0]).await;
    }
}

/// The consumers of two engines share 500 jobs, and none goes to both.
pub async fn each_job_goes_to_one_of_two_engines(bench: &Bench) {
    share(bench, &*bench.another().await).await;
}

/// A push through one engine wakes the consumer of another.
pub async fn a_waiting_engine_gets_what_another_pushes(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let other = bench.another().await;
    for _ in 0..3 {
        let pushed = push(&*other, vec![job("mail")]).await;
        consumer.complete(pushed[0]).await;
    }
}

/// A job that one engine releases, drops or retries may go to another.
pub async fn what_one_engine_hands_back_another_gets(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 2, 2).await;
    let (released, dropped) = (first.take().await, first.take().await);
    first.stop_soon().await;
    let other = bench.another().await;
    let mut second = consume(&*other, "mail", 2).await;
    settle(released, Settlement::Release).await;
    drop(dropped);
    are_first_attempts(&second.take_many(2).await, pushed);
}

/// Attempts are counted per job, not per engine.
pub async fn a_retry_is_counted_from_engine_to_engine(bench: &Bench) {
    let wait = Duration::from_millis(200);
    let (mut first, pushed) = bench.consume_jobs(&[wait], 1, 1).await;
    let delivery = first.take().await;
    first.stop_soon().await;
    settle(delivery, Settlement::Retry(wait)).await;
    let other = bench.another().await;
    let mut second = consume(&*other, "mail", 1).await;
    let delivery = second.take_attempt(pushed[0], 2).await;
    second.stop_soon().await;
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    bench.consumer("mail", 1).await.take_attempt(pushed[0], 3).await;
}

/// Any engine can list failed jobs and retry them.
pub async fn failed_jobs_are_seen_by_every_engine(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[], 1, 1).await;
    settle(consumer.take().await, failure(FailedReason::Exhausted, "no", 1)).await;
    let other = bench.another().await;
    eventually("failed jobs", vec![pushed[0]], || async {
        let answer = soon("the failed jobs", other.failed_list("mail", 10)).await;
        answer.expect("lists").iter().map(FailedJob::id).collect()
    })
    .await;
    let retry = other.failed_settle("mail", None, Verdict::Retry);
    assert_eq!(soon("the retry of a job", retry).await.expect("retries"), 1);
    assert_eq!(consumer.take().await.envelope().id, pushed[0]);
    // An engine that has listed them leaves them to the others.
    let answer = soon("the failed jobs", bench.engine().failed_list("mail", 10)).await;
    assert!(answer.expect("lists").is_empty());
}
