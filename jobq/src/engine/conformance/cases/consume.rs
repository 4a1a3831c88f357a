//! Consumers, the prefetch, releases, counts.

use std::time::Duration;

use crate::engine::Settlement;
use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, are_first_attempts, failure, headers, ids, job, settle, settle_all, soon, sorted,
};
use crate::job::{Envelope, FailedReason};

/// Only a declared queue can be consumed.
pub async fn an_unknown_queue_is_not_found(bench: &Bench) {
    let answer = soon("an answer", bench.engine().consume_from("nowhere", 1)).await;
    let error = answer.expect_err("no such queue");
    assert!(error.is_not_found(), "{error:?}");
    assert!(error.to_string().contains("nowhere"), "it names the queue: {error}");
    // The engine still works.
    let (mut consumer, _) = bench.consume_jobs(&[], 1, 1).await;
    consumer.take().await;
}

/// A push wakes a waiting consumer.
pub async fn a_waiting_consumer_gets_what_is_pushed_later(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let waiting = tokio::spawn(async move { (consumer.take().await, consumer) });
    let first = bench.push_jobs("mail", 1).await;
    let (delivery, mut consumer) = waiting.await.expect("no panic");
    assert_eq!([delivery.envelope().id], *first);
    settle(delivery, Settlement::Complete).await;
    let second = bench.push_jobs("mail", 1).await;
    consumer.complete(second[0]).await;
}

/// A completed job is not counted and never delivered again.
pub async fn a_completed_job_is_gone(bench: &Bench) {
    let (mut consumer, _) = bench.consume_jobs(&[], 1, 1).await;
    settle(consumer.take().await, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
    drop(consumer);

    let mut consumer = bench.consumer("mail", 10).await;
    let later = bench.push_jobs("mail", 1).await;
    assert_eq!(consumer.take().await.envelope().id, later[0]);
    bench.counts("mail", 0, 0, 0).await;
}

/// Jobs beyond the prefetch are left to other consumers.
pub async fn a_consumer_holds_no_more_than_its_prefetch(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 3, 10).await;
    let mut taken = first.take_many(3).await;
    bench.counts("mail", 7, 0, 0).await;
    let mut second = bench.consumer("mail", 100).await;
    taken.extend(second.take_many(7).await);
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
}

/// Each kind of settlement makes room for one more job.
pub async fn settling_makes_room_for_the_next_job(bench: &Bench) {
    let long = Duration::from_secs(600);
    let (mut consumer, pushed) = bench.consume_jobs(&[long], 1, 5).await;
    let fail = failure(FailedReason::Aborted, "no", 1);
    let ways = [Settlement::Complete, Settlement::Retry(long), Settlement::Snooze(long), fail];
    for (way, expected) in ways.into_iter().zip(&pushed) {
        settle(consumer.take_attempt(*expected, 1).await, way).await;
    }
    assert_eq!(consumer.take().await.envelope().id, pushed[4]);
}

/// A higher prefetch brings more jobs while the first ones are still in flight. At most those may
/// exceed it.
pub async fn a_raised_prefetch_brings_more_jobs(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 1, 5).await;
    let mut taken = vec![first.take().await];
    bench.counts("mail", 4, 0, 0).await;
    soon("a raised prefetch", first.set_prefetch(3)).await;
    taken.extend(first.take_many(2).await);
    let mut second = bench.consumer("mail", 1).await;
    taken.push(second.take().await);
    soon("a raised prefetch", first.set_prefetch(100)).await;
    taken.push(first.take().await);
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
}

/// A consumer gets the jobs in the order in which they were pushed while its prefetch changes. The
/// engine may let some time pass between two changes.
pub async fn jobs_keep_their_order_while_the_prefetch_changes(bench: &Bench) {
    let changes = 20;
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = bench.push_jobs("mail", (1..=changes).sum()).await;
    let mut taken = Vec::new();
    for prefetch in 1..=changes {
        consumer.set_prefetch(u16::try_from(prefetch).unwrap_or(u16::MAX)).await;
        // So many at once come with this prefetch alone.
        let deliveries = consumer.take_many(prefetch).await;
        taken.extend(ids(&deliveries));
        settle_all(deliveries, Settlement::Complete).await;
    }
    assert_eq!(taken, pushed);
}

