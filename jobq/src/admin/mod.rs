//! Administration: the figures of queues, the pools that work on them, and orders to these.
//!
//! [`Client::admin`](crate::Client::admin) gives an [`Admin`], and
//! [`Client::failed`](crate::Client::failed) the [`FailedJobs`] of a queue. All views can be
//! serialized: times are RFC 3339 text in UTC, and durations whole milliseconds; how long attempts
//! took has fractions.

mod canary;
mod failed_jobs;
mod filter;
mod group;
mod operation;
mod overview;
mod page;
mod passes;
mod pause;
mod pools;
mod progress;
#[cfg(feature = "schedules")]
mod schedules;
mod state;
pub mod text;
#[cfg(feature = "rabbitmq")]
mod topology;
mod value;
pub(crate) mod visits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use failed_jobs::FailedJobs;
pub use filter::Filter;
pub use group::{Group, Groups};
pub use operation::{Operation, OperationFuture, Running};
pub use overview::{Overview, QueueOverview};
pub use page::{Cursor, Page};
pub use pause::{Paused, Resumed};
pub use pools::{Cancelled, ConcurrencySet, Order, Pools, RefusedOrder};
pub use progress::{Done, End, Phase, Progress, Stop};
#[cfg(feature = "schedules")]
pub use schedules::Schedules;
pub use state::State;

pub use crate::engine::{
    Activity, Cancel, Counts, Durations, Extent, Figure, LastMinute, Part, Passage, Pause,
    Percentiles, Place, PoolId, PoolQueue, PoolRelay, PoolReport, RelayActivity, RunningJob,
};

#[cfg(feature = "schedules")]
pub use crate::schedule::ScheduleReport;

use crate::background;
use crate::engine::{Administer, Engine, QueueNames, administration};
use crate::error::Result;
use crate::job::{JobId, check_name};

/// How long pools are waited for at most, where the caller does not say.
const PATIENCE: Duration = Duration::from_millis(500);

/// The actor of calls whose caller does not say who acts.
const UNKNOWN: &str = "unknown";

/// The administration of a client's queues and of the pools that work on them, made by
/// [`Client::admin`](crate::Client::admin).
///
/// ```
/// use jobq::admin::Queues;
///
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// for queue in client.admin().overview(Queues::All).await?.queues {
///     println!("{}: {} ready, {} failed", queue.queue, queue.ready, queue.failed);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Admin {
    engine: Arc<dyn Engine>,
    actor: String,
}

/// A selection of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Queues {
    /// All that are known: to this client, to the pools that answer, and to the management API of
    /// RabbitMQ if its URL is given. AMQP cannot list queues. On SQLite all queues of the file.
    All,
    /// The queues with these names.
    Named(Vec<String>),
}

impl Queues {
    /// The queue with this name.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// use jobq::admin::Queues;
    ///
    /// let mail = client.admin().overview(Queues::one("mail")).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn one(name: impl Into<String>) -> Self {
        Self::Named(vec![name.into()])
    }
}

