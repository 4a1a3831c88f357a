//! `jobq workers`, `pause`, `resume` and `cancel`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jobq::engine::conformance::{EngineExt as _, open};
use jobq::engine::{Controlled, PoolId, PoolQueue, PoolReport, Question, Reply, RunningJob};
use jobq::{JobId, PoolControl};
use jobq_tests::test_store::{Step, Store, TestStore, soon};
use jobq_tests::{both_engines, on_a_file};

use crate::process::{Ran, eventually, jobq};

both_engines!(all_queues_are_found);

// `the_page_holds_on_rabbitmq` runs these commands on a broker.
on_a_file!(
    workers_say_what_they_run,
    a_paused_queue_says_who_and_why,
    a_pool_is_told_to_take_no_more_and_to_stop,
    the_slots_of_a_queue_are_set,
    a_running_job_is_cancelled,
    a_queue_whose_slots_are_held_is_stuck,
);

/// A pool with one slot, which is free, or has held one attempt for two hours. Then it has taken
/// other jobs ahead.
#[derive(Debug)]
pub(crate) struct Held {
    id: PoolId,
    runs: bool,
    ahead: u32,
}

impl Held {
    /// A pool that runs one attempt and has taken so many jobs ahead.
    pub(crate) fn with(ahead: u32) -> Arc<Self> {
        Arc::new(Self { id: PoolId::new(), runs: true, ahead })
    }

    fn idle() -> Arc<Self> {
        Arc::new(Self { id: PoolId::new(), runs: false, ahead: 0 })
    }
}

impl Controlled for Held {
    fn id(&self) -> PoolId {
        self.id
    }

    fn queues(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }

    fn answer(&self, question: &Question) -> Reply {
        let Question::Report = question else {
            return Reply::Refused { why: "it hangs".to_owned() };
        };
        let mut queue = PoolQueue::new("scripted", 1);
        if self.runs {
            queue.running = vec![RunningJob::new(JobId::new(), "scripted", 1, 120 * MINUTE)];
        }
        queue.ahead = Some(self.ahead);
        queue.in_flight = u32::from(self.runs) + self.ahead;
        let started_at = SystemTime::now();
        Reply::Report(PoolReport::new(self.id, "worker2".to_owned(), started_at, vec![queue]))
    }
}

const MINUTE: Duration = Duration::from_secs(60);

async fn workers_say_what_they_run(store: Store) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let id = test.enqueue([Step::Wait]).await;
    test.run().await;
    let answers = |ran: &Ran| ran.out.contains(&id.to_string());
    let ran = eventually(&test.store, &["workers"], answers).await;
    let row = ran.lines(0).into_iter().find(|line| line.contains(&id.to_string())).unwrap();
    assert!(row.contains("scripted") && row.contains("attempt 1"), "{ran:#?}");
    assert!(ran.out.contains(&std::process::id().to_string()), "{ran:#?}");

    let ran = eventually(&test.store, &["workers", "scripted", "--json"], answers).await;
    let document = ran.json(0, "workers");
    let queues = document["pools"][0]["queues"].as_array().unwrap();
    let queue = queues.iter().find(|queue| queue["queue"] == "scripted").unwrap();
    assert_eq!((&queue["running"][0]["id"], &queue["slots"]), (&id.to_string().into(), &10.into()));
    assert_eq!(document["unaccounted"], 0);

    let check = ["check", "scripted", "--min-pools", "1"];
    eventually(&test.store, &check, |ran| ran.out == "ok: scripted\n" && ran.code == 0).await;
    let check = ["check", "scripted", "--min-pools", "2"];
    let said = "scripted: pools: expected at least 2, found 1\n";
    eventually(&test.store, &check, |ran| ran.out == said && ran.code == 1).await;
    test.go();
    test.end().await;
    let has_ended = |ran: &Ran| ran.out.contains(r#""completed":1"#);
    let ran = eventually(&test.store, &["queues", "scripted", "--json"], has_ended).await;
    let document = ran.json(0, "queues");
    let [p50, p95] = ["p50_ms", "p95_ms"].map(|name| document["queues"][0][name].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p95, "{document:#}");
    let ran = eventually(&test.store, &["workers", "scripted", "--json"], has_ended).await;
    let document = ran.json(0, "workers");
    let queues = document["pools"][0]["queues"].as_array().unwrap();
    let queue = queues.iter().find(|queue| queue["queue"] == "scripted").unwrap();
    assert_eq!(queue["minute"]["durations"]["p95_ms"].as_f64(), Some(p95), "{document:#}");
    pool.shutdown().await.unwrap();
}

