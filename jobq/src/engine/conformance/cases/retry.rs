//! Retries and snoozes: the attempt number and the wait.

use std::time::{Duration, Instant};

use crate::engine::conformance::Bench;
use crate::engine::conformance::bench::{headers, job, settle, take};
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
    let again = take(consumer).await;
    let waited = start.elapsed();
    assert_eq!(again.envelope().id, id);
    assert!(waited + SLACK >= wait, "came after {waited:?} instead of {wait:?}");
    again
}

/// Makes rounds of settlements, each with the expected next attempt number.
async fn rounds(consumer: &mut Consumer, rounds: &[(Settlement, u32)]) {
    let mut delivery = take(consumer).await;
    assert_eq!(delivery.attempt, 1);
    for (round, (settlement, attempt)) in rounds.iter().enumerate() {
        delivery = around(consumer, delivery, settlement.clone()).await;
        assert_eq!(delivery.attempt, *attempt, "after round {round}: {settlement:?}");
    }
    settle(delivery, Settlement::Complete).await;
}

/// A snooze waits and uses no attempt.
pub async fn a_snooze_keeps_the_attempt(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    bench.push_jobs("mail", 1).await;
    let mut delivery = take(&mut consumer).await;
    for wait in [SHORT, OTHER, Duration::ZERO] {
        delivery = around(&mut consumer, delivery, Settlement::Snooze(wait)).await;
        assert_eq!(delivery.attempt, 1, "after {wait:?}");
    }
}

/// The envelope is the same on each attempt; only the hint about the next wait may change.
pub async fn a_job_keeps_its_content_through_retries_and_snoozes(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    let pushed = Envelope {
        retry_wait: Some(SHORT),
        expires_at: Some(bench.now() + LONG),
        topic: Some("user.created".to_owned()),
        enqueued_by: Some("shop-web".into()),
        headers: headers(),
        content_encoding: Some("gzip".into()),
        ..job("mail")
    };
    bench.push(vec![pushed.clone()]).await;
    let mut delivery = take(&mut consumer).await;
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
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    let pushed = bench.push_jobs("mail", 2).await;
    // The first one is retried once, the second one twice.
    let mut attempts = [0, 0];
    for _ in 0..5 {
        let delivery = take(&mut consumer).await;
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

async fn overtakes(bench: &Bench, consumer: &mut Consumer) {
    let pushed = bench.push_jobs("mail", 2).await;
    settle(take(consumer).await, Settlement::Retry(LONG)).await;
    let second = take(consumer).await;
    let second = around(consumer, second, Settlement::Retry(SHORT)).await;
    assert_eq!(second.envelope().id, pushed[1]);
    settle(second, Settlement::Complete).await;
}

/// A job with a long wait blocks no other, if both waits are declared.
pub async fn a_short_wait_is_not_held_up_behind_a_long_one(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT, LONG], 1).await;
    overtakes(bench, &mut consumer).await;
}

/// A job with a long wait blocks no other, if no wait is declared.
pub async fn an_undeclared_short_wait_is_not_held_up_behind_a_long_one(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    overtakes(bench, &mut consumer).await;
}
