//! Visits of failed jobs: what they see, and what they do with it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::failed::{discard, errors, fail, fail_job, find, list, retry};
use crate::engine::conformance::bench::{Bench, ids as taken_ids, job, settle, soon, sorted};
use crate::engine::{Settlement, Verdict, Visited};
use crate::job::{Envelope, FailedJob, FailedReason, JobId};

/// A visit with these verdicts, in turn; the last one is repeated. It returns what was seen.
async fn visit(bench: &Bench, verdicts: &[Verdict]) -> (Visited, Vec<FailedJob>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (jobs, verdicts) = (Arc::clone(&seen), verdicts.to_vec());
    let look = move |job| {
        let mut jobs = jobs.lock().expect("no panic");
        jobs.push(job);
        verdicts[(jobs.len() - 1).min(verdicts.len() - 1)].clone()
    };
    let visiting = bench.admin().failed_visit("mail", Box::new(look));
    let visited = soon("a visit", visiting).await.expect("visits");
    let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    assert_eq!(visited.seen, seen.len() as u64);
    assert!(visited.end.is_none() && visited.unknown.is_empty() && visited.refused.is_empty());
    (visited, seen)
}

fn failed_ids(jobs: &[FailedJob]) -> Vec<JobId> {
    jobs.iter().map(FailedJob::id).collect()
}

/// Fails this many jobs, one after the other.
async fn fail_jobs(bench: &Bench, count: usize) -> Vec<JobId> {
    let (mut consumer, ids) = bench.consume_jobs(&[], 1, count).await;
    for _ in 0..count {
        settle(consumer.take().await, fail("no", 1)).await;
    }
    bench.counts("mail", 0, 0, count as u64).await;
    consumer.stop_soon().await;
    ids
}

/// A visit sees each failed job once, the oldest first, says how many there were when it began, and
/// a kept one stays.
pub async fn a_visit_sees_all_jobs_oldest_first(bench: &Bench) {
    let ids = fail_jobs(bench, 5).await;
    for (verdict, seen_jobs) in [(Verdict::Keep, 5), (Verdict::Enough, 1), (Verdict::Keep, 5)] {
        let (visited, seen) = visit(bench, &[verdict]).await;
        assert!(visited.complete == (seen_jobs == 5) && visited.settled.is_empty());
        assert_eq!(failed_ids(&seen), ids[..seen_jobs]);
        let extent = visited.extent.expect("an extent");
        assert!((0..5).all(|place| extent.has(place, &seen[0])) && !extent.has(5, &seen[0]));
    }
    bench.counts("mail", 0, 0, 5).await;
    let (visited, seen) = visit(bench, &[Verdict::Discard]).await;
    assert_eq!((failed_ids(&seen), sorted(visited.settled)), (ids.clone(), sorted(ids)));
    let extent = visited.extent.expect("an extent");
    assert!((0..5).all(|place| extent.has(place, &seen[0])) && !extent.has(5, &seen[0]));
    let (visited, _) = visit(bench, &[Verdict::Keep]).await;
    assert!(visited.complete && visited.seen == 0);
}

/// Each verdict is carried out, and the jobs that stay keep their order.
pub async fn a_visit_settles_each_job_by_its_verdict(bench: &Bench) {
    let ids = fail_jobs(bench, 9).await;
    let once = Verdict::RetryBy { operation: "op".to_owned(), once: true };
    let (keep, discard, retry) = (Verdict::Keep, Verdict::Discard, Verdict::Retry);
    let verdicts = [&keep, &discard, &retry, &keep, &once, &discard, &keep, &retry, &keep];
    let verdicts = verdicts.map(Verdict::clone);
    let (visited, seen) = visit(bench, &verdicts).await;
    assert!(visited.complete);
    assert_eq!(failed_ids(&seen), ids);
    assert_eq!(sorted(visited.settled), sorted(vec![ids[1], ids[2], ids[4], ids[5], ids[7]]));
    bench.counts("mail", 3, 0, 4).await;
    assert_eq!(failed_ids(&list(bench, 10).await), [ids[0], ids[3], ids[6], ids[8]]);
    let mut consumer = bench.consumer("mail", 3).await;
    let taken = consumer.take_many(3).await;
    assert_eq!(taken_ids(&taken), [ids[2], ids[4], ids[7]], "they keep their order");
    assert!(taken.iter().all(|delivery| delivery.attempt == 1));
}

