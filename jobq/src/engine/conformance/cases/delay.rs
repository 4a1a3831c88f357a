//! Initial delays, for engines that support them.

use std::time::{Duration, Instant, SystemTime};

use crate::engine::Settlement;
use crate::engine::conformance::Bench;
use crate::engine::conformance::bench::{headers, ids, job, settle, take, take_many};
use crate::job::Envelope;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);
/// The tolerance for the difference between the engine's clock and the suite's.
const SLACK: Duration = Duration::from_millis(5);

/// The first attempt is delivered after the delay, and the delivery has no delay left.
pub async fn a_delayed_job_does_not_come_before_its_time(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let start = Instant::now();
    bench.push(vec![Envelope { delay: SHORT, ..job("mail") }]).await;
    let delivery = take(&mut consumer).await;
    let waited = start.elapsed();
    assert!(waited + SLACK >= SHORT, "came after {waited:?} instead of {SHORT:?}");
    assert_eq!((delivery.attempt, delivery.envelope().delay), (1, Duration::ZERO));
    // From now on it is like any other job.
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    assert_eq!(take(&mut consumer).await.attempt, 2);
}

/// A delay changes nothing else of a job, whether the queue was declared with that wait or
/// not; only the hint about its next wait may change.
pub async fn a_delayed_job_comes_as_it_was_pushed(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[SHORT], 1).await;
    for delay in [SHORT, SHORT / 2] {
        let pushed = Envelope {
            delay,
            retry_wait: Some(SHORT / 3),
            expires_at: Some(bench.now() + LONG),
            topic: Some("user.created".to_owned()),
            enqueued_by: Some("shop-web".into()),
            headers: headers(),
            ..job("mail")
        };
        let mut pushed = pushed;
        pushed.set_due(bench.now() + delay);
        bench.push(vec![pushed.clone()]).await;
        let delivery = take(&mut consumer).await;
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
    let late = Envelope { delay: LONG, ..job("mail") };
    let soon = Envelope { delay: SHORT, ..job("mail") };
    let now = job("mail");
    let expected = [now.id, soon.id];
    bench.push(vec![late, soon, now]).await;
    for id in expected {
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.envelope().id, id);
        settle(delivery, Settlement::Complete).await;
    }
}

/// Delays of any length end in order of their due times.
pub async fn delayed_jobs_come_in_the_order_of_their_times(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 10).await;
    // Else the first ones are due before they are sent.
    bench.declare_delays(LONG).await;
    let delays = [900, 300, 700, 500, 1_100];
    let jobs: Vec<_> = delays
        .iter()
        .map(|millis| Envelope { delay: Duration::from_millis(*millis), ..job("mail") })
        .collect();
    let expected: Vec<_> = [1, 3, 2, 0, 4].iter().map(|index: &usize| jobs[*index].id).collect();
    bench.push(jobs).await;
    assert_eq!(ids(&take_many(&mut consumer, 5).await), expected);
}

/// A job with a declared delay counts as waiting; an engine need not count other delays.
pub async fn a_delayed_job_is_counted_as_waiting(bench: &Bench) {
    bench.declare("mail", &[LONG]).await;
    bench.push(vec![Envelope { delay: LONG, ..job("mail") }, job("mail")]).await;
    bench.counts("mail", 1, 1, 0).await;
}
