use std::future::ready;

use async_trait::async_trait;

use super::{
    Administer, Capabilities, Consume, Consumer, Counts, Engine, NotPushed, Pushing, QueueSpec,
    Which,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, EventEnvelope, FailedJob, JobId};

/// The engine of a context for tests: every call returns an error.
#[derive(Debug)]
pub(crate) struct Detached;

fn no_queues() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a context made by `JobContext::for_test()` has no queues; give it a client with \
         `.with_client(client)`, for example one of `sqlite::memory:`",
    )
}

#[async_trait]
impl Engine for Detached {
    async fn declare(&self, _: &[QueueSpec]) -> Result<()> {
        Err(no_queues())
    }

    fn push(&self, _: Envelope) -> Pushing {
        Box::pin(ready(Err(no_queues())))
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        jobs.map(|_| no_queues()).enumerate().collect()
    }

    async fn publish(&self, _: EventEnvelope, _: bool) -> Result<()> {
        Err(no_queues())
    }

    async fn consume(&self, _: Consume) -> Result<Consumer> {
        Err(no_queues())
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
        Err(no_queues())
    }

    async fn failed_list(&self, _: &str, _: usize) -> Result<Vec<FailedJob>> {
        Err(no_queues())
    }

    async fn failed_find(&self, _: &str, _: JobId) -> Result<Option<FailedJob>> {
        Err(no_queues())
    }

    async fn failed_retry(&self, _: &str, _: Which) -> Result<u64> {
        Err(no_queues())
    }

    async fn failed_discard(&self, _: &str, _: Which) -> Result<u64> {
        Err(no_queues())
    }

    async fn unsubscribe(&self, _: &str, _: &str) -> Result<()> {
        Err(no_queues())
    }

    async fn delete(&self, _: &QueueSpec, _: bool) -> Result<u64> {
        Err(no_queues())
    }
}
