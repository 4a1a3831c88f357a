//! Failed jobs: list, find, retry, discard.

use std::time::{Duration, SystemTime};

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, are_first_attempts, eventually, failure, job, settle, settle_all, soon,
};
use crate::engine::{Consume, Consumer, QueueName, Settlement, Verdict};
use crate::job::{Envelope, FailedJob, FailedReason, JobId};

pub(super) fn fail(error: &str, attempts: u32) -> Settlement {
    failure(FailedReason::Exhausted, error, attempts)
}

/// Fails this job and waits until it is listed.
pub(super) async fn fail_job(
    bench: &Bench,
    consumer: &mut Consumer,
    envelope: Envelope,
    error: &str,
) {
    let already = list(bench, 1_000).await.len();
    bench.push(vec![envelope]).await;
    settle(consumer.take().await, fail(error, 1)).await;
    eventually("failed jobs", already + 1, || async { list(bench, 1_000).await.len() }).await;
}

pub(super) async fn list(bench: &Bench, limit: usize) -> Vec<FailedJob> {
    soon("the failed jobs", bench.engine().failed_list("mail", limit)).await.expect("lists")
}

pub(super) async fn find(bench: &Bench, id: JobId) -> Option<FailedJob> {
    soon("a failed job", bench.engine().failed_find("mail", id)).await.expect("looks")
}

pub(super) async fn retry(bench: &Bench, id: Option<JobId>) -> u64 {
    settle_failed(bench, id, Verdict::Retry).await
}

pub(super) async fn discard(bench: &Bench, id: Option<JobId>) -> u64 {
    settle_failed(bench, id, Verdict::Discard).await
}

async fn settle_failed(bench: &Bench, id: Option<JobId>, verdict: Verdict) -> u64 {
    let answer = soon("failed jobs", bench.engine().failed_settle("mail", id, verdict)).await;
    answer.expect("settles")
}

pub(super) fn errors(jobs: &[FailedJob]) -> Vec<&str> {
    jobs.iter().map(FailedJob::error).collect()
}

/// A failed job has its envelope, attempts, reason, error and time of failure.
pub async fn a_failed_job_is_listed_with_its_story(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = Envelope {
        payload: "{\"n\":7}".into(),
        enqueued_by: Some("shop-web".into()),
        ..job("mail")
    };
    let before = SystemTime::now() - Duration::from_secs(1);
    let delivery = bench.pass(&mut consumer, &pushed).await;
    let enqueued_at = delivery.envelope().enqueued_at;
    let error = "no: \"quotes\", ünïcödé,\nand a second line";
    settle(delivery, failure(FailedReason::Aborted, error, 4)).await;
    bench.counts("mail", 0, 0, 1).await;

    let jobs = list(bench, 10).await;
    assert_eq!(jobs.len(), 1);
    let failed = &jobs[0];
    assert_eq!(failed.id(), pushed.id);
    assert_eq!(failed.name(), "greet");
    assert_eq!(failed.queue(), "mail");
    assert_eq!(failed.payload_bytes(), pushed.payload);
    assert_eq!(failed.payload(), serde_json::json!({"n": 7}));
    assert_eq!(failed.attempts(), 4);
    assert_eq!(failed.error(), error);
    assert_eq!(failed.reason(), FailedReason::Aborted);
    assert_eq!(failed.enqueued_at(), enqueued_at);
    assert_eq!(failed.enqueued_by(), Some("shop-web"));
    let after = SystemTime::now() + Duration::from_secs(1);
    assert!((before..=after).contains(&failed.failed_at()), "{:?}", failed.failed_at());
    // It does not run again by itself.
    let later = bench.push_jobs("mail", 1).await;
    assert_eq!(consumer.take().await.envelope().id, later[0]);
    bench.counts("mail", 0, 0, 1).await;
}

/// A job without a name is delivered, and fails, with the name of the only job of its queue.
pub async fn a_job_without_a_name_has_that_of_its_queues_only_job(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let queue = QueueName::new("mail").expect("a name");
    let what = Consume::new(queue, 1).only_job(Some("greet"));
    let mut consumer = soon("a consumer", bench.engine().consume(what)).await.expect("consumes");
    for (name, expected) in [(None, "greet"), (Some("other"), "other")] {
        let pushed = Envelope { name: name.map(Into::into), ..job("mail") };
        let id = pushed.id;
        bench.push(vec![pushed]).await;
        let delivery = consumer.take().await;
        assert_eq!(delivery.envelope().name.as_deref(), Some(expected));
        settle(delivery, fail("no", 1)).await;
        eventually("the failed job", true, || async { find(bench, id).await.is_some() }).await;
        assert_eq!(find(bench, id).await.expect("it is there").name(), expected);
    }
}

/// Every reason survives a round trip.
pub async fn every_reason_is_kept(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    for reason in [
        FailedReason::Exhausted,
        FailedReason::Aborted,
        FailedReason::Expired,
        FailedReason::UnknownJob,
        FailedReason::UnreadablePayload,
        FailedReason::Poison,
        FailedReason::Unroutable,
    ] {
        let pushed = bench.push_jobs("mail", 1).await;
        settle(consumer.take().await, failure(reason, &reason.to_string(), 1)).await;
        let found = || async { find(bench, pushed[0]).await.map(|job| job.reason()) };
        eventually("the reason", Some(reason), found).await;
    }
}

