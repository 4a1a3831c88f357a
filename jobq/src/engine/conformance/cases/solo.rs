//! Solo runs: jobs that may crash their worker go to one consumer, one at a time, and each start is
//! recorded first.

use crate::engine::conformance::EngineExt as _;
use std::time::Duration;

use crate::engine::conformance::Bench;
use crate::engine::conformance::bench::{consume, eventually, job, settle, soon, take};
use crate::engine::{Consumer, Counts, Delivery, Figure, Place, QueueSpec, Settlement, Solo};
use crate::job::{FailedReason, JobId};

async fn alone(bench: &Bench) -> Consumer {
    soon("a consumer", bench.engine().consume_solo("mail")).await.expect("consumes")
}

async fn declare(bench: &Bench) {
    let spec = QueueSpec::new("mail").solo();
    soon("a queue", bench.engine().declare(&[spec])).await.expect("declares");
}

/// Pushes a job, and isolates it.
async fn isolate(bench: &Bench) -> JobId {
    let mut pushed = job("mail");
    pushed.headers.put("jobq-operations", "first second");
    let id = pushed.id;
    bench.push(vec![pushed]).await;
    let mut consumer = consume(bench.engine(), "mail", 1).await;
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.solo, delivery.crashes), (id, None, 0));
    settle(delivery, Settlement::Isolate).await;
    soon("a consumer to stop", consumer.stop()).await;
    id
}

fn solo(delivery: &Delivery) -> (u32, bool) {
    let Solo { starts, started } = delivery.solo.expect("it is to be run alone");
    (starts, started)
}

/// The job goes unchanged to the solo consumer only, and its start is recorded.
pub async fn an_isolated_job_is_started_alone(bench: &Bench) {
    declare(bench).await;
    let id = isolate(bench).await;
    bench.counts("mail", 1, 0, 0).await;
    let mut consumer = alone(bench).await;
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.attempt, solo(&delivery)), (id, 1, (0, false)));
    assert_eq!(
        (&*delivery.envelope().queue, &delivery.envelope().payload),
        ("mail", &job("x").payload)
    );
    settle(delivery, Settlement::Start).await;
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.attempt, solo(&delivery)), (id, 1, (1, true)));
    let operations =
        |delivery: &Delivery| delivery.envelope().headers.get("jobq-operations").map(str::to_owned);
    assert_eq!(operations(&delivery).as_deref(), Some("first second"));
    settle(delivery, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// The parts of a queue make its counts, and solo jobs are told from ready ones.
pub async fn the_parts_of_a_queue_make_its_counts(bench: &Bench) {
    let long = Duration::from_secs(600);
    let spec = QueueSpec::new("mail").waits([long]).solo();
    soon("a queue", bench.engine().declare(&[spec])).await.expect("declares");
    isolate(bench).await;
    bench.push_jobs("mail", 5).await;
    let mut consumer = consume(bench.engine(), "mail", 1).await;
    settle(take(&mut consumer).await, Settlement::Retry(long)).await;
    settle(take(&mut consumer).await, Settlement::Snooze(long)).await;
    let (reason, error) = (FailedReason::Exhausted, "no".to_owned());
    settle(take(&mut consumer).await, Settlement::Fail { reason, error, attempts: 1 }).await;
    soon("a stop", consumer.stop()).await;

    let parts = || async {
        let parts = soon("the parts", bench.engine().admin().parts("mail")).await.expect("parts");
        let sum = |is_here: fn(Place) -> bool| {
            let here: Vec<_> = parts.iter().filter(|part| is_here(part.place)).cloned().collect();
            Counts::from_parts(&here).total()
        };
        [
            sum(|place| place == Place::Ready),
            sum(|place| place == Place::Solo),
            sum(|place| matches!(place, Place::Waiting | Place::Tier(_) | Place::Due)),
            sum(|place| place == Place::Failed),
        ]
    };
    eventually("(ready, solo, waiting, failed)", [2, 1, 2, 1].map(Figure::Known), parts).await;
    bench.counts("mail", 3, 2, 1).await;
    let none = soon("the parts", bench.engine().admin().parts("missing")).await.expect("parts");
    assert_eq!(none, [], "a queue that does not exist");
}

/// Each of several solo jobs is started once.
pub async fn several_isolated_jobs_are_started_one_by_one(bench: &Bench) {
    declare(bench).await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(isolate(bench).await);
    }
    let mut consumer = alone(bench).await;
    let mut waiting = std::collections::VecDeque::new();
    let mut ran = Vec::new();
    while ran.len() < expected.len() {
        let next = match waiting.pop_front() {
            Some(delivery) => delivery,
            None => take(&mut consumer).await,
        };
        assert_eq!(solo(&next), (0, false));
        let id = next.envelope().id;
        settle(next, Settlement::Start).await;
        loop {
            let delivery = take(&mut consumer).await;
            if solo(&delivery).1 {
                assert_eq!((delivery.envelope().id, solo(&delivery)), (id, (1, true)));
                settle(delivery, Settlement::Complete).await;
                break;
            }
            waiting.push_back(delivery);
        }
        ran.push(id);
    }
    assert_eq!(ran, expected);
    bench.counts("mail", 0, 0, 0).await;
}

