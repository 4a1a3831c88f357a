use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;

use crate::engine::{Administer, Ask, Cancel, Figure, PoolId, PoolReport, Question, Reply};
use crate::error::{Error, ErrorKind, Result};
use crate::job::JobId;

/// How long the pools of a queue have to answer before they get an order.
const LISTING: Duration = Duration::from_secs(1);
/// How many pools get an order at once.
const AT_ONCE: usize = 8;
/// How long an answer to an order is waited for at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pools that answered, from [`Admin::pools`](super::Admin::pools).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Pools {
    /// Their reports, sorted by the start of the pool.
    pub pools: Vec<PoolReport>,
    /// Consumers of the queues that belong to no pool that answered: of pools that are wedged, that
    /// may not or do not want to answer, or of other programs.
    pub unaccounted: Figure<u32>,
}

/// An order to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Take no more jobs, and let running attempts end. The pool goes on answering, until its
    /// program ends.
    Quiet,
    /// Shut down, as at SIGTERM: [`RunningPool::wait`](crate::RunningPool::wait) returns then.
    Stop,
}

impl Order {
    /// The text of the order in the log and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Stop => "stop",
        }
    }
}

/// The outcome of a change of a queue's concurrency, from
/// [`Admin::set_concurrency`](super::Admin::set_concurrency).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ConcurrencySet {
    /// The pools that use the new concurrency.
    pub pools: Vec<PoolId>,
    /// The pools that did not change it, with the reasons.
    pub refused: Vec<RefusedOrder>,
    /// Consumers of the queue that belong to no pool that answered.
    pub unaccounted: Figure<u32>,
}

/// A pool that did not carry out an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedOrder {
    /// The pool.
    pub pool: PoolId,
    /// Why it did not.
    pub why: String,
}

/// A running job that was cancelled in a pool, from
/// [`Admin::cancel_running`](super::Admin::cancel_running).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cancelled {
    /// The pool.
    pub pool: PoolId,
    /// How it cancels the job.
    pub cancel: Cancel,
}

/// Asks the pools of these queues; of all pools unless `only_these`.
pub(super) async fn pools(
    engine: &dyn Administer,
    names: BTreeSet<String>,
    only_these: bool,
    patience: Duration,
) -> Result<Pools> {
    let queues = names.iter().cloned().collect();
    let answers = engine.ask(Ask::all(Question::Report, queues, patience)).await?;
    let works = |report: &PoolReport| {
        !only_these || report.queues.iter().any(|queue| names.contains(&queue.queue))
    };
    let report = |(_, reply)| match reply {
        Reply::Report(report) => Some(report).filter(works),
        _ => None,
    };
    let mut unaccounted = Figure::Known(0);
    for consumers in answers.unaccounted.into_values() {
        unaccounted = unaccounted.zip(consumers, |sum, more| sum + more);
    }
    Ok(Pools { pools: answers.replies.into_iter().filter_map(report).collect(), unaccounted })
}

/// Gives a pool an order.
pub(super) async fn tell(
    engine: &dyn Administer,
    pool: PoolId,
    order: Order,
    actor: &str,
) -> Result<()> {
    let question = match order {
        Order::Quiet => Question::Quiet,
        Order::Stop => Question::Stop,
    };
    let told = order_pool(engine, pool, question).await;
    let is_finished = told.is_ok();
    tracing::info!(
        target: "jobq::audit",
        actor, action = order.as_str(), %pool, is_finished,
        "order sent to pool"
    );
    told
}

/// Has the pools of a queue run so many attempts of it at once.
pub(super) async fn set_concurrency(
    engine: &dyn Administer,
    queue: &str,
    slots: u16,
    actor: &str,
) -> Result<ConcurrencySet> {
    if slots == 0 {
        return Err(Error::invalid(format!(
            "a concurrency of 0 would leave the jobs of queue `{queue}` where they are; pause the queue"
        )));
    }
    let set = set_all(engine, queue, slots).await;
    let (is_finished, pools) = (set.is_ok(), set.as_ref().map_or(0, |set| set.pools.len()));
    tracing::info!(
        target: "jobq::audit",
        actor, action = "concurrency", queue, slots, pools, is_finished,
        "queue concurrency changed"
    );
    set
}

async fn set_all(engine: &dyn Administer, queue: &str, slots: u16) -> Result<ConcurrencySet> {
    let names = [queue.to_owned()].into();
    let Pools { pools, unaccounted } = self::pools(engine, names, true, LISTING).await?;
    if pools.is_empty() {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("no pool that works on queue `{queue}` answered; start one, or list the pools"),
        ));
    }
    let order = |pool: &PoolReport| {
        let (pool, question) = (pool.pool, Question::Slots { queue: queue.to_owned(), slots });
        async move { (pool, order_pool(engine, pool, question).await) }
    };
    let mut set = ConcurrencySet { pools: Vec::new(), refused: Vec::new(), unaccounted };
    // Each takes a channel.
    let orders = pools.iter().map(order).collect::<Vec<_>>();
    let mut told = stream::iter(orders).buffered(AT_ONCE);
    while let Some((pool, told)) = told.next().await {
        match told {
            Ok(()) => set.pools.push(pool),
            Err(error) => set.refused.push(RefusedOrder { pool, why: error.to_string() }),
        }
    }
    Ok(set)
}

async fn order_pool(engine: &dyn Administer, pool: PoolId, question: Question) -> Result<()> {
    let answers = engine.ask(Ask::pool(pool, question, PATIENCE)).await?;
    match answers.replies.into_iter().next() {
        Some((_, Reply::Refused { why })) => {
            Err(Error::new(ErrorKind::Refused, format!("pool {pool} refused the order: {why}")))
        }
        Some(_) => Ok(()),
        None => Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "pool {pool} did not answer within {} ms; list the pools to see which ones answer",
                PATIENCE.as_millis()
            ),
        )),
    }
}

/// Cancels the running attempts of a job.
pub(super) async fn cancel(
    engine: &dyn Administer,
    names: BTreeSet<String>,
    id: JobId,
    actor: &str,
) -> Result<Vec<Cancelled>> {
    let cancelled = cancel_attempts(engine, names, id).await;
    let is_finished = cancelled.is_ok();
    tracing::info!(
        target: "jobq::audit",
        actor, action = "cancel", %id, is_finished,
        "running job cancelled"
    );
    cancelled
}

async fn cancel_attempts(
    engine: &dyn Administer,
    names: BTreeSet<String>,
    id: JobId,
) -> Result<Vec<Cancelled>> {
    let queues = names.into_iter().collect();
    let answers = engine.ask(Ask::all(Question::Cancel { id }, queues, PATIENCE)).await?;
    let mut refused = None;
    let mut cancelled = Vec::new();
    for (pool, reply) in answers.replies {
        match reply {
            Reply::Cancelled(Cancel::NotRunning) => {}
            Reply::Cancelled(cancel) => cancelled.push(Cancelled { pool, cancel }),
            Reply::Refused { why } => refused = Some((pool, why)),
            _ => {}
        }
    }
    match refused {
        _ if !cancelled.is_empty() => Ok(cancelled),
        Some((pool, why)) => Err(Error::new(
            ErrorKind::Refused,
            format!("pool {pool} refused to cancel job {id}: {why}"),
        )),
        None => Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "job {id} does not run in any pool that answered; list the pools to see their \
                 running jobs"
            ),
        )),
    }
}