/// An error of 8 KiB is kept as it is.
pub async fn an_error_of_8_kib_is_kept(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    for (index, error) in ["x".repeat(8 * 1024), "😀ß\n\"\0".repeat(800)].iter().enumerate() {
        fail_job(bench, &mut consumer, job("mail"), error).await;
        assert_eq!(list(bench, 10).await[index].error(), error);
    }
}

/// A failed job that is retried starts over: first attempt, all attempts, no expiry; same id,
/// payload and headers.
pub async fn one_failed_job_is_retried_with_fresh_attempts(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let mut pushed = Envelope { payload: b"[1]".to_vec(), topic: None, ..bench.full_job() };
    pushed.headers.put("jobq-once", "operation");
    let first = bench.pass(&mut consumer, &pushed).await;
    settle(first, Settlement::Retry(Duration::ZERO)).await;
    settle(consumer.take_attempt(pushed.id, 2).await, fail("no", 2)).await;
    fail_job(bench, &mut consumer, job("mail"), "another").await;

    assert_eq!(retry(bench, Some(pushed.id)).await, 1);
    let delivery = consumer.take_attempt(pushed.id, 1).await;
    let found = delivery.envelope();
    let expected = Envelope {
        enqueued_at: found.enqueued_at,
        retry_wait: found.retry_wait,
        expires_at: None,
        headers: pushed.headers.of_retry(None),
        ..pushed
    };
    assert_eq!(*found, expected);
    assert_eq!(found.headers.get("jobq-needs"), Some("zip"));
    assert_eq!(errors(&list(bench, 10).await), ["another"]);
    let id = found.id;
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    // It may fail again.
    settle(consumer.take_attempt(id, 2).await, fail("second", 2)).await;
    bench.counts("mail", 0, 0, 2).await;
    assert_eq!(errors(&list(bench, 10).await), ["another", "second"]);
}

/// All failed jobs are retried, and their number is returned.
pub async fn all_failed_jobs_are_retried(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[], 30, 30).await;
    settle_all(consumer.take_many(30).await, fail("no", 3)).await;
    bench.counts("mail", 0, 0, 30).await;
    assert_eq!(retry(bench, None).await, 30);
    let taken = consumer.take_many(30).await;
    are_first_attempts(&taken, pushed);
    bench.counts("mail", 0, 0, 0).await;
}

/// Discarded jobs are deleted, one by its id or all; no other job is.
pub async fn failed_jobs_are_discarded(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    for error in ["one", "two", "three", "four"] {
        fail_job(bench, &mut consumer, job("mail"), error).await;
    }
    let id = list(bench, 1).await[0].id();
    assert_eq!(discard(bench, Some(id)).await, 1);
    assert_eq!(errors(&list(bench, 10).await), ["two", "three", "four"]);
    assert_eq!(discard(bench, Some(id)).await, 0);
    bench.counts("mail", 0, 0, 3).await;
    consumer.stop_soon().await;
    bench.push_jobs("mail", 1).await;
    assert_eq!(discard(bench, None).await, 3);
    assert!(list(bench, 10).await.is_empty());
    bench.counts("mail", 1, 0, 0).await;
}

/// Unknown ids and empty queues have no failed jobs. An undeclared queue is missing.
pub async fn what_is_not_there_is_no_error(bench: &Bench) {
    let visit = async || {
        let visit = bench.admin().failed_visit("mail", Box::new(|_| Verdict::Discard));
        let visited = soon("a visit", visit).await.expect("visits");
        assert!(visited.complete && visited.seen == 0 && visited.settled.is_empty());
        visited.is_missing
    };
    assert!(visit().await, "nobody has declared it");
    let listing = bench.engine().failed_list("mail", 10);
    let error = soon("an answer", listing).await.expect_err("no such queue");
    assert!(error.is_not_found() && error.to_string().contains("`mail`"), "{error:?}");
    bench.declare("mail", &[]).await;
    assert!(!visit().await, "it is declared");
    assert!(list(bench, 10).await.is_empty());
    assert!(find(bench, JobId::new()).await.is_none());
    for which in [Some(JobId::new()), None] {
        assert_eq!(retry(bench, which).await, 0);
        assert_eq!(discard(bench, which).await, 0);
    }
}

/// Listing and finding failed jobs, oldest first and at most `limit`, changes neither their order nor
/// their state.
pub async fn looking_disturbs_nothing(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 4).await;
    for error in ["one", "two", "three", "four"] {
        fail_job(bench, &mut consumer, job("mail"), error).await;
    }
    consumer.stop_soon().await;
    for _ in 0..3 {
        let jobs = list(bench, 4).await;
        assert_eq!(errors(&jobs), ["one", "two", "three", "four"]);
        assert_eq!(errors(&list(bench, 3).await), ["one", "two", "three"]);
        assert_eq!(list(bench, usize::MAX).await.len(), 4);
        assert!(list(bench, 0).await.is_empty());
        for place in [1, 0] {
            let found = find(bench, jobs[place].id()).await.expect("found");
            assert_eq!(found.error(), jobs[place].error());
        }
        assert!(find(bench, JobId::new()).await.is_none());
        bench.counts("mail", 0, 0, 4).await;
    }
    assert_eq!(retry(bench, None).await, 4);
    let mut consumer = bench.consumer("mail", 4).await;
    consumer.take_many(4).await;
}