/// A released job was not run.
pub async fn a_start_that_is_handed_back_does_not_count(bench: &Bench) {
    declare(bench).await;
    isolate(bench).await;
    let mut consumer = alone(bench).await;
    settle(take(&mut consumer).await, Settlement::Release).await;
    let delivery = take(&mut consumer).await;
    assert_eq!(solo(&delivery), (0, false));
    settle(delivery, Settlement::Start).await;
    settle(take(&mut consumer).await, Settlement::Release).await;
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.attempt, solo(&delivery)), (1, (0, false)));
}

/// A job that ran alone and failed is no longer suspected.
pub async fn a_job_that_ran_alone_is_retried_as_any_other(bench: &Bench) {
    declare(bench).await;
    let id = isolate(bench).await;
    let mut lonely = alone(bench).await;
    settle(take(&mut lonely).await, Settlement::Start).await;
    settle(take(&mut lonely).await, Settlement::Retry(Duration::from_millis(100))).await;
    let mut consumer = consume(bench.engine(), "mail", 1).await;
    let delivery = take(&mut consumer).await;
    assert_eq!((delivery.envelope().id, delivery.attempt), (id, 2));
    assert_eq!((delivery.solo, delivery.crashes), (None, 0));
    settle(delivery, Settlement::Isolate).await;
    let delivery = take(&mut lonely).await;
    assert_eq!((delivery.attempt, solo(&delivery)), (2, (0, false)));
    let reason = FailedReason::Poison;
    settle(delivery, Settlement::Fail { reason, error: "it kills".into(), attempts: 2 }).await;
    bench.counts("mail", 0, 0, 1).await;
}

/// The start of a crashed worker counts.
pub async fn a_start_without_an_end_counts(bench: &Bench) {
    declare(bench).await;
    let id = isolate(bench).await;
    for starts in 0..3 {
        let engine = bench.another().await;
        let mut consumer = soon("a consumer", engine.consume_solo("mail")).await.expect("consumes");
        let delivery = take(&mut consumer).await;
        assert_eq!((delivery.envelope().id, solo(&delivery)), (id, (starts, false)));
        settle(delivery, Settlement::Start).await;
        let delivery = take(&mut consumer).await;
        assert_eq!(solo(&delivery), (starts + 1, true));
        soon("the engine to close", engine.close()).await;
    }
    assert_eq!(solo(&take(&mut alone(bench).await).await), (3, false));
}

/// Two workers never run two solo jobs at a time.
pub async fn one_consumer_has_them_at_a_time(bench: &Bench) {
    declare(bench).await;
    let (first, second) = (isolate(bench).await, isolate(bench).await);
    let other = bench.another().await;
    let mut one = alone(bench).await;
    let delivery = take(&mut one).await;
    assert_eq!(delivery.envelope().id, first);
    let mut two = soon("a consumer", other.consume_solo("mail")).await.expect("consumes");
    let early = tokio::time::timeout(Duration::from_millis(300), two.next()).await;
    assert!(early.is_err(), "{early:?}");
    settle(delivery, Settlement::Complete).await;
    // The second consumer gets the next job when the first one has stopped.
    soon("a consumer to stop", one.stop()).await;
    let delivery = take(&mut two).await;
    assert_eq!((delivery.envelope().id, solo(&delivery)), (second, (0, false)));
}
