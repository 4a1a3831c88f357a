//! Where a subscription takes its messages from.

use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::requirements::Wanted;

/// The queue that is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The work queue of a user's queue.
    Work(&'static str),
    /// Its queue of solo runs.
    Solo(&'static str),
    /// The queue of unroutable messages.
    Orphan,
}

impl Place {
    /// The user's queue, for errors and logs.
    pub(crate) fn queue(self) -> &'static str {
        match self {
            Self::Work(queue) | Self::Solo(queue) => queue,
            Self::Orphan => ORPHAN,
        }
    }

    /// The name of the queue on the broker.
    pub(crate) fn name(self, names: &Names) -> String {
        match self {
            Self::Work(queue) => names.work(queue),
            Self::Solo(queue) => names.solo(queue),
            Self::Orphan => names.orphan(),
        }
    }

    /// The routing key of its jobs, in the names of consumers.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Work(queue) => queue.to_owned(),
            Self::Solo(queue) => Names::solo_key(queue),
            Self::Orphan => ORPHAN.to_owned(),
        }
    }

    /// What declares the queue again, if this client has declared it.
    pub(super) fn wanted(self, known: &Declared) -> Option<Wanted> {
        match self {
            Self::Work(queue) | Self::Solo(queue) => known.part(queue),
            Self::Orphan => Some(Wanted::shared()),
        }
    }
}
