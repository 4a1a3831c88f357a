//! The jobs of the worker process `waits_for_others`.

use jobq::Job;
use serde::{Deserialize, Serialize};

/// A job among many others.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, Job)]
#[job(concurrency = 50)]
pub struct WaitsForOthers {
    /// Tells it from the others.
    pub number: u32,
    /// It ends when its worker has ended so many others.
    pub until: u32,
}
