//! Visits of failed jobs with a state and an end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{Administer, Verdict, Visited, closed};
use crate::error::Result;
use crate::job::FailedJob;

/// A visit ends after this time, since others wait for its end. What it has begun is finished.
const LONGEST: Duration = Duration::from_secs(20);

/// Visits the failed jobs of a queue, and returns the state with which `step` ends. The visit is not
/// complete if it took too long, or if `step` had [enough](Verdict::Enough) before it decided about
/// the last job.
pub(super) async fn visit<T: Send + 'static>(
    engine: &dyn Administer,
    queue: &str,
    state: T,
    mut step: impl FnMut(&mut T, FailedJob) -> Verdict + Send + 'static,
) -> Result<(T, Visited)> {
    let is_cut = false;
    let shared = Arc::new(Mutex::new(Some((state, is_cut))));
    let lent = Arc::clone(&shared);
    let end = Instant::now() + LONGEST;
    let visit = move |job: FailedJob| {
        let mut shared = lent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((state, is_cut)) = &mut *shared else { return Verdict::Enough };
        let verdict = if Instant::now() < end { step(state, job) } else { Verdict::Enough };
        *is_cut |= verdict == Verdict::Enough;
        verdict
    };
    let mut visited = engine.failed_visit(queue, Box::new(visit)).await?;
    let shared = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (state, is_cut) = shared.ok_or_else(closed)?;
    visited.complete &= !is_cut;
    Ok((state, visited))
}
