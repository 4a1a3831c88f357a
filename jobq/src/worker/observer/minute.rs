//! What happened in the last minute. Pure.

use std::time::{Duration, SystemTime};

use crate::engine::{LastMinute, Settlement};

/// A minute is kept in this many parts, of which the oldest is dropped as a whole.
const PARTS: usize = 6;
const PART: Duration = Duration::from_secs(10);

/// Outcomes and waits of the last minute, by the clock of the worker.
#[derive(Debug)]
pub(super) struct MinuteWindow {
    parts: [LastMinute; PARTS],
    /// The part that is written.
    current: usize,
    /// The end of that part.
    until: SystemTime,
}

impl MinuteWindow {
    pub(super) fn new(now: SystemTime) -> Self {
        Self { parts: Default::default(), current: 0, until: now + PART }
    }

    /// A worker decided about a job, after its function took so long, if it was called.
    pub(super) fn decided(
        &mut self,
        settlement: &Settlement,
        took: Option<Duration>,
        now: SystemTime,
    ) {
        let part = self.part(now);
        match settlement {
            Settlement::Complete => part.completed += 1,
            Settlement::Retry(_) => part.retried += 1,
            Settlement::Fail { .. } => part.failed += 1,
            // Nothing has ended.
            _ => return,
        }
        if let Some(took) = took {
            part.durations.record(took);
        }
    }

    /// An attempt that started then had waited this long after it was due. It may have run since.
    pub(super) fn waited(&mut self, waited: Duration, since: SystemTime) {
        if since >= self.until {
            self.advance(since);
        }
        let age = self.until.duration_since(since).unwrap_or_default();
        let parts = age.saturating_sub(Duration::from_nanos(1)).as_secs() / PART.as_secs();
        let Some(back) = usize::try_from(parts).ok().filter(|back| *back < PARTS) else { return };
        let part = &mut self.parts[(self.current + PARTS - back) % PARTS];
        part.waited = part.waited.max(Some(waited));
    }

    /// The sums of the last minute.
    pub(super) fn read(&mut self, now: SystemTime) -> LastMinute {
        // The clock was set back: what is older than a minute from now on is forgotten.
        if self.until.duration_since(now).is_ok_and(|ahead| ahead > 2 * PART) {
            self.until = now + PART;
        }
        self.part(now);
        let mut sum = LastMinute::default();
        for part in &self.parts {
            sum.completed += part.completed;
            sum.retried += part.retried;
            sum.failed += part.failed;
            sum.waited = sum.waited.max(part.waited);
            sum.durations.merge(&part.durations);
        }
        sum
    }

    /// The part of this time.
    fn part(&mut self, now: SystemTime) -> &mut LastMinute {
        // Twice for each job, in which the current part is nearly always the one.
        if now >= self.until {
            self.advance(now);
        }
        &mut self.parts[self.current]
    }

    /// Begins the part of this time.
    fn advance(&mut self, now: SystemTime) {
        for _ in 0..PARTS {
            self.current = (self.current + 1) % PARTS;
            self.parts[self.current] = LastMinute::default();
            self.until += PART;
            if now < self.until {
                return;
            }
        }
        // Nothing happened for more than a minute.
        self.until = now + PART;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FailedReason;

    #[test]
    fn what_is_older_than_a_minute_is_forgotten() {
        let start = SystemTime::UNIX_EPOCH;
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut minute = MinuteWindow::new(start);
        let failed =
            Settlement::Fail { reason: FailedReason::Aborted, error: String::new(), attempts: 1 };
        let took = |millis| Some(Duration::from_millis(millis));
        minute.decided(&Settlement::Complete, took(3), at(0));
        minute.waited(Duration::from_secs(9), at(5));
        minute.decided(&Settlement::Retry(Duration::ZERO), took(20), at(15));
        minute.waited(Duration::from_secs(2), at(20));
        minute.decided(&failed, None, at(45));
        // Of one that started then and ran until now.
        minute.waited(Duration::from_secs(5), at(30));
        minute.decided(&Settlement::Release, took(500), at(45));
        minute.decided(&Settlement::Snooze(Duration::ZERO), took(500), at(45));
        let sums = |minute: &mut MinuteWindow, seconds| {
            let LastMinute { completed, retried, failed, waited, durations } =
                minute.read(at(seconds));
            let longest = durations.percentile(100).map(|took| took.as_millis());
            let durations = (durations.count(), longest);
            (completed, retried, failed, waited.map(|waited| waited.as_secs()), durations)
        };
        for (seconds, expected) in [
            (45, (1, 1, 1, Some(9), (2, Some(19)))),
            (59, (1, 1, 1, Some(9), (2, Some(19)))),
            (60, (0, 1, 1, Some(5), (1, Some(19)))),
            (70, (0, 0, 1, Some(5), (0, None))),
            (80, (0, 0, 1, Some(5), (0, None))),
            (89, (0, 0, 1, Some(5), (0, None))),
            (90, (0, 0, 1, None, (0, None))),
            (99, (0, 0, 1, None, (0, None))),
            (100, (0, 0, 0, None, (0, None))),
        ] {
            assert_eq!(sums(&mut minute, seconds), expected, "after {seconds} s");
        }
        minute.decided(&Settlement::Complete, took(7), at(1_000_000));
        minute.waited(Duration::from_secs(7), at(900_000));
        let expected = (1, 0, 0, None, (1, Some(6)));
        assert_eq!(sums(&mut minute, 1_000_001), expected);
        assert_eq!(sums(&mut minute, 7), expected, "the clock was set back");
        assert_eq!(sums(&mut minute, 66), expected);
        assert_eq!(sums(&mut minute, 67), (0, 0, 0, None, (0, None)));
    }
}
