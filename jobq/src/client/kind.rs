//! Job types without generics.

use std::any::TypeId;

use super::outgoing::What;
use crate::engine::QueueSpec;
use crate::error::Result;
use crate::job::{Job, JobOptions, check_name, check_pattern, queue_of};
use crate::retry;

/// The name, the queue and the policy of a job type.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobKind {
    pub(super) name: &'static str,
    pub(super) queue: &'static str,
    pub(super) options: &'static JobOptions,
    /// The type of the payload.
    pub(super) type_id: TypeId,
}

impl JobKind {
    pub(super) fn of<J: Job>() -> Self {
        Self {
            name: J::NAME,
            queue: queue_of::<J>(),
            options: &J::OPTIONS,
            type_id: TypeId::of::<J>(),
        }
    }

    /// The description of a job of this type for hooks.
    pub(super) fn outgoing(&self) -> What {
        What::Job { name: self.name.into(), queue: self.queue.into() }
    }

    pub(super) fn check(&self) -> Result<()> {
        check_name("job", self.name)?;
        check_name("queue", self.queue)?;
        self.options.on.iter().try_for_each(|pattern| check_pattern(pattern))
    }

    pub(super) fn spec(&self) -> QueueSpec {
        let patterns = self.options.on.iter().copied();
        QueueSpec::new(self.queue).waits(retry::waits(self.options)).patterns(patterns)
    }
}
