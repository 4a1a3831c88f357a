//! Consumers, the prefetch, releases, counts.

use crate::engine::conformance::EngineExt as _;
use std::time::Duration;

use crate::engine::Settlement;
use crate::engine::conformance::Bench;
use crate::engine::conformance::bench::{
    consume, headers, ids, job, settle, soon, sorted, take, take_many,
};
use crate::job::{Envelope, FailedReason};

/// Only a declared queue can be consumed.
pub async fn an_unknown_queue_is_not_found(bench: &Bench) {
    let answer = soon("an answer", bench.engine().consume_from("nowhere", 1)).await;
    let error = answer.expect_err("no such queue");
    assert!(error.is_not_found(), "{error:?}");
    assert!(error.to_string().contains("nowhere"), "it names the queue: {error}");
    // The engine still works.
    let mut consumer = bench.consume("mail", &[], 1).await;
    bench.push_jobs("mail", 1).await;
    take(&mut consumer).await;
}

/// A push wakes a waiting consumer.
pub async fn a_waiting_consumer_gets_what_is_pushed_later(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let waiting = tokio::spawn(async move {
        let delivery = take(&mut consumer).await;
        let id = delivery.envelope().id;
        settle(delivery, Settlement::Complete).await;
        (id, consumer)
    });
    let first = bench.push_jobs("mail", 1).await;
    let (id, mut consumer) = waiting.await.expect("no panic");
    assert_eq!(id, first[0]);
    let second = bench.push_jobs("mail", 1).await;
    assert_eq!(take(&mut consumer).await.envelope().id, second[0]);
}

/// A completed job is not counted and never delivered again.
pub async fn a_completed_job_is_gone(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    bench.push_jobs("mail", 1).await;
    settle(take(&mut consumer).await, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
    drop(consumer);

    let mut consumer = consume(bench.engine(), "mail", 10).await;
    let later = bench.push_jobs("mail", 1).await;
    assert_eq!(take(&mut consumer).await.envelope().id, later[0]);
    bench.counts("mail", 0, 0, 0).await;
}

/// Jobs beyond the prefetch are left to other consumers.
pub async fn a_consumer_holds_no_more_than_its_prefetch(bench: &Bench) {
    let mut first = bench.consume("mail", &[], 3).await;
    let pushed = bench.push_jobs("mail", 10).await;
    let mut taken = take_many(&mut first, 3).await;
    bench.counts("mail", 7, 0, 0).await;
    let mut second = consume(bench.engine(), "mail", 100).await;
    taken.extend(take_many(&mut second, 7).await);
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
}

/// Each kind of settlement makes room for one more job.
pub async fn settling_makes_room_for_the_next_job(bench: &Bench) {
    let long = Duration::from_secs(600);
    let mut consumer = bench.consume("mail", &[long], 1).await;
    let pushed = bench.push_jobs("mail", 5).await;
    let fail =
        Settlement::Fail { reason: FailedReason::Aborted, error: "no".to_owned(), attempts: 1 };
    let ways = [Settlement::Complete, Settlement::Retry(long), Settlement::Snooze(long), fail];
    for (way, expected) in ways.into_iter().zip(&pushed) {
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().id, *expected);
        settle(delivery, way).await;
    }
    assert_eq!(take(&mut consumer).await.envelope().id, pushed[4]);
}

/// A higher prefetch brings more jobs while the first ones are still in flight. At most those may
/// exceed it.
pub async fn a_raised_prefetch_brings_more_jobs(bench: &Bench) {
    let mut first = bench.consume("mail", &[], 1).await;
    let pushed = bench.push_jobs("mail", 5).await;
    let mut taken = vec![take(&mut first).await];
    bench.counts("mail", 4, 0, 0).await;
    soon("a raised prefetch", first.set_prefetch(3)).await;
    taken.extend(take_many(&mut first, 2).await);
    let mut second = consume(bench.engine(), "mail", 1).await;
    taken.push(take(&mut second).await);
    soon("a raised prefetch", first.set_prefetch(100)).await;
    taken.push(take(&mut first).await);
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
        let deliveries = take_many(&mut consumer, prefetch).await;
        taken.extend(ids(&deliveries));
        for delivery in deliveries {
            settle(delivery, Settlement::Complete).await;
        }
    }
    assert_eq!(taken, pushed);
}

/// A consumer with a prefetch of 0 hands back the jobs that it had taken ahead, round after round and
/// the first time in their order. It takes nothing until it has another prefetch, against which its
/// unsettled jobs count.
pub async fn a_consumer_hands_back_what_it_took_ahead(bench: &Bench) {
    let mut first = bench.consume("mail", &[], 3).await;
    let pushed = bench.push_jobs("mail", 4).await;
    let in_hand = take(&mut first).await;
    for round in 0..100 {
        let ahead = take_many(&mut first, 2).await;
        soon("a prefetch of 0", first.set_prefetch(0)).await;
        for delivery in ahead {
            settle(delivery, Settlement::Release).await;
        }
        let mut second = consume(bench.engine(), "mail", 3).await;
        let taken = take_many(&mut second, 3).await;
        let taken_ids = if round == 0 { ids(&taken) } else { sorted(ids(&taken)) };
        assert_eq!(taken_ids, pushed[1..], "nothing went back to the first one");
        assert!(taken.iter().all(|delivery| delivery.attempt == 1 && delivery.crashes < 3));
        drop(taken);
        soon("a stop", second.stop()).await;
        soon("a prefetch", first.set_prefetch(3)).await;
    }
    let mut taken = take_many(&mut first, 2).await;
    let mut second = consume(bench.engine(), "mail", 3).await;
    taken.extend([take(&mut second).await, in_hand]);
    for delivery in taken {
        settle(delivery, Settlement::Complete).await;
    }
    bench.counts("mail", 0, 0, 0).await;
}

