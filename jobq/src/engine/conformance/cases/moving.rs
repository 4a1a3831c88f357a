//! Moves of jobs between engines.

use std::time::{Duration, Instant};

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{
    Bench, event, eventually, failure, headers, job, settle, soon,
};
use crate::engine::{
    Admission, Departing, Disposition, Engine, Envelope, EventEnvelope, Next, NotPushed, QueueSpec,
    Scope, Settlement, Verdict,
};
use crate::job::{FailedJob, FailedReason, JobId, Priority};

const SHORT: Duration = Duration::from_millis(300);
const HOUR: Duration = Duration::from_secs(3_600);

async fn admit(bench: &Bench, batch: Vec<Admission>) -> Vec<NotPushed> {
    let admit = bench.engine().admit().expect("the engine takes jobs of others");
    soon("jobs to be admitted", admit.admit(batch)).await
}

async fn admit_all(bench: &Bench, batch: Vec<Admission>) {
    let refused = admit(bench, batch).await;
    assert!(refused.is_empty(), "{refused:?}");
}

async fn depart(engine: &dyn Engine, scope: Scope) -> Box<dyn Departing> {
    let depart = engine.depart().expect("the engine hands its jobs over");
    soon("a departure", depart.depart(scope)).await.expect("departs")
}

async fn mail(engine: &dyn Engine) -> Box<dyn Departing> {
    depart(engine, Scope::Queue("mail".to_owned())).await
}

async fn next(departing: &mut Box<dyn Departing>) -> Next {
    soon("what departs", departing.next()).await.expect("departs")
}

/// What departs next, which must be something.
async fn taken(departing: &mut Box<dyn Departing>) -> Vec<Admission> {
    match next(departing).await {
        Next::Taken(batch) => batch,
        other => panic!("nothing was taken: {other:?}"),
    }
}

/// Takes and removes all.
async fn take_all(bench: &Bench, scope: Scope) -> Vec<Admission> {
    let (mut departing, mut all) = (depart(bench.engine(), scope).await, Vec::new());
    while let Next::Taken(batch) = next(&mut departing).await {
        settle_as(&mut departing, vec![Disposition::Removed; batch.len()]).await;
        all.extend(batch);
    }
    all
}

async fn settle_as(departing: &mut Box<dyn Departing>, dispositions: Vec<Disposition>) {
    soon("a settlement", departing.settle(dispositions)).await.expect("settles");
}

/// A job after its first attempt.
fn used(queue: &str) -> Envelope {
    Envelope { attempts: 1, ..job(queue) }
}

/// A job that is admitted has its content, its priority and the attempts that it has used.
pub async fn an_admitted_job_comes_as_it_was(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").priorities()).await;
    let mut consumer = bench.consumer("mail", 1).await;
    for priority in [Priority::Normal, Priority::High, Priority::Low] {
        let mut moved = Envelope { attempts: 2, ..bench.full_job() };
        moved.set_priority(priority);
        admit_all(bench, vec![Admission::Job(moved.clone())]).await;
        let delivery = consumer.take_attempt(moved.id, 3).await;
        let &Envelope { enqueued_at, retry_wait, .. } = delivery.envelope();
        assert_eq!(*delivery.envelope(), Envelope { enqueued_at, retry_wait, ..moved.clone() });
        let apart = |time| moved.enqueued_at.duration_since(time).unwrap_or_default();
        assert!(apart(enqueued_at) < Duration::from_secs(1), "{enqueued_at:?}");
        assert_eq!(delivery.crashes, 0);
        settle(delivery, Settlement::Complete).await;
    }
}

/// A job waits for the rest of its wait, also where that is one between two attempts.
pub async fn an_admitted_job_waits_for_the_rest_of_its_wait(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[HOUR], 1).await;
    let mut moved = Envelope { delay: SHORT, ..used("mail") };
    // Its first attempt was due long ago.
    moved.set_due(bench.now() - HOUR);
    let begin = Instant::now();
    admit_all(bench, vec![Admission::Job(moved.clone())]).await;
    let delivery = consumer.take_attempt(moved.id, 2).await;
    assert!(begin.elapsed() + Duration::from_millis(5) >= SHORT, "{:?}", begin.elapsed());
    settle(delivery, Settlement::Complete).await;
}

