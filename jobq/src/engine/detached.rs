use std::future::ready;

use async_trait::async_trait;

use super::{
    Administer, Capabilities, Consume, Consumer, Counts, Engine, NotPushed, Pushing, QueueSpec,
    Which,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, EventEnvelope, FailedJob, JobId};

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

    fn push(&self, _: Envelope) -> Pushing {
        Box::pin(ready(Err(nowhere())))
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        jobs.map(|_| nowhere()).enumerate().collect()
    }

    async fn publish(&self, _: EventEnvelope, _: bool) -> Result<()> {
        Err(nowhere())
    }

    async fn consume(&self, _: Consume) -> Result<Consumer> {
        Err(nowhere())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().events()
    }

    fn administer(&self) -> Option<&dyn Administer> {
        Some(self)
    }

    async fn close(&self) {}
}

#[async_trait]
impl Administer for Detached {
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

    async fn unsubscribe(&self, _: &str, _: &str) -> Result<()> {
        Err(nowhere())
    }

    async fn delete(&self, _: &QueueSpec, _: bool) -> Result<u64> {
        Err(nowhere())
    }
}
