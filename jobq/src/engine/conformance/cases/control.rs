//! Pools that are asked and given orders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{Bench, DEADLINE, consume, eventually, job, settle, soon};
use crate::engine::conformance::member::{
    Member, SHORT, ask, ask_all, strange_consumers, unaccounted,
};
use crate::engine::{
    Ask, Engine, Pause, PoolId, Question, QueueSpec, Reply, RunningJob, Settlement, Watched,
};
use crate::error::ErrorKind;
use crate::job::JobId;

/// Waits until all these pools answer, and no others.
async fn answered(engine: &dyn Engine, pools: &[&Arc<Member>]) {
    let mut expected: Vec<_> = pools.iter().map(|pool| pool.id()).collect();
    expected.sort();
    eventually("pools that answer", expected, || async {
        let answers = ask_all(engine, &["mail"], SHORT).await;
        answers.replies.into_iter().map(|(pool, _)| pool).collect()
    })
    .await;
}

/// A question reaches a pool and its answer comes back, both unchanged.
pub async fn questions_and_answers_arrive_unchanged(bench: &Bench) {
    let (pool, _member) = Member::joined(bench, &["mail"]).await;
    pool.report_all(|queue| {
        let took = (0..40).map(|bits| Duration::from_micros(1 << bits));
        took.for_each(|took| queue.minute.durations.record(took));
        queue.minute.waited = Some(Duration::from_millis(12));
    });
    let watched = |operation| Watched::new(JobId::new(), operation);
    for question in [
        Question::Report,
        Question::Watch { jobs: vec![watched("one"), watched("\u{e4} \"two\"")] },
        Question::Quiet,
        Question::Stop,
        Question::Cancel { id: JobId::new() },
        Question::Schedules { begun: Some("mail".to_owned()) },
    ] {
        let asked = Ask::pool(pool.id(), question.clone(), DEADLINE);
        let answers = ask(bench.engine(), asked).await;
        assert_eq!(answers.replies, [(pool.id(), pool.reply(&question))]);
        assert_eq!(answers.unaccounted, BTreeMap::new(), "no queue was asked about");
        assert_eq!(pool.heard(), [question], "asked once");
    }
}

/// A report of several hundred kilobytes arrives.
pub async fn a_report_may_be_long(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let pool = Member::new(&["mail", "video", "audio"]);
    let _member = pool.join(bench.engine()).await;
    let name = "a".repeat(100);
    pool.report_all(|queue| {
        let running = |at| RunningJob::new(JobId::new(), &*name, 1, Duration::from_secs(at));
        queue.running = (0..1_000).map(running).collect();
    });
    let answers = ask(bench.engine(), Ask::pool(pool.id(), Question::Report, DEADLINE)).await;
    assert_eq!(answers.replies, [(pool.id(), Reply::Report(pool.report()))]);
}

/// All pools of one engine are asked, and their answers are sorted by pool: also those without a
/// consumer, as all are whose queues are paused.
pub async fn every_pool_of_an_engine_answers(bench: &Bench) {
    let (mut pools, mut members) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (pool, member) = Member::joined(bench, &["mail"]).await;
        pools.push(pool);
        members.push(member);
    }
    answered(bench.engine(), &pools.iter().collect::<Vec<_>>()).await;
    let answers = ask_all(bench.engine(), &["mail"], SHORT * 10).await;
    let report = |pool: &Arc<Member>| (pool.id(), Reply::Report(pool.report()));
    let mut expected: Vec<_> = pools.iter().map(report).collect();
    expected.sort_by_key(|(pool, _)| *pool);
    assert_eq!(answers.replies, expected);
    assert_eq!(unaccounted(&answers, "mail"), 0);
}

