//! Failed jobs that are retried first, with a single attempt, to see whether they complete.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::PATIENCE;
use super::progress::Stop;
use super::visits::visit;
use crate::engine::{Administer, Ask, Figure, Question, Reply, Verdict, Watched};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{FailedJob, FailedReason, JobId, headers};

/// The pause between two questions.
const BETWEEN: Duration = Duration::from_millis(500);
/// The pause between two looks at the failed jobs, for outcomes of pools that have ended.
const BETWEEN_LOOKS: Duration = Duration::from_secs(20);

/// Returns an error if canaries cannot run: the queue is paused, or no pool of it answers.
pub(super) async fn check(engine: &dyn Administer, queue: &str) -> Result<()> {
    if let Figure::Known(Some(_)) = engine.paused(queue).await? {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "queue `{queue}` is paused, so no canary would run; resume the queue, or retry the \
                 jobs without a canary"
            ),
        ));
    }
    let ask = Ask::all(Question::Report, vec![queue.to_owned()], PATIENCE);
    let answers = engine.ask(ask).await?;
    if answers.reports().any(|report| report.queue(queue).is_some()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "no pool of queue `{queue}` answers, but only pools report the outcome of a canary; \
             start a pool, or retry the jobs without a canary"
        ),
    ))
}

/// Waits for the outcomes of jobs of an operation. `None` if all completed. A lost connection, and
/// somebody else who looks at the failed jobs, are waited for as well.
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
        let is_over = start.elapsed() >= patience;
        let mut failed = BTreeMap::new();
        let outcomes = asked(engine, queue, operation, &open).await;
        for (id, outcome) in known(outcomes, is_over)? {
            open.remove(&id);
            failed.extend(outcome.map(|reason| (id, reason)));
        }
        if !open.is_empty() && (is_over || looked.elapsed() >= BETWEEN_LOOKS) {
            failed.extend(known(found(engine, queue, operation, &open).await, is_over)?);
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

/// The answer; nothing in place of an error that may pass, unless the wait is over.
fn known<T: Default>(answer: Result<T>, is_over: bool) -> Result<T> {
    match answer {
        Err(error) if error.may_pass() && !is_over => Ok(T::default()),
        answer => answer,
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
    Ok(visit(engine, queue, None, BTreeMap::new(), look).await?.0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::engine::{Answers, Counts, PoolId, QueueSpec, Visit, Visited, WatchedOutcome};

    /// An engine that cannot be reached at its first questions, and whose pools then tell that all
    /// jobs completed. Its failed jobs are in use.
    #[derive(Debug)]
    struct Away {
        questions: AtomicU32,
        unreachable: u32,
    }

    #[async_trait]
    impl Administer for Away {
        async fn ask(&self, ask: Ask) -> Result<Answers> {
            if self.questions.fetch_add(1, Ordering::Relaxed) < self.unreachable {
                return Err(Error::new(ErrorKind::Connection, "no connection"));
            }
            let Question::Watch { jobs } = ask.question else { panic!("another question") };
            let jobs = jobs.into_iter().map(|job| WatchedOutcome::new(job, None)).collect();
            let replies = vec![(PoolId::new(), Reply::Outcomes { jobs })];
            Ok(Answers::new(replies, BTreeMap::new()))
        }

        async fn failed_visit(&self, _: &str, _: Visit) -> Result<Visited> {
            Err(Error::new(ErrorKind::Conflict, "in use"))
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

    #[tokio::test(start_paused = true)]
    async fn an_error_that_passes_ends_no_wait() {
        let patience = Duration::from_secs(60);
        for (unreachable, comes) in [(0, true), (100, true), (u32::MAX, false)] {
            let engine = Away { questions: AtomicU32::new(0), unreachable };
            let watched = watch(&engine, "mail", "op", vec![JobId::new()], patience).await;
            match watched {
                Ok(None) => assert!(comes, "{unreachable}"),
                Ok(stop) => panic!("{stop:?}"),
                Err(error) => assert!(!comes && error.is_connection(), "{error}"),
            }
        }
    }
}
