//! The passes of an operation on failed jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Filter;
use super::canary;
use super::progress::{Action, Done, End, Phase, Progress, Stop};
use super::visits::visit;
use crate::engine::{Administer, Engine, Extent, Verdict, Visited, administration};
use crate::error::{Error, Result};
use crate::job::{FailedJob, JobId, check_name};

/// The fewest and most seconds' worth of the rate that one pass settles.
const SECONDS: (f64, f64) = (1.0, 10.0);
/// A pass takes at most one part in this many of the time, while jobs are left for a next one.
const PART: f64 = 10.0;
/// The shortest pause between two passes, in which others may look at the failed jobs. They try
/// twice a second.
const BREAK: Duration = Duration::from_millis(700);
/// How many jobs a pass looks at until it tells so.
const TOLD: u64 = 1_000;
/// How long another operation is waited for, once this one has begun.
const OTHERS: Duration = Duration::from_secs(60);

/// What an operation is to do.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) queue: String,
    pub(super) filter: Filter,
    /// Jobs beyond it are left out.
    pub(super) within: Option<Extent>,
    pub(super) action: Action,
    pub(super) canary: Option<u32>,
    pub(super) canary_patience: Duration,
    pub(super) rate: Option<f64>,
    pub(super) dry_run: bool,
    pub(super) stop_on_failure: bool,
    pub(super) actor: String,
}

impl Plan {
    pub(super) fn check(&self) -> Result<()> {
        check_name("queue", &self.queue)?;
        let is_discard = self.action == Action::Discard;
        let problem = match () {
            () if self.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) => {
                "the rate of an operation must be a number of jobs per second above 0"
            }
            () if self.canary == Some(0) => {
                "the number of canaries must be at least 1; leave it out to run without canaries"
            }
            () if self.canary.is_some() && is_discard => {
                "canaries are jobs that are retried, but this operation discards jobs; leave the \
                 canaries out"
            }
            () if self.stop_on_failure && is_discard => {
                "discarded jobs cannot fail again; leave `stop_on_failure` out"
            }
            () if self.stop_on_failure && self.rate.is_none() => {
                "`stop_on_failure` needs a rate, since failures are checked between passes; set a \
                 rate"
            }
            () => return Ok(()),
        };
        Err(Error::invalid(problem))
    }

    /// How many jobs the next pass settles at most, after one that took this long. Without a rate its
    /// time alone ends it: each pass through a queue of RabbitMQ takes all jobs that are left.
    fn pass_limit(&self, took: Duration) -> u64 {
        let seconds = (took.as_secs_f64() * PART).clamp(SECONDS.0, SECONDS.1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
        let worth = self.rate.map(|rate| (rate * seconds) as u64);
        worth.map_or(u64::MAX, |worth| worth.max(1))
    }

    /// The pause after a pass that settled this many jobs and took this long.
    fn pause(&self, settled: u64, took: Duration) -> Duration {
        #[allow(clippy::cast_precision_loss)] // a pass settles few
        let seconds = self.rate.map_or(0.0, |rate| settled as f64 / rate);
        let pause = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        pause.saturating_sub(took).max(BREAK)
    }
}

/// Runs an operation to its end.
pub(super) async fn run(
    engine: Arc<dyn Engine>,
    plan: Plan,
    progress: watch::Sender<Progress>,
    cancel: CancellationToken,
) -> Result<Done> {
    let mut passes = Passes {
        administer: administration(&*engine)?,
        extent: plan.within,
        is_first: true,
        id: Uuid::now_v7().to_string(),
        totals: Totals::default(),
        plan: &plan,
        progress,
        cancel,
    };
    let end = passes.run().await;
    passes.tell(Phase::Ended);
    let Passes { extent, totals, .. } = passes;
    let Totals { matched, settled, refused, unknown, .. } = totals;
    let end = match end {
        Ok(end) => end,
        // Nothing was changed.
        Err(error) if settled == 0 && unknown == 0 && refused.is_empty() => {
            return Err(error);
        }
        Err(error) => End::Lost(error),
    };
    let Plan { queue, filter, actor, action, .. } = &plan;
    let is_finished = matches!(end, End::Finished);
    if !plan.dry_run {
        let action = match action {
            Action::Retry => "retry",
            Action::Discard => "discard",
        };
        tracing::info!(
            target: "jobq::audit",
            actor, action, queue, %filter, count = settled, is_finished,
            "failed jobs settled"
        );
    }
    Ok(Done { matched, settled, refused, unknown, end, extent })
}