/// An order reaches the pool that it names, and no other. That a pool does not exist is no error.
pub async fn an_order_reaches_whom_it_names(bench: &Bench) {
    let (one, _one) = Member::joined(bench, &["mail"]).await;
    let (two, _two) = Member::joined(bench, &["mail"]).await;
    answered(bench.engine(), &[&one, &two]).await;
    for (named, other) in [(&one, &two), (&two, &one)] {
        named.heard();
        other.heard();
        let answers = ask(bench.engine(), Ask::pool(named.id(), Question::Quiet, DEADLINE)).await;
        assert_eq!(answers.replies, [(named.id(), Reply::Accepted)]);
        assert_eq!((named.heard(), other.heard()), (vec![Question::Quiet], vec![]));
    }
    let answers = ask(bench.engine(), Ask::pool(PoolId::new(), Question::Quiet, SHORT)).await;
    assert_eq!(answers.replies, []);
    assert_eq!((one.heard(), two.heard()), (vec![], vec![]));
}

/// A pool is no longer asked when its membership is dropped.
pub async fn a_membership_ends_when_it_is_dropped(bench: &Bench) {
    let (stays, _member) = Member::joined(bench, &["mail"]).await;
    let (goes, ending) = Member::joined(bench, &["mail"]).await;
    answered(bench.engine(), &[&stays, &goes]).await;
    drop(ending);
    answered(bench.engine(), &[&stays]).await;
    goes.heard();
    let answers = ask(bench.engine(), Ask::pool(goes.id(), Question::Quiet, SHORT)).await;
    assert_eq!((answers.replies, goes.heard()), (vec![], vec![]));
}

/// A consumer whose name no answer has is unaccounted for, until it is stopped. A queue that does not
/// exist has none.
pub async fn consumers_of_no_pool_are_counted(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").solo()).await;
    let (pool, _member) = Member::joined(bench, &["mail", "video"]).await;
    let own = pool.consume(bench.engine(), "mail", 1).await;
    let alone = pool.consume_solo(bench.engine(), "mail").await;
    let other = pool.consume(bench.engine(), "video", 1).await;
    let names = [own.names(), alone.names(), other.names()].concat();
    let unique: BTreeSet<_> = names.iter().collect();
    assert!(names.len() >= 3 && unique.len() == names.len(), "{names:?}");

    let missing = |expected: u32, all: u32| async move {
        eventually("consumers of no pool", (Some(expected), Some(all)), || async {
            let answers = ask_all(bench.engine(), &["mail", "video"], SHORT).await;
            let count = |queue| unaccounted(&answers, queue).known().copied();
            (count("mail"), count("video"))
        })
        .await;
    };
    missing(0, 0).await;
    let answers = ask_all(bench.engine(), &["nowhere"], SHORT).await;
    assert_eq!(unaccounted(&answers, "nowhere"), 0);
    let mut strange = bench.consumer("mail", 1).await;
    missing(1, 0).await;
    // An engine may not count a solo consumer that waits for its turn.
    drop(alone);
    missing(1, 0).await;
    let more = soon("a consumer", bench.engine().consume_solo("mail")).await.expect("consumes");
    missing(2, 0).await;
    strange.stop_soon().await;
    missing(1, 0).await;
    drop(more);
    missing(0, 0).await;
    // A pool that answers without the names does not account for them.
    pool.report_all(|queue| queue.consumers.clear());
    missing(1, 1).await;
    drop((own, other));
    missing(0, 0).await;
}

/// A pool that panics gives no answer, and the others do, now and later.
pub async fn a_pool_that_panics_holds_up_no_other(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let (bad, good) = (Member::panicking(&["mail"]), Member::new(&["mail"]));
    let _members = [bad.join(bench.engine()).await, good.join(bench.engine()).await];
    let taker = bad.consume(bench.engine(), "mail", 1).await;
    for _ in 0..3 {
        eventually("the pool that answers", vec![good.id()], || async {
            let answers = ask_all(bench.engine(), &["mail"], SHORT).await;
            assert_eq!(unaccounted(&answers, "mail"), 1);
            answers.replies.into_iter().map(|(pool, _)| pool).collect()
        })
        .await;
    }
    // It is asked each time.
    assert!(bad.heard().len() >= 3);
    drop(taker);
}

