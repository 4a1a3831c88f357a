//! A job queue for Rust on RabbitMQ, and without any server on an embedded SQLite file.

mod clock;
pub mod engine;
mod error;
mod job;
pub mod period;
mod retry;

pub use error::{Error, ErrorKind, Result};
pub use job::{
    BoxError, Control, Delay, Envelope, Exponential, FailedJob, FailedReason, Job, JobId,
    JobOptions, JobResult, MAX_PAYLOAD, abort, queue_of, retry_in, snooze,
};