/// A visit that has seen enough asks no more; what it decided before is done.
pub async fn a_visit_ends_when_it_has_seen_enough(bench: &Bench) {
    let ids = fail_jobs(bench, 5).await;
    let (visited, seen) =
        visit(bench, &[Verdict::Discard, Verdict::Keep, Verdict::Retry, Verdict::Enough]).await;
    assert_eq!((seen.len(), visited.complete), (4, false));
    assert_eq!(sorted(visited.settled), sorted(vec![ids[0], ids[2]]));
    assert_eq!(failed_ids(&list(bench, 10).await), [ids[1], ids[3], ids[4]]);
    let (visited, seen) = visit(bench, &[Verdict::Keep, Verdict::Keep, Verdict::Enough]).await;
    assert_eq!((seen.len(), visited.complete), (3, true), "it was the last one");
    bench.counts("mail", 1, 0, 3).await;
}

/// A second visit sees what the first one left.
pub async fn visits_follow_one_another(bench: &Bench) {
    let mut left = fail_jobs(bench, 6).await;
    for _ in 0..3 {
        let (visited, seen) = visit(bench, &[Verdict::Keep, Verdict::Discard, Verdict::Keep]).await;
        assert_eq!(failed_ids(&seen), left);
        assert_eq!(visited.settled, [left.remove(1)]);
    }
    assert_eq!(failed_ids(&list(bench, 10).await), left);
}

/// A job with any bytes as its payload, and without a name, is seen, and retried as it is.
pub async fn a_visit_sees_payloads_that_nobody_can_read(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let payloads = [Vec::new(), b"{\"n\":".to_vec(), vec![0, 159, 255]];
    for payload in &payloads {
        let job = Envelope { name: None, payload: payload.clone(), ..job("mail") };
        fail_job(bench, &mut consumer, job, "no").await;
    }
    let (visited, seen) = visit(bench, &[Verdict::Retry]).await;
    assert_eq!(visited.settled.len(), 3);
    for (job, payload) in seen.iter().zip(&payloads) {
        assert_eq!((job.payload_bytes(), job.name()), (&**payload, ""));
    }
    for payload in &payloads {
        let delivery = consumer.take().await;
        assert_eq!(delivery.envelope().payload, *payload);
        settle(delivery, Settlement::Complete).await;
    }
    bench.counts("mail", 0, 0, 0).await;
}

/// A failed job that is retried with a single attempt names its operation and what its worker must
/// understand, also when it fails; one that is retried plainly does not.
pub async fn a_job_may_be_retried_for_a_single_attempt(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let mut other = job("mail");
    other.headers.put("jobq-needs", "zip");
    other.headers.set("tenant", "7").expect("a header");
    let table = [(job("mail"), "once", None), (other, "zip once", Some("zip"))];
    for (pushed, needs_once, needs) in table {
        fail_job(bench, &mut consumer, pushed.clone(), "no").await;
        for operation in ["first", "second"] {
            let once = Verdict::RetryBy { operation: operation.to_owned(), once: true };
            let (visited, _) = visit(bench, &[once]).await;
            assert_eq!(visited.settled, [pushed.id]);
            let delivery = consumer.take_attempt(pushed.id, 1).await;
            let headers = &delivery.envelope().headers;
            assert_eq!(delivery.envelope().once(), Some(operation));
            assert_eq!(headers.get("jobq-needs"), Some(needs_once));
            assert_eq!(headers.get("tenant"), pushed.headers.get("tenant"));
            settle(delivery, fail("again", 1)).await;
            bench.counts("mail", 0, 0, 1).await;
            let failed = find(bench, pushed.id).await.expect("it is there");
            assert_eq!((failed.reason(), failed.error()), (FailedReason::Exhausted, "again"));
            assert_eq!(failed.header("jobq-once"), Some(operation));
        }
        visit(bench, &[Verdict::Retry]).await;
        let delivery = consumer.take().await;
        assert_eq!(delivery.envelope().headers.get("jobq-once"), None);
        assert_eq!(delivery.envelope().headers.get("jobq-needs"), needs);
        settle(delivery, Settlement::Complete).await;
    }
}

