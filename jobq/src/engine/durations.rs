//! How long attempts took, as counts that can be added up. Pure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Each power of two has as many buckets as these bits can tell apart.
const BITS: u32 = 3;
/// Up to this many microseconds each has a bucket of its own.
const FIRST: u64 = 1 << BITS;
/// What takes longer counts as this many microseconds: twelve days.
const MOST: u64 = (1 << 40) - 1;

/// How long attempts took, from the reports of pools: counts of durations, which can be merged.
///
/// A duration falls into one of 304 buckets, each an eighth of a power of two of microseconds wide.
/// So a percentile is off by a sixteenth at most, or by half a microsecond. A duration of more
/// than twelve days counts as one of twelve.
///
/// In JSON: the percentiles in milliseconds, with fractions (`p50_ms`, `p95_ms`), and pairs of the
/// lower bound of a bucket in microseconds and its count (`counts_us`), for buckets that have one.
///
/// ```
/// use std::time::Duration;
///
/// use jobq::admin::Durations;
///
/// let (mut one, mut other) = (Durations::default(), Durations::default());
/// (1..=90).for_each(|millis| one.record(Duration::from_millis(millis)));
/// (91..=100).for_each(|millis| other.record(Duration::from_millis(millis)));
/// one.merge(&other);
/// let p95 = one.percentile(95).unwrap();
/// assert!(p95.abs_diff(Duration::from_millis(95)) <= Duration::from_millis(95) / 16);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Durations(
    /// The counts of the buckets, up to the last that has one.
    Vec<u64>,
);

/// Two percentiles of the durations of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Percentiles {
    /// Half of the attempts took no longer.
    pub p50: Duration,
    /// 95 of 100 attempts took no longer.
    pub p95: Duration,
}

impl Durations {
    /// Counts a duration.
    pub fn record(&mut self, took: Duration) {
        let micros = took.as_secs().saturating_mul(1_000_000);
        self.add(bucket(micros.saturating_add(took.subsec_micros().into())), 1);
    }

    /// Adds the counts of others.
    pub fn merge(&mut self, others: &Self) {
        for (bucket, count) in others.0.iter().enumerate() {
            self.add(bucket, *count);
        }
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if count == 0 {
            return;
        }
        if bucket >= self.0.len() {
            self.0.resize(bucket + 1, 0);
        }
        self.0[bucket] = self.0[bucket].saturating_add(count);
    }

    /// How many durations are counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What so many percent of the durations do not exceed. `None` if there are none.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<Duration> {
        let all: u128 = self.0.iter().copied().map(u128::from).sum();
        let rank = (all * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += u128::from(*count);
            seen >= rank
        })?;
        Some(middle(bucket))
    }

    /// The percentiles that are shown. `None` if there are no durations.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles { p50: self.percentile(50)?, p95: self.percentile(95)? })
    }

    /// The lower bounds of the buckets in microseconds, with their counts.
    fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (bounds(bucket).0, *count))
    }
}

impl fmt::Debug for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.counts()).finish()
    }
}

/// The bucket of a duration in microseconds: its power of two, and the bits below the highest.
#[allow(clippy::cast_possible_truncation)] // it is below 304
fn bucket(micros: u64) -> usize {
    let micros = micros.min(MOST);
    let shift = u64::BITS - 1 - BITS - (micros | FIRST).leading_zeros();
    (u64::from(shift) * FIRST + (micros >> shift)) as usize
}

/// The lower bound of a bucket and its width, in microseconds.
fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let shift = (bucket / FIRST).saturating_sub(1);
    ((bucket - shift * FIRST) << shift, 1 << shift)
}

/// The duration as which those of a bucket are shown.
fn middle(bucket: usize) -> Duration {
    let (from, width) = bounds(bucket);
    Duration::from_nanos(from * 1_000 + width * 500)
}

/// Durations as in JSON. A bound that another version has may be in the middle of a bucket.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(skip_deserializing)]
    p50_ms: Option<f64>,
    #[serde(skip_deserializing)]
    p95_ms: Option<f64>,
    #[serde(default)]
    counts_us: Vec<(u64, u64)>,
}

impl From<Durations> for Written {
    fn from(durations: Durations) -> Self {
        let millis = |percent| durations.percentile(percent).map(fractional_millis);
        Self { p50_ms: millis(50), p95_ms: millis(95), counts_us: durations.counts().collect() }
    }
}

impl From<Written> for Durations {
    fn from(written: Written) -> Self {
        let mut durations = Self::default();
        for (micros, count) in written.counts_us {
            durations.add(bucket(micros), count);
        }
        durations
    }
}