/// A failed job is listed with its story, and can be retried.
pub async fn an_admitted_failed_job_is_a_failed_job(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let envelope = Envelope { attempts: 4, expires_at: None, ..bench.full_job() };
    let (reason, at) = (FailedReason::Aborted, bench.now() - HOUR);
    let failed = FailedJob::new(envelope, 4, reason, "no\n\nStack backtrace:\n0: f".into(), at);
    admit_all(bench, vec![Admission::Failed(failed.clone())]).await;
    let list =
        async || soon("failed jobs", bench.engine().failed_list("mail", 9)).await.expect("lists");
    eventually("failed jobs", 1, || async { list().await.len() }).await;
    let listed = list().await.remove(0);
    let story = |job: &FailedJob| {
        let (error, trace) = (job.error().to_owned(), job.backtrace().map(str::to_owned));
        (job.id(), job.attempts(), job.reason(), error, trace, job.headers().clone())
    };
    assert_eq!(story(&listed), story(&failed));
    let apart = at.duration_since(listed.failed_at()).unwrap_or_default();
    assert!(apart < Duration::from_secs(1), "{listed:?}");
    let retried = bench.engine().failed_settle("mail", Some(failed.id()), Verdict::Retry);
    assert_eq!(soon("a retry", retried).await.expect("retries"), 1);
    consumer.take_attempt(failed.id(), 1).await;
}

/// A suspect runs alone, and the number of its solo starts is kept.
pub async fn an_admitted_suspect_runs_alone(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").solo()).await;
    let moved = used("mail");
    admit_all(bench, vec![Admission::Solo(moved.clone(), 2)]).await;
    let mut alone =
        soon("a consumer", bench.engine().consume_solo("mail")).await.expect("consumes");
    let delivery = alone.take_attempt(moved.id, 2).await;
    assert_eq!(delivery.solo.map(|solo| (solo.starts, solo.started)), Some((2, false)));
    settle(delivery, Settlement::Complete).await;
}

/// An event reaches those who subscribe when the rest of its wait is over.
pub async fn an_admitted_event_reaches_its_subscribers(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").patterns(["user.*"])).await;
    let mut moved = event("user.created");
    (moved.delay, moved.published_at) = (SHORT, bench.now() + SHORT);
    let begin = Instant::now();
    admit_all(bench, vec![Admission::Event(moved.clone())]).await;
    let mut consumer = bench.consumer("mail", 1).await;
    let delivery = consumer.take_attempt(moved.id, 1).await;
    assert!(begin.elapsed() + Duration::from_millis(5) >= SHORT, "{:?}", begin.elapsed());
    assert_eq!(delivery.envelope().topic.as_deref(), Some("user.created"));
    settle(delivery, Settlement::Complete).await;
}

/// What cannot be stored is named, and all else is stored.
pub async fn jobs_of_an_unknown_queue_are_not_admitted(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let (good, at) = (job("mail"), bench.now());
    let failed = FailedJob::new(job("absent"), 1, FailedReason::Aborted, String::new(), at);
    let batch = vec![
        Admission::Job(job("absent")),
        Admission::Job(good.clone()),
        Admission::Solo(job("absent"), 0),
        Admission::Failed(failed),
    ];
    let refused = admit(bench, batch).await;
    let places = refused.iter().map(|(place, error)| (*place, error.is_not_found()));
    assert_eq!(places.collect::<Vec<_>>(), [(0, true), (2, true), (3, true)], "{refused:?}");
    consumer.complete(good.id).await;
}

/// Jobs depart in whatever state they are, and are gone from their queue when that is settled.
pub async fn jobs_depart_in_whatever_state_they_are(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").waits([HOUR]).solo().priorities()).await;
    let mut consumer = bench.consumer("mail", 1).await;
    for settlement in
        [failure(FailedReason::Aborted, "no", 1), Settlement::Isolate, Settlement::Retry(HOUR)]
    {
        bench.push_jobs("mail", 1).await;
        settle(consumer.take().await, settlement).await;
    }
    consumer.stop_soon().await;
    let mut high = bench.full_job();
    high.set_priority(Priority::High);
    bench.push(vec![high.clone(), Envelope { delay: HOUR, ..job("mail") }]).await;
    bench.counts("mail", 2, 2, 1).await;
    bench.push(vec![Envelope { delay: 2 * HOUR, ..job("mail") }]).await;

    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for scope in [Scope::Queue("mail".to_owned()), Scope::Shared] {
        for admission in take_all(bench, scope).await {
            match &admission {
                Admission::Job(job) => {
                    let minutes = job.delay.as_secs().div_ceil(60);
                    seen.push((minutes, job.attempts, job.priority(), false));
                    if job.id == high.id {
                        let (enqueued_at, delay) = (job.enqueued_at, job.delay);
                        let expires_at = job.expires_at;
                        let expected = Envelope { enqueued_at, delay, expires_at, ..high.clone() };
                        assert_eq!(*job, expected);
                    }
                }
                Admission::Solo(job, starts) => {
                    assert_eq!(*starts, 0);
                    seen.push((0, job.attempts, job.priority(), true));
                }
                Admission::Failed(job) => failed.push((job.reason(), job.error().to_owned())),
                other => panic!("{other:?}"),
            }
        }
    }
    seen.sort_unstable();
    let (normal, high) = (Priority::Normal, Priority::High);
    let mut expected = [
        (0, 0, high, false),
        (0, 0, normal, true),
        (60, 0, normal, false),
        (60, 1, normal, false),
        (120, 0, normal, false),
    ];
    expected.sort_unstable();
    assert_eq!(seen, expected);
    assert_eq!(failed, [(FailedReason::Aborted, "no".to_owned())]);
    bench.counts("mail", 0, 0, 0).await;
}

