//! The outcomes of runs that could not be recorded. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Settlement;
use crate::job::JobId;

/// How many outcomes are kept.
const MOST: usize = 10_000;
/// And for how long: a job that comes later may be one that was put back.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Outcomes that could not be recorded, since their delivery was not this pool's any more. The
/// broker gives the job again, maybe after the run, and it has run.
#[derive(Debug, Default)]
pub(super) struct Unrecorded(HashMap<(JobId, u64), (Settlement, Instant)>);

impl Unrecorded {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the outcome of a run for when its job comes again. Another pool may get it, so not
    /// all are asked for.
    pub(super) fn remember(
        &mut self,
        id: JobId,
        likeness: u64,
        settlement: Settlement,
        now: Instant,
    ) {
        // Of any other outcome the job's next life may be alike, and is to be run: one that
        // was snoozed, or that failed and was put back.
        if !matches!(settlement, Settlement::Complete | Settlement::Retry(_)) {
            return;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert((id, likeness), (settlement, now));
    }

    /// The outcome of the run that this job had, if that could not be recorded; once.
    pub(super) fn take(&mut self, id: JobId, likeness: u64, now: Instant) -> Option<Settlement> {
        let (settlement, since) = self.0.remove(&(id, likeness))?;
        (now - since < REMEMBERED).then_some(settlement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FailedReason;

    #[test]
    fn only_what_the_same_run_would_be_again_is_remembered() {
        let (id, wait, now) = (JobId::new(), Duration::from_secs(1), Instant::now());
        let failed =
            Settlement::Fail { reason: FailedReason::Expired, error: String::new(), attempts: 1 };
        for (settlement, is_kept) in [
            (Settlement::Complete, true),
            (Settlement::Retry(wait), true),
            (Settlement::Snooze(wait), false),
            (Settlement::Release, false),
            (failed, false),
        ] {
            let mut unrecorded = Unrecorded::default();
            unrecorded.remember(id, 1, settlement.clone(), now);
            assert_eq!(unrecorded.is_empty(), !is_kept, "{settlement:?}");
            assert_eq!(unrecorded.take(id, 2, now), None, "another run");
            assert_eq!(unrecorded.take(id, 1, now), is_kept.then_some(settlement));
            assert_eq!(unrecorded.take(id, 1, now), None, "once");
        }
        let mut unrecorded = Unrecorded::default();
        unrecorded.remember(id, 1, Settlement::Complete, now);
        assert_eq!(unrecorded.take(id, 1, now + REMEMBERED), None, "too late");
    }
}
