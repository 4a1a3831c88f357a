//! The job of the `fails_first` worker process.

use jobq::Job;
use serde::{Deserialize, Serialize};

/// A job that fails a given number of times.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(retries = 3, delay = "200ms")]
pub struct FailsFirst {
    /// Which job it is.
    pub number: u32,
    /// How many attempts fail before one succeeds.
    pub failures: u32,
}
