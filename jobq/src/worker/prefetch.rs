//! How many jobs a pool takes ahead of its free slots.

use std::time::Duration;

/// The most jobs that wait in a pool's memory for a free slot. Beyond some hundreds more
/// bring little speed (measured: docs/performance.md), and a crash runs each of them again.
const MAX_BUFFER: f64 = 256.0;

/// How much the newest duration counts in the mean.
const WEIGHT: f64 = 0.1;

/// Measures how long attempts take, and says how many jobs to prefetch: the concurrency
/// and a buffer worth at most about a second of work. A larger one would starve idle
/// pools, and on a broker the time to acknowledge a job runs from its delivery.
#[derive(Debug)]
pub(crate) struct Prefetch {
    concurrency: u16,
    current: u16,
    mean: Option<f64>,
}

impl Prefetch {
    /// No buffer until something was measured.
    pub(crate) fn new(concurrency: u16) -> Self {
        Self { concurrency, current: concurrency, mean: None }
    }

    /// The prefetch as it was last given.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Counts one attempt, and gives the new prefetch where it should change. The buffer
    /// changes by half or double only, since changing costs round trips.
    pub(crate) fn measured(&mut self, took: Duration) -> Option<u16> {
        let took = took.as_secs_f64();
        let mean = self.mean.map_or(took, |mean| mean + WEIGHT * (took - mean));
        self.mean = Some(mean);
        let wanted = target(self.concurrency, mean);
        let buffer = |prefetch: u16| u32::from(prefetch - self.concurrency);
        let (wants, has) = (buffer(wanted), buffer(self.current));
        if wanted != self.current && (wants >= 2 * has.max(1) || 2 * wants <= has) {
            self.current = wanted;
            return Some(wanted);
        }
        None
    }
}

/// The prefetch for attempts that take this many seconds each.
fn target(concurrency: u16, mean: f64) -> u16 {
    let a_second_of_work = f64::from(concurrency) / mean.max(1e-9);
    let buffer = if a_second_of_work < 1.0 { 0.0 } else { a_second_of_work.min(MAX_BUFFER) };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to MAX_BUFFER
    concurrency.saturating_add(buffer as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_worth_a_second_of_work() {
        let table =
            [(10, 0.0, 266), (10, 0.001, 266), (10, 0.1, 110), (10, 1.0, 20), (10, 60.0, 10)];
        for (concurrency, mean, expected) in table {
            assert_eq!(target(concurrency, mean), expected, "{concurrency} at {mean} s");
        }
        assert_eq!(target(1, 600.0), 1);
        assert_eq!(target(u16::MAX, 0.0), u16::MAX);
    }

    #[test]
    fn the_buffer_changes_by_half_or_double_only() {
        let mut prefetch = Prefetch::new(10);
        assert_eq!(prefetch.measured(Duration::from_secs(60)), None);
        let mut prefetch = Prefetch::new(10);
        assert_eq!(prefetch.measured(Duration::from_millis(1)), Some(266));
        assert_eq!(prefetch.measured(Duration::from_millis(1)), None);
        let slow = (0..200).filter_map(|_| prefetch.measured(Duration::from_secs(60))).last();
        assert_eq!(slow, Some(10), "long jobs are not hoarded");
        let mut wide = Prefetch::new(1_000);
        assert_eq!(wide.measured(Duration::from_millis(1)), Some(1_256));
    }
}
