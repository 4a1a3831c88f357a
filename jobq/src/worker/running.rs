use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::answers::PoolPart;
use super::hand_back;
use super::health::{PoolHealth, QueueHealth};
use super::queue;
use super::shared::{RECORD_LIMIT, Shared};
use super::solo;
use crate::engine::{Consumer, Diagnose, Membership};
use crate::error::{Error, ErrorKind, Result};
use crate::relay::Board;
use crate::telemetry;

/// How long the queues may take to end after the shutdown timeout, whatever an attempt or an engine
/// does.
const END_LIMIT: Duration = Duration::from_secs(60);

/// A pool that runs in the background, made by
/// [`WorkerPool::spawn`](crate::WorkerPool::spawn). Dropping the handle leaves the pool
/// running.
#[derive(Debug)]
#[must_use = "keep it to shut the pool down, or `.wait()` for its end"]
pub struct RunningPool {
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Result<()>>>,
    parts: Vec<PoolPart>,
    relays: Vec<Arc<Board>>,
}

/// The consumers of a queue: of its jobs, and of its solo jobs.
pub(super) type Consumers = (Consumer, Option<Consumer>);

/// How long a pool that has ended waits until others have its seats.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// The tasks that enqueue the jobs of schedules and of tables. Each ends when the pool takes no more jobs.
pub(super) type Keepers = Vec<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// The task of a relay of a pool without queues.
pub(super) type Relaying = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// The tasks of a pool, and its membership.
pub(super) struct Tasks {
    /// Of each queue.
    pub(super) consumers: Vec<Consumers>,
    /// Of each relay, if there are no queues.
    pub(super) relaying: Vec<Relaying>,
    pub(super) keepers: Keepers,
    pub(super) membership: Option<Membership>,
    /// The states of the relays, which are keepers if there are queues.
    pub(super) relays: Vec<Arc<Board>>,
}

impl RunningPool {
    pub(super) fn start(
        shared: &Arc<Shared>,
        parts: Vec<PoolPart>,
        Tasks { consumers, relaying, keepers, membership, relays }: Tasks,
        shutdown_timeout: Duration,
        background: &Handle,
    ) -> Self {
        let (report, ended) = watch::channel(None);
        let mut queues = JoinSet::new();
        let mut watches = JoinSet::new();
        // All enter before the lock can be requested.
        let entered: Vec<_> =
            consumers.iter().filter_map(|_| shared.solo_lock.try_enter()).collect();
        for ((part, (consumer, alone)), entered) in parts.iter().zip(consumers).zip(entered) {
            let PoolPart { queue, together: status, alone: status_alone } = part.clone();
            let solo_slots = Arc::clone(&queue);
            watches.spawn_on(Arc::clone(&queue).watch_time(), background);
            watches.spawn_on(hand_back::watch(Arc::clone(&queue)), background);
            status.set_begun(&consumer);
            if let Some(alone) = &alone {
                status_alone.set_begun(alone);
            }
            watches.spawn_on(queue.observer.measure(&status, &status_alone), background);
            queues.spawn_on(queue::consume(queue, consumer, entered, status), background);
            if let Some(alone) = alone {
                queues.spawn_on(solo::consume(solo_slots, alone, status_alone), background);
            }
        }
        for relay in relaying {
            queues.spawn_on(relay, background);
        }
        let mut keeping = JoinSet::new();
        for keeper in keepers {
            keeping.spawn_on(keeper, background);
        }
        let (stopping, halting) = (shared.stop.clone(), shared.halt.clone());
        let told: Vec<_> = parts.iter().map(|part| Arc::clone(&part.queue)).collect();
        let last_outcomes = shared.last_outcomes.clone();
        // The job functions cannot run any more when their runtime has ended.
        let host = AbortOnDropHandle::new(shared.runtime.spawn(std::future::pending::<()>()));
        background.spawn(async move {
            let all_ended = async {
                let mut result = Ok(());
                while let Some(ended) = queues.join_next().await {
                    let ended = ended.unwrap_or_else(|problem| {
                        Err(Error::new(
                            ErrorKind::Refused,
                            "the task of a queue ended unexpectedly",
                        )
                        .with_source(problem))
                    });
                    result = result.and(ended);
                }
                result
            };
            let time_limit = async {
                stopping.cancelled().await;
                let to_record = RECORD_LIMIT.min(shutdown_timeout / 4);
                tokio::time::sleep(shutdown_timeout.saturating_sub(to_record)).await;
                last_outcomes.cancel();
                tokio::time::sleep(to_record).await;
                halting.cancel();
                tokio::time::sleep(END_LIMIT).await;
            };
            let mut all_ended = std::pin::pin!(all_ended);
            let result = tokio::select! {
                result = &mut all_ended => result,
                () = time_limit => Err(unended()),
                _ = host => {
                    stopping.cancel();
                    halting.cancel();
                    let _ = all_ended.await;
                    Err(gone())
                }
            };
            // The queues may have ended by themselves.
            stopping.cancel();
            let keeping_ended = async { while keeping.join_next().await.is_some() {} };
            let _ = timeout(LEAVE_LIMIT, keeping_ended).await;
            watches.shutdown().await;
            drop(membership);
            telemetry::pool_stopped(told.iter().fold([0; 4], |sum, queue| {
                let counts = queue.observer.counts();
                std::array::from_fn(|outcome| sum[outcome] + counts[outcome])
            }));
            report.send_replace(Some(result));
        });
        Self { shared: Arc::clone(shared), ended, parts, relays }
    }

