use std::future::ready;

use async_trait::async_trait;

use super::{
    Administer, Capabilities, Consume, Consumer, Counts, Engine, NotPushed, Pushing, QueueSpec,
    Visit, Visited,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, EventEnvelope};

/// The engine of a context for tests: every call returns an error.
#[derive(Debug)]
pub(crate) struct Detached;

fn no_queues() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a context created by `JobContext::for_test()` has no queues; give it a client with \
         `.with_client(client)`, for example one for `sqlite::memory:`",
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

    async fn failed_visit(&self, _: &str, _: Visit) -> Result<Visited> {
        Err(no_queues())
    }

    async fn unsubscribe(&self, _: &str, _: &str) -> Result<()> {
        Err(no_queues())
    }

    async fn delete(&self, _: &QueueSpec, _: bool) -> Result<u64> {
        Err(no_queues())
    }
}