/// Workers get no job that departs. What is not removed is given back, as the same attempt and no
/// suspect, however often.
pub async fn a_job_that_departs_goes_to_no_worker(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 10).await;
    consumer.stop_soon().await;
    let ids = bench.push_jobs("mail", 1).await;
    for disposition in [Disposition::Returned, Disposition::Kept, Disposition::Returned] {
        bench.counts("mail", 1, 0, 0).await;
        let mut departing = mail(bench.engine()).await;
        assert_eq!(taken(&mut departing).await.len(), 1);
        let mut consumer = bench.consumer("mail", 10).await;
        consumer.gets_nothing().await;
        consumer.stop_soon().await;
        settle_as(&mut departing, vec![disposition]).await;
    }
    bench.counts("mail", 1, 0, 0).await;
    let mut consumer = bench.consumer("mail", 1).await;
    let delivery = consumer.take_attempt(ids[0], 1).await;
    assert!(delivery.crashes < 3, "{}", delivery.crashes);
    settle(delivery, Settlement::Complete).await;
}

/// What is kept is not taken again, and is there at the end.
pub async fn what_is_kept_is_taken_once(bench: &Bench) {
    let (mut consumer, ids) = bench.consume_jobs(&[], 1, 2).await;
    settle(consumer.take().await, failure(FailedReason::Aborted, "no", 1)).await;
    consumer.stop_soon().await;
    bench.counts("mail", 1, 0, 1).await;
    let mut departing = mail(bench.engine()).await;
    let mut seen: Vec<JobId> = Vec::new();
    while let Next::Taken(batch) = next(&mut departing).await {
        seen.extend(batch.iter().map(|admission| match admission {
            Admission::Job(job) => job.id,
            Admission::Failed(job) => job.id(),
            other => panic!("{other:?}"),
        }));
        settle_as(&mut departing, vec![Disposition::Kept; batch.len()]).await;
    }
    assert_eq!(seen, [ids[1], ids[0]]);
    drop(departing);
    bench.counts("mail", 1, 0, 1).await;
}

/// A job that a worker has departs when it is handed back.
pub async fn a_job_in_flight_departs_later(bench: &Bench) {
    let (mut consumer, ids) = bench.consume_jobs(&[], 1, 1).await;
    let held = consumer.take().await;
    let other = bench.another().await;
    let mut departing = mail(&*other).await;
    assert!(!matches!(next(&mut departing).await, Next::Taken(_)));
    consumer.stop_soon().await;
    settle(held, Settlement::Release).await;
    bench.counts("mail", 1, 0, 0).await;
    let batch = taken(&mut departing).await;
    assert!(matches!(&batch[..], [Admission::Job(job)] if (job.id, job.attempts) == (ids[0], 0)));
    settle_as(&mut departing, vec![Disposition::Removed]).await;
    assert!(matches!(next(&mut departing).await, Next::Empty));
}

/// Events that wait depart with the rest of their wait.
pub async fn events_depart(bench: &Bench) {
    bench.declare_as(QueueSpec::new("mail").patterns(["user.*"])).await;
    let mut waiting = event("user.created");
    waiting.headers = headers();
    (waiting.delay, waiting.published_at) = (HOUR, bench.now() + HOUR);
    soon("an event", bench.engine().publish(waiting.clone(), false)).await.expect("publishes");
    let specs = bench.engine().depart().expect("it departs").queues_to_declare();
    let expected = [QueueSpec::new("mail").patterns(["user.*"])];
    assert_eq!(soon("queues", specs).await.expect("lists"), expected);
    let batch = take_all(bench, Scope::Shared).await;
    let [Admission::Event(event)] = &batch[..] else { panic!("{batch:?}") };
    assert!(event.delay > HOUR / 2 && event.delay <= HOUR, "{event:?}");
    let of = |event: &EventEnvelope| (event.id, event.topic.clone(), event.payload.clone());
    assert_eq!((of(event), &event.headers), (of(&waiting), &waiting.headers));
    assert!(take_all(bench, Scope::Shared).await.is_empty());
}

/// What a closed engine had taken comes back, as the same attempt and no suspect.
pub async fn what_a_closed_engine_has_taken_comes_back(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let ids = bench.push_jobs("mail", 1).await;
    let other = bench.another().await;
    let mut departing = mail(&*other).await;
    assert_eq!(taken(&mut departing).await.len(), 1);
    soon("an engine to close", other.close()).await;
    let mut consumer = bench.consumer("mail", 1).await;
    let delivery = consumer.take_attempt(ids[0], 1).await;
    assert!(delivery.crashes < 3, "{}", delivery.crashes);
    settle(delivery, Settlement::Complete).await;
}
