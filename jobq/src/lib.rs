//! A job queue for Rust on RabbitMQ, and without any server on an embedded SQLite file.

mod admin;
mod client;
mod clock;
pub mod engine;
mod error;
mod job;
pub mod period;
mod retry;
mod telemetry;
mod worker;

pub use admin::FailedJobs;
pub use client::{
    Client, ClientBuilder, Enqueue, EnqueueAll, EnqueueAllError, EnqueueAllFuture, EnqueueFuture,
};
pub use error::{Error, ErrorKind, Result};
pub use job::{
    BoxError, Control, Delay, Envelope, Exponential, FailedJob, FailedReason, Job, JobId,
    JobOptions, JobResult, MAX_PAYLOAD, abort, queue_of, retry_in, snooze,
};
pub use jobq_derive::{Job, job};
pub use worker::{JobContext, JobFunction, Run, RunningPool, State, WorkerPool};

/// What the generated code of the macros names. Not for use by hand: it may change in
/// any version.
#[doc(hidden)]
pub mod __private {
    pub use core;
    pub use core::time::Duration;
    pub use serde;

    pub use crate::job::{Delay, Exponential, Job, JobOptions, JobResult};
    pub use crate::worker::{Argument, Call, JobContext, Needs, Run, Scope, State};
}
