use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::SystemTime;

use async_trait::async_trait;

use super::*;
use crate::engine::{
    Answers, Ask, Counts, PoolId, PoolQueue, PoolReport, Question, QueueSpec, Reply, Visit,
    WatchedOutcome,
};
use crate::error::ErrorKind;
use crate::job::headers::By;
use crate::job::{Envelope, FailedReason};

fn plan() -> Plan {
    Plan {
        queue: "mail".into(),
        filter: Filter::new(),
        within: None,
        action: Action::Retry,
        canary: None,
        canary_patience: Duration::ZERO,
        rate: None,
        dry_run: false,
        stop_on_failure: false,
        actor: String::new(),
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    assert!(plan().check().is_ok());
    let rated = |rate| Plan { rate: Some(rate), ..plan() };
    assert!(Plan { stop_on_failure: true, canary: Some(3), ..rated(0.1) }.check().is_ok());
    let discard = || Plan { action: Action::Discard, rate: Some(1.0), ..plan() };
    assert!(discard().check().is_ok());
    for (plan, part) in [
        (rated(0.0), "above 0"),
        (rated(-1.0), "above 0"),
        (rated(f64::NAN), "above 0"),
        (rated(f64::INFINITY), "above 0"),
        (Plan { canary: Some(0), ..plan() }, "at least 1"),
        (Plan { canary: Some(1), ..discard() }, "discards"),
        (Plan { stop_on_failure: true, ..discard() }, "discarded"),
        (Plan { stop_on_failure: true, ..plan() }, "set a rate"),
        (Plan { queue: "a b".into(), ..plan() }, "the queue name"),
    ] {
        let error = plan.check().unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_pass_settles_some_seconds_worth_of_the_rate() {
    let millis = Duration::from_millis;
    for (rate, took, limit, pause) in [
        (None, 0, u64::MAX, BREAK),
        (None, 7_000, u64::MAX, BREAK),
        (Some(10.0), 0, 10, millis(1_000)),
        (Some(10.0), 100, 10, millis(900)),
        (Some(10.0), 500, 50, millis(4_500)),
        (Some(10.0), 2_000, 100, millis(8_000)),
        (Some(0.01), 500, 1, millis(99_500)),
        (Some(1e300), 1_000, u64::MAX, BREAK),
    ] {
        let (plan, took) = (Plan { rate, ..plan() }, millis(took));
        let limit_found = plan.pass_limit(took);
        assert_eq!(limit_found, limit, "{rate:?}");
        let found = plan.pause(limit_found, took);
        assert!(found.abs_diff(pause) < Duration::from_millis(1), "{rate:?}: {found:?}");
    }
}

/// Failed jobs of an engine that refuses some of them, and sees few in one look. Each canary
/// completes.
#[derive(Debug)]
struct Shelf {
    jobs: Mutex<Vec<FailedJob>>,
    refused: Vec<JobId>,
    /// The most jobs of one look.
    most: usize,
    /// How long it is away before each look.
    away: Duration,
    /// Whether each retried job fails at once.
    fails_again: bool,
    canaries: Mutex<Vec<JobId>>,
}

impl Shelf {
    fn new(count: usize) -> (Self, Vec<JobId>) {
        let job = |_| {
            let envelope = Envelope::new("mail", Vec::new());
            let (reason, error) = (FailedReason::Aborted, String::new());
            FailedJob::new(envelope, 1, reason, error, SystemTime::UNIX_EPOCH)
        };
        let jobs: Vec<_> = (0..count).map(job).collect();
        let ids = jobs.iter().map(FailedJob::id).collect();
        let (refused, canaries) = (Vec::new(), Mutex::default());
        let (jobs, most) = (Mutex::new(jobs), usize::MAX);
        let away = Duration::ZERO;
        (Self { jobs, refused, most, away, fails_again: false, canaries }, ids)
    }

    fn count(&self) -> u64 {
        self.jobs.lock().unwrap().len() as u64
    }

    async fn run(&self, plan: &Plan) -> (Result<End>, Totals) {
        let mut passes = Passes {
            administer: self,
            extent: plan.within,
            is_first: true,
            id: Uuid::now_v7().to_string(),
            totals: Totals::default(),
            plan,
            progress: watch::Sender::default(),
            cancel: CancellationToken::new(),
        };
        let end = passes.run().await;
        (end, passes.totals)
    }
}

/// A job that an operation retried and that failed again.
fn retried_by(job: &FailedJob, operation: &str) -> FailedJob {
    let mut envelope = Envelope::new("mail", Vec::new());
    envelope.id = job.id();
    let by = By { operation, once: false };
    envelope.headers = job.headers().clone().of_retry(Some(by));
    FailedJob::new(envelope, 1, job.reason(), String::new(), job.failed_at())
}

#[async_trait]
impl Administer for Shelf {
    async fn ask(&self, ask: Ask) -> Result<Answers> {
        let reply = if let Question::Watch { jobs } = ask.question {
            let jobs = jobs.into_iter().map(|job| WatchedOutcome::new(job, None)).collect();
            Reply::Outcomes { jobs }
        } else {
            let queues = vec![PoolQueue::new("mail", 1)];
            let (host, start) = (String::new(), SystemTime::UNIX_EPOCH);
            Reply::Report(PoolReport::new(PoolId::new(), host, start, queues))
        };
        Ok(Answers::new(vec![(PoolId::new(), reply)], BTreeMap::new()))
    }

    async fn failed_visit(&self, _: &str, mut visit: Visit) -> Result<Visited> {
        sleep(self.away).await;
        let mut jobs = self.jobs.lock().unwrap();
        let mut visited = Visited { complete: jobs.len() <= self.most, ..Visited::new() };
        visited.extent = Some(Extent::new(jobs.len() as u64));
        let (mut stay, mut failed) = (Vec::new(), Vec::new());
        let mut is_enough = false;
        for (place, job) in jobs.drain(..).enumerate() {
            is_enough |= place >= self.most;
            let verdict = if is_enough { Verdict::Enough } else { visit(job.clone()) };
            match verdict {
                Verdict::Keep => stay.push(job),
                Verdict::Enough => {
                    (is_enough, visited.complete) = (true, false);
                    stay.push(job);
                }
                _ if self.refused.contains(&job.id()) => {
                    let error = Error::new(ErrorKind::Refused, "too large");
                    visited.refused.push((job.id(), error));
                    stay.push(job);
                }
                verdict => {
                    visited.settled.push(job.id());
                    if let Verdict::RetryBy { operation, once } = verdict {
                        if once {
                            self.canaries.lock().unwrap().push(job.id());
                        }
                        if self.fails_again {
                            failed.push(retried_by(&job, &operation));
                        }
                    }
                }
            }
        }
        *jobs = stay;
        jobs.append(&mut failed);
        Ok(visited)
    }

    async fn counts(&self, _: &str) -> Result<Counts> {
        Ok(Counts::new(0, 0, 0))
    }

    async fn unsubscribe(&self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    async fn delete(&self, _: &QueueSpec, _: bool) -> Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_pass_tells_what_it_has_found_every_thousand_jobs() {
    let (shelf, ids) = Shelf::new(2_500);
    let (progress, seen) = watch::channel(Progress { matched: 7, ..Progress::default() });
    let mut pass = Pass {
        progress,
        examined: 0,
        verdict: Some(Verdict::Discard),
        limit: u64::MAX,
        filter: Filter::new().ids(ids.iter().copied().step_by(5)),
        operation: String::new(),
        stops_on_failure: false,
        failed_again: None,
        refused: HashSet::new(),
        cancel: CancellationToken::new(),
        matched: 0,
        told: 0,
    };
    for (place, job) in shelf.jobs.lock().unwrap().iter().enumerate() {
        pass.decide(job);
        let expected = match place {
            0..999 => (0, 7),
            999..1_999 => (1_000, 207),
            _ => (2_000, 407),
        };
        let now = seen.borrow();
        assert_eq!((now.examined, now.matched), expected, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_job_is_the_canary_where_one_is_refused() {
    let plan = |canary| Plan { canary: Some(canary), ..plan() };
    for (count, refused, canary, canaries, settled) in [
        (5, 0..0, 2, 0..2, 5),
        (5, 0..2, 2, 2..4, 3),
        (5, 1..2, 3, 0..4, 4),
        (5, 3..5, 4, 0..3, 3),
        // None can be retried.
        (2, 0..2, 1, 0..0, 0),
    ] {
        let (mut shelf, ids) = Shelf::new(count);
        shelf.refused = ids[refused.clone()].to_vec();
        let (end, totals) = shelf.run(&plan(canary)).await;
        assert!(matches!(end, Ok(End::Finished)), "{refused:?} {canary}: {end:?}");
        let mut expected = ids[canaries].to_vec();
        expected.retain(|id| !shelf.refused.contains(id));
        assert_eq!(*shelf.canaries.lock().unwrap(), expected, "{refused:?} {canary}");
        assert_eq!((totals.settled, totals.refused.len()), (settled, refused.len()));
    }
    // Those that could be canaries are behind what a look reaches.
    let (mut shelf, ids) = Shelf::new(5);
    (shelf.refused, shelf.most) = (ids[..2].to_vec(), 2);
    let (end, totals) = shelf.run(&plan(1)).await;
    assert!(matches!(end, Ok(End::Stopped(Stop::TooMany))), "{end:?}");
    assert_eq!(totals.settled, 0);
}

#[tokio::test(start_paused = true)]
async fn an_operation_outlasts_an_engine_that_is_away_for_longer_than_a_visit() {
    let (mut shelf, _) = Shelf::new(5);
    shelf.away = Duration::from_secs(60);
    let (end, totals) = shelf.run(&plan()).await;
    assert!(matches!(end, Ok(End::Finished)), "{end:?}");
    assert_eq!(totals.settled, 5);
}

#[tokio::test(start_paused = true)]
async fn an_operation_stops_if_it_is_not_known_whether_jobs_failed_again() {
    let plan = Plan { rate: Some(2.0), stop_on_failure: true, ..plan() };
    for (most, settled) in [(usize::MAX, 5), (2, 2)] {
        let (mut shelf, _) = Shelf::new(5);
        shelf.most = most;
        let (end, totals) = shelf.run(&plan).await;
        assert_eq!(matches!(end, Ok(End::Finished)), settled == 5, "{most}: {end:?}");
        assert_eq!(totals.settled, settled, "{most}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_settles_as_many_jobs_as_there_were() {
    let retry = || Plan { rate: Some(2.0), ..plan() };
    let within = |jobs| Plan { within: Some(Extent::new(jobs)), ..retry() };
    for (plan, most, settled) in [
        (plan(), usize::MAX, 7),
        (retry(), usize::MAX, 7),
        (retry(), 3, 7),
        (within(5), usize::MAX, 5),
        (within(50), usize::MAX, 7),
        (within(0), usize::MAX, 0),
    ] {
        let (mut shelf, _) = Shelf::new(7);
        (shelf.fails_again, shelf.most) = (true, most);
        let (end, totals) = shelf.run(&plan).await;
        assert!(matches!(end, Ok(End::Finished)), "{plan:?}: {end:?}");
        assert_eq!((totals.settled, totals.matched), (settled, settled), "{plan:?}");
        assert_eq!(shelf.count(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn two_operations_at_once_on_jobs_that_fail_at_once_both_end() {
    let plan = Plan { rate: Some(2.0), ..plan() };
    let (mut shelf, _) = Shelf::new(9);
    shelf.fails_again = true;
    let (one, other) = tokio::join!(shelf.run(&plan), shelf.run(&plan));
    for (end, totals) in [one, other] {
        assert!(matches!(end, Ok(End::Finished)), "{end:?}");
        assert!((5..=9).contains(&totals.settled), "{}", totals.settled);
    }
    assert_eq!(shelf.count(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_operation_stops_at_a_job_that_it_retried() {
    let plan = Plan { rate: Some(2.0), stop_on_failure: true, ..plan() };
    let (mut shelf, ids) = Shelf::new(9);
    shelf.fails_again = true;
    let (end, totals) = shelf.run(&plan).await;
    assert!(matches!(end, Ok(End::Stopped(Stop::FailedAgain(id))) if id == ids[0]), "{end:?}");
    assert_eq!(totals.settled, 2);
}
