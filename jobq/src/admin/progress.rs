//! How far an operation on failed jobs is, and how it ended.

use serde::Serialize;

use crate::engine::Extent;
use crate::error::Error;
use crate::job::{FailedReason, JobId};

/// The action of an operation on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Retry,
    Discard,
}

/// How far an operation is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// Its current step.
    pub phase: Phase,
    /// Jobs that its present pass has looked at, whether they match or not. Told every thousand
    /// jobs and at the end of the pass. A job that stays is looked at again by the next pass.
    pub examined: u64,
    /// Jobs that matched when they were looked at, in all passes. How many there will be is known
    /// at the end alone.
    pub matched: u64,
    /// Jobs that were retried or discarded.
    pub settled: u64,
    /// Jobs that could not be retried and stay failed.
    pub refused: u64,
}

/// The step that an operation is at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// It looks at failed jobs and settles them.
    #[default]
    Settling,
    /// It waits for the outcomes of the canaries.
    Canary,
    /// It waits for the next pass, because of its rate.
    Waiting,
    /// It has ended.
    Ended,
}

/// The result of an operation.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Done {
    /// Jobs that matched when they were looked at. With a [`dry_run`](super::Operation::dry_run) all that
    /// match.
    pub matched: u64,
    /// Jobs that were retried or discarded.
    pub settled: u64,
    /// Jobs that could not be retried and stay failed, with the errors.
    pub refused: Vec<(JobId, Error)>,
    /// Jobs of which it is not known, because the connection was lost: they are settled, still
    /// failed, or both.
    pub unknown: u64,
    /// How it ended.
    pub end: End,
    /// The failed jobs that there were when its first pass began, without those that it settled:
    /// after a [`dry_run`](super::Operation::dry_run) those that it counted. `None` if the queue has none,
    /// or if the engine does not tell.
    #[serde(skip)]
    pub extent: Option<Extent>,
}

/// How an operation ended.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", content = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// All jobs that matched were settled, but for the refused ones.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It stopped by itself.
    Stopped(Stop),
    /// The engine was lost.
    Lost(Error),
}

/// Why an operation stopped by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// These canaries failed.
    CanaryFailed(Vec<(JobId, FailedReason)>),
    /// Nothing was heard of these canaries for the patience of the operation.
    CanaryUnknown(Vec<JobId>),
    /// A retried job failed again.
    FailedAgain(JobId),
    /// There are more failed jobs than can be looked at in 20 s, and none of those looked at
    /// matched, or failed again after its retry.
    TooMany,
}
