//! Pools that are asked and paused, from another client of the same store.

mod orders;

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};

use jobq::admin::{Activity, Figure, PoolQueue, PoolReport, Queues, State as QueueIs};
use jobq::{Client, Clock, FindingKind, QueueState, Severity};
use jobq_tests::both_engines;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, until};

both_engines!(
    a_pool_reports_what_it_does,
    a_clock_that_differs_is_told,
    an_operator_sees_the_queues,
    a_paused_queue_starts_no_job,
    a_pause_may_be_ended_while_pools_are_asked,
    ten_pauses_make_no_job_a_suspect,
);

/// The reports of the pools, as soon as there are this many.
async fn reports(client: &Client, count: usize) -> Vec<PoolReport> {
    until("the reports of the pools", async || {
        let pools = client.admin().pools(Queues::All, DEADLINE).await.unwrap();
        (pools.unaccounted == 0 && pools.pools.len() == count).then_some(pools.pools)
    })
    .await
}

/// What the only pool says about a queue, once it holds.
async fn queue_where(
    client: &Client,
    queue: &str,
    holds: impl Fn(&PoolQueue) -> bool,
) -> (PoolReport, PoolQueue) {
    until("the report of the pool", async || {
        let report = reports(client, 1).await.remove(0);
        let queue = report.queue(queue).unwrap().clone();
        holds(&queue).then_some((report, queue))
    })
    .await
}

pub(crate) async fn a_pool_reports_what_it_does(store: Store) {
    let mut test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let running = test.pool().concurrency(2).spawn().await.unwrap();
    let enqueued = Instant::now();
    let waits = test.enqueue([Step::Wait]).await;
    test.run().await;
    let began = Instant::now();
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.running.len() == 1).await;
    assert_eq!((queue.minute.completed, queue.minute.durations.count()), (0, 0));
    assert!(queue.minute.waited.is_some(), "it has started: {queue:?}");
    let completes = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.run().await.id, completes);
    let fails = test.enqueue([Step::Fail("no".into()), Step::Abort("no".into())]).await;
    for _ in 0..2 {
        assert_eq!(test.run().await.id, fails);
    }
    let (report, queue) = queue_where(&operator, "scripted", |queue| {
        (queue.minute.failed, queue.in_flight) == (1, 1)
    })
    .await;
    assert_eq!((report.pid, report.version.as_str()), (std::process::id(), "0.1.0"));
    assert!(!report.host.is_empty());
    assert_eq!((queue.state, queue.slots, queue.lost_slots), (Activity::Consuming, 2, 0));
    let [job] = &queue.running[..] else { panic!("one runs: {queue:?}") };
    assert_eq!((job.id, job.job.as_str(), job.attempt, job.timeout), (waits, "scripted", 1, None));
    assert_eq!((queue.minute.completed, queue.minute.retried), (1, 1));
    assert!(queue.minute.waited.is_some());
    assert_eq!(queue.minute.durations.count(), 3, "without the one that runs: {queue:?}");
    let hasty = report.queue("hasty").unwrap();
    assert_eq!((hasty.running.len(), hasty.minute.waited), (0, None));
    assert_eq!(hasty.minute.durations.percentile(50), None);
    let ran = began.elapsed();
    test.go();
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.minute.completed == 2).await;
    assert_eq!((queue.minute.durations.count(), queue.running.len()), (4, 0), "{queue:?}");
    let longest = queue.minute.durations.percentile(100).unwrap();
    // A sixteenth is what a percentile is off by.
    let bounds = ran * 15 / 16..=enqueued.elapsed() * 17 / 16;
    assert!(bounds.contains(&longest), "{longest:?} is not in {bounds:?}");
    running.shutdown().await.unwrap();
    assert_eq!(reports(&operator, 0).await, []);
}

