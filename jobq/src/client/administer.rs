//! Administration by a client.

use std::sync::Arc;

use super::declare::JobKind;
use super::{Client, DeleteSubscriber, Doctor};
use crate::admin::{Admin, FailedJobs};
use crate::background;
use crate::engine::{Administer, Counts, administration};
use crate::error::Result;
use crate::job::{Job, check_name, check_pattern, queue_of};

impl Client {
    /// The failed jobs of a queue. The queue of a job defaults to the job's name;
    /// [`failed_of`](Self::failed_of) finds it by the job's type.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// for job in client.failed("send_welcome").list(50).await? {
    ///     println!("{}: {}", job.id(), job.error());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn failed(&self, queue: impl Into<String>) -> FailedJobs {
        FailedJobs::new(Arc::clone(self.engine()), queue.into())
    }

    /// The failed jobs of the queue of a job type. If the queue serves several types, those of the
    /// others are among them: [`Filter::job`](crate::admin::Filter::job) selects those of one type.
    ///
    /// ```
    /// use jobq::{Client, job};
    ///
    /// #[job(queue = "mail")]
    /// async fn send_welcome(user_id: u64) -> Result<(), jobq::BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let failed = client.failed_of::<SendWelcome>();
    /// assert_eq!(failed.queue(), "mail");
    /// println!("{} retried", failed.retry_all().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn failed_of<J: Job>(&self) -> FailedJobs {
        self.failed(queue_of::<J>())
    }

    /// The administration of queues and pools.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.admin().pause("send_welcome", "the mail server moves").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(Arc::clone(self.engine()))
    }

    /// The numbers of jobs in a queue; all 0 if it does not exist.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let counts = client.counts("send_welcome").await?;
    /// println!("{} ready, {} waiting, {} failed", counts.ready, counts.waiting, counts.failed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses.
    pub async fn counts(&self, queue: &str) -> Result<Counts> {
        check_name("queue", queue)?;
        background::call(self.administration()?.counts(queue)).await
    }

    /// Looks for settings of the broker or the file that weaken the guarantees of jobq: versions,
    /// timeouts, queues that are not jobq's, alarms, disks; with the URL of the management API
    /// ([`ClientBuilder::management`](crate::ClientBuilder::management)) also policies, bindings and
    /// nodes. It changes nothing. Add jobs and queues, then await it:
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let report = client.doctor().job::<Remind>().queue("mail").await?;
    /// for finding in report.errors() {
    ///     eprintln!("{finding}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It examines the added queues and those that this client and its pools declared; with the
    /// management API, all queues of the namespace. On RabbitMQ it opens a connection of its own
    /// and publishes one message that reaches no queue.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses. A failed single check is a
    /// finding, [`Unchecked`](crate::FindingKind::Unchecked).
    pub fn doctor(&self) -> Doctor {
        Doctor::new(self.clone(), Vec::new())
    }

    /// Ends the subscription of a job to a pattern that its code no longer has. Declaring adds
    /// subscriptions and never ends one, since old and new workers run side by side during a
    /// deployment; call this when no old worker runs any more. Jobs already in the queue stay.
    /// Ending a subscription that does not exist does nothing.
    ///
    /// ```
    /// # use jobq::{BoxError, Client, job};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct User {}
    /// #[job(on = "user.created")] // and earlier "user.changed"
    /// async fn welcome(user: User) -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// client.unsubscribe::<Welcome>("user.changed").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An invalid pattern; an engine that cannot be reached or refuses.
    pub async fn unsubscribe<J: Job>(&self, pattern: &str) -> Result<()> {
        check_pattern(pattern)?;
        let kind = JobKind::of::<J>();
        kind.check()?;
        background::call(self.administration()?.unsubscribe(kind.queue, pattern)).await?;
        self.forget(&kind);
        Ok(())
    }

    /// Deletes a subscriber for good: its subscriptions, its queue, its tiers and its failed jobs.
    /// It refuses while there are jobs or pools, unless [forced](DeleteSubscriber::force). Awaiting
    /// it returns the number of deleted jobs. Call it when no worker and no client uses the job any
    /// more: a pool that starts or a client that declares creates the subscriber again.
    ///
    /// On RabbitMQ the management API ([`ClientBuilder::management`](crate::ClientBuilder::management))
    /// alone shows jobs whose wait is over and that the broker has not passed on yet. It refuses
    /// while there are any, while a pool reports that nothing comes out of the tiers in time, or while
    /// that is unknown, as without the API. It takes six seconds, since the figures of that API are
    /// five seconds old. Two kinds of jobs are not seen: jobs in flight in a pool that is shutting down, and jobs in the delay levels, which
    /// become failed jobs of `orphan` when their wait is over. A tier for a wait of an earlier
    /// version of the job's `delay` remains, empty.
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job(on = "user.*")] async fn welcome(user: serde_json::Value) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// client.delete_subscriber::<Welcome>().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if it has or may have jobs, or is consumed: nothing has changed
    /// then; an engine that cannot be reached or refuses.
    pub fn delete_subscriber<J: Job>(&self) -> DeleteSubscriber {
        DeleteSubscriber::new(self.clone(), JobKind::of::<J>())
    }

    pub(super) fn administration(&self) -> Result<&dyn Administer> {
        administration(&**self.engine())
    }
}