struct Passes<'p> {
    administer: &'p dyn Administer,
    plan: &'p Plan,
    /// The jobs that there were when the first pass began, without those that were settled since.
    extent: Option<Extent>,
    /// Whether no pass has ended yet.
    is_first: bool,
    /// The id of the operation, in the headers of the jobs that it retries.
    id: String,
    totals: Totals,
    progress: watch::Sender<Progress>,
    cancel: CancellationToken,
}

/// The sums of all passes.
#[derive(Default)]
struct Totals {
    /// Of the last pass.
    examined: u64,
    matched: u64,
    settled: u64,
    refused: Vec<(JobId, Error)>,
    unknown: u64,
}

/// The state of one pass.
struct Pass {
    progress: watch::Sender<Progress>,
    examined: u64,
    /// What becomes of a job that matches. `None` to count them.
    verdict: Option<Verdict>,
    limit: u64,
    filter: Filter,
    operation: String,
    /// Whether a job that this operation retried ends the pass.
    stops_on_failure: bool,
    /// A job that this operation retried, and that failed again.
    failed_again: Option<JobId>,
    /// Jobs that an earlier pass could not retry.
    refused: HashSet<JobId>,
    cancel: CancellationToken,
    matched: u64,
    /// Those of them that were told.
    told: u64,
}

impl Pass {
    fn decide(&mut self, job: &FailedJob) -> Verdict {
        let verdict = self.verdict_of(job);
        self.examined += 1;
        if self.examined.is_multiple_of(TOLD) {
            let (examined, matched) = (self.examined, self.matched - self.told);
            self.progress.send_modify(|progress| {
                progress.examined = examined;
                progress.matched += matched;
            });
            self.told = self.matched;
        }
        verdict
    }

    fn verdict_of(&mut self, job: &FailedJob) -> Verdict {
        if self.cancel.is_cancelled() {
            return Verdict::Enough;
        }
        if job.was_retried_by(&self.operation) {
            self.failed_again.get_or_insert(job.id());
            return if self.stops_on_failure { Verdict::Enough } else { Verdict::Keep };
        }
        if self.refused.contains(&job.id()) || !self.filter.matches(job) {
            return Verdict::Keep;
        }
        if self.verdict.is_some() && self.matched >= self.limit {
            return Verdict::Enough;
        }
        self.matched += 1;
        self.verdict.clone().unwrap_or(Verdict::Keep)
    }
}

