//! Pauses of queues. Consumers are of pools that have joined: others may not be told of a pause.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, eventually, failure, ids, job, settle, settle_all, soon, sorted,
};
use crate::engine::conformance::member::{Member, strange_consumers};
use crate::engine::{Consumer, Engine, Figure, Membership, Pause, QueueSpec, Settlement, Solo};
use crate::job::{Envelope, FailedReason, Priority, from_millis};

fn record(why: &str) -> Pause {
    Pause::new(from_millis(1_700_000_000_123), "ann \u{e4}", why)
}

async fn pause(engine: &dyn Engine, queue: &str, pause: &Pause) {
    soon("a pause", engine.admin().pause(queue, pause)).await.expect("pauses");
}

async fn resume(engine: &dyn Engine, queue: &str) -> bool {
    soon("the end of a pause", engine.admin().resume(queue)).await.expect("resumes")
}

async fn paused(engine: &dyn Engine, queue: &str) -> Option<Pause> {
    match soon("the record of a pause", engine.admin().paused(queue)).await.expect("tells") {
        Figure::Known(pause) => pause,
        Figure::Unknown(why) => panic!("the pause of `{queue}` is unknown: {why}"),
    }
}

/// A pool that has joined, and its consumer of the queue `mail`.
async fn pool(bench: &Bench, prefetch: u16) -> (Arc<Member>, Membership, Consumer) {
    let (pool, member) = Member::joined(bench, &["mail"]).await;
    let consumer = pool.consume(bench.engine(), "mail", prefetch).await;
    (pool, member, consumer)
}

/// Pauses the queue of a consumer, and waits until that is told.
async fn pause_told(engine: &dyn Engine, queue: &str, why: &str, consumer: &Consumer) -> Pause {
    let record = record(why);
    pause(engine, queue, &record).await;
    told(consumer, Some(&record)).await;
    record
}

/// Waits until a consumer is told of a pause with this record, or of its end.
async fn told(consumer: &Consumer, expected: Option<&Pause>) {
    let mut pauses = consumer.pauses();
    let seen = soon("a consumer to be told", pauses.wait_for(|pause| pause.as_ref() == expected));
    seen.await.expect("the consumer goes on");
}

/// Waits until a consumer has names, or has none.
async fn named(consumer: &Consumer, has_names: bool) {
    eventually("names of the consumer", has_names, || async { !consumer.names().is_empty() }).await;
}

/// The consumer of a pool gets no job of a queue that was paused before, even before it existed, until
/// it is resumed. What expires meanwhile is kept for the layer above, which checks the expiry.
pub async fn a_paused_queue_gives_no_jobs(bench: &Bench) {
    let record = record("before the first deploy");
    pause(bench.engine(), "shop.eu.mail", &record).await;
    assert_eq!(paused(bench.engine(), "shop.eu.mail").await, Some(record.clone()));
    let (pool, _member) = Member::joined(bench, &["shop.eu.mail"]).await;
    let mut pushed = bench.push_jobs("shop.eu.mail", 3).await;
    let soon_over = bench.now() + Duration::from_millis(1);
    let expiring = Envelope { expires_at: Some(soon_over), ..job("shop.eu.mail") };
    pushed.extend(bench.push(vec![expiring]).await);
    let mut consumer = pool.consume(bench.engine(), "shop.eu.mail", 10).await;
    told(&consumer, Some(&record)).await;
    consumer.gets_nothing().await;
    pushed.extend(bench.push_jobs("shop.eu.mail", 1).await);
    consumer.gets_nothing().await;
    bench.counts("shop.eu.mail", 5, 0, 0).await;

    assert!(resume(bench.engine(), "shop.eu.mail").await);
    told(&consumer, None).await;
    let taken = consumer.take_many(5).await;
    assert_eq!(ids(&taken), pushed);
    assert!(taken.iter().all(|delivery| delivery.attempt == 1 && delivery.crashes == 0));
    let expiry = taken[3].envelope().expires_at.expect("it expires");
    assert!(expiry <= soon_over && expiry <= bench.now());
}

