//! Jobs that are put back first, with a single attempt, to see whether they complete.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::PATIENCE;
use super::operation::Stop;
use super::visits::visit;
use crate::engine::{Administer, Ask, Question, Reply, Verdict, Watched};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{FailedJob, FailedReason, JobId, headers};

/// The pause between two questions.
const BETWEEN: Duration = Duration::from_millis(500);
/// The pause between two looks at the failed jobs, for outcomes of pools that have ended.
const BETWEEN_LOOKS: Duration = Duration::from_secs(20);

/// Returns an error if no pool of a queue answers.
pub(super) async fn check(engine: &dyn Administer, queue: &str) -> Result<()> {
    let ask = Ask::all(Question::Report, vec![queue.to_owned()], PATIENCE);
    let answers = engine.ask(ask).await?;
    let works = |(_, reply): &(_, Reply)| matches!(reply, Reply::Report(report) if report.queue(queue).is_some());
    if answers.replies.iter().any(works) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "no pool of queue `{queue}` answers, and pools tell the outcome of a canary; start a \
             pool, or put the jobs back without a canary"
        ),
    ))
}

/// Waits for the outcomes of jobs of an operation. `None` if all completed.
pub(super) async fn watch(
    engine: &dyn Administer,
    queue: &str,
    operation: &str,
    jobs: Vec<JobId>,
    patience: Duration,
) -> Result<Option<Stop>> {
    let mut open: BTreeSet<_> = jobs.into_iter().collect();
    let start = Instant::now();
    let mut looked = start;
    loop {
        let mut failed = BTreeMap::new();
        for (id, outcome) in asked(engine, queue, operation, &open).await? {
            open.remove(&id);
            failed.extend(outcome.map(|reason| (id, reason)));
        }
        let is_over = start.elapsed() >= patience;
        if !open.is_empty() && (is_over || looked.elapsed() >= BETWEEN_LOOKS) {
            failed.extend(found(engine, queue, operation, &open).await?);
            looked = Instant::now();
        }
        if !failed.is_empty() {
            return Ok(Some(Stop::CanaryFailed(failed.into_iter().collect())));
        }
        if open.is_empty() {
            return Ok(None);
        }
        if is_over {
            return Ok(Some(Stop::CanaryUnknown(open.into_iter().collect())));
        }
        sleep(BETWEEN).await;
    }
}

/// The outcomes that pools know: the reason of a failure, or `None` for a job that completed.
async fn asked(
    engine: &dyn Administer,
    queue: &str,
    operation: &str,
    open: &BTreeSet<JobId>,
) -> Result<Vec<(JobId, Option<FailedReason>)>> {
    let jobs = open.iter().map(|id| Watched::new(*id, operation)).collect();
    let ask = Ask::all(Question::Watch { jobs }, vec![queue.to_owned()], PATIENCE);
    let outcomes = |(_, reply)| match reply {
        Reply::Outcomes { jobs } => jobs,
        _ => Vec::new(),
    };
    let answers = engine.ask(ask).await?;
    let outcomes = answers.replies.into_iter().flat_map(outcomes);
    Ok(outcomes.map(|outcome| (outcome.job.id, outcome.failed)).collect())
}

/// The jobs of an operation that failed again.
async fn found(
    engine: &dyn Administer,
    queue: &str,
    operation: &str,
    open: &BTreeSet<JobId>,
) -> Result<BTreeMap<JobId, FailedReason>> {
    let (open, operation) = (open.clone(), operation.to_owned());
    let look = move |found: &mut BTreeMap<_, _>, job: FailedJob| {
        if job.header(headers::ONCE) == Some(&operation) && open.contains(&job.id()) {
            found.insert(job.id(), job.reason());
        }
        Verdict::Keep
    };
    Ok(visit(engine, queue, BTreeMap::new(), look).await?.0)
}