/// A consumer with a prefetch of 0 hands back the jobs that it had taken ahead, round after round and
/// the first time in their order. It takes nothing until it has another prefetch, against which its
/// unsettled jobs count.
pub async fn a_consumer_hands_back_what_it_took_ahead(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 3, 4).await;
    let in_hand = first.take().await;
    for round in 0..100 {
        let ahead = first.take_many(2).await;
        soon("a prefetch of 0", first.set_prefetch(0)).await;
        settle_all(ahead, Settlement::Release).await;
        let mut second = bench.consumer("mail", 3).await;
        let taken = second.take_many(3).await;
        let taken_ids = if round == 0 { ids(&taken) } else { sorted(ids(&taken)) };
        assert_eq!(taken_ids, pushed[1..], "nothing went back to the first one");
        assert!(taken.iter().all(|delivery| delivery.attempt == 1 && delivery.crashes < 3));
        drop(taken);
        second.stop_soon().await;
        soon("a prefetch", first.set_prefetch(3)).await;
    }
    let mut taken = first.take_many(2).await;
    let mut second = bench.consumer("mail", 3).await;
    taken.extend([second.take().await, in_hand]);
    settle_all(taken, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// A dropped delivery, as after a panic, is delivered again as the same attempt.
pub async fn a_dropped_delivery_is_handed_back(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[], 1, 1).await;
    for _ in 0..3 {
        drop(consumer.take_attempt(pushed[0], 1).await);
    }
}

/// A release uses no attempt, even of a job that was retried before.
pub async fn a_released_job_comes_back_as_the_same_attempt(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[], 1, 1).await;
    for attempt in 1..=2 {
        for _ in 0..3 {
            settle(consumer.take_attempt(pushed[0], attempt).await, Settlement::Release).await;
        }
        settle(consumer.take().await, Settlement::Retry(Duration::ZERO)).await;
    }
    consumer.take_attempt(pushed[0], 3).await;
}

/// Dropping a consumer loses none of its prefetched jobs.
pub async fn a_dropped_consumer_hands_back_what_nobody_took(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 5, 5).await;
    let mut taken = vec![first.take().await];
    drop(first);
    let mut second = bench.consumer("mail", 5).await;
    taken.extend(second.take_many(4).await);
    are_first_attempts(&taken, pushed);
}

/// No kind and number of releases counts as a crash of a worker.
pub async fn a_job_that_is_handed_back_often_is_not_suspected(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = Envelope { headers: headers(), ..job("mail") };
    settle(bench.pass(&mut consumer, &pushed).await, Settlement::Retry(Duration::ZERO)).await;
    for round in 0..4 {
        for _ in 0..2 {
            settle(consumer.take().await, Settlement::Release).await;
            drop(consumer.take().await);
        }
        // It is sent to this consumer, which does not take it.
        consumer.stop_soon().await;
        drop(consumer);
        consumer = bench.consumer("mail", 1).await;
        let delivery = consumer.take_attempt(pushed.id, 2).await;
        assert!(delivery.crashes < 3, "{} in round {round}", delivery.crashes);
        assert_eq!(delivery.envelope().headers, pushed.headers);
        drop(delivery);
    }
    settle(consumer.take().await, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// A delivery can be settled after its consumer was dropped.
pub async fn a_job_in_hand_outlives_its_consumer(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[], 1, 1).await;
    let delivery = consumer.take().await;
    drop(consumer);
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    let mut consumer = bench.consumer("mail", 1).await;
    let delivery = consumer.take_attempt(pushed[0], 2).await;
    drop(consumer);
    settle(delivery, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// The layer above the engine checks the expiry.
pub async fn an_expired_job_is_delivered_all_the_same(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let past = bench.now() - Duration::from_secs(60);
    bench.push(vec![Envelope { expires_at: Some(past), ..job("mail") }]).await;
    assert_eq!(consumer.take().await.envelope().expires_at, Some(past));
}

/// Jobs in flight are in no count; the others are counted as ready, waiting or failed.
pub async fn counts_tell_ready_waiting_and_failed_apart(bench: &Bench) {
    let long = Duration::from_secs(600);
    let mut consumer = bench.consume("mail", &[long], 1).await;
    bench.counts("mail", 0, 0, 0).await;
    bench.push_jobs("mail", 6).await;
    let first = consumer.take().await;
    bench.counts("mail", 5, 0, 0).await;

    settle(first, Settlement::Retry(long)).await;
    settle(consumer.take().await, Settlement::Snooze(long)).await;
    settle(consumer.take().await, failure(FailedReason::Exhausted, "no", 1)).await;
    let in_flight = consumer.take().await;
    bench.counts("mail", 2, 2, 1).await;

    consumer.stop_soon().await;
    settle(in_flight, Settlement::Release).await;
    bench.counts("mail", 3, 2, 1).await;
}

/// An undeclared queue has no jobs.
pub async fn an_unknown_queue_counts_as_empty(bench: &Bench) {
    bench.counts("nowhere", 0, 0, 0).await;
}
