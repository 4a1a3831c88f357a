//! Initial delays, for engines that support them.

use std::time::{Duration, Instant, SystemTime};

use crate::engine::Settlement;
use crate::engine::conformance::bench::{Bench, ids, job, settle};
use crate::job::Envelope;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);
/// The tolerance for the difference between the engine's clock and the suite's.
const SLACK: Duration = Duration::from_millis(5);

/// The first attempt is delivered after the delay, and the delivery has no delay left.
pub async fn a_delayed_job_does_not_come_before_its_time(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let start = Instant::now();
    let delayed = Envelope { delay: SHORT, ..job("mail") };
    let delivery = bench.pass(&mut consumer, &delayed).await;
    let waited = start.elapsed();
    assert!(waited + SLACK >= SHORT, "came after {waited:?} instead of {SHORT:?}");
    assert_eq!(delivery.envelope().delay, Duration::ZERO);
    // From now on it is like any other job.
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    consumer.take_attempt(delayed.id, 2).await;
}

/// A delay changes nothing else of a job, whether the queue was declared with that wait or
/// not; only the hint about its next wait may change.
pub async fn a_delayed_job_comes_as_it_was_pushed(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    for delay in [SHORT, SHORT / 2] {
        let mut pushed = Envelope { delay, retry_wait: Some(SHORT / 3), ..bench.full_job() };
        pushed.set_due(bench.now() + delay);
        let delivery = bench.pass(&mut consumer, &pushed).await;
        assert!(delivery.due().is_some_and(|due| due <= SystemTime::now() + SLACK));
        let &Envelope { enqueued_at, retry_wait, .. } = delivery.envelope();
        let expected = Envelope { delay: Duration::ZERO, enqueued_at, retry_wait, ..pushed };
        assert_eq!(*delivery.envelope(), expected, "{delay:?}");
        settle(delivery, Settlement::Complete).await;
    }
}

/// Jobs that are due earlier pass a job with a long delay.
pub async fn a_delayed_job_holds_up_no_other(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    bench.declare_delays(LONG).await;
    let jobs = [LONG, SHORT, Duration::ZERO].map(|delay| Envelope { delay, ..job("mail") });
    let pushed = bench.push(jobs.to_vec()).await;
    consumer.complete(pushed[2]).await;
    consumer.complete(pushed[1]).await;
}

/// Delays of any length end in order of their due times.
pub async fn delayed_jobs_come_in_the_order_of_their_times(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 10).await;
    // Else the first ones are due before they are sent.
    bench.declare_delays(LONG).await;
    let delays = [900, 300, 700, 500, 1_100].map(Duration::from_millis);
    let jobs = delays.map(|delay| Envelope { delay, ..job("mail") });
    let pushed = bench.push(jobs.to_vec()).await;
    let expected = [1, 3, 2, 0, 4].map(|index: usize| pushed[index]);
    assert_eq!(ids(&consumer.take_many(5).await), expected);
}

/// A job with a declared delay counts as waiting; an engine need not count other delays.
pub async fn a_delayed_job_is_counted_as_waiting(bench: &Bench) {
    bench.declare("mail", &[LONG]).await;
    bench.push(vec![Envelope { delay: LONG, ..job("mail") }, job("mail")]).await;
    bench.counts("mail", 1, 1, 0).await;
}
