//! The passes of an operation on failed jobs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Filter;
use super::canary;
use super::operation::{Action, Done, End, Phase, Progress, Stop};
use crate::engine::{Administer, Engine, Verdict, Visited, administration};
use crate::error::{Error, Result};
use crate::job::{FailedJob, JobId, check_name};

/// How long one pass may look for jobs. Others wait for it that long.
const PASS: Duration = Duration::from_secs(20);
/// The most jobs that one pass settles.
const MAX_SETTLED: u64 = 20_000;
/// How many seconds' worth of the rate one pass settles.
const SECONDS: f64 = 10.0;

/// What an operation is to do.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) queue: String,
    pub(super) filter: Filter,
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
                "the rate of an operation is a number of jobs a second above 0"
            }
            () if self.canary == Some(0) => "an operation has at least one canary, or none is set",
            () if self.canary.is_some() && is_discard => {
                "a canary is put back, and this operation discards; leave the canary out"
            }
            () if self.stop_on_failure && is_discard => {
                "jobs that are discarded do not fail again; leave `stop_on_failure` out"
            }
            () if self.stop_on_failure && self.rate.is_none() => {
                "an operation looks for jobs that fail again between two passes; set a rate"
            }
            () => return Ok(()),
        };
        Err(Error::invalid(problem))
    }

    /// How many jobs one pass settles at most.
    fn pass_limit(&self) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
        let worth = self.rate.map(|rate| (rate * SECONDS) as u64);
        worth.map_or(MAX_SETTLED, |worth| worth.clamp(1, MAX_SETTLED))
    }

    /// How long the settled jobs of a pass take at the rate.
    fn pause(&self, settled: u64) -> Duration {
        #[allow(clippy::cast_precision_loss)] // a pass settles few
        let seconds = self.rate.map_or(0.0, |rate| settled as f64 / rate);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
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
        filter: plan.filter.clone().before(engine.clock().now()),
        began: engine.clock().now(),
        id: Uuid::now_v7().to_string(),
        totals: Totals::default(),
        plan: &plan,
        progress,
        cancel,
    };
    let end = passes.run().await;
    passes.tell(Phase::Ended);
    let Totals { matched, settled, refused, unknown, .. } = passes.totals;
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
            Action::PutBack => "retry",
            Action::Discard => "discard",
        };
        tracing::info!(
            target: "jobq::audit",
            actor, action, queue, %filter, count = settled, is_finished,
            "failed jobs were settled"
        );
    }
    Ok(Done { matched, settled, refused, unknown, end })
}

struct Passes<'p> {
    administer: &'p dyn Administer,
    plan: &'p Plan,
    /// With the beginning of the operation as its latest time.
    filter: Filter,
    began: SystemTime,
    /// The id of the operation, in the headers of its canaries.
    id: String,
    totals: Totals,
    progress: watch::Sender<Progress>,
    cancel: CancellationToken,
}

/// The sums of all passes.
#[derive(Default)]
struct Totals {
    matched: u64,
    settled: u64,
    /// The ids of the settled jobs.
    ids: HashSet<JobId>,
    refused: Vec<(JobId, Error)>,
    unknown: u64,
}

/// What one pass is to do with a job that matches.
#[derive(Clone)]
enum Aim {
    Count,
    Settle(Verdict),
}

/// The state of one pass, which the engine's call shares.
struct Pass {
    aim: Aim,
    limit: u64,
    filter: Filter,
    /// Jobs that could not be put back by an earlier pass.
    refused: HashSet<JobId>,
    cancel: CancellationToken,
    until: Instant,
    matched: u64,
    is_cut: bool,
}

impl Pass {
    fn decide(&mut self, job: &FailedJob) -> Verdict {
        if self.cancel.is_cancelled() || Instant::now() >= self.until {
            self.is_cut = true;
            return Verdict::Enough;
        }
        if self.refused.contains(&job.id()) || !self.filter.matches(job) {
            return Verdict::Keep;
        }
        match &self.aim {
            Aim::Count => {
                self.matched += 1;
                Verdict::Keep
            }
            Aim::Settle(_) if self.matched >= self.limit => {
                self.is_cut = true;
                Verdict::Enough
            }
            Aim::Settle(verdict) => {
                self.matched += 1;
                verdict.clone()
            }
        }
    }
}

