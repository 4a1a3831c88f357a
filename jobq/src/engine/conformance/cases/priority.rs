//! Priorities: the jobs of each come by themselves, and keep theirs.

use std::time::Duration;

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, eventually, failure, ids, job, settle, settle_all, soon,
};
use crate::engine::{Consumer, Delivery, Envelope, Figure, Place, QueueSpec, Settlement, Verdict};
use crate::job::{FailedReason, Priority};

const SHORT: Duration = Duration::from_millis(300);
const OTHER: Duration = Duration::from_millis(450);

async fn declare(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").waits([SHORT]).solo().priorities()).await;
}

fn with(priority: Priority) -> Envelope {
    let mut job = Envelope { retry_wait: Some(SHORT), ..job("mail") };
    job.set_priority(priority);
    job
}

/// A consumer that holds a normal job, so that it takes no other one of those.
async fn full_of_normal_jobs(bench: &Bench) -> (Consumer, Delivery) {
    declare(bench).await;
    let mut consumer = bench.consumer("mail", 1).await;
    bench.push(vec![with(Priority::Normal), with(Priority::Normal)]).await;
    let held = consumer.take().await;
    assert!(consumer.has_priorities());
    (consumer, held)
}

/// The prefetch of a consumer holds for the jobs of each priority.
pub async fn jobs_of_one_priority_hold_up_no_others(bench: &Bench) {
    declare(bench).await;
    let mut consumer = bench.consumer("mail", 2).await;
    let mut low = bench.push((0..3).map(|_| with(Priority::Low)).collect()).await;
    let mut held = consumer.take_many(2).await;
    assert_eq!(ids(&held), low[..2]);
    for priority in [Priority::High, Priority::Normal] {
        let pushed = bench.push(vec![with(priority), with(priority)]).await;
        let taken = consumer.take_many(2).await;
        assert_eq!(ids(&taken), pushed);
        assert!(taken.iter().all(|delivery| delivery.envelope().priority() == priority));
        held.extend(taken);
    }
    consumer.gets_nothing().await;
    settle_all(held, Settlement::Complete).await;
    consumer.complete(low.remove(2)).await;
}

/// A job comes by its priority after each retry, snooze and release, as it was pushed.
pub async fn a_priority_is_kept_through_retries_and_snoozes(bench: &Bench) {
    let (mut consumer, _held) = full_of_normal_jobs(bench).await;
    for priority in [Priority::High, Priority::Low] {
        let pushed = with(priority);
        let mut delivery = bench.pass(&mut consumer, &pushed).await;
        let enqueued_at = delivery.envelope().enqueued_at;
        for (settlement, attempt) in [
            (Settlement::Retry(SHORT), 2),
            (Settlement::Retry(SHORT), 3),
            (Settlement::Snooze(SHORT), 3),
            (Settlement::Retry(OTHER), 4),
            (Settlement::Snooze(OTHER), 4),
            (Settlement::Retry(SHORT), 5),
            (Settlement::Release, 5),
        ] {
            settle(delivery, settlement.clone()).await;
            delivery = consumer.take_attempt(pushed.id, attempt).await;
            let (retry_wait, attempts) = (delivery.envelope().retry_wait, attempt - 1);
            let expected = Envelope { attempts, enqueued_at, retry_wait, ..pushed.clone() };
            assert_eq!(*delivery.envelope(), expected, "after {settlement:?}");
        }
        settle(delivery, Settlement::Complete).await;
    }
}

/// A job comes by its priority after an initial delay.
pub async fn a_delayed_job_keeps_its_priority(bench: &Bench) {
    let (mut consumer, _held) = full_of_normal_jobs(bench).await;
    for delay in [SHORT, OTHER] {
        let pushed = Envelope { delay, ..with(Priority::High) };
        bench.push(vec![pushed.clone()]).await;
        let delivery = consumer.take_attempt(pushed.id, 1).await;
        assert_eq!(delivery.envelope().priority(), Priority::High);
        settle(delivery, Settlement::Complete).await;
    }
}

/// A job that ran alone, and one that has failed, come back by their priority.
pub async fn a_priority_is_kept_by_solo_runs_and_by_failed_jobs(bench: &Bench) {
    let (mut consumer, _held) = full_of_normal_jobs(bench).await;
    let pushed = with(Priority::High);
    settle(bench.pass(&mut consumer, &pushed).await, Settlement::Isolate).await;
    let mut alone =
        soon("a consumer", bench.engine().consume_solo("mail")).await.expect("consumes");
    settle(alone.take_attempt(pushed.id, 1).await, Settlement::Start).await;
    let delivery = alone.take_attempt(pushed.id, 1).await;
    assert_eq!(delivery.envelope().priority(), Priority::High);
    settle(delivery, Settlement::Retry(SHORT)).await;
    let delivery = consumer.take_attempt(pushed.id, 2).await;

    settle(delivery, failure(FailedReason::Exhausted, "no", 2)).await;
    bench.counts("mail", 1, 0, 1).await;
    let retrying = bench.engine().failed_settle("mail", Some(pushed.id), Verdict::Retry);
    assert_eq!(soon("a retry", retrying).await.expect("retries"), 1);
    let delivery = consumer.take_attempt(pushed.id, 1).await;
    assert_eq!(delivery.envelope().priority(), Priority::High);
    settle(delivery, Settlement::Complete).await;
}

/// The jobs of each priority are counted, and deleted with their queue.
pub async fn jobs_of_each_priority_are_counted(bench: &Bench) {
    declare(bench).await;
    bench.push([Priority::High; 1].map(with).to_vec()).await;
    bench.push([Priority::Normal; 2].map(with).to_vec()).await;
    bench.push([Priority::Low; 3].map(with).to_vec()).await;
    bench.counts("mail", 6, 0, 0).await;
    let parts = || async {
        let parts = soon("the parts", bench.admin().parts("mail")).await.expect("parts");
        [Place::High, Place::Ready, Place::Low].map(|place| {
            let part = parts.iter().find(|part| part.place == place);
            part.map(|part| part.jobs.clone())
        })
    };
    let expected = [1, 2, 3].map(|jobs| Some(Figure::Known(jobs)));
    eventually("(high, normal, low)", expected, parts).await;
    let spec = QueueSpec::new("mail");
    assert!(bench.delete(&spec, false).await.is_err_and(|error| error.is_refused()));
    assert_eq!(bench.delete(&spec, true).await.expect("deletes"), 6);
    bench.counts("mail", 0, 0, 0).await;
}

/// A consumer of a queue without priorities knows that it has none.
pub async fn a_queue_has_priorities_when_it_is_declared_with_them(bench: &Bench) {
    let consumer = bench.consume("mail", &[], 1).await;
    assert!(!consumer.has_priorities());
    drop(consumer);
    declare(bench).await;
    let mut consumer = bench.consumer("mail", 1).await;
    assert!(consumer.has_priorities());
    let pushed = bench.push(vec![with(Priority::Low)]).await;
    consumer.complete(pushed[0]).await;
}