/// Milliseconds for JSON: many jobs take less than one.
#[allow(clippy::cast_precision_loss)] // twelve days have fewer digits
pub(crate) fn fractional_millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    fn of(micros: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::default();
        micros.into_iter().map(Duration::from_micros).for_each(|took| durations.record(took));
        durations
    }

    #[test]
    fn the_buckets_follow_one_another() {
        for (micros, expected) in [
            (0, (0, 1)),
            (7, (7, 1)),
            (8, (8, 1)),
            (15, (15, 1)),
            (16, (16, 2)),
            (17, (16, 2)),
            (31, (30, 2)),
            (32, (32, 4)),
            (1_000, (960, 64)),
            (1_000_000, (983_040, 65_536)),
            (u64::MAX, (15 << 36, 1 << 36)),
        ] {
            assert_eq!(bounds(bucket(micros)), expected, "{micros} us");
        }
        assert_eq!(bucket(u64::MAX), 303);
        let mut next = 0;
        for number in 0..=303 {
            let (from, width) = bounds(number);
            assert_eq!((from, bucket(from), bucket(from + width - 1)), (next, number, number));
            next = from + width;
        }
        assert_eq!(next, MOST + 1);
    }

    #[test]
    fn percentiles_are_by_rank() {
        let micros = |percentile: Option<Duration>| percentile.map(|took| took.as_nanos());
        for (durations, p50, p95) in [
            (vec![], None, None),
            (vec![3], Some(3_500), Some(3_500)),
            (vec![3, 12], Some(3_500), Some(12_500)),
            (vec![12, 3, 5], Some(5_500), Some(12_500)),
            ((0..19).map(|_| 1).chain([15]).collect(), Some(1_500), Some(1_500)),
            ((0..18).map(|_| 1).chain([15, 15]).collect(), Some(1_500), Some(15_500)),
        ] {
            let counted = of(durations.clone());
            assert_eq!(counted.count(), durations.len() as u64);
            let found = (micros(counted.percentile(50)), micros(counted.percentile(95)));
            assert_eq!(found, (p50, p95), "{durations:?}");
            let both = counted.percentiles().map(|both| (both.p50, both.p95));
            assert_eq!(both, counted.percentile(50).zip(counted.percentile(95)));
        }
        let some = of([1, 9, 14]);
        assert_eq!(micros(some.percentile(0)), Some(1_500));
        assert_eq!(some.percentile(100), some.percentile(u8::MAX));
    }

    #[test]
    fn nothing_overflows() {
        let mut durations = Durations::default();
        durations.record(Duration::MAX);
        assert_eq!(durations.percentile(50).unwrap().as_secs() / 86_400, 12);
        let most = json!({"counts_us": [[u64::MAX, u64::MAX], [1, u64::MAX], [2, u64::MAX]]});
        durations.merge(&serde_json::from_value(most).unwrap());
        durations.record(Duration::MAX);
        assert_eq!(durations.count(), u64::MAX);
        assert_eq!(durations.percentile(50), Some(Duration::from_nanos(2_500)));
        assert_eq!(durations.percentile(100).unwrap().as_secs() / 86_400, 12);
    }

    #[test]
    fn buckets_without_a_count_are_not_written() {
        for (durations, expected) in [
            (of([]), json!({"p50_ms": null, "p95_ms": null, "counts_us": []})),
            (
                of([1_000, 3, 1_001]),
                json!({"p50_ms": 0.992, "p95_ms": 0.992, "counts_us": [[3, 1], [960, 2]]}),
            ),
        ] {
            let json = serde_json::to_value(&durations).unwrap();
            assert_eq!(json, expected);
            assert_eq!(serde_json::from_value::<Durations>(json).unwrap(), durations);
        }
    }

    #[test]
    fn what_other_versions_write_is_read() {
        for (json, expected) in [
            (json!({}), of([])),
            (json!({"counts_us": [[1_000, 2], [70, 0]], "p99_ms": 7}), of([1_000, 1_000])),
        ] {
            assert_eq!(serde_json::from_value::<Durations>(json).unwrap(), expected);
        }
    }

    /// Durations of any magnitude, in nanoseconds.
    fn some() -> impl Strategy<Value = Vec<u64>> {
        let one = (0..1_u64 << 49, 0_u32..50).prop_map(|(nanos, bits)| nanos % (1 << bits));
        prop::collection::vec(one, 1..200)
    }

    fn counted(nanos: &[u64]) -> Durations {
        let mut durations = Durations::default();
        for nanos in nanos {
            durations.record(Duration::from_nanos(*nanos));
        }
        durations
    }

    proptest! {
        #[test]
        fn a_percentile_is_off_by_a_sixteenth(mut nanos in some(), percent in 1_u8..=100) {
            let found = counted(&nanos).percentile(percent).unwrap();
            nanos.sort_unstable();
            let rank = (nanos.len() * usize::from(percent)).div_ceil(100);
            let exact = Duration::from_nanos(nanos[rank - 1]);
            let bound = (exact / 16).max(MICROSECOND / 2);
            prop_assert!(found.abs_diff(exact) <= bound, "{:?} for {:?}", found, exact);
        }

        #[test]
        fn merging_is_counting_all(one in some(), two in some(), three in some()) {
            let all = counted(&[&one[..], &two, &three].concat());
            let orders = [[&one, &two, &three], [&three, &one, &two], [&two, &three, &one]];
            for order in orders {
                let mut merged = Durations::default();
                for part in order {
                    merged.merge(&counted(part));
                }
                prop_assert_eq!(&merged, &all);
            }
            let mut last = counted(&two);
            last.merge(&counted(&three));
            let mut first = counted(&one);
            first.merge(&last);
            prop_assert_eq!(&first, &all);
            let json = serde_json::to_string(&all).unwrap();
            prop_assert_eq!(serde_json::from_str::<Durations>(&json).unwrap(), all);
        }
    }
}
