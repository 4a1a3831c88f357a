//! The outcomes of failed jobs that an operation retried with a single attempt, for who asks.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::engine::{Settlement, Watched, WatchedOutcome};
use crate::guard::lock;
use crate::job::Envelope;

/// The most outcomes that are kept; the oldest are dropped.
const MAX_KEPT: usize = 1_000;

/// The newest outcomes.
#[derive(Debug, Default)]
pub(super) struct Outcomes(Mutex<VecDeque<WatchedOutcome>>);

/// The outcome of a job with this settlement, if an operation watches the job and this is its end.
pub(super) fn outcome(job: &Envelope, settlement: &Settlement) -> Option<WatchedOutcome> {
    let operation = job.once()?;
    let failed = match settlement {
        Settlement::Complete => None,
        Settlement::Fail { reason, .. } => Some(*reason),
        _ => return None,
    };
    Some(WatchedOutcome::new(Watched::new(job.id, operation), failed))
}

impl Outcomes {
    pub(super) fn extend(&self, outcome: Option<WatchedOutcome>) {
        let Some(outcome) = outcome else { return };
        let mut kept = lock(&self.0);
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(outcome);
    }

    /// The outcomes of these jobs that are known.
    pub(super) fn of(&self, jobs: &[Watched]) -> Vec<WatchedOutcome> {
        let kept = lock(&self.0);
        kept.iter().filter(|outcome| jobs.contains(&outcome.job)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{FailedReason, JobId, headers};

    #[test]
    fn the_end_of_a_watched_job_is_kept_for_a_while() {
        let watched = Outcomes::default();
        let fail = |reason| Settlement::Fail { reason, error: String::new(), attempts: 1 };
        let mut job = Envelope::new("mail", Vec::new());
        assert_eq!(outcome(&job, &Settlement::Complete), None, "nobody watches it");
        job.headers.put(headers::ONCE, "op");
        assert_eq!(outcome(&job, &Settlement::Release), None, "it has not ended");
        let of = |id, operation: &str| Watched::new(id, operation);
        watched.extend(outcome(&job, &fail(FailedReason::Exhausted)));
        let asked = [of(job.id, "op"), of(job.id, "other"), of(JobId::new(), "op")];
        let failed = WatchedOutcome::new(of(job.id, "op"), Some(FailedReason::Exhausted));
        assert_eq!(watched.of(&asked), [failed]);
        for _ in 0..MAX_KEPT {
            job.id = JobId::new();
            watched.extend(outcome(&job, &Settlement::Complete));
        }
        assert_eq!(watched.of(&asked), [], "the oldest is dropped");
        assert_eq!(watched.of(&[of(job.id, "op")]), [WatchedOutcome::new(of(job.id, "op"), None)]);
    }
}
