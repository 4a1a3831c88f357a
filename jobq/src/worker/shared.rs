use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::Resources;
use super::registry::Plan;
use super::solo_lock::SoloLock;
use crate::clock::Clock;
use crate::engine::{Consumer, PoolId, closed};
use crate::error::Result;
use crate::telemetry;

/// How long the engine has at least to record an outcome. The shutdown timeout of a pool includes
/// it, if it is long enough.
pub(crate) const RECORD_LIMIT: Duration = Duration::from_secs(1);
/// How long the last settlements of a consumer may take to be recorded.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// The shared parts of all queues of a pool.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) resources: Arc<Resources>,
    /// The id of the pool, once it has joined those that can be asked.
    pub(crate) pool: OnceLock<PoolId>,
    /// Whether the engine supports solo runs.
    pub(crate) has_solo: bool,
    /// The runtime in which the pool was spawned: it runs job functions and nothing else.
    pub(crate) runtime: Handle,
    pub(crate) plan: Plan,
    /// Entered by all queues of the pool.
    pub(crate) solo_lock: Arc<SoloLock>,
    /// Cancelled when the pool is shut down.
    pub(crate) stop: CancellationToken,
    /// Cancelled when the pool is shut down or told to take no more jobs.
    pub(crate) enough: CancellationToken,
    /// Cancelled when the shutdown timeout is over.
    pub(crate) halt: CancellationToken,
    /// Cancelled [`RECORD_LIMIT`] before `halt`, or with it: nobody waits for outcomes any more that
    /// the engine has had its time to record.
    pub(crate) last_outcomes: CancellationToken,
}

impl Shared {
    pub(crate) fn new(
        (plan, resources): (Plan, Resources),
        runtime: Handle,
        has_solo: bool,
    ) -> Self {
        let (stop, halt) = (resources.shutdown.clone(), CancellationToken::new());
        Self {
            resources: Arc::new(resources),
            pool: OnceLock::new(),
            has_solo,
            runtime,
            plan,
            solo_lock: SoloLock::new(),
            enough: stop.child_token(),
            stop,
            last_outcomes: halt.child_token(),
            halt,
        }
    }

    /// The id of the pool if it can be asked and told of pauses.
    pub(crate) fn joined(&self) -> Option<PoolId> {
        self.pool.get().copied()
    }

    /// Returns when nobody waits any more for the record of an outcome that was decided when this was
    /// polled first.
    pub(crate) async fn outcome_is_overdue(&self) {
        let decided = Instant::now();
        self.last_outcomes.cancelled().await;
        tokio::time::sleep_until(decided + RECORD_LIMIT).await;
    }

    /// Returns when the outcomes of attempts that the end of the shutdown timeout ended are overdue.
    pub(crate) async fn too_late(&self) {
        self.halt.cancelled().await;
        tokio::time::sleep(2 * RECORD_LIMIT).await;
    }

    /// Waits until the settlements of a consumer that has stopped are recorded: the program may end
    /// when the pool does.
    pub(crate) async fn settled(&self, consumer: &Consumer, queue: &str) {
        tokio::select! {
            biased;
            () = consumer.settled() => return,
            () = self.outcome_is_overdue() => {}
            () = tokio::time::sleep(SETTLE_LIMIT) => {}
        }
        telemetry::settlements_not_recorded(queue);
    }

    /// Waits, without taking jobs, until the pool is shut down. The error is that its client was
    /// closed.
    pub(crate) async fn stay_quiet(&self) -> Result<()> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            () = self.resources.client.closed() => Err(closed()),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.resources.client.clock()
    }

    /// Whether the runtime has shut down, which may have made a job function fail.
    pub(crate) fn has_runtime_ended(&self) -> bool {
        let task = self.runtime.spawn(std::future::pending::<()>());
        let has_ended = task.is_finished();
        task.abort();
        has_ended
    }
}
