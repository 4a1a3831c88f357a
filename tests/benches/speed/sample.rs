//! What one process measured.

use serde::{Deserialize, Serialize};

/// The figures of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) jobs: u32,
    pub(crate) seconds: f64,
    /// The time of processors that this process used meanwhile, user and system.
    pub(crate) cpu_micros: u64,
    /// And that of the broker, where there is one.
    pub(crate) broker_micros: Option<u64>,
    /// The most memory that it had.
    pub(crate) resident_kb: u64,
    /// From the call that enqueues a job to its start, in microseconds, where that is
    /// measured: half of the jobs, and 99 of 100.
    pub(crate) latency: Option<[u64; 2]>,
}

impl Sample {
    pub(crate) fn jobs_a_second(&self) -> f64 {
        f64::from(self.jobs) / self.seconds
    }

    #[allow(clippy::cast_precision_loss)] // no run takes so long
    pub(crate) fn micros_a_job(&self) -> f64 {
        self.cpu_micros as f64 / f64::from(self.jobs)
    }

    #[allow(clippy::cast_precision_loss)] // no run takes so long
    pub(crate) fn broker_micros_a_job(&self) -> Option<f64> {
        Some(self.broker_micros? as f64 / f64::from(self.jobs))
    }

    #[allow(clippy::cast_precision_loss)] // no machine has so much
    pub(crate) fn megabytes(&self) -> f64 {
        self.resident_kb as f64 / 1_024.0
    }
}
