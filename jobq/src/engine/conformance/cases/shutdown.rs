//! Stops of consumers and closes of engines.

use std::time::Duration;

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, are_first_attempts, consume, event, ids, job, settle, soon,
};
use crate::engine::{Consumer, QueueSpec, Settlement, Verdict};
use crate::error::ErrorKind;

/// Waits until the consumer ends. Prefetched jobs may still be delivered.
async fn end(consumer: &mut Consumer) {
    while let Some(item) = soon("the consumer to end", consumer.next()).await {
        drop(item);
    }
}

/// A stop releases prefetched jobs at once, without using up attempts.
pub async fn a_stopped_consumer_hands_back_what_nobody_took(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 10, 6).await;
    let mut taken = first.take_many(2).await;
    first.stop_soon().await;
    assert!(soon("the consumer to end", first.next()).await.is_none());
    bench.counts("mail", 4, 0, 0).await;

    let mut second = bench.consumer("mail", 10).await;
    taken.extend(second.take_many(4).await);
    are_first_attempts(&taken, pushed);
}

/// Jobs in flight at a stop can be settled after it in each way.
pub async fn jobs_in_hand_can_be_settled_after_a_stop(bench: &Bench) {
    let (mut first, pushed) = bench.consume_jobs(&[], 3, 3).await;
    let mut held = first.take_many(3).await;
    first.stop_soon().await;
    settle(held.remove(0), Settlement::Complete).await;
    settle(held.remove(0), Settlement::Retry(Duration::ZERO)).await;
    settle(held.remove(0), Settlement::Release).await;
    bench.counts("mail", 2, 0, 0).await;

    let mut second = bench.consumer("mail", 3).await;
    let mut taken = second.take_many(2).await;
    taken.sort_by_key(|delivery| delivery.attempt);
    assert_eq!(ids(&taken), [pushed[2], pushed[1]]);
    assert_eq!((taken[0].attempt, taken[1].attempt), (1, 2));
}

/// Closing an engine ends its waiting consumers.
pub async fn a_closed_engine_ends_its_consumers(bench: &Bench) {
    let mut idle = bench.consume("idle", &[], 1).await;
    let (mut busy, _) = bench.consume_jobs(&[], 5, 3).await;
    let in_flight = busy.take().await;
    let waiting = tokio::spawn(async move { end(&mut idle).await });
    soon("the engine to close", bench.engine().close()).await;
    waiting.await.expect("no panic");
    end(&mut busy).await;
    soon("a stop after the end", busy.stop()).await;
    // It was released, so no settlement may be recorded.
    let answer = soon("an answer", in_flight.settle(Settlement::Retry(Duration::ZERO))).await;
    let kind = answer.expect_err("no longer this worker's").kind();
    assert!(matches!(kind, ErrorKind::Closed | ErrorKind::Stale), "{kind:?}");
}

/// Every call fails as closed, and none waits or panics.
pub async fn calls_on_a_closed_engine_say_so(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let engine = bench.engine();
    soon("the engine to close", engine.close()).await;
    let spec = QueueSpec::new("mail");
    let calls = async {
        let not_pushed = engine.push_all(&mut [job("mail"), job("mail")].into_iter()).await;
        let (places, mut errors): (Vec<_>, Vec<_>) = not_pushed.into_iter().unzip();
        assert_eq!(places, [0, 1]);
        errors.extend(engine.push(job("mail")).await.err());
        errors.extend(engine.declare(std::slice::from_ref(&spec)).await.err());
        for mandatory in [false, true] {
            errors.extend(engine.publish(event("user.created"), mandatory).await.err());
        }
        errors.extend(engine.admin().unsubscribe("mail", "user.*").await.err());
        errors.extend(engine.admin().delete(&spec, true).await.err());
        errors.extend(engine.consume_from("mail", 1).await.err());
        errors.extend(engine.admin().counts("mail").await.err());
        let visit = Box::new(|_| Verdict::Discard);
        errors.extend(engine.admin().failed_visit("mail", visit).await.err());
        errors
    };
    let errors = soon("answers", calls).await;
    assert_eq!(errors.len(), 11);
    assert!(errors.iter().all(|error| !error.maybe_enqueued()));
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    }
}

/// A second close returns as the first one did.
pub async fn closing_twice_is_closing_once(bench: &Bench) {
    soon("the engine to close", bench.engine().close()).await;
    soon("the engine to close", bench.engine().close()).await;
}

/// Jobs in flight when an engine is closed go to another at once, as the same attempt.
pub async fn closing_hands_back_what_is_in_hand(bench: &Bench) {
    let other = bench.another().await;
    bench.declare("mail", &[]).await;
    let mut first = consume(&*other, "mail", 3).await;
    let pushed = bench.push_jobs("mail", 5).await;
    let held = first.take().await;
    soon("the engine to close", other.close()).await;
    let mut second = bench.consumer("mail", 10).await;
    let taken = second.take_many(5).await;
    are_first_attempts(&taken, pushed);
    drop((held, first));
    bench.counts("mail", 0, 0, 0).await;
}
