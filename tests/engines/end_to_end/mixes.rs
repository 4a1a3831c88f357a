//! The number of an attempt through any mixture of waits.

use std::collections::HashMap;
use std::time::Duration;

use jobq::{BoxError, FailedReason, JobContext, JobId, State, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Script, Step, Store, TestStore, until};

both_engines!(attempts_are_counted_through_any_mixture);

const RETRIES: u32 = 12;

const QUEUES: [&str; 3] = ["mixes.constant", "mixes.listed", "mixes.growing"];

/// The wait of a failed [`constant`] job.
const CONSTANT: u64 = 150;

#[job(queue = "mixes.constant", retries = 12, delay = "150ms")]
async fn constant(
    steps: Vec<Step>,
    ctx: JobContext,
    script: State<Script>,
) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

#[job(queue = "mixes.listed", retries = 12, delay = ["100ms", "150ms", "50ms"])]
async fn listed(steps: Vec<Step>, ctx: JobContext, script: State<Script>) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

#[job(
    queue = "mixes.growing",
    retries = 12,
    delay = exponential("50ms", max = "300ms", factor = 2, jitter = 0.5)
)]
async fn growing(steps: Vec<Step>, ctx: JobContext, script: State<Script>) -> Result<(), BoxError> {
    script.perform(&steps, &ctx).await
}

/// What a job must come to: the number of each run, and how it ends.
#[derive(Debug, PartialEq, Eq)]
struct Story {
    attempts: Vec<u32>,
    failed: Option<(u32, FailedReason)>,
}

/// A job that does as these say, the last one again and again, told by the rule alone.
fn story(steps: &[Step]) -> Story {
    let mut story = Story { attempts: vec![], failed: None };
    let mut attempt = 1;
    for step in steps.iter().chain(std::iter::repeat(&steps[steps.len() - 1])) {
        story.attempts.push(attempt);
        match step {
            Step::Snooze(_) => {}
            Step::Fail(_) | Step::Panic(_) | Step::RetryIn(_) if attempt <= RETRIES => attempt += 1,
            Step::Fail(_) | Step::Panic(_) | Step::RetryIn(_) => {
                story.failed = Some((attempt, FailedReason::Exhausted));
                return story;
            }
            Step::Abort(_) => {
                story.failed = Some((attempt, FailedReason::Aborted));
                return story;
            }
            Step::Succeed | Step::Wait | Step::Hang => return story,
        }
    }
    story
}

/// A wait: none, one of a policy's own, or any other.
fn wait(random: &mut fastrand::Rng) -> u64 {
    match random.u8(0..6) {
        0 => 0,
        1 | 2 => CONSTANT,
        _ => random.u64(1..400),
    }
}

fn steps(random: &mut fastrand::Rng) -> Vec<Step> {
    let text = || "not this time".to_owned();
    let mut steps: Vec<_> = (0..random.usize(2..18))
        .map(|_| match random.u8(0..10) {
            0..4 => Step::Fail(text()),
            4 => Step::Panic(text()),
            5..8 => Step::RetryIn(wait(random)),
            _ => Step::Snooze(wait(random)),
        })
        .collect();
    steps.push(match random.u8(0..4) {
        0 | 1 => Step::Succeed,
        2 => Step::Abort(text()),
        _ => Step::Fail(text()),
    });
    steps
}

async fn attempts_are_counted_through_any_mixture(store: Store) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().register::<Constant>().register::<Listed>().register::<Growing>();
    let running = pool.spawn().await.unwrap();
    let mut expected = HashMap::<JobId, (Vec<Step>, Story)>::new();
    for seed in 0..48 {
        let mut random = fastrand::Rng::with_seed(seed);
        let steps = steps(&mut random);
        let delay = Duration::from_millis(wait(&mut random));
        let told = (steps.clone(), story(&steps));
        let client = &test.client;
        let enqueued = match seed % 3 {
            0 => client.enqueue(Constant { steps }).delay(delay).await,
            1 => client.enqueue(Listed { steps }).delay(delay).await,
            _ => client.enqueue(Growing { steps }).delay(delay).await,
        };
        expected.insert(enqueued.unwrap(), told);
    }

    let mut attempts = HashMap::<JobId, Vec<u32>>::new();
    for _ in 0..expected.values().map(|(_, story)| story.attempts.len()).sum() {
        let run = test.run().await;
        let (script, told) = &expected[&run.id];
        let attempts = attempts.entry(run.id).or_default();
        attempts.push(run.attempt);
        assert!(told.attempts.starts_with(attempts), "{attempts:?} of {told:?}: {script:?}");
    }
    let number = expected.values().filter(|(_, story)| story.failed.is_some()).count();
    let mut failed = until("all to end", || async {
        let mut failed = HashMap::new();
        for queue in QUEUES {
            let counts = test.client.counts(queue).await.unwrap();
            if counts.open() > 0 {
                return None;
            }
            let jobs = test.client.failed(queue).list(99).await.unwrap();
            failed.extend(jobs.iter().map(|job| (job.id(), (job.attempts(), job.reason()))));
        }
        (failed.len() >= number).then_some(failed)
    })
    .await;
    for (id, (steps, story)) in expected {
        let attempts = attempts.remove(&id).unwrap_or_default();
        let found = Story { attempts, failed: failed.remove(&id) };
        assert_eq!(found, story, "{steps:?}");
    }
    assert!(failed.is_empty() && !test.has_run(), "{failed:?}");
    running.shutdown().await.unwrap();
}
