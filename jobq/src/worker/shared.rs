use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::attempt::Resources;
use super::registry::Plan;
use super::solo_lock::SoloLock;
use super::tally::Tally;

/// What all queues of a pool share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) resources: Arc<Resources>,
    /// Whether its engine can have a job run alone.
    pub(crate) has_solo: bool,
    /// The runtime that the pool was started in: it runs the job functions, and they alone.
    pub(crate) runtime: Handle,
    pub(crate) plan: Plan,
    /// Before all its queues.
    pub(crate) solo_lock: Arc<SoloLock>,
    pub(crate) tally: Tally,
    /// Cancelled when the shutdown timeout is over.
    pub(crate) halt: CancellationToken,
}

impl Shared {
    /// Whether the runtime runs no task any more. A job function may have failed for that.
    pub(crate) fn has_runtime_ended(&self) -> bool {
        let task = self.runtime.spawn(std::future::pending::<()>());
        let has_ended = task.is_finished();
        task.abort();
        has_ended
    }
}