/// A pool whose clock is a minute ahead of the operator's, and one whose clock is the same. On
/// SQLite they are on one machine.
async fn a_clock_that_differs_is_told(store: Store) {
    let log = LogCapture::log();
    let warning = "clock differs from that of another machine";
    let test = TestStore::on(store).await;
    let same = test.pool().spawn().await.unwrap();
    let operator = test.store.client().await;
    let [report] = &reports(&operator, 1).await[..] else { panic!("one pool") };
    assert!(report.reported_at.is_some() && report.clock_offset_ms.is_none(), "{report:?}");
    let clocks = async || {
        let report = operator.doctor().await.unwrap();
        let of_clocks = report.findings().iter().filter(|found| found.kind() == FindingKind::Clock);
        of_clocks.cloned().collect::<Vec<_>>()
    };
    assert!(clocks().await.is_empty());
    assert_eq!(log.count(warning), 0);
    same.shutdown().await.unwrap();
    if test.store.is_file() {
        return;
    }
    let clock = Clock::stopped_at(SystemTime::now() + Duration::from_secs(65));
    let builder = Client::builder(&test.store.url).namespace(&test.store.namespace);
    let ahead = builder.timeout(DEADLINE).clock(clock).connect().await.unwrap();
    let ahead = test.pool_of(&ahead).spawn().await.unwrap();
    let [report] = &reports(&operator, 1).await[..] else { panic!("one pool") };
    // The clock stands still while the test goes on.
    let offset = report.clock_offset_ms.unwrap();
    assert!((20_000..=65_100).contains(&offset), "{offset}");
    until("the pool to log it", async || (log.count(warning) > 0).then_some(())).await;
    let [finding] = &clocks().await[..] else { panic!("one finding") };
    assert_eq!(finding.severity(), Severity::Warning);
    assert!(finding.what().contains("ahead of") && finding.about().contains(&report.host));
    reports(&operator, 1).await;
    ahead.shutdown().await.unwrap();
    let [line] = &log.lines(&[warning])[..] else { panic!("once an hour: {}", log.text()) };
    assert!(line.contains(" WARN ") && line.contains(&report.pool.to_string()), "{line}");
}

pub(crate) async fn an_operator_sees_the_queues(store: Store) {
    let mut test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let overview = async || {
        let named = Queues::Named(vec!["scripted".into(), "nothing".into()]);
        let mut queues = operator.admin().overview(named).await.unwrap().queues;
        assert_eq!(queues[0].queue, "nothing");
        (queues.remove(1), queues.remove(0))
    };
    test.enqueue([Step::Fail("no".into()), Step::Abort("no".into())]).await;
    let (queue, nothing) = overview().await;
    assert!(queue.ready == 1 && queue.failed == 0 && queue.pools == 0, "{queue:?}");
    assert_eq!((queue.state, nothing.state), (QueueIs::Unattended, QueueIs::Missing));
    assert!(nothing.ready == 0 && nothing.paused == None, "{nothing:?}");
    assert!(queue.durations == None, "nothing ended: {queue:?}");
    let running = test.pool().spawn().await.unwrap();
    for _ in 0..2 {
        test.run().await;
    }
    let queue = until("the failed job", async || {
        let (queue, _) = overview().await;
        (queue.failed == 1 && queue.in_flight == 0).then_some(queue)
    })
    .await;
    assert!(queue.pools == 1 && queue.ready == 0, "{queue:?}");
    assert_eq!(queue.state, QueueIs::Consumed);
    assert!(queue.waited.known().is_some_and(Option::is_some), "{queue:?}");
    let took = queue.durations.known().copied().flatten().unwrap();
    assert!(Duration::ZERO < took.p50 && took.p50 <= took.p95 && took.p95 < DEADLINE, "{took:?}");
    operator.admin().by("ann").pause("scripted", "a deploy").await.unwrap();
    let (queue, _) = overview().await;
    assert_eq!(queue.state, QueueIs::Paused);
    let pause = queue.paused.known().cloned().flatten().unwrap();
    assert_eq!((pause.by.as_deref(), pause.why.as_deref()), (Some("ann"), Some("a deploy")));
    let all = operator.admin().overview(Queues::All).await.unwrap();
    assert!(all.queues.iter().any(|queue| queue.queue == "hasty"), "{all:?}");
    running.shutdown().await.unwrap();
}