impl Passes<'_> {
    async fn run(&mut self) -> Result<End> {
        if self.plan.dry_run {
            // One pass to the end, however long it takes: nothing is held up but who looks.
            let (_, visited) = self.pass(Aim::Count, u64::MAX, Duration::MAX).await?;
            return Ok(self.ended_early(visited).unwrap_or(End::Finished));
        }
        if let Some(count) = self.plan.canary
            && let Some(end) = self.canaries(count).await?
        {
            return Ok(end);
        }
        let verdict = match self.plan.action {
            Action::PutBack => Verdict::PutBack,
            Action::Discard => Verdict::Discard,
        };
        loop {
            let start = Instant::now();
            let limit = self.plan.pass_limit();
            let (is_cut, visited) = self.pass(Aim::Settle(verdict.clone()), limit, PASS).await?;
            let settled = visited.settled.len() as u64;
            if let Some(end) = self.ended_early(visited) {
                return Ok(end);
            }
            if !is_cut {
                return Ok(End::Finished);
            }
            self.tell(Phase::Waiting);
            let pause = self.plan.pause(settled).saturating_sub(start.elapsed());
            if self.cancel.run_until_cancelled(sleep(pause)).await.is_none() {
                return Ok(End::Cancelled);
            }
            if self.plan.stop_on_failure
                && let Some(id) = self.failed_again().await?
            {
                return Ok(End::Stopped(Stop::FailedAgain(id)));
            }
            self.tell(Phase::Settling);
        }
    }

    /// Makes one pass, and returns whether jobs may be left that it did not look at.
    async fn pass(&mut self, aim: Aim, limit: u64, time: Duration) -> Result<(bool, Visited)> {
        let now = Instant::now();
        let pass = Arc::new(Mutex::new(Pass {
            aim,
            limit,
            filter: self.filter.clone(),
            refused: self.totals.refused.iter().map(|(id, _)| *id).collect(),
            cancel: self.cancel.clone(),
            until: now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(86_400)),
            matched: 0,
            is_cut: false,
        }));
        let shared = Arc::clone(&pass);
        let visit = Box::new(move |job| locked(&shared).decide(&job));
        let mut visited = self.administer.failed_visit(&self.plan.queue, visit).await?;
        let pass = locked(&pass);
        self.totals.matched += pass.matched;
        self.totals.settled += visited.settled.len() as u64;
        self.totals.ids.extend(&visited.settled);
        self.totals.refused.append(&mut visited.refused);
        self.totals.unknown += visited.unknown.len() as u64;
        self.tell(Phase::Settling);
        Ok((pass.is_cut || !visited.complete, visited))
    }

    /// The end of an operation whose pass met an error or was cancelled.
    fn ended_early(&self, visited: Visited) -> Option<End> {
        match visited.end {
            Some(error) => Some(End::Lost(error)),
            None if self.cancel.is_cancelled() => Some(End::Cancelled),
            None => None,
        }
    }

    /// Puts canaries back and waits for their outcomes. `None` if all completed.
    async fn canaries(&mut self, count: u32) -> Result<Option<End>> {
        canary::check(self.administer, &self.plan.queue).await?;
        let once = Verdict::PutBackOnce { operation: self.id.clone() };
        let (_, visited) = self.pass(Aim::Settle(once), count.into(), PASS).await?;
        let jobs = visited.settled.clone();
        if let Some(end) = self.ended_early(visited) {
            return Ok(Some(end));
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

    /// A job that was put back and has failed since.
    async fn failed_again(&mut self) -> Result<Option<JobId>> {
        let filter = self.plan.filter.clone().at_any_time().failed_from(self.began);
        let settled = self.totals.ids.clone();
        let found = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&found);
        let visit = Box::new(move |job: FailedJob| {
            if settled.contains(&job.id()) && filter.matches(&job) {
                *locked(&shared) = Some(job.id());
                return Verdict::Enough;
            }
            Verdict::Keep
        });
        let visited = self.administer.failed_visit(&self.plan.queue, visit).await?;
        let found = *locked(&found);
        visited.end.map_or(Ok(found), Err)
    }

    fn tell(&self, phase: Phase) {
        let Totals { matched, settled, refused, .. } = &self.totals;
        self.progress.send_replace(Progress {
            phase,
            matched: *matched,
            settled: *settled,
            refused: refused.len() as u64,
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            queue: "mail".into(),
            filter: Filter::new(),
            action: Action::PutBack,
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
            (Plan { canary: Some(0), ..plan() }, "at least one"),
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
    fn a_pass_settles_ten_seconds_worth_of_the_rate() {
        for (rate, limit, pause) in [
            (None, MAX_SETTLED, Duration::ZERO),
            (Some(10.0), 100, Duration::from_secs(5)),
            (Some(0.01), 1, Duration::from_secs(5_000)),
            (Some(1e300), MAX_SETTLED, Duration::ZERO),
        ] {
            let plan = Plan { rate, ..plan() };
            assert_eq!((plan.pass_limit(), plan.pause(50)), (limit, pause), "{rate:?}");
        }
    }
}
