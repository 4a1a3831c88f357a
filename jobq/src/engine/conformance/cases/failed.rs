//! Failed jobs: list, find, retry, discard.

use crate::engine::conformance::EngineExt as _;
use std::time::{Duration, SystemTime};

use crate::engine::conformance::Bench;
use crate::engine::conformance::bench::{
    consume, eventually, headers, ids, job, settle, soon, sorted, take, take_many,
};
use crate::engine::{Consumer, Settlement, Verdict};
use crate::job::{Envelope, FailedJob, FailedReason, JobId};

pub(super) fn fail(error: impl Into<String>, attempts: u32) -> Settlement {
    Settlement::Fail { reason: FailedReason::Exhausted, error: error.into(), attempts }
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
    settle(take(consumer).await, fail(error, 1)).await;
    eventually("failed jobs", already + 1, || async { list(bench, 1_000).await.len() }).await;
}

pub(super) async fn list(bench: &Bench, limit: usize) -> Vec<FailedJob> {
    let answer = soon("the failed jobs", bench.engine().failed_list("mail", limit)).await;
    answer.expect("lists")
}

pub(super) async fn find(bench: &Bench, id: JobId) -> Option<FailedJob> {
    let answer = soon("a failed job", bench.engine().failed_find("mail", id)).await;
    answer.expect("looks")
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
    bench.push(vec![pushed.clone()]).await;
    let before = SystemTime::now() - Duration::from_secs(1);
    let delivery = take(&mut consumer).await;
    let enqueued_at = delivery.envelope().enqueued_at;
    let error = "no: \"quotes\", ünïcödé,\nand a second line".to_owned();
    let settlement =
        Settlement::Fail { reason: FailedReason::Aborted, error: error.clone(), attempts: 4 };
    settle(delivery, settlement).await;
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
    assert_eq!(take(&mut consumer).await.envelope().id, later[0]);
    bench.counts("mail", 0, 0, 1).await;
}

/// Every reason survives a round trip.
pub async fn every_reason_is_kept(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let reasons = [
        FailedReason::Exhausted,
        FailedReason::Aborted,
        FailedReason::Expired,
        FailedReason::UnknownJob,
        FailedReason::UnreadablePayload,
        FailedReason::Poison,
        FailedReason::Unroutable,
    ];
    for reason in reasons {
        let pushed = bench.push_jobs("mail", 1).await;
        let settlement = Settlement::Fail { reason, error: reason.to_string(), attempts: 1 };
        settle(take(&mut consumer).await, settlement).await;
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
    let pushed = Envelope {
        expires_at: Some(bench.now() + Duration::from_secs(600)),
        payload: b"[1]".to_vec(),
        enqueued_by: Some("shop-web".into()),
        headers: headers(),
        content_encoding: Some("gzip".into()),
        ..job("mail")
    };
    let mut pushed = pushed;
    pushed.headers.put("jobq-once", "operation");
    bench.push(vec![pushed.clone()]).await;
    settle(take(&mut consumer).await, Settlement::Retry(Duration::ZERO)).await;
    let second = take(&mut consumer).await;
    assert_eq!(second.attempt, 2);
    settle(second, fail("no", 2)).await;
    fail_job(bench, &mut consumer, job("mail"), "another").await;

    assert_eq!(retry(bench, Some(pushed.id)).await, 1);
    let delivery = take(&mut consumer).await;
    assert_eq!(delivery.attempt, 1);
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
    settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    let delivery = take(&mut consumer).await;
    assert_eq!(delivery.attempt, 2);
    // It may fail again.
    settle(delivery, fail("second", 2)).await;
    bench.counts("mail", 0, 0, 2).await;
    assert_eq!(errors(&list(bench, 10).await), ["another", "second"]);
}

/// All failed jobs are retried, and their number is returned.
pub async fn all_failed_jobs_are_retried(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 30).await;
    let pushed = bench.push_jobs("mail", 30).await;
    for delivery in take_many(&mut consumer, 30).await {
        settle(delivery, fail("no", 3)).await;
    }
    bench.counts("mail", 0, 0, 30).await;
    assert_eq!(retry(bench, None).await, 30);
    let taken = take_many(&mut consumer, 30).await;
    assert!(taken.iter().all(|delivery| delivery.attempt == 1));
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
    bench.counts("mail", 0, 0, 0).await;
}

/// Discarded jobs are deleted, one by its id or all; no other job is.
pub async fn failed_jobs_are_discarded(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let discarded = job("mail");
    let id = discarded.id;
    fail_job(bench, &mut consumer, discarded, "one").await;
    for error in ["two", "three", "four"] {
        fail_job(bench, &mut consumer, job("mail"), error).await;
    }
    assert_eq!(discard(bench, Some(id)).await, 1);
    assert_eq!(errors(&list(bench, 10).await), ["two", "three", "four"]);
    assert_eq!(discard(bench, Some(id)).await, 0);
    bench.counts("mail", 0, 0, 3).await;
    soon("a stop", consumer.stop()).await;
    bench.push_jobs("mail", 1).await;
    assert_eq!(discard(bench, None).await, 3);
    assert!(list(bench, 10).await.is_empty());
    bench.counts("mail", 1, 0, 0).await;
}

/// Unknown ids, empty queues and undeclared queues have no failed jobs.
pub async fn what_is_not_there_is_no_error(bench: &Bench) {
    for declared in [false, true] {
        if declared {
            bench.declare("mail", &[]).await;
        }
        assert!(list(bench, 10).await.is_empty());
        assert!(find(bench, JobId::new()).await.is_none());
        for which in [Some(JobId::new()), None] {
            assert_eq!(retry(bench, which).await, 0);
            assert_eq!(discard(bench, which).await, 0);
        }
        let visit = bench.engine().admin().failed_visit("mail", Box::new(|_| Verdict::Discard));
        let visited = soon("a visit", visit).await.expect("visits");
        assert!(visited.complete && visited.seen == 0 && visited.settled.is_empty());
    }
}

/// Listing and finding failed jobs, oldest first and at most `limit`, changes neither their order nor
/// their state.
pub async fn looking_disturbs_nothing(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 4).await;
    for error in ["one", "two", "three", "four"] {
        fail_job(bench, &mut consumer, job("mail"), error).await;
    }
    soon("a stop", consumer.stop()).await;
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
    let mut consumer = consume(bench.engine(), "mail", 4).await;
    take_many(&mut consumer, 4).await;
}