/// A pause reaches a consumer that waits for jobs, again and again.
pub async fn a_waiting_consumer_is_paused_and_resumed(bench: &Bench) {
    let (_pool, _member, mut consumer) = pool(bench, 10).await;
    told(&consumer, None).await;
    for round in 0..3 {
        pause_told(bench.engine(), "mail", &format!("round {round}"), &consumer).await;
        named(&consumer, false).await;
        let pushed = bench.push_jobs("mail", 1).await;
        consumer.gets_nothing().await;
        resume(bench.engine(), "mail").await;
        told(&consumer, None).await;
        named(&consumer, true).await;
        consumer.complete(pushed[0]).await;
    }
    bench.counts("mail", 0, 0, 0).await;
}

/// Jobs that were taken ahead and are released at a pause come back once, and are no suspects.
pub async fn jobs_that_were_taken_ahead_go_back(bench: &Bench) {
    const JOBS: usize = 10;
    let (pool, _member) = Member::joined(bench, &["mail"]).await;
    let pushed = bench.push_jobs("mail", JOBS).await;
    let mut consumer = pool.consume(bench.engine(), "mail", 10).await;
    for round in 0..5 {
        bench.counts("mail", 0, 0, 0).await;
        pause_told(bench.engine(), "mail", "upgrade", &consumer).await;
        settle_all(consumer.take_many(JOBS).await, Settlement::Release).await;
        bench.counts("mail", JOBS as u64, 0, 0).await;
        consumer.gets_nothing().await;
        resume(bench.engine(), "mail").await;
        told(&consumer, None).await;
        let taken = consumer.take_many(JOBS).await;
        assert_eq!(sorted(ids(&taken)), sorted(pushed.clone()), "in round {round}");
        for delivery in taken {
            assert!(delivery.crashes < 3, "{} in round {round}", delivery.crashes);
            assert_eq!(delivery.attempt, 1);
            settle(delivery, Settlement::Release).await;
        }
    }
    let taken = consumer.take_many(JOBS).await;
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
    settle_all(taken, Settlement::Complete).await;
    bench.counts("mail", 0, 0, 0).await;
}

/// Jobs in flight are settled in each way, and wait in the queue if they are to run again.
pub async fn jobs_in_flight_are_settled_during_a_pause(bench: &Bench) {
    let wait = Duration::from_millis(200);
    bench.declare("mail", &[wait]).await;
    let (_pool, _member, mut consumer) = pool(bench, 5).await;
    let pushed = bench.push_jobs("mail", 5).await;
    let mut held = consumer.take_many(5).await;
    pause_told(bench.engine(), "mail", "upgrade", &consumer).await;
    let fail = failure(FailedReason::Aborted, "no", 1);
    let (now, later) = (Settlement::Retry(Duration::ZERO), Settlement::Retry(wait));
    for settlement in [Settlement::Complete, fail, now, later, Settlement::Snooze(wait)] {
        settle(held.remove(0), settlement).await;
    }
    bench.counts("mail", 3, 0, 1).await;
    consumer.gets_nothing().await;
    resume(bench.engine(), "mail").await;
    let mut taken = consumer.take_many(3).await;
    taken.sort_by_key(|delivery| delivery.envelope().id);
    let attempts: Vec<_> = taken.iter().map(|delivery| delivery.attempt).collect();
    assert_eq!((ids(&taken), attempts), (pushed[2..].to_vec(), vec![2, 2, 1]));
}

/// Delayed jobs become due during a pause, and wait for its end.
pub async fn delayed_jobs_fall_due_during_a_pause(bench: &Bench) {
    let wait = Duration::from_millis(200);
    bench.declare("mail", &[wait]).await;
    let (pool, _member) = Member::joined(bench, &["mail"]).await;
    let record = record("upgrade");
    pause(bench.engine(), "mail", &record).await;
    let pushed = bench.push(vec![Envelope { delay: wait, ..job("mail") }]).await;
    let mut consumer = pool.consume(bench.engine(), "mail", 1).await;
    told(&consumer, Some(&record)).await;
    bench.counts("mail", 1, 0, 0).await;
    consumer.gets_nothing().await;
    resume(bench.engine(), "mail").await;
    consumer.complete(pushed[0]).await;
}