pub(crate) async fn a_paused_queue_starts_no_job(store: Store) {
    let mut test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let running = test.pool().concurrency(1).spawn().await.unwrap();
    let first = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, first);
    // These fill the prefetch buffer.
    let jobs: Vec<_> = (0..5).map(|_| Scripted { steps: vec![Step::Succeed] }).collect();
    let ids: HashSet<_> = test.client.enqueue_all(jobs).await.unwrap().into_iter().collect();
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0, "{paused:?}");
    assert_eq!(paused.stopped.len(), 1);
    let health = running.health().queues.into_iter().find(|queue| queue.queue == "scripted");
    assert!(
        matches!(health.unwrap().state, QueueState::Paused { why: Some(why), .. } if why == "a deploy")
    );
    assert!(running.health().is_consuming(), "a pause is healthy");
    test.go();
    assert_eq!(test.end().await, first, "what runs ends");
    until("the others to be handed back", async || {
        (test.client.counts("scripted").await.unwrap().ready == 5).then_some(())
    })
    .await;
    let later = test.enqueue([Step::Succeed]).await;
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.in_flight == 0).await;
    assert_eq!((queue.state, queue.consumers), (Activity::Paused, vec![]));
    assert!(!test.has_run());
    let resumed = operator.admin().resume("scripted").await.unwrap();
    assert!(resumed.was_paused);
    let mut ran = HashSet::new();
    for _ in 0..6 {
        let run = test.run().await;
        assert_eq!(run.attempt, 1, "a pause uses no attempt");
        ran.insert(run.id);
    }
    assert!(ran.is_superset(&ids) && ran.contains(&later));
    assert!(!operator.admin().resume("scripted").await.unwrap().was_paused);
    for _ in 0..6 {
        test.end().await;
    }
    running.shutdown().await.unwrap();

    // A pool that starts meanwhile waits.
    let id = test.enqueue([Step::Succeed]).await;
    let paused = operator.admin().pause("scripted", "a deploy").await.unwrap();
    assert!(paused.still_taking == 0 && paused.stopped.is_empty(), "{paused:?}");
    let running = test.pool().spawn().await.unwrap();
    let (report, queue) =
        queue_where(&operator, "scripted", |queue| queue.state == Activity::Paused).await;
    assert_eq!(report.queue("hasty").unwrap().state, Activity::Consuming);
    assert!(queue.since.is_some() && !test.has_run());
    operator.admin().resume("scripted").await.unwrap();
    assert_eq!(test.run().await.id, id);
    assert_eq!(test.end().await, id);
    running.shutdown().await.unwrap();
}

async fn a_pause_may_be_ended_while_pools_are_asked(store: Store) {
    let mut test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let running = test.pool().spawn().await.unwrap();
    let admin = operator.admin();
    let pausing = admin.pause("scripted", "a deploy");
    let resuming = async {
        let is_paused = async || {
            let queues = Queues::Named(vec!["scripted".into()]);
            let overview = test.client.admin().overview(queues).await.unwrap();
            matches!(overview.queues[0].paused, Figure::Known(Some(_))).then_some(())
        };
        until("the pause", is_paused).await;
        assert!(test.client.admin().resume("scripted").await.unwrap().was_paused);
    };
    let (paused, ()) = tokio::join!(pausing, resuming);
    if let Err(error) = paused {
        assert!(error.is_conflict(), "{error}");
    }
    assert!(!admin.resume("scripted").await.unwrap().was_paused, "it was resumed");
    let id = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, id);
    running.shutdown().await.unwrap();
}

async fn ten_pauses_make_no_job_a_suspect(store: Store) {
    let mut test = TestStore::on(store).await;
    let operator = test.store.client().await;
    let running = test.pool().concurrency(1).spawn().await.unwrap();
    // After a short job the pool takes others ahead.
    test.enqueue([Step::Succeed]).await;
    test.run().await;
    let blocker = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, blocker);
    let jobs = (0..40).map(|_| Scripted { steps: vec![Step::Succeed] });
    test.client.enqueue_all(jobs).await.unwrap();
    for _ in 0..10 {
        queue_where(&operator, "scripted", |queue| queue.in_flight > 1).await;
        let paused = operator.admin().pause("scripted", "again").await.unwrap();
        assert!(paused.still_taking == 0, "{paused:?}");
        queue_where(&operator, "scripted", |queue| queue.in_flight == 1).await;
        operator.admin().resume("scripted").await.unwrap();
    }
    test.go();
    for _ in 0..40 {
        assert_eq!(test.run().await.attempt, 1);
    }
    let (_, queue) = queue_where(&operator, "scripted", |queue| queue.minute.completed == 42).await;
    // A job that is suspected runs alone, and its queue rests meanwhile.
    assert_eq!(queue.state, Activity::Consuming);
    running.shutdown().await.unwrap();
}
