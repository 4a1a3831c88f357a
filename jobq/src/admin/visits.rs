//! Visits of failed jobs with a state.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{Administer, Extent, Verdict, Visited, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::lock;
use crate::job::{FailedJob, JobId};

/// A visit ends so long after its first job, since others wait for its end. What it has begun is
/// finished.
const LONGEST: Duration = Duration::from_secs(20);

/// A visit in progress.
struct Walk<T> {
    state: T,
    /// The time of the first job.
    began: Option<Instant>,
    seen: u64,
    /// Whether all jobs of its extent were seen.
    is_at_end: bool,
    /// Whether it ended before.
    is_cut: bool,
}

/// Visits the failed jobs of a queue within this extent, or all, and returns the state with which
/// `step` ends. The visit is not complete if it took too long, or if `step` had
/// [enough](Verdict::Enough) before it decided about the last job.
pub(super) async fn visit<T: Send + 'static>(
    engine: &dyn Administer,
    queue: &str,
    within: Option<Extent>,
    state: T,
    step: impl FnMut(&mut T, FailedJob) -> Verdict + Send + 'static,
) -> Result<(T, Visited)> {
    walk(engine, queue, (within, Some(LONGEST)), state, step).await
}

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
    let (mut jobs, visited) = walk(engine, queue, (None, None), Vec::new(), look).await?;
    check(queue, visited)?;
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
    let (found, visited) = walk(engine, queue, (None, None), None, look).await?;
    check(queue, visited).map(|_| found)
}

/// Settles all failed jobs of a queue so, or the oldest with this id, and returns how many.
pub(crate) async fn settle(
    engine: &dyn Administer,
    queue: &str,
    id: Option<JobId>,
    verdict: Verdict,
) -> Result<u64> {
    let decide = move |is_done: &mut bool, job: FailedJob| {
        if *is_done {
            return Verdict::Enough;
        }
        if id.is_some_and(|id| id != job.id()) {
            return Verdict::Keep;
        }
        *is_done = id.is_some();
        verdict.clone()
    };
    let (_, visited) = walk(engine, queue, (None, None), false, decide).await?;
    Ok(check(queue, visited)?.settled.len() as u64)
}

/// Visits failed jobs within an extent, and for a time.
async fn walk<T: Send + 'static>(
    engine: &dyn Administer,
    queue: &str,
    (within, longest): (Option<Extent>, Option<Duration>),
    state: T,
    mut step: impl FnMut(&mut T, FailedJob) -> Verdict + Send + 'static,
) -> Result<(T, Visited)> {
    let walk = Walk { state, began: None, seen: 0, is_at_end: false, is_cut: false };
    let shared = Arc::new(Mutex::new(Some(walk)));
    let lent = Arc::clone(&shared);
    let visit = move |job: FailedJob| {
        let mut shared = lock(&lent);
        let Some(walk) = &mut *shared else { return Verdict::Enough };
        if within.is_some_and(|within| !within.has(walk.seen, &job)) {
            walk.is_at_end = true;
            return Verdict::Enough;
        }
        walk.seen += 1;
        // The broker may be away before.
        let is_over = longest.is_some_and(|longest| {
            walk.began.get_or_insert_with(Instant::now).elapsed() >= longest
        });
        let verdict = if is_over { Verdict::Enough } else { step(&mut walk.state, job) };
        walk.is_cut |= verdict == Verdict::Enough;
        verdict
    };
    let mut visited = engine.failed_visit(queue, Box::new(visit)).await?;
    let shared = lock(&shared).take();
    let Walk { state, is_at_end, is_cut, .. } = shared.ok_or_else(closed)?;
    visited.complete = (visited.complete || is_at_end) && !is_cut && visited.end.is_none();
    Ok((state, visited))
}

/// The first error of a visit, if there is one. A missing queue is one.
fn check(queue: &str, mut visited: Visited) -> Result<Visited> {
    if visited.is_missing {
        let text = format!(
            "queue `{queue}` does not exist; check its name, or declare it: start a pool with its \
             jobs, or call `Client::declare`"
        );
        return Err(Error::new(ErrorKind::NotFound, text));
    }
    let refused = visited.refused.drain(..).next();
    match visited.end.take().or(refused.map(|(_, error)| error)) {
        Some(error) => Err(error),
        None => Ok(visited),
    }
}