/// The record of a pause tells who, why and since when, until the queue is resumed: once, and only
/// where it is paused.
pub async fn the_record_of_a_pause_is_told(bench: &Bench) {
    bench.declare("mail", &[]).await;
    assert_eq!(paused(bench.engine(), "mail").await, None);
    assert!(!resume(bench.engine(), "mail").await);
    let records = [
        record("mail server, \"blue\"\nand green"),
        Pause { by: None, ..record("nobody says who") },
        Pause { why: None, ..record("") },
        Pause::default(),
    ];
    for record in records {
        pause(bench.engine(), "mail", &record).await;
        eventually("the record", Some(record), || paused(bench.engine(), "mail")).await;
    }
    assert!(resume(bench.engine(), "mail").await);
    assert_eq!(paused(bench.engine(), "mail").await, None);
    assert!(!resume(bench.engine(), "mail").await);
    assert!(!resume(bench.engine(), "nowhere").await);
}

/// A second pause replaces the record, and consumers are told of it.
pub async fn a_second_pause_replaces_the_record(bench: &Bench) {
    let (_pool, _member, mut consumer) = pool(bench, 1).await;
    for why in ["first", "second", "second", "third"] {
        let record = pause_told(bench.engine(), "mail", why, &consumer).await;
        assert_eq!(paused(bench.engine(), "mail").await, Some(record));
    }
    bench.push_jobs("mail", 1).await;
    consumer.gets_nothing().await;
    // One end is enough.
    assert!(resume(bench.engine(), "mail").await);
    consumer.take().await;
}

/// A pause of a queue holds for the jobs of all priorities.
pub async fn a_pause_is_of_all_priorities(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").priorities()).await;
    let (pool, _member, mut consumer) = pool(bench, 2).await;
    assert!(consumer.has_priorities());
    let jobs = || {
        let priorities = [Priority::High, Priority::Normal, Priority::Low];
        priorities.map(|priority| {
            let mut job = job("mail");
            job.set_priority(priority);
            job
        })
    };
    bench.push(jobs().to_vec()).await;
    settle_all(consumer.take_many(3).await, Settlement::Complete).await;
    strange_consumers(bench.engine(), 0).await;
    pause_told(bench.engine(), "mail", "all", &consumer).await;
    named(&consumer, false).await;
    pool.report_all(|queue| queue.consumers.clear());
    strange_consumers(bench.engine(), 0).await;
    let pushed = bench.push(jobs().to_vec()).await;
    consumer.gets_nothing().await;
    assert!(resume(bench.engine(), "mail").await);
    let taken = consumer.take_many(3).await;
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
    named(&consumer, true).await;
    let names = u32::try_from(consumer.names().len()).expect("few");
    strange_consumers(bench.engine(), names).await;
    settle_all(taken, Settlement::Complete).await;
}

/// Queues with like names are paused one by one.
pub async fn a_pause_is_of_one_queue(bench: &Bench) {
    let queues = ["mail", "mail.eu", "eu.mail", "mail-eu"];
    let pool = Member::new(&queues);
    let _member = pool.join(bench.engine()).await;
    let mut consumers = Vec::new();
    for queue in queues {
        bench.declare(queue, &[]).await;
        consumers.push(pool.consume(bench.engine(), queue, 1).await);
    }
    for place in 0..queues.len() {
        pause_told(bench.engine(), queues[place], queues[place], &consumers[place]).await;
        for (other, consumer) in consumers.iter_mut().enumerate().filter(|(at, _)| *at != place) {
            assert_eq!(paused(bench.engine(), queues[other]).await, None);
            bench.push_jobs(queues[other], 1).await;
            settle(consumer.take().await, Settlement::Complete).await;
        }
        resume(bench.engine(), queues[place]).await;
        told(&consumers[place], None).await;
    }
}

