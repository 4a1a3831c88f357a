//! Retries and snoozes: the attempt number and the wait.

use std::time::{Duration, Instant};

use crate::engine::conformance::bench::{Bench, job, settle};
use crate::engine::{Consumer, Delivery, Settlement};
use crate::job::Envelope;

const SHORT: Duration = Duration::from_millis(300);
const OTHER: Duration = Duration::from_millis(450);
const LONG: Duration = Duration::from_secs(600);

/// How much earlier than its wait a job may be delivered: engines use another clock than this
/// suite.
const SLACK: Duration = Duration::from_millis(5);

/// Settles, and takes the job again, which must not be delivered before the wait has passed.
async fn around(consumer: &mut Consumer, delivery: Delivery, settlement: Settlement) -> Delivery {
    let wait = match settlement {
        Settlement::Retry(wait) | Settlement::Snooze(wait) => wait,
        _ => Duration::ZERO,
    };
    let id = delivery.envelope().id;
    let start = Instant::now();
    settle(delivery, settlement).await;
    let again = consumer.take().await;
    let waited = start.elapsed();
    assert_eq!(again.envelope().id, id);
    assert!(waited + SLACK >= wait, "came after {waited:?} instead of {wait:?}");
    again
}

/// Makes rounds of settlements, each with the expected next attempt number.
async fn rounds(consumer: &mut Consumer, rounds: &[(Settlement, u32)]) {
    let mut delivery = consumer.take().await;
    assert_eq!(delivery.attempt, 1);
    for (round, (settlement, attempt)) in rounds.iter().enumerate() {
        delivery = around(consumer, delivery, settlement.clone()).await;
        assert_eq!(delivery.attempt, *attempt, "after round {round}: {settlement:?}");
    }
    settle(delivery, Settlement::Complete).await;
}

/// A snooze waits and uses no attempt.
pub async fn a_snooze_keeps_the_attempt(bench: &Bench) {
    let (mut consumer, _) = bench.consume_jobs(&[SHORT], 1, 1).await;
    let waits = [SHORT, OTHER, Duration::ZERO];
    rounds(&mut consumer, &waits.map(|wait| (Settlement::Snooze(wait), 1))).await;
}

/// The envelope is the same on each attempt; only the hint about the next wait may change.
pub async fn a_job_keeps_its_content_through_retries_and_snoozes(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    let pushed = Envelope { retry_wait: Some(SHORT), ..bench.full_job() };
    let mut delivery = bench.pass(&mut consumer, &pushed).await;
    let enqueued_at = delivery.envelope().enqueued_at;
    for settlement in [
        Settlement::Retry(SHORT),
        Settlement::Retry(OTHER),
        Settlement::Snooze(SHORT),
        Settlement::Snooze(Duration::ZERO),
        Settlement::Release,
    ] {
        delivery = around(&mut consumer, delivery, settlement.clone()).await;
        let (retry_wait, attempts) = (delivery.envelope().retry_wait, delivery.attempt - 1);
        let expected = Envelope { attempts, enqueued_at, retry_wait, ..pushed.clone() };
        assert_eq!(*delivery.envelope(), expected, "after {settlement:?}");
    }
}

/// Retries count as attempts, snoozes and releases do not, in any order.
pub async fn attempts_are_counted_through_rounds_of_one_wait(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    bench.push(vec![Envelope { retry_wait: Some(SHORT), ..job("mail") }]).await;
    let table = [
        (Settlement::Retry(SHORT), 2),
        (Settlement::Retry(SHORT), 3),
        (Settlement::Snooze(SHORT), 3),
        (Settlement::Retry(SHORT), 4),
        (Settlement::Release, 4),
        (Settlement::Retry(SHORT), 5),
        (Settlement::Snooze(SHORT), 5),
        (Settlement::Snooze(SHORT), 5),
        (Settlement::Retry(SHORT), 6),
    ];
    rounds(&mut consumer, &table).await;
}

/// Each wait passes before the next delivery, declared or not, and a wait of zero is none; attempts are
/// counted over all of them.
pub async fn attempts_are_counted_through_rounds_of_changing_waits(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT, OTHER], 1).await;
    bench.push(vec![Envelope { retry_wait: Some(SHORT), ..job("mail") }]).await;
    let undeclared = Duration::from_millis(111);
    let table = [
        (Settlement::Retry(SHORT), 2),
        (Settlement::Retry(OTHER), 3),
        (Settlement::Snooze(undeclared), 3),
        (Settlement::Retry(undeclared), 4),
        (Settlement::Retry(Duration::ZERO), 5),
        (Settlement::Snooze(SHORT), 5),
        (Settlement::Release, 5),
        (Settlement::Retry(SHORT), 6),
        (Settlement::Retry(SHORT), 7),
    ];
    rounds(&mut consumer, &table).await;
    // Without a hint.
    bench.push_jobs("mail", 1).await;
    rounds(&mut consumer, &[(Settlement::Retry(Duration::ZERO), 2)]).await;
}

/// Jobs count their attempts independently.
pub async fn attempts_are_counted_for_each_job_by_itself(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[SHORT], 1, 2).await;
    // The first one is retried once, the second one twice.
    let mut attempts = [0, 0];
    for _ in 0..5 {
        let delivery = consumer.take().await;
        let which = usize::from(delivery.envelope().id == pushed[1]);
        attempts[which] += 1;
        assert_eq!(delivery.attempt, attempts[which]);
        let done = delivery.attempt == [2, 3][which];
        let settlement = if done { Settlement::Complete } else { Settlement::Retry(SHORT) };
        settle(delivery, settlement).await;
    }
    assert_eq!(attempts, [2, 3]);
    bench.counts("mail", 0, 0, 0).await;
}

/// Retries a job after a long wait, and then another after a short one, which comes first.
async fn overtakes(bench: &Bench, waits: &[Duration]) {
    let (mut consumer, pushed) = bench.consume_jobs(waits, 1, 2).await;
    settle(consumer.take().await, Settlement::Retry(LONG)).await;
    let second = consumer.take_attempt(pushed[1], 1).await;
    let second = around(&mut consumer, second, Settlement::Retry(SHORT)).await;
    settle(second, Settlement::Complete).await;
}

/// A job with a long wait blocks no other, if both waits are declared.
pub async fn a_short_wait_is_not_held_up_behind_a_long_one(bench: &Bench) {
    overtakes(bench, &[SHORT, LONG]).await;
}

/// A job with a long wait blocks no other, if no wait is declared.
pub async fn an_undeclared_short_wait_is_not_held_up_behind_a_long_one(bench: &Bench) {
    overtakes(bench, &[]).await;
}
