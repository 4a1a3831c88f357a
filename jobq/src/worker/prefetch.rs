//! The prefetch: how many jobs a pool takes ahead of its free slots.

use std::time::Duration;

/// The most jobs that wait in a pool's memory for a free slot. More than some hundreds gain little
/// speed (measured: docs/performance.md), and a crash runs each of them again.
const MAX_BUFFER: f64 = 256.0;

/// The most memory for the payloads of those jobs, in bytes, if all are as large as the largest
/// recent one.
const MAX_BYTES: usize = 64 << 20;

/// The window for the largest payload: this many to twice as many of the newest jobs.
const NEWEST: u32 = 256;

/// The weight of the newest duration in the mean.
const WEIGHT: f64 = 0.1;

/// Computes the prefetch from measured durations of attempts and sizes of payloads: the concurrency
/// plus a buffer of at most about a second of work. A larger buffer would starve idle pools, and on
/// a broker the time to acknowledge a job runs from its delivery.
#[derive(Debug)]
pub(crate) struct Prefetch {
    concurrency: u16,
    /// The smallest buffer.
    spare: u16,
    current: u16,
    mean: Option<f64>,
    payloads: Payloads,
}

impl Prefetch {
    /// Starts without a buffer.
    pub(crate) fn new(concurrency: u16) -> Self {
        let (current, payloads) = (concurrency, Payloads::default());
        Self { concurrency, spare: 0, current, mean: None, payloads }
    }

    /// Has a buffer of one job at least. The prefetch holds for the jobs of each priority: if running
    /// jobs took all of it, a free slot would find none of them and start a job of a lower one.
    pub(crate) fn set_priorities(&mut self) {
        self.spare = 1;
        if self.current > 0 {
            self.current = self.current.max(self.least());
        }
    }

    /// So many attempts run at once from now on.
    pub(crate) fn set_concurrency(&mut self, concurrency: u16) {
        self.concurrency = concurrency;
        if self.current > 0 {
            let wanted = self.mean.map_or(concurrency, |mean| target(concurrency, mean));
            self.current = wanted.clamp(self.least(), self.most());
        }
    }

    /// The prefetch with the smallest buffer.
    fn least(&self) -> u16 {
        self.concurrency.saturating_add(self.spare)
    }

    /// The current prefetch.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Counts one payload of this many bytes, and returns the new prefetch if the current one
    /// exceeds the memory limit.
    pub(crate) fn arrived(&mut self, bytes: usize) -> Option<u16> {
        self.payloads.count(bytes);
        let most = self.most();
        if self.current <= most {
            return None;
        }
        self.current = most;
        Some(most)
    }

    /// The prefetch with the largest buffer.
    fn most(&self) -> u16 {
        self.concurrency.saturating_add(self.payloads.most().max(self.spare))
    }

    /// Nothing is taken until a slot has ended, and no buffer then before an attempt is measured.
    pub(crate) fn hand_back(&mut self) {
        (self.current, self.mean) = (0, None);
    }

    /// There is a slot without a job.
    pub(crate) fn slot_ended(&mut self) {
        if self.current == 0 {
            self.current = self.least();
        }
    }

