//! `expires`: no attempt starts later than this after the job was due, whatever it waited
//! for.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jobq::{BoxError, FailedReason, JobContext, JobId, State, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Script, Step, Store, TestStore, until};

both_engines!(
    a_job_expires_while_it_waits_for_whatever_it_may,
    a_job_whose_time_is_not_over_outlives_its_waits,
);

/// The `expires` of the jobs: long enough for a first attempt to start on any machine.
const LIMIT: Duration = Duration::from_secs(10);
/// The `delay` of the jobs, in milliseconds: longer than that.
const LONG: u64 = 11_000;

/// Has a tier for its long wait.
#[job(retries = 3, delay = "11s", expires = "10s")]
async fn fixed(steps: Vec<Step>, ctx: JobContext, script: State<Script>) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

/// Has none.
#[job(retries = 3, delay = exponential("11s"), expires = "10s")]
async fn growing(steps: Vec<Step>, ctx: JobContext, script: State<Script>) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

fn fail() -> Step {
    Step::Fail("busy".into())
}

/// A test with a pool; the first wait of a client may have to be prepared for, for longer than
/// other jobs live.
async fn set_up(store: Store) -> (TestStore, jobq::RunningPool) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().register::<Fixed>().register::<Growing>();
    let running = pool.spawn().await.unwrap();
    let first = test.client.enqueue(Growing { steps: vec![Step::Succeed] });
    first.delay(Duration::from_millis(1)).expires_in(Duration::from_secs(600)).await.unwrap();
    test.run().await;
    test.end().await;
    (test, running)
}

/// Each step as a job's first one, with the attempts that it uses: the wait of the policy
/// and those that the job asks for, through a tier or the levels.
fn waits() -> [(Step, u32); 5] {
    [
        (fail(), 1),
        (Step::RetryIn(LONG), 1),
        (Step::RetryIn(LONG + 1), 1),
        (Step::Snooze(LONG), 0),
        (Step::Snooze(LONG + 1), 0),
    ]
}

async fn a_job_expires_while_it_waits_for_whatever_it_may(store: Store) {
    let (mut test, running) = set_up(store).await;
    let client = test.client.clone();
    // How many attempts are used up, and how often it ran.
    let mut expected = HashMap::<JobId, (u32, usize)>::new();
    for delay in [0, 300, LONG] {
        let never = client.enqueue(Fixed { steps: vec![Step::Succeed] }).expires_in(Duration::ZERO);
        expected.insert(never.delay(Duration::from_millis(delay)).await.unwrap(), (0, 0));
    }
    for (step, attempts) in waits() {
        let steps = vec![step, Step::Succeed];
        let id = client.enqueue(Fixed { steps: steps.clone() }).await.unwrap();
        expected.insert(id, (attempts, 1));
        let id = client.enqueue(Growing { steps }).await.unwrap();
        expected.insert(id, (attempts, 1));
    }

    let failed = until("all to expire", || async {
        let mut failed = client.failed("fixed").list(99).await.unwrap();
        failed.extend(client.failed("growing").list(99).await.unwrap());
        (failed.len() >= expected.len()).then_some(failed)
    })
    .await;
    let mut runs = HashMap::<JobId, usize>::new();
    while test.has_run() {
        *runs.entry(test.run().await.id).or_default() += 1;
    }
    let found: HashMap<_, _> = failed
        .iter()
        .map(|job| (job.id(), (job.attempts(), runs.get(&job.id()).copied().unwrap_or(0))))
        .collect();
    assert_eq!(found, expected);
    assert!(failed.iter().all(|job| job.reason() == FailedReason::Expired), "{failed:?}");
    running.shutdown().await.unwrap();
}

async fn a_job_whose_time_is_not_over_outlives_its_waits(store: Store) {
    let (mut test, running) = set_up(store).await;
    let client = test.client.clone();
    let mut ids = HashSet::new();
    // It counts from the end of the wait before the first attempt, however long that is.
    for delay in [LONG, LONG + 1] {
        let steps = vec![Step::RetryIn(100), Step::Snooze(100), Step::Succeed];
        let late = client.enqueue(Fixed { steps }).delay(Duration::from_millis(delay));
        ids.insert(late.expires_in(LIMIT).await.unwrap());
    }
    for (step, _) in waits() {
        let long = Duration::from_secs(600);
        let steps = vec![step, Step::Succeed];
        let fixed = client.enqueue(Fixed { steps: steps.clone() }).expires_in(long);
        ids.insert(fixed.await.unwrap());
        ids.insert(client.enqueue(Growing { steps }).expires_in(long).await.unwrap());
    }
    while !ids.is_empty() {
        let id = test.end().await;
        assert!(ids.remove(&id));
    }
    for queue in ["fixed", "growing"] {
        assert_eq!(client.counts(queue).await.unwrap().failed, 0, "{queue}");
    }
    running.shutdown().await.unwrap();
}
