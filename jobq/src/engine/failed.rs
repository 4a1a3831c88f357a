//! Common operations on failed jobs, by visits.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Administer, Verdict, Visited};
use crate::error::Result;
use crate::job::{FailedJob, JobId};

/// The failed jobs of a queue, oldest first, at most `limit`.
pub(crate) async fn list(
    engine: &dyn Administer,
    queue: &str,
    limit: usize,
) -> Result<Vec<FailedJob>> {
    let look = move |jobs: &mut Vec<_>, job| {
        if jobs.len() < limit {
            jobs.push(job);
        }
        if jobs.len() < limit { Verdict::Keep } else { Verdict::Enough }
    };
    let mut jobs = collect(engine, queue, look).await?;
    // Pools that publish at the same time may have changed the order.
    jobs.sort_by_key(FailedJob::failed_at);
    Ok(jobs)
}

/// The oldest failed job of a queue with this id.
pub(crate) async fn find(
    engine: &dyn Administer,
    queue: &str,
    id: JobId,
) -> Result<Option<FailedJob>> {
    let look = move |found: &mut Option<_>, job: FailedJob| {
        if job.id() != id {
            return Verdict::Keep;
        }
        *found = Some(job);
        Verdict::Enough
    };
    collect(engine, queue, look).await
}

/// Settles all failed jobs of a queue so, or the oldest with this id, and returns how many.
pub(crate) async fn settle(
    engine: &dyn Administer,
    queue: &str,
    id: Option<JobId>,
    verdict: Verdict,
) -> Result<u64> {
    let mut is_done = false;
    let visit = move |job: FailedJob| {
        if is_done {
            return Verdict::Enough;
        }
        if id.is_some_and(|id| id != job.id()) {
            return Verdict::Keep;
        }
        is_done = id.is_some();
        verdict.clone()
    };
    let settled = check(engine.failed_visit(queue, Box::new(visit)).await?)?.settled;
    Ok(settled.len() as u64)
}

/// Visits all failed jobs of a queue, and returns what `look` has made of them.
async fn collect<T: Default + Send + 'static>(
    engine: &dyn Administer,
    queue: &str,
    mut look: impl FnMut(&mut T, FailedJob) -> Verdict + Send + 'static,
) -> Result<T> {
    let found = Arc::new(Mutex::new(T::default()));
    let kept = Arc::clone(&found);
    let visit = move |job| look(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), job);
    check(engine.failed_visit(queue, Box::new(visit)).await?)?;
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut found))
}

/// The first error of a visit, if there is one.
fn check(mut visited: Visited) -> Result<Visited> {
    let refused = visited.refused.drain(..).next();
    match visited.end.take().or(refused.map(|(_, error)| error)) {
        Some(error) => Err(error),
        None => Ok(visited),
    }
}
