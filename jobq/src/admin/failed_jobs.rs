//! Administration of failed jobs.

use std::sync::Arc;

use super::Filter;
use super::group::{Grouping, Groups};
use super::operation::Operation;
use super::page::{Cursor, Page, Paging};
use super::progress::{Action, Done, End};
use super::visits;
use crate::background;
use crate::engine::{Administer, Engine, Verdict, Visited, administration};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{FailedJob, JobId, check_name};

/// How many jobs the first page without a filter looks at, at most, so that it comes at once.
const FIRST_LOOK: usize = 1_000;

/// The failed jobs of one queue, made by [`Client::failed`](crate::Client::failed).
///
/// ```
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// let failed = client.failed("send_welcome");
/// for job in failed.list(50).await? {
///     println!("{} {}: {} ({})", job.id(), job.payload(), job.error(), job.reason());
/// }
/// println!("{} retried", failed.retry_all().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FailedJobs {
    engine: Arc<dyn Engine>,
    queue: String,
    actor: String,
}

impl FailedJobs {
    pub(crate) fn new(engine: Arc<dyn Engine>, queue: String) -> Self {
        Self { engine, queue, actor: super::UNKNOWN.to_owned() }
    }

    /// The queue of these failed jobs.
    ///
    /// ```
    /// # fn example(client: jobq::Client) {
    /// assert_eq!(client.failed("send_welcome").queue(), "send_welcome");
    /// # }
    /// ```
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Sets who acts, for the log, where each call that changes something is an event of the target
    /// `jobq::audit`. Defaults to `unknown`.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let failed = client.failed("send_welcome").by("ann");
    /// failed.retry_all().await?; // the log has the actor `ann`
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = actor.into();
        self
    }

    /// The failed jobs, oldest first, at most `limit`.
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn send_welcome(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// client.declare::<SendWelcome>().await?;
    /// assert!(client.failed("send_welcome").list(50).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if the queue does not exist, since nothing has
    /// declared it; on RabbitMQ, for up to a minute after another client declared it. An invalid
    /// queue name; an engine that cannot be reached or refuses.
    pub async fn list(&self, limit: usize) -> Result<Vec<FailedJob>> {
        check_name("queue", &self.queue)?;
        background::call(visits::list(self.administration()?, &self.queue, limit)).await
    }

    /// The failed job with this id; the oldest, if several have it.
    ///
    /// ```
    /// # async fn example(client: jobq::Client, id: jobq::JobId) -> jobq::Result<()> {
    /// let job = client.failed("send_welcome").show(id).await?;
    /// println!("{} after {} attempts: {}", job.name(), job.attempts(), job.error());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none; otherwise as
    /// [`list`](Self::list).
    pub async fn show(&self, id: JobId) -> Result<FailedJob> {
        check_name("queue", &self.queue)?;
        let found = visits::find(self.administration()?, &self.queue, id);
        background::call(found).await?.ok_or_else(|| self.not_found(id))
    }

    /// Retries the failed job with this id: it returns to its queue, with fresh attempts and
    /// without its expiry.
    ///
    /// ```
    /// # async fn example(client: jobq::Client, id: jobq::JobId) -> jobq::Result<()> {
    /// client.failed("send_welcome").by("ann").retry(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`show`](Self::show). After a lost connection the job is in its queue, still
    /// failed, or both.
    pub async fn retry(&self, id: JobId) -> Result<()> {
        self.settle(id, Verdict::Retry).await
    }

    /// Retries all failed jobs, as [`retry_where`](Self::retry_where) does, and returns how many:
    /// at most as many as there were when it began. It works in passes of at most 20 s, between
    /// which others may look at the failed jobs; if the future is dropped, it ends there.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let retried = client.failed("send_welcome").retry_all().await?;
    /// println!("{retried} jobs are in their queue again");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list), or that of the first job which could not be retried. Jobs retried
    /// before the error stay in their queue.
    pub async fn retry_all(&self) -> Result<u64> {
        self.all(self.retry_where(Filter::new())).await
    }

    /// Deletes the failed job with this id.
    ///
    /// ```
    /// # async fn example(client: jobq::Client, id: jobq::JobId) -> jobq::Result<()> {
    /// client.failed("send_welcome").discard(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`show`](Self::show).
    pub async fn discard(&self, id: JobId) -> Result<()> {
        self.settle(id, Verdict::Discard).await
    }

    /// Deletes all failed jobs and returns how many, as [`retry_all`](Self::retry_all) retries
    /// them.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let deleted = client.failed("send_welcome").purge().await?;
    /// println!("{deleted} jobs are gone");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list). Jobs deleted before the error stay deleted.
    pub async fn purge(&self) -> Result<u64> {
        self.all(self.discard_where(Filter::new())).await
    }

    /// Settles the failed job with this id so.
    async fn settle(&self, id: JobId, verdict: Verdict) -> Result<()> {
        check_name("queue", &self.queue)?;
        let action = if verdict == Verdict::Discard { "discard" } else { "retry" };
        let settling = visits::settle(self.administration()?, &self.queue, Some(id), verdict);
        let settled = background::call(settling).await;
        let count = settled.as_ref().ok();
        if count != Some(&0) {
            let (actor, queue, is_finished) = (&self.actor, &self.queue, settled.is_ok());
            let filter = format!("id {id}");
            tracing::info!(
                target: "jobq::audit",
                actor, action, queue, filter, count, is_finished,
                "failed jobs settled"
            );
        }
        if settled? == 0 { Err(self.not_found(id)) } else { Ok(()) }
    }

    /// A page of the failed jobs that match, oldest first: those after the end of another page, at
    /// most `limit`, and at most 64 MiB of payloads unless it has one job alone. With a limit of 0
    /// it only counts them. A queue that does not exist has none.
    ///
    /// ```
    /// use jobq::admin::Filter;
    ///
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let (failed, mut after) = (client.failed("send_welcome"), None);
    /// loop {
    ///     let page = failed.page(&Filter::new().error("refused"), after, 50).await?;
    ///     for job in page.jobs {
    ///         println!("{} {}", job.id(), job.error());
    ///     }
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn page(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<FailedJob>> {
        let most = (filter.is_empty() && after.is_none()).then(|| FIRST_LOOK.max(limit));
        let as_of = self.engine.clock().now();
        let paging = Paging::new(filter.clone(), after, limit);
        let (paging, visited) = self.look(paging, most, Paging::add).await?;
        Ok(paging.page(visited.complete, as_of))
    }

    /// The failed jobs that match, in groups of like errors, the largest first. A queue that does
    /// not exist has none.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// use jobq::admin::Filter;
    ///
    /// for group in client.failed("send_welcome").groups(&Filter::new()).await?.groups {
    ///     println!("{} times: {}", group.count, group.error);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn groups(&self, filter: &Filter) -> Result<Groups> {
        let filter = filter.clone();
        let add = move |grouping: &mut Grouping, job: FailedJob| {
            if filter.matches(&job) {
                grouping.add(&job);
            }
        };
        let (grouping, visited) = self.look(Grouping::default(), None, add).await?;
        Ok(grouping.groups(visited.complete, visited.extent))
    }

    /// Retries all failed jobs that match, as [`retry`](Self::retry) does. Each keeps the id of
    /// the operation, so that it is not taken again if it fails meanwhile.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// use jobq::admin::Filter;
    ///
    /// let busy = Filter::new().error("the service is busy");
    /// let done = client.failed("send_welcome").retry_where(busy).await?;
    /// println!("{} retried", done.settled);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry_where(&self, filter: Filter) -> Operation {
        self.operation(filter, Action::Retry)
    }

    /// Deletes all failed jobs that match.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// use jobq::admin::Filter;
    ///
    /// let old = Filter::new().job("send_newsletter");
    /// client.failed("mail").discard_where(old).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn discard_where(&self, filter: Filter) -> Operation {
        self.operation(filter, Action::Discard)
    }

    fn operation(&self, filter: Filter, action: Action) -> Operation {
        Operation::new(Arc::clone(&self.engine), self.queue.clone(), filter, action).by(&self.actor)
    }

    /// Shows the failed jobs to a collector, at most so many.
    async fn look<C: Send + 'static>(
        &self,
        collector: C,
        most: Option<usize>,
        add: impl Fn(&mut C, FailedJob) + Send + 'static,
    ) -> Result<(C, Visited)> {
        check_name("queue", &self.queue)?;
        let mut seen = 0;
        let show = move |collector: &mut C, job| {
            if most.is_some_and(|most| seen >= most) {
                return Verdict::Enough;
            }
            seen += 1;
            add(collector, job);
            Verdict::Keep
        };
        let visiting = visits::visit(self.administration()?, &self.queue, None, collector, show);
        let (collector, mut visited) = background::call(visiting).await?;
        visited.end.take().map_or(Ok((collector, visited)), Err)
    }

    fn administration(&self) -> Result<&dyn Administer> {
        administration(&*self.engine)
    }

    /// Runs an operation on all failed jobs, and returns how many it settled.
    async fn all(&self, operation: Operation) -> Result<u64> {
        let Done { settled, refused, end, .. } = operation.await?;
        let refusal = refused.into_iter().next().map(|(_, error)| error);
        let lost = if let End::Lost(error) = end { Some(error) } else { None };
        if let Some(error) = lost.or(refusal) {
            return Err(error);
        }
        // An operation does not tell whether there is a queue.
        if settled == 0
            && let Err(error) = self.list(0).await
            && error.is_not_found()
        {
            return Err(error);
        }
        Ok(settled)
    }

    fn not_found(&self, id: JobId) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!(
                "queue `{}` has no failed job {id}: it was retried or deleted, or belongs to \
                 another queue",
                self.queue
            ),
        )
    }
}