/// Consumers of solo jobs pause too.
pub async fn solo_runs_pause(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").solo()).await;
    let (pool, _member, mut consumer) = pool(bench, 1).await;
    let mut alone = pool.consume_solo(bench.engine(), "mail").await;
    let pushed = bench.push_jobs("mail", 1).await;
    let delivery = consumer.take().await;
    pause_told(bench.engine(), "mail", "upgrade", &alone).await;
    settle(delivery, Settlement::Isolate).await;
    alone.gets_nothing().await;
    bench.counts("mail", 1, 0, 0).await;
    resume(bench.engine(), "mail").await;
    told(&alone, None).await;
    let delivery = alone.take_attempt(pushed[0], 1).await;
    assert_eq!(delivery.solo, Some(Solo { starts: 0, started: false }));
}

/// A consumer can be stopped while its queue is paused.
pub async fn a_paused_consumer_can_be_stopped(bench: &Bench) {
    let (pool, _member) = Member::joined(bench, &["mail"]).await;
    let record = record("upgrade");
    pause(bench.engine(), "mail", &record).await;
    bench.push_jobs("mail", 2).await;
    let mut consumer = pool.consume(bench.engine(), "mail", 1).await;
    told(&consumer, Some(&record)).await;
    soon("a prefetch", consumer.set_prefetch(5)).await;
    consumer.gets_nothing().await;
    consumer.stop_soon().await;
    assert!(soon("the consumer to end", consumer.next()).await.is_none());
    soon("settlements", consumer.settled()).await;
    bench.counts("mail", 2, 0, 0).await;
}

/// Consumers of a paused queue are not among those that are unaccounted for.
pub async fn a_paused_consumer_is_not_counted(bench: &Bench) {
    let (pool, member, consumer) = pool(bench, 1).await;
    drop(member);
    strange_consumers(bench.engine(), 1).await;
    let member = pool.join(bench.engine()).await;
    pool.report_all(|queue| queue.consumers.clear());
    pause(bench.engine(), "mail", &record("upgrade")).await;
    strange_consumers(bench.engine(), 0).await;
    resume(bench.engine(), "mail").await;
    strange_consumers(bench.engine(), 1).await;
    drop((consumer, member));
}

/// A queue that is deleted is no longer paused.
pub async fn a_paused_queue_can_be_deleted(bench: &Bench) {
    for force in [false, true] {
        bench.declare("mail", &[]).await;
        pause(bench.engine(), "mail", &record("upgrade")).await;
        let jobs = usize::from(force);
        bench.push_jobs("mail", jobs).await;
        bench.counts("mail", jobs as u64, 0, 0).await;
        let deleted = bench.delete(&QueueSpec::new("mail"), force).await;
        assert_eq!(deleted.expect("deletes"), jobs as u64);
        assert_eq!(paused(bench.engine(), "mail").await, None);
    }
    let (_pool, _member, mut consumer) = pool(bench, 1).await;
    bench.push_jobs("mail", 1).await;
    consumer.take().await;
}

/// A pause by one engine stops the consumers of another, any engine can end it, and it outlives the
/// engine that made it.
pub async fn a_pause_holds_for_every_engine(bench: &Bench) {
    let (second, third) = (bench.another().await, bench.another().await);
    let (pool, _member, mut consumer) = pool(bench, 1).await;
    for round in 0..3 {
        let record = pause_told(&*second, "mail", &format!("round {round}"), &consumer).await;
        for engine in [bench.engine(), &*second, &*third] {
            assert_eq!(paused(engine, "mail").await, Some(record.clone()));
        }
        let pushed = bench.push_jobs("mail", 1).await;
        consumer.gets_nothing().await;
        assert!(resume(&*third, "mail").await);
        consumer.complete(pushed[0]).await;
        told(&consumer, None).await;
    }
    let record = record("by an engine that is closed");
    pause(&*second, "mail", &record).await;
    soon("the engine to close", second.close()).await;
    assert_eq!(paused(bench.engine(), "mail").await, Some(record.clone()));
    told(&consumer, Some(&record)).await;
    bench.push_jobs("mail", 1).await;
    consumer.gets_nothing().await;
    let mut later = pool.consume(bench.engine(), "mail", 1).await;
    told(&later, Some(&record)).await;
    later.gets_nothing().await;
}
