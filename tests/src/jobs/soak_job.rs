//! A job that ends as its payload says, with every attempt in the ledger, and those who
//! enqueue it all the time.

use std::time::Duration;

use jobq::{BoxError, Client, JobContext, JobId, State, WorkerPool, job};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ledger::{Answer, End, Ledger};
use crate::test_store::DEADLINE;

/// What becomes of a [`SoakJob`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How many attempts fail.
    pub failures: u32,
    /// How they do.
    pub failure: Failure,
    /// How many milliseconds an attempt takes.
    pub takes: u64,
}

/// How an attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// With an error: the next one comes through a tier.
    Error,
    /// With `retry_in` these milliseconds: through the delay levels.
    RetryIn(u64),
    /// With an error, but the last one aborts the job.
    Abort,
}

/// The most attempts of a [`SoakJob`].
const MAX_ATTEMPTS: u32 = 4;

/// The first retry leaves its wait to the broker, the others move the job to another tier.
///
/// # Errors
///
/// What its plan says.
#[job(retries = 3, delay = ["200ms", "400ms", "1s"], concurrency = 20)]
pub async fn soak_job(plan: Plan, ctx: JobContext, ledger: State<Ledger>) -> Result<(), BoxError> {
    let (id, attempt) = (ctx.id(), ctx.attempt());
    ledger.begins(id, attempt);
    tokio::time::sleep(Duration::from_millis(plan.takes)).await;
    let end = match plan.failures.min(MAX_ATTEMPTS) {
        failures if attempt > failures => End::Completed,
        failures if attempt == failures && plan.fails() => End::Failed,
        _ => End::Again,
    };
    ledger.ends(id, attempt, end);
    match (end, plan.failure) {
        (End::Completed, _) => Ok(()),
        (End::Failed, Failure::Abort) => Err(jobq::abort("no use"))?,
        (_, Failure::RetryIn(millis)) => {
            Err(jobq::retry_in(Duration::from_millis(millis), "not now"))?
        }
        _ => Err("again".into()),
    }
}

impl Plan {
    /// Half of all succeed at once; the others fail in all the ways that there are.
    fn random() -> Self {
        let (failures, failure) = match fastrand::u32(0..20) {
            0..10 => (0, Failure::Error),
            10..14 => (fastrand::u32(1..MAX_ATTEMPTS), Failure::Error),
            14..17 => (fastrand::u32(1..3), Failure::RetryIn(fastrand::u64(100..3_000))),
            17 => (MAX_ATTEMPTS, Failure::Error),
            18 => (MAX_ATTEMPTS, Failure::RetryIn(fastrand::u64(100..1_000))),
            _ => (fastrand::u32(1..3), Failure::Abort),
        };
        Self { failures, failure, takes: fastrand::u64(0..100) }
    }

    /// Whether it fails for good.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.failures >= MAX_ATTEMPTS || self.failure == Failure::Abort && self.failures > 0
    }

    /// How many attempts it makes.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        if self.fails() { self.failures.min(MAX_ATTEMPTS) } else { self.failures + 1 }
    }
}

/// Enqueues one, which first waits for so long, and writes down what was said to that.
pub async fn enqueue(client: &Client, ledger: &Ledger, plan: Plan, delay: Duration) -> Answer {
    let id = JobId::new();
    ledger.enqueues(id, plan.attempts(), plan.fails());
    let answer = Answer::to(&client.enqueue(SoakJob { plan }).id(id).delay(delay).await);
    ledger.answered(id, answer);
    answer
}

/// A worker pool for soak jobs. A busy machine gets the time to settle what has run.
pub fn pool(client: &Client, ledger: &Ledger) -> WorkerPool {
    WorkerPool::new(client).state(ledger.clone()).register::<SoakJob>().shutdown_timeout(DEADLINE)
}

/// Those who enqueue all the time.
#[derive(Debug)]
pub struct Load {
    stop: CancellationToken,
    all: JoinSet<()>,
}

impl Load {
    /// Lets so many begin.
    #[must_use]
    pub fn start(client: &Client, ledger: &Ledger, count: usize) -> Self {
        let (stop, mut all) = (CancellationToken::new(), JoinSet::new());
        for _ in 0..count {
            let (client, ledger, stop) = (client.clone(), ledger.clone(), stop.clone());
            all.spawn(async move {
                while !stop.is_cancelled() {
                    let late = fastrand::u32(0..10) == 0;
                    let delay = if late { fastrand::u64(100..3_000) } else { 0 };
                    let delay = Duration::from_millis(delay);
                    enqueue(&client, &ledger, Plan::random(), delay).await;
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(50..150))).await;
                }
            });
        }
        Self { stop, all }
    }

    /// Ends, when each was answered.
    pub async fn stop(self) {
        self.stop.cancel();
        self.all.join_all().await;
    }
}