    /// Counts one attempt, and returns the new prefetch if it should change. The buffer changes
    /// only by half or double, since a change costs round trips.
    pub(crate) fn measured(&mut self, took: Duration) -> Option<u16> {
        let took = took.as_secs_f64();
        let mean = self.mean.map_or(took, |mean| mean + WEIGHT * (took - mean));
        self.mean = Some(mean);
        if self.current == 0 {
            return None;
        }
        let wanted = target(self.concurrency, mean).clamp(self.least(), self.most());
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

/// The largest of the newest payloads, in bytes.
#[derive(Debug, Default)]
struct Payloads {
    largest: usize,
    count: u32,
    /// The largest of the previous window.
    before: usize,
}

impl Payloads {
    fn count(&mut self, bytes: usize) {
        if self.count == NEWEST {
            *self = Self { before: self.largest, ..Self::default() };
        }
        self.count += 1;
        self.largest = self.largest.max(bytes);
    }

    /// How many payloads of the largest size fit into the memory limit.
    fn most(&self) -> u16 {
        let largest = self.largest.max(self.before).max(1);
        u16::try_from(MAX_BYTES / largest).unwrap_or(u16::MAX)
    }
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

    #[test]
    fn a_prefetch_follows_the_concurrency() {
        let mut prefetch = Prefetch::new(10);
        prefetch.set_concurrency(4);
        assert_eq!(prefetch.current(), 4);
        prefetch.measured(Duration::from_millis(100));
        assert_eq!(prefetch.current(), 44);
        prefetch.set_concurrency(2);
        assert_eq!(prefetch.current(), 22);
        prefetch.hand_back();
        prefetch.set_concurrency(8);
        assert_eq!(prefetch.current(), 0);
        prefetch.slot_ended();
        assert_eq!(prefetch.current(), 8);
    }

    #[test]
    fn with_priorities_there_is_always_a_buffer() {
        let (minute, mib) = (Duration::from_secs(60), 1 << 20);
        let mut prefetch = Prefetch::new(10);
        prefetch.set_priorities();
        assert_eq!((prefetch.current(), prefetch.measured(minute)), (11, None));
        assert_eq!(prefetch.measured(Duration::from_millis(1)), None, "the mean is long");
        assert_eq!((prefetch.arrived(65 * mib), prefetch.current()), (None, 11));
        prefetch.hand_back();
        prefetch.set_priorities();
        assert_eq!(prefetch.current(), 0);
        prefetch.slot_ended();
        assert_eq!(prefetch.current(), 11);
    }

    #[test]
    fn what_was_handed_back_is_taken_again_without_a_buffer() {
        let mut prefetch = Prefetch::new(10);
        prefetch.measured(Duration::from_millis(1));
        prefetch.hand_back();
        let minute = Duration::from_secs(60);
        assert_eq!((prefetch.arrived(1), prefetch.measured(minute)), (None, None));
        assert_eq!(prefetch.current(), 0);
        prefetch.slot_ended();
        assert_eq!((prefetch.measured(minute), prefetch.current()), (None, 10));
        prefetch.slot_ended();
        assert_eq!(prefetch.current(), 10);
    }

    #[test]
    fn the_buffer_of_large_payloads_is_small() {
        let mib = |count: usize| count << 20;
        let table = [
            (0, 266),
            (1_000, 266),
            (MAX_BYTES / 256, 266),
            (mib(1), 74),
            (mib(4), 26),
            (mib(32), 12),
            (mib(65), 10),
            (usize::MAX, 10),
        ];
        for (bytes, expected) in table {
            let mut prefetch = Prefetch::new(10);
            assert_eq!(prefetch.arrived(bytes), None, "there is no buffer yet");
            prefetch.measured(Duration::from_millis(1));
            assert_eq!(prefetch.current(), expected, "{bytes} first");
            let mut prefetch = Prefetch::new(10);
            prefetch.measured(Duration::from_millis(1));
            let changed = (expected < 266).then_some(expected);
            assert_eq!(prefetch.arrived(bytes), changed, "{bytes} later");
            assert_eq!((prefetch.arrived(bytes), prefetch.current()), (None, expected));
        }
    }

    #[test]
    fn a_large_payload_is_forgotten_after_many_small_ones() {
        let mut prefetch = Prefetch::new(10);
        prefetch.arrived(8 << 20);
        let mut small = 0;
        loop {
            prefetch.measured(Duration::from_millis(1));
            if prefetch.current() == 266 {
                break;
            }
            assert_eq!(prefetch.current(), 18, "after {small}");
            prefetch.arrived(1_000);
            small += 1;
        }
        assert!((NEWEST..=2 * NEWEST).contains(&small), "{small}");
    }
}