impl Passes<'_> {
    async fn run(&mut self) -> Result<End> {
        if self.plan.dry_run {
            let (_, visited) = self.pass(None, u64::MAX).await?;
            let is_complete = visited.complete;
            let end = if is_complete { End::Finished } else { End::Stopped(Stop::TooMany) };
            return Ok(self.ended_early(visited).unwrap_or(end));
        }
        if let Some(count) = self.plan.canary
            && let Some(end) = self.canaries(count).await?
        {
            return Ok(end);
        }
        let verdict = match self.plan.action {
            Action::Retry => self.retry(false),
            Action::Discard => Verdict::Discard,
        };
        let mut took = Duration::ZERO;
        loop {
            let start = Instant::now();
            let limit = self.plan.pass_limit(took);
            let (pass, visited) = self.pass(Some(verdict.clone()), limit).await?;
            let (is_complete, settled) = (visited.complete, visited.settled.len() as u64);
            if let Some(end) = self.ended_early(visited) {
                return Ok(end);
            }
            if let Some(id) = pass.failed_again.filter(|_| self.plan.stop_on_failure) {
                return Ok(End::Stopped(Stop::FailedAgain(id)));
            }
            if is_complete {
                return Ok(End::Finished);
            }
            if pass.matched == 0 {
                return Ok(End::Stopped(Stop::TooMany));
            }
            self.tell(Phase::Waiting);
            took = start.elapsed();
            let pause = self.plan.pause(settled, took);
            if self.cancel.run_until_cancelled(sleep(pause)).await.is_none() {
                return Ok(End::Cancelled);
            }
            if self.plan.stop_on_failure
                && let Some(stop) = self.failed_again().await?
            {
                return Ok(End::Stopped(stop));
            }
            self.tell(Phase::Settling);
        }
    }

    /// The verdict about a job that is retried.
    fn retry(&self, once: bool) -> Verdict {
        Verdict::RetryBy { operation: self.id.clone(), once }
    }

    /// Makes one pass.
    async fn pass(&mut self, verdict: Option<Verdict>, limit: u64) -> Result<(Pass, Visited)> {
        let pass = || Pass {
            progress: self.progress.clone(),
            examined: 0,
            verdict: verdict.clone(),
            limit,
            filter: self.plan.filter.clone(),
            operation: self.id.clone(),
            stops_on_failure: self.plan.stop_on_failure,
            failed_again: None,
            refused: self.totals.refused.iter().map(|(id, _)| *id).collect(),
            cancel: self.cancel.clone(),
            matched: 0,
            told: 0,
        };
        let decide = |pass: &mut Pass, job| pass.decide(&job);
        let (pass, mut visited) = self.visit(self.extent, pass, decide).await?;
        self.is_first = false;
        if let Some(began) = visited.extent {
            let extent = self.extent.map_or(began, |extent| extent.and(began));
            self.extent = Some(extent.without(visited.settled.len()));
        }
        self.totals.examined = pass.examined;
        self.totals.matched += pass.matched;
        self.totals.settled += visited.settled.len() as u64;
        self.totals.refused.append(&mut visited.refused);
        self.totals.unknown += visited.unknown.len() as u64;
        self.tell(Phase::Settling);
        Ok((pass, visited))
    }

    /// Visits the failed jobs. Once the operation has begun, it waits for another one.
    async fn visit<T: Send + 'static>(
        &self,
        within: Option<Extent>,
        state: impl Fn() -> T,
        step: impl FnMut(&mut T, FailedJob) -> Verdict + Clone + Send + 'static,
    ) -> Result<(T, Visited)> {
        let start = Instant::now();
        loop {
            let queue = &self.plan.queue;
            match visit(self.administer, queue, within, state(), step.clone()).await {
                Err(error) if error.is_conflict() && !self.is_first && start.elapsed() < OTHERS => {
                }
                visited => return visited,
            }
        }
    }

    /// The end of an operation whose pass met an error or was cancelled.
    fn ended_early(&self, visited: Visited) -> Option<End> {
        match visited.end {
            Some(error) => Some(End::Lost(error)),
            None if self.cancel.is_cancelled() => Some(End::Cancelled),
            None => None,
        }
    }

    /// Retries canaries and waits for their outcomes. `None` if all completed.
    async fn canaries(&mut self, count: u32) -> Result<Option<End>> {
        canary::check(self.administer, &self.plan.queue).await?;
        let mut jobs = Vec::new();
        // In place of one that is refused, the next one is a canary.
        while let Some(missing) = u64::from(count).checked_sub(jobs.len() as u64).filter(|n| *n > 0)
        {
            let once = self.retry(true);
            let (pass, mut visited) = self.pass(Some(once), missing).await?;
            jobs.append(&mut visited.settled);
            let is_complete = visited.complete;
            if let Some(end) = self.ended_early(visited) {
                return Ok(Some(end));
            }
            if is_complete {
                break;
            }
            if pass.matched == 0 {
                return Ok(Some(End::Stopped(Stop::TooMany)));
            }
        }
        self.tell(Phase::Canary);
        let watching = canary::watch(
            self.administer,
            &self.plan.queue,
            &self.id,
            jobs,
            self.plan.canary_patience,
        );
        let stop = match self.cancel.run_until_cancelled(watching).await {
            None => return Ok(Some(End::Cancelled)),
            Some(stop) => stop?,
        };
        self.tell(Phase::Settling);
        Ok(stop.map(End::Stopped))
    }

    /// The reason to stop if a retried job has failed since, or if that is not known: those that
    /// failed last are at the end of the queue.
    async fn failed_again(&self) -> Result<Option<Stop>> {
        let operation = self.id.clone();
        let look = move |found: &mut Option<JobId>, job: FailedJob| {
            if found.is_some() {
                return Verdict::Enough;
            }
            *found = job.was_retried_by(&operation).then(|| job.id());
            Verdict::Keep
        };
        Ok(match self.visit(None, || None, look).await? {
            (Some(id), _) => Some(Stop::FailedAgain(id)),
            (None, visited) => (!visited.complete).then_some(Stop::TooMany),
        })
    }

    fn tell(&self, phase: Phase) {
        let Totals { examined, matched, settled, refused, .. } = &self.totals;
        self.progress.send_replace(Progress {
            phase,
            examined: *examined,
            matched: *matched,
            settled: *settled,
            refused: refused.len() as u64,
        });
    }
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;