/// An operation that retries a failed job is named in the header of the job until it is retried by
/// its id: the last eight, also when an attempt was retried, and the job waited and failed again.
pub async fn operations_that_retry_a_job_are_named(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = job("mail");
    fail_job(bench, &mut consumer, pushed.clone(), "no").await;
    let all = "1 2 3 4 5 6 7 8 9";
    for number in 1..=9 {
        let expected = if number == 9 { &all[2..] } else { &all[..2 * number - 1] };
        let by = Verdict::RetryBy { operation: format!("{number}"), once: number % 2 == 0 };
        let (visited, _) = visit(bench, &[by]).await;
        assert_eq!(visited.settled, [pushed.id]);
        let mut delivery = consumer.take().await;
        // Each way by which a job comes back.
        let again = match number {
            1 => Some(Settlement::Retry(Duration::ZERO)),
            2 => Some(Settlement::Snooze(Duration::ZERO)),
            3 => Some(Settlement::Retry(Duration::from_millis(1))),
            4 => Some(Settlement::Release),
            _ => None,
        };
        if let Some(again) = again {
            settle(delivery, again).await;
            delivery = consumer.take().await;
        }
        assert_eq!(delivery.envelope().headers.get("jobq-operations"), Some(expected));
        settle(delivery, fail("again", 1)).await;
        bench.counts("mail", 0, 0, 1).await;
        let failed = find(bench, pushed.id).await.expect("it is there");
        assert_eq!(failed.header("jobq-operations"), Some(expected));
        assert!(failed.was_retried_by(&number.to_string()) && !failed.was_retried_by("0"));
    }
    visit(bench, &[Verdict::Retry]).await;
    let delivery = consumer.take().await;
    assert_eq!(delivery.envelope().headers.get("jobq-operations"), None);
    settle(delivery, Settlement::Complete).await;
}

/// Of failed jobs with one id, each call is about the oldest, and a visit asks about each.
pub async fn failed_jobs_of_one_id_are_told_apart(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let twin = job("mail");
    for error in ["one", "two", "three", "four"] {
        fail_job(bench, &mut consumer, twin.clone(), error).await;
    }
    let (visited, seen) = visit(bench, &[Verdict::Keep, Verdict::Discard, Verdict::Keep]).await;
    assert_eq!(errors(&seen), ["one", "two", "three", "four"]);
    assert_eq!(visited.settled, [twin.id]);
    assert_eq!(errors(&list(bench, 10).await), ["one", "three", "four"]);
    assert_eq!(find(bench, twin.id).await.expect("found").error(), "one");
    assert_eq!(discard(bench, Some(twin.id)).await, 1);
    assert_eq!(find(bench, twin.id).await.expect("found").error(), "three");
    assert_eq!(retry(bench, Some(twin.id)).await, 1);
    assert_eq!(consumer.take().await.envelope().id, twin.id);
    assert_eq!(errors(&list(bench, 10).await), ["four"]);
}

/// A panic ends a visit. What was decided before is done, and the next visit sees the rest.
pub async fn a_visit_that_panics_loses_nothing(bench: &Bench) {
    let ids = fail_jobs(bench, 5).await;
    for done in [0, 1] {
        let mut asked = 0;
        let look = move |_| {
            asked += 1;
            assert!(asked <= done, "on purpose");
            Verdict::Discard
        };
        let visiting = bench.admin().failed_visit("mail", Box::new(look));
        let error = match soon("a visit", visiting).await {
            Ok(visited) => {
                assert_eq!((visited.settled, visited.complete), (vec![ids[0]], false));
                visited.end.expect("an end")
            }
            Err(error) => error,
        };
        assert!(error.is_invalid() && error.to_string().contains("panicked"), "{error}");
        bench.counts("mail", 0, 0, 5 - done).await;
        assert_eq!(failed_ids(&list(bench, 10).await), ids[usize::from(done > 0)..]);
    }
    let (visited, _) = visit(bench, &[Verdict::Retry]).await;
    assert_eq!(visited.settled, ids[1..]);
}
