//! How late jobs are, as a distribution.

use std::time::Duration;

use hdrhistogram::Histogram;

/// How long after their deadlines jobs came, to a thousandth of each value.
#[derive(Debug, Clone)]
pub(crate) struct Lateness(Histogram<u64>);

impl Lateness {
    pub(crate) fn new() -> Self {
        Self(Histogram::new(3).expect("three digits are allowed"))
    }

    pub(crate) fn record(&mut self, late: Duration) {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.0.record(micros).expect("it grows to what is recorded");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("it grows to what is added");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// What this share of the jobs was not later than, in milliseconds.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        Duration::from_micros(self.0.value_at_quantile(share)).as_secs_f64() * 1e3
    }
}