impl Admin {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, actor: UNKNOWN.to_owned() }
    }

    /// Sets who acts: for the record of a pause, and for the log, where each call that changes
    /// something is an event of the target `jobq::audit`. Defaults to `unknown`.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.admin().by("ann").resume("mail").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = actor.into();
        self
    }

    /// The figures of queues.
    ///
    /// ```
    /// use jobq::admin::Queues;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = jobq::Client::connect("sqlite::memory:").await?;
    /// let mail = client.admin().overview(Queues::one("mail")).await?.queues;
    /// assert!(mail[0].failed == 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An invalid queue name; an engine that cannot be reached or refuses. A figure that cannot be
    /// read is [unknown](Figure::Unknown), and no error.
    pub async fn overview(&self, which: Queues) -> Result<Overview> {
        background::call(async {
            let names = self.names(which).await?;
            overview::overview(self.administration()?, names, PATIENCE).await
        })
        .await
    }

    /// The pools that work on queues, as far as they answer within `patience`. It returns earlier
    /// if all consumers of the queues are accounted for.
    ///
    /// ```
    /// use jobq::admin::Queues;
    /// use std::time::Duration;
    ///
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let seen = client.admin().pools(Queues::one("mail"), Duration::from_secs(1)).await?;
    /// for pool in seen.pools {
    ///     println!("{} of {}, process {}", pool.pool, pool.host, pool.pid);
    /// }
    /// println!("and consumers that did not answer: {}", seen.unaccounted);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if pools of this engine cannot be asked; an
    /// invalid queue name; an engine that cannot be reached or refuses.
    pub async fn pools(&self, which: Queues, patience: Duration) -> Result<Pools> {
        background::call(async {
            let only_these = matches!(which, Queues::Named(_));
            let QueueNames { names, .. } = self.names(which).await?;
            pools::pools(self.administration()?, names, only_these, patience).await
        })
        .await
    }

    /// The failed jobs of a queue, as [`Client::failed`](crate::Client::failed) gives them.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.admin().by("ann").failed("mail").retry_all().await?; // by `ann`, too
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn failed(&self, queue: impl Into<String>) -> FailedJobs {
        FailedJobs::new(Arc::clone(&self.engine), queue.into()).by(&self.actor)
    }

    /// Pauses a queue, durably: no pool starts a job of it until it is [resumed](Self::resume),
    /// whatever restarts meanwhile. Attempts that run go on, and jobs that were taken but not
    /// started go back. Jobs that expire meanwhile still do.
    ///
    /// It returns when no pool takes jobs of the queue any more, or after about two and a half
    /// seconds; see [`Paused::still_taking`]. The reason is shown wherever the queue is, and has at
    /// most 500 characters.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let paused = client.admin().by("ann").pause("mail", "mail server upgrade").await?;
    /// assert!(paused.still_taking == 0, "a pool goes on: {paused:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on an engine without pauses; an invalid queue
    /// name, or a reason of more than 500 characters; an engine that cannot be reached or refuses:
    /// the queue may be paused nevertheless.
    /// [`Conflict`](crate::ErrorKind::Conflict) if somebody resumed the queue meanwhile.
    pub async fn pause(&self, queue: &str, why: &str) -> Result<Paused> {
        check_name("queue", queue)?;
        pause::check_reason(why)?;
        let record = Pause::new(self.engine.clock().now(), &self.actor, why);
        background::call(pause::pause(self.administration()?, queue, &record)).await
    }

    /// Resumes a queue.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = jobq::Client::connect("sqlite::memory:").await?;
    /// let admin = client.admin().by("ann");
    /// admin.pause("mail", "mail server upgrade").await?;
    /// assert!(admin.resume("mail").await?.was_paused);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause), without the reason and the conflict: the queue may be resumed
    /// nevertheless.
    pub async fn resume(&self, queue: &str) -> Result<Resumed> {
        check_name("queue", queue)?;
        background::call(pause::resume(self.administration()?, queue, &self.actor)).await
    }

    /// Gives a pool an order.
    ///
    /// ```
    /// use jobq::admin::{Order, Queues};
    /// use std::time::Duration;
    ///
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let admin = client.admin().by("ann");
    /// for pool in admin.pools(Queues::one("mail"), Duration::from_secs(1)).await?.pools {
    ///     admin.tell(pool.pool, Order::Quiet).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if no such pool answers;
    /// [`Refused`](crate::ErrorKind::Refused) if the pool takes no orders; an engine that cannot be
    /// reached or refuses.
    pub async fn tell(&self, pool: PoolId, order: Order) -> Result<()> {
        background::call(pools::tell(self.administration()?, pool, order, &self.actor)).await
    }

    /// Sets how many attempts of a queue each of its running pools runs at once. The change lasts until
    /// the pool ends. A pool that starts later uses the concurrency in its code. Running attempts
    /// continue: a pool above the new limit starts the next attempt when enough have ended.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// let set = client.admin().by("ann").set_concurrency("mail", 4).await?;
    /// println!("{} pools run 4 jobs at once", set.pools.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a concurrency of 0;
    /// [`NotFound`](crate::ErrorKind::NotFound) if no pool of the queue answers; an engine that cannot
    /// be reached or refuses. A pool that refuses is not an error; it is listed in
    /// [`ConcurrencySet::refused`].
    pub async fn set_concurrency(&self, queue: &str, slots: u16) -> Result<ConcurrencySet> {
        check_name("queue", queue)?;
        let setting = pools::set_concurrency(self.administration()?, queue, slots, &self.actor);
        background::call(setting).await
    }

    /// Cancels the running attempts of a job, in all pools. Each function is asked to end; an
    /// `async fn` is dropped five seconds later, and a plain `fn` keeps its slot until it ends. The
    /// job fails as [`Cancelled`](crate::FailedReason::Cancelled). If its pool dies in between, the
    /// job runs again.
    ///
    /// ```
    /// # async fn example(client: jobq::Client, id: jobq::JobId) -> jobq::Result<()> {
    /// for cancelled in client.admin().by("ann").cancel_running(id).await? {
    ///     println!("cancelled in pool {}", cancelled.pool);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if no pool that answers runs the job; an engine
    /// that cannot be reached or refuses.
    pub async fn cancel_running(&self, id: JobId) -> Result<Vec<Cancelled>> {
        background::call(async {
            let QueueNames { names, .. } = self.names(Queues::All).await?;
            pools::cancel(self.administration()?, names, id, &self.actor).await
        })
        .await
    }

    async fn names(&self, which: Queues) -> Result<QueueNames> {
        match which {
            Queues::All => self.administration()?.queues().await,
            Queues::Named(names) => {
                names.iter().try_for_each(|name| check_name("queue", name))?;
                let names: BTreeSet<_> = names.into_iter().collect();
                Ok(QueueNames::new(names, vec!["named"], true))
            }
        }
    }

    fn administration(&self) -> Result<&dyn Administer> {
        administration(&*self.engine)
    }
}
