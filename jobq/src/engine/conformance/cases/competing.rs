//! Several consumers on one queue, in one engine and in several.

use crate::engine::conformance::EngineExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::conformance::Bench;
use crate::engine::conformance::bench::{
    consume, eventually, ids, job, push, settle, soon, sorted, take,
};
use crate::engine::{Consumer, Settlement, Verdict};
use crate::job::{FailedReason, JobId};

/// Completes jobs with all consumers at once until `count` were delivered, and returns the ids of
/// all deliveries.
async fn drain(consumers: Vec<Consumer>, count: usize) -> Vec<JobId> {
    let (taken, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let tasks: Vec<_> = consumers
        .into_iter()
        .map(|mut consumer| {
            let (taken, enough) = (Arc::clone(&taken), Arc::clone(&enough));
            tokio::spawn(async move {
                let mut ids = Vec::new();
                let stop = enough.notified();
                tokio::pin!(stop);
                while taken.load(Ordering::SeqCst) < count {
                    let item = tokio::select! {
                        item = consumer.next() => item,
                        () = &mut stop => break,
                    };
                    let delivery = item.expect("consuming goes on").expect("a job");
                    ids.push(delivery.envelope().id);
                    settle(delivery, Settlement::Complete).await;
                    if taken.fetch_add(1, Ordering::SeqCst) + 1 >= count {
                        enough.notify_waiters();
                    }
                }
                ids
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(soon("the consumers to drain the queue", task).await.expect("no panic"));
    }
    all
}

/// Two consumers share 500 jobs, and none goes to both.
pub async fn each_job_goes_to_one_of_two_consumers(bench: &Bench) {
    let first = bench.consume("mail", &[], 7).await;
    let second = consume(bench.engine(), "mail", 7).await;
    let pushed = bench.push_jobs("mail", 500).await;
    let taken = drain(vec![first, second], pushed.len()).await;
    assert_eq!(sorted(taken), sorted(pushed));
    bench.counts("mail", 0, 0, 0).await;
}

/// Jobs of one queue are never delivered from another.
pub async fn a_consumer_takes_one_queue_only(bench: &Bench) {
    let mut mail = bench.consume("mail", &[], 10).await;
    let mut images = bench.consume("mail.images", &[], 10).await;
    for _ in 0..5 {
        let (one, two) = (job("mail"), job("mail.images"));
        let expected = (one.id, two.id);
        bench.push(vec![two, one]).await;
        for (consumer, id) in [(&mut mail, expected.0), (&mut images, expected.1)] {
            let delivery = take(consumer).await;
            assert_eq!(delivery.envelope().id, id);
            settle(delivery, Settlement::Complete).await;
        }
    }
}

/// The consumers of two engines share 500 jobs, and none goes to both.
pub async fn each_job_goes_to_one_of_two_engines(bench: &Bench) {
    let first = bench.consume("mail", &[], 7).await;
    let other = bench.another().await;
    let second = consume(&*other, "mail", 7).await;
    let pushed = bench.push_jobs("mail", 500).await;
    let taken = drain(vec![first, second], pushed.len()).await;
    assert_eq!(sorted(taken), sorted(pushed));
    bench.counts("mail", 0, 0, 0).await;
}

/// A push through one engine wakes the consumer of another.
pub async fn a_waiting_engine_gets_what_another_pushes(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let other = bench.another().await;
    for _ in 0..3 {
        let pushed = job("mail");
        let id = pushed.id;
        push(&*other, vec![pushed]).await;
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().id, id);
        settle(delivery, Settlement::Complete).await;
    }
}

/// A job that one engine releases, drops or retries may go to another.
pub async fn what_one_engine_hands_back_another_gets(bench: &Bench) {
    let mut first = bench.consume("mail", &[], 2).await;
    let pushed = bench.push_jobs("mail", 2).await;
    let held = [take(&mut first).await, take(&mut first).await];
    soon("a stop", first.stop()).await;
    let other = bench.another().await;
    let mut second = consume(&*other, "mail", 2).await;
    let [released, dropped] = held;
    settle(released, Settlement::Release).await;
    drop(dropped);
    let taken = [take(&mut second).await, take(&mut second).await];
    assert!(taken.iter().all(|delivery| delivery.attempt == 1));
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
}

/// Attempts are counted per job, not per engine.
pub async fn a_retry_is_counted_from_engine_to_engine(bench: &Bench) {
    let wait = Duration::from_millis(200);
    let mut first = bench.consume("mail", &[wait], 1).await;
    bench.push_jobs("mail", 1).await;
    let delivery = take(&mut first).await;
    soon("a stop", first.stop()).await;
    settle(delivery, Settlement::Retry(wait)).await;
    let other = bench.another().await;
    let mut second = consume(&*other, "mail", 1).await;
    let delivery = take(&mut second).await;
    assert_eq!(delivery.attempt, 2);
    soon("a stop", second.stop()).await;
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    let mut third = consume(bench.engine(), "mail", 1).await;
    assert_eq!(take(&mut third).await.attempt, 3);
}

/// Any engine can list failed jobs and retry them.
pub async fn failed_jobs_are_seen_by_every_engine(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = bench.push_jobs("mail", 1).await;
    let error = "no".to_owned();
    let fail = Settlement::Fail { reason: FailedReason::Exhausted, error, attempts: 1 };
    settle(take(&mut consumer).await, fail).await;
    let other = bench.another().await;
    eventually("failed jobs", vec![pushed[0]], || async {
        let answer = soon("the failed jobs", other.failed_list("mail", 10)).await;
        answer.expect("lists").iter().map(crate::job::FailedJob::id).collect()
    })
    .await;
    let answer =
        soon("the retry of a job", other.failed_settle("mail", None, Verdict::Retry)).await;
    assert_eq!(answer.expect("retries"), 1);
    assert_eq!(take(&mut consumer).await.envelope().id, pushed[0]);
    // An engine that has listed them leaves them to the others.
    let answer = soon("the failed jobs", bench.engine().failed_list("mail", 10)).await;
    assert!(answer.expect("lists").is_empty());
}