/// A dropped delivery, as after a panic, is delivered again as the same attempt.
pub async fn a_dropped_delivery_is_handed_back(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = bench.push_jobs("mail", 1).await;
    for _ in 0..3 {
        let delivery = take(&mut consumer).await;
        assert_eq!((delivery.envelope().id, delivery.attempt), (pushed[0], 1));
        drop(delivery);
    }
}

/// A release uses no attempt, even of a job that was retried before.
pub async fn a_released_job_comes_back_as_the_same_attempt(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = bench.push_jobs("mail", 1).await;
    for attempt in 1..=2 {
        for _ in 0..3 {
            let delivery = take(&mut consumer).await;
            assert_eq!((delivery.envelope().id, delivery.attempt), (pushed[0], attempt));
            settle(delivery, Settlement::Release).await;
        }
        settle(take(&mut consumer).await, Settlement::Retry(Duration::ZERO)).await;
    }
    assert_eq!(take(&mut consumer).await.attempt, 3);
}

/// Dropping a consumer loses none of its prefetched jobs.
pub async fn a_dropped_consumer_hands_back_what_nobody_took(bench: &Bench) {
    let mut first = bench.consume("mail", &[], 5).await;
    let pushed = bench.push_jobs("mail", 5).await;
    let mut taken = vec![take(&mut first).await];
    drop(first);
    let mut second = consume(bench.engine(), "mail", 5).await;
    taken.extend(take_many(&mut second, 4).await);
    assert!(taken.iter().all(|delivery| delivery.attempt == 1));
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
}

/// No kind and number of releases counts as a crash of a worker.
pub async fn a_job_that_is_handed_back_often_is_not_suspected(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let mut pushed = job("mail");
    pushed.headers = headers();
    bench.push(vec![pushed.clone()]).await;
    settle(take(&mut consumer).await, Settlement::Retry(Duration::ZERO)).await;
    for round in 0..4 {
        for _ in 0..2 {
            settle(take(&mut consumer).await, Settlement::Release).await;
            drop(take(&mut consumer).await);
        }
        // It is sent to this consumer, which does not take it.
        soon("a consumer to stop", consumer.stop()).await;
        drop(consumer);
        consumer = consume(bench.engine(), "mail", 1).await;
        let delivery = take(&mut consumer).await;
        assert!(delivery.crashes < 3, "{} in round {round}", delivery.crashes);
        assert_eq!((delivery.attempt, delivery.envelope().id), (2, pushed.id));
        assert_eq!(delivery.envelope().headers, pushed.headers);
        drop(delivery);
    }
    settle(take(&mut consumer).await, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// A delivery can be settled after its consumer was dropped.
pub async fn a_job_in_hand_outlives_its_consumer(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    bench.push_jobs("mail", 1).await;
    let delivery = take(&mut consumer).await;
    drop(consumer);
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    let mut consumer = consume(bench.engine(), "mail", 1).await;
    let delivery = take(&mut consumer).await;
    assert_eq!(delivery.attempt, 2);
    drop(consumer);
    settle(delivery, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// The layer above the engine checks the expiry.
pub async fn an_expired_job_is_delivered_all_the_same(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let past = bench.now() - Duration::from_secs(60);
    bench.push(vec![Envelope { expires_at: Some(past), ..job("mail") }]).await;
    assert_eq!(take(&mut consumer).await.envelope().expires_at, Some(past));
}

/// Jobs in flight are in no count; the others are counted as ready, waiting or failed.
pub async fn counts_tell_ready_waiting_and_failed_apart(bench: &Bench) {
    let long = Duration::from_secs(600);
    let mut consumer = bench.consume("mail", &[long], 1).await;
    bench.counts("mail", 0, 0, 0).await;
    bench.push_jobs("mail", 6).await;
    let first = take(&mut consumer).await;
    bench.counts("mail", 5, 0, 0).await;

    settle(first, Settlement::Retry(long)).await;
    settle(take(&mut consumer).await, Settlement::Snooze(long)).await;
    let error = "no".to_owned();
    let fail = Settlement::Fail { reason: FailedReason::Exhausted, error, attempts: 1 };
    settle(take(&mut consumer).await, fail).await;
    let in_flight = take(&mut consumer).await;
    bench.counts("mail", 2, 2, 1).await;

    soon("a stop", consumer.stop()).await;
    settle(in_flight, Settlement::Release).await;
    bench.counts("mail", 3, 2, 1).await;
}

/// An undeclared queue has no jobs.
pub async fn an_unknown_queue_counts_as_empty(bench: &Bench) {
    bench.counts("nowhere", 0, 0, 0).await;
}
