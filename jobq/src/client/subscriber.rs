use super::{Client, JobKind};
use crate::awaitable::awaitable;
use crate::background;
use crate::error::Result;

/// A subscriber to be deleted, made by [`Client::delete_subscriber`]. Awaiting it returns the
/// number of jobs deleted with it.
#[derive(Debug)]
#[must_use = "a subscriber is deleted only when this is awaited"]
pub struct DeleteSubscriber {
    client: Client,
    kind: JobKind,
    force: bool,
}

impl DeleteSubscriber {
    pub(super) fn new(client: Client, kind: JobKind) -> Self {
        Self { client, kind, force: false }
    }

    /// Deletes its remaining jobs too, including failed ones.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    async fn delete(self) -> Result<u64> {
        self.kind.check()?;
        let deleted =
            background::call(self.client.administration()?.delete(&self.kind.spec(), self.force))
                .await?;
        self.client.forget(&self.kind);
        Ok(deleted)
    }
}

awaitable!(
    DeleteSubscriber,
    DeleteSubscriberFuture,
    Result<u64>,
    delete,
    "The future of a [`DeleteSubscriber`]."
);
