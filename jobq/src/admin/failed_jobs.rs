//! Administration of failed jobs.

use std::sync::Arc;

use crate::background;
use crate::engine::{Administer, Engine, Which, administration};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{FailedJob, JobId, check_name};

/// The failed jobs of one queue, made by [`Client::failed`](crate::Client::failed).
///
/// ```
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// let failed = client.failed("send_welcome");
/// for job in failed.list(50).await? {
///     println!("{} {}: {} ({})", job.id(), job.payload(), job.error(), job.reason());
/// }
/// println!("{} put back", failed.retry_all().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FailedJobs {
    engine: Arc<dyn Engine>,
    queue: String,
}

impl FailedJobs {
    pub(crate) fn new(engine: Arc<dyn Engine>, queue: String) -> Self {
        Self { engine, queue }
    }

    /// The queue of these failed jobs.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The failed jobs, oldest first, at most `limit`. A queue that does not exist has
    /// none.
    ///
    /// # Errors
    ///
    /// An invalid queue name; an engine that cannot be reached or refuses.
    pub async fn list(&self, limit: usize) -> Result<Vec<FailedJob>> {
        check_name("queue", &self.queue)?;
        background::call(self.administration()?.failed_list(&self.queue, limit)).await
    }

    /// The failed job with this id; the oldest, if several have it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none; otherwise as
    /// [`list`](Self::list).
    pub async fn show(&self, id: JobId) -> Result<FailedJob> {
        check_name("queue", &self.queue)?;
        let found = background::call(self.administration()?.failed_find(&self.queue, id)).await?;
        found.ok_or_else(|| self.not_found(id))
    }

    /// Puts the failed job with this id back into its queue, with fresh attempts and
    /// without its expiry.
    ///
    /// # Errors
    ///
    /// As [`show`](Self::show). After a lost connection the job is in its queue, still
    /// failed, or both.
    pub async fn retry(&self, id: JobId) -> Result<()> {
        check_name("queue", &self.queue)?;
        match background::call(self.administration()?.failed_retry(&self.queue, Which::One(id)))
            .await?
        {
            0 => Err(self.not_found(id)),
            _ => Ok(()),
        }
    }

    /// Puts all failed jobs back, as [`retry`](Self::retry) does, and returns how many. Jobs that
    /// fail while it runs may stay failed.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list). Jobs put back before the error stay in their queue.
    pub async fn retry_all(&self) -> Result<u64> {
        check_name("queue", &self.queue)?;
        background::call(self.administration()?.failed_retry(&self.queue, Which::All)).await
    }

    /// Deletes the failed job with this id.
    ///
    /// # Errors
    ///
    /// As [`show`](Self::show).
    pub async fn discard(&self, id: JobId) -> Result<()> {
        check_name("queue", &self.queue)?;
        match background::call(self.administration()?.failed_discard(&self.queue, Which::One(id)))
            .await?
        {
            0 => Err(self.not_found(id)),
            _ => Ok(()),
        }
    }

    /// Deletes all failed jobs and returns how many.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn purge(&self) -> Result<u64> {
        check_name("queue", &self.queue)?;
        background::call(self.administration()?.failed_discard(&self.queue, Which::All)).await
    }

    fn administration(&self) -> Result<&dyn Administer> {
        administration(&*self.engine)
    }

    fn not_found(&self, id: JobId) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!(
                "queue `{}` has no failed job {id}; list them with `client.failed(\"{}\")`",
                self.queue, self.queue
            ),
        )
    }
}