/// The answers of others come within the patience, and the jobs of the slow pool as well.
pub async fn a_pool_that_is_slow_holds_up_no_other(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let (slow, gate) = Member::slow(&["mail"]);
    let good = Member::new(&["mail"]);
    let _members = [slow.join(bench.engine()).await, good.join(bench.engine()).await];
    let mut taker = slow.consume(bench.engine(), "mail", 1).await;
    eventually("the pool that answers", vec![good.id()], || async {
        let start = Instant::now();
        let answers = ask_all(bench.engine(), &["mail"], SHORT).await;
        assert!(start.elapsed() >= SHORT, "it waits for the other pool");
        assert_eq!(unaccounted(&answers, "mail"), 1);
        answers.replies.into_iter().map(|(pool, _)| pool).collect()
    })
    .await;
    bench.push_jobs("mail", 1).await;
    settle(taker.take().await, Settlement::Complete).await;
    drop(gate);
    answered(bench.engine(), &[&slow, &good]).await;
}

/// Pools of all engines are asked and get orders, and consumers of all engines are counted.
pub async fn pools_of_every_engine_are_asked(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let (second, asking) = (bench.another().await, bench.another().await);
    let pools = [Member::new(&["mail"]), Member::new(&["mail"])];
    let _members = [pools[0].join(bench.engine()).await, pools[1].join(&*second).await];
    let _taker = pools[0].consume(bench.engine(), "mail", 1).await;
    let _other = pools[1].consume(&*second, "mail", 1).await;
    let strange = consume(&*second, "mail", 1).await;
    for engine in [&*asking, bench.engine(), &*second] {
        answered(engine, &[&pools[0], &pools[1]]).await;
        strange_consumers(engine, 1).await;
        for pool in &pools {
            pool.heard();
            let answers = ask(engine, Ask::pool(pool.id(), Question::Quiet, DEADLINE)).await;
            assert_eq!(answers.replies, [(pool.id(), Reply::Accepted)]);
            assert_eq!(pool.heard(), [Question::Quiet]);
        }
    }
    drop(strange);
    strange_consumers(&*asking, 0).await;
}

/// A closed engine has no pools and no consumers.
pub async fn pools_of_a_closed_engine_are_not_asked(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let other = bench.another().await;
    let pool = Member::new(&["mail"]);
    let _member = pool.join(&*other).await;
    let _taker = pool.consume(&*other, "mail", 1).await;
    answered(bench.engine(), &[&pool]).await;
    soon("the engine to close", other.close()).await;
    answered(bench.engine(), &[]).await;
    strange_consumers(bench.engine(), 0).await;
}

/// The queues that an engine declared are among those that it knows.
pub async fn declared_queues_are_named(bench: &Bench) {
    for queue in ["mail", "shop.eu.mail"] {
        bench.declare(queue, &[]).await;
        let known = soon("the queues", bench.admin().queues()).await.expect("names");
        assert!(known.names.contains(queue), "{known:?}");
        assert!(!known.sources.is_empty(), "{known:?}");
        assert!(!known.names.contains("nowhere"), "{known:?}");
    }
    bench.push(vec![job("mail")]).await;
}

/// Every call about pools and pauses fails as closed.
pub async fn questions_to_a_closed_engine_say_so(bench: &Bench) {
    let engine = bench.engine();
    soon("the engine to close", engine.close()).await;
    let admin = engine.admin();
    let calls = async {
        [
            admin.queues().await.map(drop),
            admin.join(Member::new(&["mail"])).await.map(drop),
            admin.ask(Ask::all(Question::Report, vec!["mail".into()], DEADLINE)).await.map(drop),
            admin.pause("mail", &Pause::default()).await,
            admin.resume("mail").await.map(drop),
            admin.paused("mail").await.map(drop),
        ]
    };
    for answer in soon("answers", calls).await {
        assert_eq!(answer.expect_err("it is closed").kind(), ErrorKind::Closed);
    }
}
