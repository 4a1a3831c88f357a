//! Operations on failed jobs, from a client of an operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jobq::admin::{End, Filter, Stop};
use jobq::engine::conformance::{EngineExt as _, open};
use jobq::engine::{Engine, Envelope};
use jobq::{Client, Clock, FailedJob, FailedJobs, FailedReason, JobId};
use jobq_tests::both_engines;
use jobq_tests::failures::fail;
use jobq_tests::test_store::{DEADLINE, Step, Store, TestStore, soon, until};

both_engines!(
    jobs_that_match_go_back_and_the_others_stay_in_their_order,
    jobs_that_match_are_discarded,
    two_operators_settle_each_job_once,
    an_operation_is_cancelled,
    operations_go_by_no_clock_of_another_machine,
    two_operations_on_jobs_that_fail_at_once_both_end,
    an_operation_takes_no_job_twice_in_the_place_of_others,
    an_operation_leaves_what_fails_after_it_began,
    canaries_that_complete_let_the_others_follow,
    a_canary_that_fails_keeps_the_others,
    a_canary_that_nobody_tells_of_keeps_the_others,
    a_canary_needs_a_pool,
    a_canary_of_a_paused_queue_is_refused,
);

const QUEUE: &str = "letters";

/// A job with its number in the payload, which becomes its error.
fn letter(number: usize) -> Envelope {
    let payload = format!(r#"{{"tenant": {{"id": {}}}, "number": {number}}}"#, number % 90);
    let mut job = Envelope::new(QUEUE, payload.into_bytes());
    job.name = Some(if number.is_multiple_of(2) { "greet" } else { "remind" }.into());
    job
}

/// The engine of a store with this many failed letters, and the calls for them by another client.
async fn letters(store: &Store, count: usize) -> (Arc<dyn Engine>, FailedJobs) {
    let engine = open(&store.url, &store.namespace).await.unwrap();
    fail(&*engine, QUEUE, (0..count).map(letter)).await;
    let failed = store.client().await.failed(QUEUE).by("ann");
    (engine, failed)
}

async fn ids(failed: &FailedJobs) -> Vec<JobId> {
    failed.list(usize::MAX).await.unwrap().iter().map(FailedJob::id).collect()
}

/// Takes this many jobs from the queue.
async fn take(engine: &dyn Engine, count: usize) -> Vec<JobId> {
    let mut consumer = engine.consume_from(QUEUE, 1_000).await.unwrap();
    let mut taken = Vec::new();
    let mut held = Vec::new();
    while taken.len() < count {
        let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
        taken.push(delivery.envelope().id);
        held.push(delivery);
        if held.len() == 1_000 {
            for delivery in held.drain(..) {
                delivery.settle(jobq::engine::Settlement::Complete).await.unwrap();
            }
        }
    }
    taken
}

async fn jobs_that_match_go_back_and_the_others_stay_in_their_order(store: Store) {
    const COUNT: usize = 10_000;
    let (engine, failed) = letters(&store, COUNT).await;
    let all = failed.list(usize::MAX).await.unwrap();
    assert_eq!(all.len(), COUNT);
    let filter = Filter::new().reason(FailedReason::Exhausted).error("number");
    let filter = filter.value("/tenant/id", "3").unwrap();
    let (leave, stay): (Vec<_>, Vec<_>) = all.iter().partition(|job| filter.matches(job));
    assert_eq!(leave.len(), 112);

    let groups = failed.groups(&filter).await.unwrap();
    assert!(groups.complete && groups.other == 0);
    let [group] = &groups.groups[..] else { panic!("one group: {groups:?}") };
    assert_eq!((group.count, group.job.as_str()), (112, "remind"));
    assert_eq!(group.error, r#"{"tenant": {"id": #}, "number": #}"#);

    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = failed.page(&filter, after, 50).await.unwrap();
        assert!(page.complete && page.matching == 112 - paged.len() as u64);
        paged.extend(page.jobs.iter().map(FailedJob::id));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    let found = |jobs: &[&FailedJob]| jobs.iter().map(|job| job.id()).collect::<BTreeSet<_>>();
    assert_eq!(paged.len(), 112);
    assert_eq!(paged.into_iter().collect::<BTreeSet<_>>(), found(&leave));
    let first = failed.page(&Filter::new(), None, 50).await.unwrap();
    assert_eq!((first.jobs.len(), first.complete, first.matching), (50, false, 1_000));

    let done = failed.retry_where(filter.clone()).dry_run().await.unwrap();
    assert!(matches!(done.end, End::Finished), "{done:?}");
    assert_eq!((done.matched, done.settled), (112, 0));
    assert_eq!(ids(&failed).await.len(), COUNT);

    let done = failed.retry_where(filter).await.unwrap();
    assert!(matches!(done.end, End::Finished) && done.refused.is_empty(), "{done:?}");
    assert_eq!((done.matched, done.settled, done.unknown), (112, 112, 0));
    let left = ids(&failed).await;
    assert!(left == stay.iter().map(|job| job.id()).collect::<Vec<_>>(), "in their old order");
    assert_eq!(take(&*engine, 112).await.into_iter().collect::<BTreeSet<_>>(), found(&leave));
}

async fn jobs_that_match_are_discarded(store: Store) {
    let (engine, failed) = letters(&store, 300).await;
    let operation = failed.discard_where(Filter::new().job("greet"));
    let done = operation.await.unwrap();
    assert_eq!((done.matched, done.settled), (150, 150));
    let left = failed.list(usize::MAX).await.unwrap();
    assert!(left.len() == 150 && left.iter().all(|job| job.name() == "remind"));
    let counts = engine.admin().counts(QUEUE).await.unwrap();
    assert_eq!(counts.ready, 0);
    // A filter that nothing matches is no error.
    let done = failed.discard_where(Filter::new().job("greet")).await.unwrap();
    assert!(matches!(done.end, End::Finished) && done.matched == 0, "{done:?}");
}

async fn two_operators_settle_each_job_once(store: Store) {
    const COUNT: usize = 2_000;
    let (engine, failed) = letters(&store, COUNT).await;
    let all = ids(&failed).await;
    let other = store.client().await.failed(QUEUE);
    let retrying = failed.retry_where(Filter::new()).rate(700.0).start().unwrap();
    let discarding = other.discard_where(Filter::new().job("greet")).rate(400.0).start().unwrap();
    let (retried, discarded) = tokio::join!(
        soon("one operator", retrying.finish()),
        soon("the other operator", discarding.finish())
    );
    let (retried, discarded) = (retried.unwrap(), discarded.unwrap());
    for done in [&retried, &discarded] {
        assert!(matches!(done.end, End::Finished), "{done:?}");
        assert!(done.settled > 0 && done.unknown == 0, "{done:?}");
    }
    assert_eq!(retried.settled + discarded.settled, COUNT as u64);
    assert_eq!(ids(&failed).await, []);
    let back = take(&*engine, usize::try_from(retried.settled).unwrap()).await;
    let distinct: BTreeSet<_> = back.iter().copied().collect();
    assert_eq!(distinct.len(), back.len(), "none went back twice");
    assert!(distinct.is_subset(&all.into_iter().collect()));
}

async fn an_operation_is_cancelled(store: Store) {
    let (engine, failed) = letters(&store, 60).await;
    for is_dropped in [false, true] {
        let before = ids(&failed).await.len() as u64;
        let running = failed.retry_where(Filter::new()).rate(5.0).start().unwrap();
        let mut progress = running.progress();
        soon("a first pass", progress.wait_for(|now| now.settled > 0)).await.unwrap();
        let settled = if is_dropped {
            drop(running);
            // The sender ends with the operation.
            soon("the end", async { while progress.changed().await.is_ok() {} }).await;
            progress.borrow().settled
        } else {
            running.cancel();
            let done = soon("the end", running.finish()).await.unwrap();
            assert!(matches!(done.end, End::Cancelled), "{done:?}");
            done.settled
        };
        let left = ids(&failed).await.len() as u64;
        assert!(left > 0 && settled + left == before, "{settled} {left} {before}");
    }
    let left = ids(&failed).await.len();
    take(&*engine, 60 - left).await;
}

/// Fails scripted jobs, and waits until they are among the failed jobs.
async fn scripted(test: &TestStore, jobs: Vec<Vec<Step>>) -> FailedJobs {
    let count = jobs.len();
    for steps in jobs {
        test.enqueue(steps).await;
    }
    let failed = test.store.client().await.failed("scripted");
    all_fail(&failed, count).await;
    failed
}

async fn all_fail(failed: &FailedJobs, count: usize) {
    until("all to fail", async || (ids(failed).await.len() == count).then_some(())).await;
}

fn abort() -> Step {
    Step::Abort("the bank is closed".into())
}

/// A client of an operator whose clock is a minute ahead of the workers', or behind. On a file, where
/// retried jobs are due by that clock, it is less, since the test waits as long.
async fn operator(store: &Store, is_ahead: bool) -> FailedJobs {
    let offset = Duration::from_secs(if store.is_file() { 10 } else { 60 });
    let now = SystemTime::now();
    let clock = Clock::stopped_at(if is_ahead { now + offset } else { now - offset });
    let builder = Client::builder(&store.url).namespace(&store.namespace).clock(clock);
    builder.timeout(DEADLINE).connect().await.unwrap().failed("scripted")
}

async fn operations_go_by_no_clock_of_another_machine(store: Store) {
    let test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let failed = scripted(&test, vec![vec![abort()]; 12]).await;
    for is_ahead in [false, true] {
        let operator = operator(&test.store, is_ahead).await;
        let rated = |rate| operator.retry_where(Filter::new()).rate(rate);
        let done = soon("the end", rated(5.0).into_future()).await.unwrap();
        assert!(matches!(done.end, End::Finished), "{done:?}");
        assert_eq!((done.matched, done.settled), (12, 12), "ahead: {is_ahead}");
        all_fail(&failed, 12).await;
        let done = soon("the end", rated(2.0).stop_on_failure().into_future()).await.unwrap();
        assert!(matches!(done.end, End::Stopped(Stop::FailedAgain(_))), "{done:?}");
        assert!(done.settled < 12, "{done:?}");
        all_fail(&failed, 12).await;
    }
    let operator = operator(&test.store, false).await;
    let one = ids(&failed).await[0];
    let done = operator.retry_where(Filter::new().ids([one])).await.unwrap();
    assert_eq!((done.matched, done.settled), (1, 1));
    all_fail(&failed, 12).await;
    assert_eq!(operator.retry_all().await.unwrap(), 12);
    all_fail(&failed, 12).await;
    let job = failed.show(one).await.unwrap();
    let named = job.header("jobq-operations").unwrap_or_default();
    assert!(named.split(' ').count() >= 4, "{named}");
    operator.retry(one).await.unwrap();
    all_fail(&failed, 12).await;
    assert_eq!(failed.show(one).await.unwrap().header("jobq-operations"), None);
    assert_eq!(operator.purge().await.unwrap(), 12);
    running.shutdown().await.unwrap();
}

async fn two_operations_on_jobs_that_fail_at_once_both_end(store: Store) {
    const COUNT: u64 = 20;
    let test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let failed = scripted(&test, vec![vec![abort()]; 20]).await;
    let operation = || failed.retry_where(Filter::new()).rate(8.0).into_future();
    let both = async { tokio::join!(operation(), operation()) };
    let (one, other) = soon("both to end", both).await;
    for done in [one.unwrap(), other.unwrap()] {
        assert!(matches!(done.end, End::Finished), "{done:?}");
        assert!((1..=COUNT).contains(&done.settled), "{done:?}");
    }
    all_fail(&failed, 20).await;
    running.shutdown().await.unwrap();
}

/// Another operator discards half of the jobs that the operation found when it began.
async fn an_operation_takes_no_job_twice_in_the_place_of_others(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let failed = scripted(&test, vec![vec![abort()]; 20]).await;
    let last = ids(&failed).await.split_off(10);
    let retrying = failed.retry_where(Filter::new()).rate(4.0).start().unwrap();
    let mut progress = retrying.progress();
    soon("a first pass", progress.wait_for(|now| now.settled > 0)).await.unwrap();
    let discarded = failed.discard_where(Filter::new().ids(last)).await.unwrap();
    let retried = soon("the end", retrying.finish()).await.unwrap();
    assert!(matches!(retried.end, End::Finished), "{retried:?}");
    all_fail(&failed, 20 - usize::try_from(discarded.settled).unwrap()).await;
    let mut runs = BTreeMap::new();
    for _ in 0..20 + retried.settled {
        *runs.entry(test.run().await.id).or_insert(0) += 1;
    }
    assert!(runs.values().all(|runs| *runs <= 2), "{retried:?} {runs:?}");
    running.shutdown().await.unwrap();
}

async fn an_operation_leaves_what_fails_after_it_began(store: Store) {
    let (engine, failed) = letters(&store, 10).await;
    let counted = failed.discard_where(Filter::new()).dry_run().await.unwrap();
    assert_eq!(counted.matched, 10);
    let running = failed.discard_where(Filter::new()).rate(4.0).start().unwrap();
    let mut progress = running.progress();
    soon("a first pass", progress.wait_for(|now| now.settled > 0)).await.unwrap();
    fail(&*engine, QUEUE, (10..15).map(letter)).await;
    let done = soon("the end", running.finish()).await.unwrap();
    assert!(matches!(done.end, End::Finished), "{done:?}");
    assert_eq!((done.matched, done.settled), (10, 10), "{done:?}");
    assert_eq!(ids(&failed).await.len(), 5);
    // A question was asked before these failed.
    let asked = failed.discard_where(Filter::new()).within(counted.extent.unwrap());
    fail(&*engine, QUEUE, (15..30).map(letter)).await;
    let done = asked.await.unwrap();
    // A file numbers its failed jobs, and RabbitMQ counts them.
    assert_eq!(done.settled, if store.is_file() { 0 } else { 10 }, "{done:?}");
}

async fn canaries_that_complete_let_the_others_follow(store: Store) {
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let failed = scripted(&test, vec![vec![abort(), Step::Succeed]; 10]).await;
    let operation = failed.retry_where(Filter::new()).canary(3);
    let done = soon("the end", operation.into_future()).await.unwrap();
    assert!(matches!(done.end, End::Finished), "{done:?}");
    assert_eq!((done.matched, done.settled), (10, 10));
    let mut ended = BTreeSet::new();
    for _ in 0..10 {
        ended.insert(test.end().await);
    }
    assert_eq!(ended.len(), 10);
    running.shutdown().await.unwrap();
}

async fn a_canary_that_fails_keeps_the_others(store: Store) {
    let test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    // A plain error fails a canary at once, though the job has retries.
    let steps = vec![abort(), Step::Fail("still closed".into()), Step::Succeed];
    let failed = scripted(&test, vec![steps; 10]).await;
    let operation = failed.retry_where(Filter::new()).canary(2);
    let done = soon("the end", operation.into_future()).await.unwrap();
    let End::Stopped(Stop::CanaryFailed(canaries)) = &done.end else { panic!("{done:?}") };
    assert!(!canaries.is_empty());
    assert!(canaries.iter().all(|(_, reason)| *reason == FailedReason::Exhausted), "{done:?}");
    assert_eq!(done.settled, 2);
    all_fail(&failed, 10).await;
    let job = failed.show(canaries[0].0).await.unwrap();
    assert_eq!(job.error(), "still closed");
    running.shutdown().await.unwrap();
}

async fn a_canary_that_nobody_tells_of_keeps_the_others(store: Store) {
    let test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let failed = scripted(&test, vec![vec![abort(), Step::Wait]; 5]).await;
    let operation = failed.retry_where(Filter::new()).canary(1);
    let operation = operation.canary_patience(Duration::from_millis(300));
    let done = soon("the end", operation.into_future()).await.unwrap();
    assert!(matches!(&done.end, End::Stopped(Stop::CanaryUnknown(jobs)) if jobs.len() == 1));
    assert_eq!((done.settled, ids(&failed).await.len()), (1, 4));
    test.go();
    running.shutdown().await.unwrap();
}

async fn a_canary_of_a_paused_queue_is_refused(store: Store) {
    let test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let failed = scripted(&test, vec![vec![abort(), Step::Succeed]; 3]).await;
    test.client.admin().pause("scripted", "upgrade").await.unwrap();
    let operation = failed.retry_where(Filter::new()).canary(1);
    let refused = soon("the end", operation.into_future()).await.unwrap_err();
    assert!(refused.is_conflict() && refused.to_string().contains("is paused"), "{refused:?}");
    assert_eq!(ids(&failed).await.len(), 3);
    running.shutdown().await.unwrap();
}

async fn a_canary_needs_a_pool(store: Store) {
    let (_engine, failed) = letters(&store, 3).await;
    let refused = failed.retry_where(Filter::new()).canary(1).await.unwrap_err();
    assert!(refused.is_unsupported() && refused.to_string().contains(QUEUE), "{refused:?}");
    assert_eq!(ids(&failed).await.len(), 3);
    let client: Client = store.client().await;
    let invalid = client.failed(QUEUE).retry_where(Filter::new()).rate(0.0).await.unwrap_err();
    assert!(invalid.is_invalid(), "{invalid:?}");
}
