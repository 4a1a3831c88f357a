use super::{Client, JobKind};
use crate::awaitable::awaitable;
use crate::background;
use crate::error::{Error, ErrorKind, Result};

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
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job(on = "user.*")] async fn audit(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let deleted = client.delete_subscriber::<Audit>().force().await?;
    /// println!("{deleted} jobs were deleted with it");
    /// # Ok(())
    /// # }
    /// ```
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    async fn delete(self) -> Result<u64> {
        self.kind.check()?;
        let (administration, spec) = (self.client.administration()?, self.kind.spec());
        let deleted = background::call(async {
            if !self.force
                && let Some(why) = administration.unseen(&spec.name).await?
            {
                let counts = administration.counts(&spec.name).await?;
                // The refusal of a queue with jobs tells how many.
                let [ready, waiting, failed] = [&counts.ready, &counts.waiting, &counts.failed];
                if ![ready, waiting, failed].iter().any(|count| **count > 0) {
                    return Err(may_have_jobs(&spec.name, &why));
                }
            }
            administration.delete(&spec, self.force).await
        })
        .await?;
        self.client.forget(&self.kind);
        Ok(deleted)
    }
}

/// The refusal to delete a queue that may have jobs which are not counted.
fn may_have_jobs(queue: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "queue `{queue}` was not deleted: it may have due jobs that the broker has not \
             dead-lettered yet; {why}; handle these first (docs/operations.md, When waits stand \
             still), or use `.force()` to delete them with the queue"
        ),
    )
}

awaitable!(
    DeleteSubscriber,
    DeleteSubscriberFuture,
    Result<u64>,
    delete,
    "The future of a [`DeleteSubscriber`]."
);
