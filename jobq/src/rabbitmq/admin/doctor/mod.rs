//! Examining a broker for settings that weaken jobq's guarantees: facts and findings.
//!
//! All is pure but `examine`, `listing`, `management` and `queries`, which collect facts.

pub(crate) mod compare;
mod consumers;
mod diagnosis;
mod examine;
pub(crate) mod facts;
#[cfg(feature = "management")]
mod in_force;
mod leaders;
mod listing;
#[cfg(feature = "management")]
mod login;
#[cfg(feature = "management")]
mod management;
mod policy;
mod presence;
#[cfg(feature = "management")]
mod queries;
pub(crate) mod role;
mod unseen;
mod version;
mod waits;

use std::sync::Arc;

pub(crate) use examine::Unseen;
pub(crate) use listing::{Delayed, Listing};
#[cfg(feature = "management")]
pub(crate) use management::Management;

use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::queue_types::QueueTypes;

/// Examines the broker of an engine.
#[derive(Debug)]
pub(crate) struct Doctor {
    pub(crate) broker: Arc<Broker>,
    pub(crate) known: Arc<Declared>,
    pub(crate) queue_types: Arc<QueueTypes>,
    /// The management API, if the user gave its URL.
    #[cfg(feature = "management")]
    pub(crate) management: Option<Management>,
    pub(crate) listing: Listing,
}

/// The first few of these.
fn few(all: &[String]) -> String {
    match all {
        [first, second, third, _, rest @ ..] => {
            format!("{first}, {second}, {third} and {} more", rest.len() + 1)
        }
        few => few.join(", "),
    }
}
