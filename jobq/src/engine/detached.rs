use async_trait::async_trait;

use super::{Consumer, Counts, Engine, QueueSpec, Which};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, FailedJob, JobId};

/// The engine of a context that was made for a test: it has no queues and says so.
#[derive(Debug)]
pub(crate) struct Detached;

fn nowhere() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a context made by `JobContext::for_test()` has no queues; give it a client with \
         `.with_client(client)`, for example one of `sqlite::memory:`",
    )
}

#[async_trait]
impl Engine for Detached {
    async fn declare(&self, _: &[QueueSpec]) -> Result<()> {
        Err(nowhere())
    }

    async fn push(&self, jobs: Vec<Envelope>) -> Vec<Result<()>> {
        jobs.iter().map(|_| Err(nowhere())).collect()
    }

    async fn consume(&self, _: &str, _: u16) -> Result<Consumer> {
        Err(nowhere())
    }

    async fn counts(&self, _: &str) -> Result<Counts> {
        Err(nowhere())
    }

    async fn failed_list(&self, _: &str, _: usize) -> Result<Vec<FailedJob>> {
        Err(nowhere())
    }

    async fn failed_find(&self, _: &str, _: JobId) -> Result<Option<FailedJob>> {
        Err(nowhere())
    }

    async fn failed_retry(&self, _: &str, _: Which) -> Result<u64> {
        Err(nowhere())
    }

    async fn failed_discard(&self, _: &str, _: Which) -> Result<u64> {
        Err(nowhere())
    }

    async fn close(&self) {}
}
