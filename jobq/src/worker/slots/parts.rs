//! What the state of the slots is made of.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::{Delivery, Settlement};
use crate::job::JobId;
use crate::telemetry::Who;
use crate::worker::attempt::likeness;
use crate::worker::registry::Registered;

/// A slot that is taken.
pub(super) struct Slot {
    /// Tells it from those that have its place before or after it.
    pub(super) number: u64,
    /// Whether its first task has begun.
    pub(super) has_begun: bool,
    /// Its newest task, and which one that is.
    pub(super) task: Option<(u32, JoinHandle<()>)>,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    /// Its delivery does not run yet, or is settled.
    Between,
    Runs(Running),
    /// Its delivery has run and is settled in this moment.
    Ends {
        id: JobId,
        life: u64,
        held: Held,
    },
    /// Its function runs, and the attempt is over.
    Abandoned,
    /// And should have ended. It is not known when it will.
    Lost(Who),
}

impl Slot {
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self.stage, Stage::Abandoned | Stage::Lost(_))
    }

    /// Where the delivery of this id, life and likeness is held, if its job has this slot in
    /// another life.
    pub(super) fn held_for(&mut self, (id, life, own): (JobId, u64, u64)) -> Option<&mut Held> {
        match &mut self.stage {
            Stage::Runs(Running { who, delivery, held, .. }) => {
                (who.id == id && delivery.epoch() != life && likeness(delivery) == own)
                    .then_some(held)
            }
            Stage::Ends { id: other, life: others, held } => {
                (*other == id && *others != life).then_some(held)
            }
            Stage::Between | Stage::Abandoned | Stage::Lost(_) => None,
        }
    }
}

/// The same job as that of an attempt, delivered again meanwhile.
pub(crate) type Held = Option<Box<Delivery>>;

/// A slot, whoever has its place later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(super) index: usize,
    pub(super) number: u64,
}

/// An attempt whose function runs.
pub(crate) struct Running {
    pub(crate) who: Who,
    pub(crate) job: Arc<Registered>,
    pub(crate) delivery: Delivery,
    pub(crate) started: Instant,
    pub(crate) limit: Option<Duration>,
    /// Tells the function that it is cancelled, if it can ask.
    pub(crate) cancelled: Option<CancellationToken>,
    pub(crate) held: Held,
}

impl Running {
    /// When its timeout is up; never where the clock cannot hold that.
    pub(super) fn end(&self) -> Option<Instant> {
        self.limit.and_then(|limit| self.started.checked_add(limit))
    }

    /// Tells the function that it is cancelled, and drops it if it awaits something. Gives
    /// the time that it took.
    pub(crate) fn cancel(&self, task: Option<JoinHandle<()>>) -> Duration {
        let took = self.started.elapsed();
        self.cancelled.as_ref().inspect(|cancelled| cancelled.cancel());
        task.inspect(JoinHandle::abort);
        took
    }
}

/// An attempt whose function goes on without it.
pub(crate) struct Abandoned {
    pub(crate) running: Running,
    pub(crate) place: Place,
    pub(crate) task: Option<JoinHandle<()>>,
    /// Its place among those that are being settled.
    pub(crate) settling: usize,
}

/// An attempt that is being settled, which takes longer than a moment.
pub(super) struct Settling {
    pub(super) id: JobId,
    pub(super) life: u64,
    pub(super) likeness: u64,
    pub(super) held: Held,
}

impl Settling {
    /// Where the delivery of this id, life and likeness is held, if its job is this one in
    /// another life.
    pub(super) fn held_for(&mut self, (id, life, own): (JobId, u64, u64)) -> Option<&mut Held> {
        (self.id == id && self.life != life && self.likeness == own).then_some(&mut self.held)
    }
}

/// What is left of an attempt when it is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) id: JobId,
    /// How it was to be settled.
    pub(crate) settlement: Settlement,
    /// Set if it was not: the delivery was no longer this pool's. It is the job's likeness.
    pub(crate) stale: Option<u64>,
    pub(crate) held: Held,
}

/// A delivery that is to be settled.
pub(crate) struct Unsettled {
    /// Its place among those that are being settled.
    pub(crate) place: usize,
    pub(crate) delivery: Delivery,
    pub(crate) settlement: Settlement,
    /// None if it was settled before, in vain.
    pub(crate) who: Option<Who>,
}

/// What the task of the queue is told.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) unsettled: Vec<Unsettled>,
    pub(crate) prefetch: Option<u16>,
}

/// What a slot had whose task is gone.
pub(crate) enum Gone {
    /// An attempt that is not over.
    Running(Running),
    /// It was lost, by this one.
    Lost(Who),
    Over,
}
