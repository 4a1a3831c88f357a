use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::attempt::Resources;
use super::registry::Plan;
use super::solo_lock::SoloLock;
use super::tally::Tally;
use crate::clock::Clock;

/// The shared parts of all queues of a pool.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) resources: Arc<Resources>,
    /// Whether the engine supports solo runs.
    pub(crate) has_solo: bool,
    /// The runtime in which the pool was spawned: it runs job functions and nothing else.
    pub(crate) runtime: Handle,
    pub(crate) plan: Plan,
    /// Entered by all queues of the pool.
    pub(crate) solo_lock: Arc<SoloLock>,
    pub(crate) tally: Tally,
    /// Cancelled when the shutdown timeout is over.
    pub(crate) halt: CancellationToken,
}

impl Shared {
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
