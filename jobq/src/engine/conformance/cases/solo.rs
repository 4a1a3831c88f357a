//! Solo runs: jobs that may crash their worker go to one consumer, one at a time, and each start is
//! recorded first.

use std::time::Duration;

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{Bench, eventually, failure, job, settle, soon};
use crate::engine::{
    Consumer, Counts, Delivery, Engine, Figure, Place, QueueSpec, Settlement, Solo,
};
use crate::job::{FailedReason, JobId};

async fn alone(engine: &dyn Engine) -> Consumer {
    soon("a consumer", engine.consume_solo("mail")).await.expect("consumes")
}

/// Declares the queue, pushes a job, and isolates it.
async fn isolate(bench: &Bench) -> JobId {
    bench.declare_as(QueueSpec::new("mail").solo()).await;
    let mut pushed = job("mail");
    pushed.headers.put("jobq-operations", "first second");
    let mut consumer = bench.consumer("mail", 1).await;
    let delivery = bench.pass(&mut consumer, &pushed).await;
    assert_eq!((delivery.solo, delivery.crashes), (None, 0));
    settle(delivery, Settlement::Isolate).await;
    consumer.stop_soon().await;
    pushed.id
}

fn solo(delivery: &Delivery) -> (u32, bool) {
    let Solo { starts, started } = delivery.solo.expect("it is to be run alone");
    (starts, started)
}

/// The next job, which must be this one at its first attempt, with this number of starts.
async fn take_solo(consumer: &mut Consumer, id: JobId, state: (u32, bool)) -> Delivery {
    let delivery = consumer.take_attempt(id, 1).await;
    assert_eq!(solo(&delivery), state);
    delivery
}

/// The job goes unchanged to the solo consumer only, and its start is recorded.
pub async fn an_isolated_job_is_started_alone(bench: &Bench) {
    let id = isolate(bench).await;
    bench.counts("mail", 1, 0, 0).await;
    let mut consumer = alone(bench.engine()).await;
    let delivery = take_solo(&mut consumer, id, (0, false)).await;
    assert_eq!(
        (&*delivery.envelope().queue, &delivery.envelope().payload),
        ("mail", &job("x").payload)
    );
    settle(delivery, Settlement::Start).await;
    let delivery = take_solo(&mut consumer, id, (1, true)).await;
    assert_eq!(delivery.envelope().headers.get("jobq-operations"), Some("first second"));
    settle(delivery, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// The parts of a queue make its counts, and solo jobs are told from ready ones.
pub async fn the_parts_of_a_queue_make_its_counts(bench: &Bench) {
    let long = Duration::from_secs(600);
    bench.declare_as(QueueSpec::new("mail").waits([long]).solo()).await;
    isolate(bench).await;
    bench.push_jobs("mail", 5).await;
    let mut consumer = bench.consumer("mail", 1).await;
    settle(consumer.take().await, Settlement::Retry(long)).await;
    settle(consumer.take().await, Settlement::Snooze(long)).await;
    settle(consumer.take().await, failure(FailedReason::Exhausted, "no", 1)).await;
    consumer.stop_soon().await;

    let parts = || async {
        let parts = soon("the parts", bench.admin().parts("mail")).await.expect("parts");
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
    let none = soon("the parts", bench.admin().parts("missing")).await.expect("parts");
    assert_eq!(none, [], "a queue that does not exist");
}

/// Each of several solo jobs is started once.
pub async fn several_isolated_jobs_are_started_one_by_one(bench: &Bench) {
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(isolate(bench).await);
    }
    let mut consumer = alone(bench.engine()).await;
    let mut waiting = std::collections::VecDeque::new();
    let mut ran = Vec::new();
    while ran.len() < expected.len() {
        let next = match waiting.pop_front() {
            Some(delivery) => delivery,
            None => consumer.take().await,
        };
        assert_eq!(solo(&next), (0, false));
        let id = next.envelope().id;
        settle(next, Settlement::Start).await;
        loop {
            let delivery = consumer.take().await;
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
    let id = isolate(bench).await;
    let mut consumer = alone(bench.engine()).await;
    settle(consumer.take().await, Settlement::Release).await;
    settle(take_solo(&mut consumer, id, (0, false)).await, Settlement::Start).await;
    settle(consumer.take().await, Settlement::Release).await;
    take_solo(&mut consumer, id, (0, false)).await;
}

/// A job that ran alone and failed is no longer suspected.
pub async fn a_job_that_ran_alone_is_retried_as_any_other(bench: &Bench) {
    let id = isolate(bench).await;
    let mut lonely = alone(bench.engine()).await;
    settle(lonely.take().await, Settlement::Start).await;
    settle(lonely.take().await, Settlement::Retry(Duration::from_millis(100))).await;
    let mut consumer = bench.consumer("mail", 1).await;
    let delivery = consumer.take_attempt(id, 2).await;
    assert_eq!((delivery.solo, delivery.crashes), (None, 0));
    settle(delivery, Settlement::Isolate).await;
    let delivery = lonely.take().await;
    assert_eq!((delivery.attempt, solo(&delivery)), (2, (0, false)));
    settle(delivery, failure(FailedReason::Poison, "it kills", 2)).await;
    bench.counts("mail", 0, 0, 1).await;
}

/// The start of a crashed worker counts.
pub async fn a_start_without_an_end_counts(bench: &Bench) {
    let id = isolate(bench).await;
    for starts in 0..3 {
        let engine = bench.another().await;
        let mut consumer = alone(&*engine).await;
        settle(take_solo(&mut consumer, id, (starts, false)).await, Settlement::Start).await;
        let _started = take_solo(&mut consumer, id, (starts + 1, true)).await;
        soon("the engine to close", engine.close()).await;
    }
    take_solo(&mut alone(bench.engine()).await, id, (3, false)).await;
}

/// Two workers never run two solo jobs at a time.
pub async fn one_consumer_has_them_at_a_time(bench: &Bench) {
    let (first, second) = (isolate(bench).await, isolate(bench).await);
    let other = bench.another().await;
    let mut one = alone(bench.engine()).await;
    let delivery = take_solo(&mut one, first, (0, false)).await;
    let mut two = alone(&*other).await;
    two.gets_nothing().await;
    settle(delivery, Settlement::Complete).await;
    // The second consumer gets the next job when the first one has stopped.
    one.stop_soon().await;
    take_solo(&mut two, second, (0, false)).await;
}
