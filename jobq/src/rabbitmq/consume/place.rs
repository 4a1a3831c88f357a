//! Where a subscription takes its messages from.

use crate::job::Priority;
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing_key;

/// The queue that is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The work queue of a user's queue, for jobs with this priority.
    Work(&'static str, Priority),
    /// Its queue of solo runs.
    Solo(&'static str),
    /// The queue of unroutable messages.
    Orphan,
}

impl Place {
    /// The user's queue, for errors and logs.
    pub(crate) fn queue(self) -> &'static str {
        match self {
            Self::Work(queue, _) | Self::Solo(queue) => queue,
            Self::Orphan => ORPHAN,
        }
    }

    /// Whether it has the jobs of a priority other than normal.
    pub(super) fn is_of_priority(self) -> bool {
        matches!(self, Self::Work(_, priority) if priority != Priority::Normal)
    }

    /// The name of the queue on the broker.
    pub(crate) fn name(self, names: &Names) -> String {
        match self {
            Self::Work(queue, priority) => names.work(&routing_key::lane(queue, priority)),
            Self::Solo(queue) => names.solo(queue),
            Self::Orphan => names.orphan(),
        }
    }

    /// The routing key of its jobs, in the names of consumers.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Work(queue, priority) => routing_key::lane(queue, priority).into_owned(),
            Self::Solo(queue) => Names::solo_key(queue),
            Self::Orphan => ORPHAN.to_owned(),
        }
    }

    /// What declares the queue again, if this client has declared it.
    pub(super) fn wanted(self, known: &Declared) -> Option<Wanted> {
        match self {
            Self::Work(queue, _) | Self::Solo(queue) => known.part(queue),
            Self::Orphan => Some(Wanted::shared()),
        }
    }
}