    /// The state of each queue: whether jobs are taken, and if not, since when and why. Use it in
    /// the health check of your program: a pool whose broker is down or refuses it keeps trying
    /// indefinitely.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let running = WorkerPool::new(&client).register::<Mail>().spawn().await?;
    /// let health = running.health();
    /// if !health.is_consuming() {
    ///     println!("no jobs are taken: {:?}", health.queues);
    /// }
    /// # assert!(health.is_consuming());
    /// # running.shutdown().await
    /// # }
    /// ```
    #[must_use]
    pub fn health(&self) -> PoolHealth {
        let queue = |part: &PoolPart| QueueHealth {
            queue: part.queue.name.to_owned(),
            state: part.state(),
            lost_slots: part.queue.plan().slots().lost,
        };
        let store = self.shared.resources.client.engine().diagnose();
        PoolHealth {
            queues: self.parts.iter().map(queue).collect(),
            missing: store.and_then(Diagnose::missing),
            credentials: store.and_then(Diagnose::credentials),
            relays: self.relays.iter().map(|relay| relay.health()).collect(),
        }
    }

    /// Waits until the pool has ended: after a shutdown, or because none of its queues
    /// can be consumed any more.
    ///
    /// ```
    /// # async fn example(running: jobq::RunningPool) {
    /// if let Err(error) = running.wait().await {
    ///     eprintln!("no more jobs are taken: {error}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The reason why a queue could not be consumed any more. The pool logs the error at once and
    /// goes on with its other queues; this returns when the last one has ended.
    pub async fn wait(&self) -> Result<()> {
        let mut ended = self.ended.clone();
        let result = ended.wait_for(Option::is_some).await.map_err(|_| gone())?;
        result.clone().unwrap_or_else(|| Err(gone()))
    }

    /// Shuts the pool down: it takes no further jobs, lets running attempts finish for the shutdown
    /// timeout, cancels the rest and releases every unfinished job. No job loses an attempt.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let running = WorkerPool::new(&client).register::<Mail>().spawn().await?;
    /// running.shutdown().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn shutdown(self) -> Result<()> {
        self.stop();
        self.wait().await
    }

    /// Begins the [shutdown](Self::shutdown) and returns at once: for the shutdown hook of a web
    /// server, which has only a shared reference to the pool. [`wait`](Self::wait) returns when it
    /// has ended.
    ///
    /// ```
    /// # async fn example(running: jobq::RunningPool) -> jobq::Result<()> {
    /// running.stop();
    /// running.wait().await
    /// # }
    /// ```
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Ends the shutdown timeout.
    pub(crate) fn halt(&self) {
        self.shared.halt.cancel();
    }
}

/// The error of a pool whose queues did not end.
fn unended() -> Error {
    let limit = crate::period::format(END_LIMIT);
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the pool did not end within {limit} of its shutdown timeout; its unsettled jobs are \
             redelivered when the process ends"
        ),
    )
}

/// The error of a pool whose runtime was shut down.
fn gone() -> Error {
    Error::new(ErrorKind::Closed, "the runtime of the pool was shut down")
}
