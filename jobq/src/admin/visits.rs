//! Visits of failed jobs with a state and an end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{Administer, Extent, Verdict, Visited, closed};
use crate::error::Result;
use crate::job::FailedJob;

/// A visit ends after this time, since others wait for its end. What it has begun is finished.
const LONGEST: Duration = Duration::from_secs(20);

/// A visit in progress.
struct Walk<T> {
    state: T,
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
    mut step: impl FnMut(&mut T, FailedJob) -> Verdict + Send + 'static,
) -> Result<(T, Visited)> {
    let walk = Walk { state, seen: 0, is_at_end: false, is_cut: false };
    let shared = Arc::new(Mutex::new(Some(walk)));
    let lent = Arc::clone(&shared);
    let end = Instant::now() + LONGEST;
    let visit = move |job: FailedJob| {
        let mut shared = lent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(walk) = &mut *shared else { return Verdict::Enough };
        if within.is_some_and(|within| !within.has(walk.seen, &job)) {
            walk.is_at_end = true;
            return Verdict::Enough;
        }
        walk.seen += 1;
        let is_over = Instant::now() >= end;
        let verdict = if is_over { Verdict::Enough } else { step(&mut walk.state, job) };
        walk.is_cut |= verdict == Verdict::Enough;
        verdict
    };
    let mut visited = engine.failed_visit(queue, Box::new(visit)).await?;
    let shared = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Walk { state, is_at_end, is_cut, .. } = shared.ok_or_else(closed)?;
    visited.complete = (visited.complete || is_at_end) && !is_cut && visited.end.is_none();
    Ok((state, visited))
}
