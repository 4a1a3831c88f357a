//! The job of the worker process `ends_worker`.

use jobq::Job;
use serde::{Deserialize, Serialize};

/// A job that its worker may not outlive.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, Job)]
#[job(concurrency = 50)]
pub struct EndsWorker {
    /// Tells it from the others.
    pub number: u32,
    /// How it ends.
    pub end: End,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Well.
    Complete,
    /// The process aborts.
    Abort,
    /// The stack overflows.
    Overflow,
    /// The process is killed, as by the system when memory is short.
    Kill,
}