async fn a_paused_queue_says_who_and_why(store: Store) {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let arguments = ["pause", "scripted", "--why", "mail server upgrade", "--by", "ann", "--json"];
    let ran = eventually(&test.store, &arguments, |ran| ran.code == 0).await;
    let document = ran.json(0, "pause");
    assert_eq!((&document["by"], &document["still_taking"]), (&"ann".into(), &0.into()));
    assert_eq!(document["stopped"].as_array().unwrap().len(), 1);

    let ran = jobq(&test.store, &["queues", "scripted"]).await;
    let row = ran.lines(0)[1];
    assert!(row.contains(" paused ") && row.ends_with("by ann: mail server upgrade"), "{ran:#?}");

    let document = jobq(&test.store, &["resume", "scripted", "--json"]).await.json(0, "resume");
    assert_eq!(document["was_paused"], true);
    let ran = jobq(&test.store, &["resume", "scripted"]).await;
    assert_eq!(ran.lines(0), ["queue scripted was not paused"]);
    pool.shutdown().await.unwrap();
}

async fn the_slots_of_a_queue_are_set(store: Store) {
    let test = TestStore::on(store).await;
    let pools = (
        test.pool().spawn().await.unwrap(),
        test.pool().control(PoolControl::Look).spawn().await.unwrap(),
    );
    let answers = |ran: &Ran| ran.out.matches("consuming").count() >= 4;
    eventually(&test.store, &["workers", "--json"], answers).await;
    let set = ["workers", "set", "scripted", "--concurrency", "3"];
    let ran = jobq(&test.store, &[&set[..], &["--json"]].concat()).await;
    let document = ran.json(5, "workers-set");
    assert_eq!((&document["concurrency"], &document["unaccounted"]), (&3.into(), &0.into()));
    let refused = document["refused"][0]["why"].as_str().unwrap();
    assert!(refused.contains("accepts no orders"), "{document:#}");
    assert_eq!(document["pools"].as_array().unwrap().len(), 1);
    let has_slots =
        |ran: &Ran| ran.out.contains(r#""slots":3"#) && ran.out.contains(r#""slots":10"#);
    eventually(&test.store, &["workers", "scripted", "--json"], has_slots).await;
    pools.1.shutdown().await.unwrap();
    let ran = eventually(&test.store, &set, |ran| ran.code == 0).await;
    assert_eq!(ran.lines(0), ["jobs of scripted at once in each pool: 3 (pools changed: 1)"]);
    pools.0.shutdown().await.unwrap();
    let told = jobq(&test.store, &set).await;
    assert!(told.error(4).contains("no pool that works on queue `scripted` answered"), "{told:#?}");
    let told = jobq(&test.store, &["workers", "set", "scripted", "--concurrency", "0"]).await;
    assert!(told.error(2).contains("--concurrency"), "{told:#?}");
}

async fn a_pool_is_told_to_take_no_more_and_to_stop(store: Store) {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let is_done = |ran: &Ran| ran.code == 0;
    let answers = |ran: &Ran| ran.out.contains("consuming");
    let ran = eventually(&test.store, &["workers", "--json"], answers).await;
    let document = ran.json(0, "workers");
    let id = document["pools"][0]["pool"].as_str().unwrap();
    let ran = eventually(&test.store, &["workers", "quiet", id, "--json"], is_done).await;
    let document = ran.json(0, "order");
    assert_eq!((&document["pool"], &document["order"]), (&id.into(), &"quiet".into()));
    let is_halted = |ran: &Ran| ran.out.contains(r#""state":"halted""#);
    eventually(&test.store, &["queues", "scripted", "--json"], is_halted).await;

    let ran = jobq(&test.store, &["workers", "stop", id]).await;
    assert_eq!(ran.lines(0), [format!("pool {id} is shutting down")]);
    soon("the end of the pool", pool.wait()).await.unwrap();
    assert!(jobq(&test.store, &["workers", "stop", id]).await.error(4).contains(id));
    assert!(jobq(&test.store, &["workers", "stop", "7"]).await.error(2).contains("`7`"));
}

async fn a_running_job_is_cancelled(store: Store) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let id = test.enqueue([Step::Hang]).await.to_string();
    test.run().await;
    let ran = eventually(&test.store, &["cancel", &id, "--json"], |ran| ran.code == 0).await;
    let document = ran.json(0, "cancel");
    assert_eq!(document["cancelled"][0]["cancel"], "asked");
    test.failed("scripted").await;
    assert!(jobq(&test.store, &["cancel", &id]).await.error(4).contains(&id));
    pool.shutdown().await.unwrap();
}

async fn all_queues_are_found(store: Store) {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let is_consumed = |ran: &Ran| ran.out.matches(r#""state":"consumed""#).count() == 2;
    let ran = eventually(&test.store, &["queues", "--json"], is_consumed).await;
    let document = ran.json(0, "queues");
    let queues = document["queues"].as_array().unwrap();
    let names: Vec<_> = queues.iter().map(|queue| queue["queue"].as_str().unwrap()).collect();
    assert_eq!(names, ["hasty", "scripted"], "{document:#}");
    assert_eq!(document["complete"], test.store.is_file());
    let ran = jobq(&test.store, &["queues"]).await;
    assert_eq!(ran.err.contains("AMQP cannot list queues"), !test.store.is_file(), "{ran:#?}");
    // A pool of a broker says more of itself.
    let answers = |ran: &Ran| ran.out.contains(r#""state":"consuming""#);
    eventually(&test.store, &["workers", "--json"], answers).await.json(0, "workers");
    pool.shutdown().await.unwrap();
}

async fn a_queue_whose_slots_are_held_is_stuck(store: Store) {
    let test = TestStore::on(store).await;
    let engine = open(&test.store.url, &test.store.namespace).await.unwrap();
    let pool = engine.admin().join(Held::with(0)).await.unwrap();
    let queues = ["queues", "scripted", "--json"];
    let is =
        |state: &'static str| move |ran: &Ran| ran.json(0, "queues")["queues"][0]["state"] == state;
    // Nothing waits behind the attempt.
    eventually(&test.store, &queues, is("consumed")).await;
    test.enqueue([Step::Succeed]).await;
    eventually(&test.store, &queues, is("stuck")).await;
    let ran = eventually(&test.store, &["queues"], |ran| ran.out.contains("stuck")).await;
    assert!(
        ran.lines(0).iter().any(|line| line.starts_with("scripted ") && line.ends_with("  stuck"))
    );
    drop(pool);
    eventually(&test.store, &queues, is("unattended")).await;

    // The jobs that one pool has taken ahead wait, although another one is idle.
    let pool = engine.admin().join(Held::with(3)).await.unwrap();
    eventually(&test.store, &queues, is("stuck")).await;
    let idle = engine.admin().join(Held::idle()).await.unwrap();
    let ran = eventually(&test.store, &queues, is("withheld")).await;
    let queue = &ran.json(0, "queues")["queues"][0];
    assert_eq!((&queue["in_flight"], &queue["ahead"]), (&4.into(), &3.into()), "{queue:#}");
    let says = |ran: &Ran| ran.out.contains("1/1, 3 ahead");
    eventually(&test.store, &["workers", "scripted"], says).await;
    let ran =
        eventually(&test.store, &["workers", "--json"], |ran| ran.out.contains("\"ahead\":3"));
    ran.await.json(0, "workers");
    let is_breach = |ran: &Ran| ran.code == 1 && ran.out.contains("has taken jobs ahead");
    eventually(&test.store, &["check", "scripted", "--waited-max", "1h"], is_breach).await;
    drop((pool, idle));

    // A pool that takes jobs and starts none, with a job that waits.
    let idle = engine.admin().join(Held::idle()).await.unwrap();
    eventually(&test.store, &queues, is("consumed")).await;
    let check = ["check", "scripted", "--waited-max", "500ms"];
    let ran = eventually(&test.store, &check, |ran| ran.out.contains("none started")).await;
    let said = "scripted: waited: expected at most 500ms, found unknown (jobs wait, and none \
                started in the last minute)";
    assert_eq!(ran.lines(1), [said]);
    drop(idle);
    soon("the engine to close", engine.close()).await;
}
