//! Comparing a broker with the declarations of programs, declaring them, and deleting queues that
//! none of them has.
//!
//! `diff` and `leftover` are pure.

pub(crate) mod diff;
mod leftover;

use std::sync::Arc;

use serde::Serialize;

use self::diff::{Difference, TopologyDiff};
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::admin::control::Control;
use crate::rabbitmq::admin::doctor::Doctor;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::topology::declare::delete;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::lookup::MissingQueues;
use crate::rabbitmq::topology::plan::Topology;

/// The result of a declaration, from [`Admin::apply_topology`](crate::admin::Admin::apply_topology).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Applied {
    /// Whether a queue or an exchange was missing.
    pub created: bool,
}

/// The queues that no declaration has, from
/// [`Admin::prune_topology`](crate::admin::Admin::prune_topology).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// Those that were deleted, or would be, by their names on the broker.
    pub deleted: Vec<String>,
    /// Those that stay, with the reasons.
    pub kept: Vec<Difference>,
    /// Those that could not be deleted, with the errors. After a lost connection the first of them may
    /// be gone nevertheless.
    pub failed: Vec<Difference>,
}

/// The topology of a broker.
#[derive(Debug)]
pub(crate) struct Provision<'e> {
    pub(crate) broker: &'e Arc<Broker>,
    pub(crate) declarer: &'e Arc<Declarer>,
    pub(crate) doctor: &'e Doctor,
    pub(crate) control: &'e Control,
}

impl Provision<'_> {
    /// Compares the broker with declarations.
    pub(crate) async fn diff(&self, wanted: &Topology) -> Result<TopologyDiff> {
        let names = self.declarer.known().names();
        diff::check(wanted, names)?;
        let facts = self.doctor.compare(wanted).await?;
        Ok(diff::diff(&facts, wanted, names))
    }

    /// Declares what is missing.
    pub(crate) async fn apply(&self, wanted: &Topology) -> Result<Applied> {
        diff::check(wanted, self.declarer.known().names())?;
        let declaring = self.declarer.declare_as_is(wanted);
        Ok(Applied { created: self.broker.patiently("declaring a topology", declaring).await? })
    }

    /// Deletes queues that are not declared, if they are empty and unused.
    ///
    /// The broker deletes quorum queues without checking that they are empty, so each is looked at
    /// again before. One whose figures are unknown stays.
    pub(crate) async fn prune(&self, wanted: &Topology, dry_run: bool) -> Result<Pruned> {
        let names = self.declarer.known().names();
        diff::check(wanted, names)?;
        let found = match self.doctor.queues_by_management().await {
            Some(Ok(found)) => found,
            Some(Err(reason)) => return Err(Error::new(ErrorKind::Refused, reason)),
            None => return Err(needs_management()),
        };
        let mut pruned = leftover::leftover(&found, wanted, names);
        if dry_run {
            return Ok(pruned);
        }
        let mut is_lost = false;
        for name in std::mem::take(&mut pruned.deleted) {
            if is_lost {
                let why = "not attempted, since the broker did not answer before".to_owned();
                pruned.failed.push(Difference::new(name, why));
                continue;
            }
            match self.broker.within(&format!("deleting `{name}`"), self.delete(&name)).await {
                Ok(None) => pruned.deleted.push(name),
                Ok(Some(why)) => pruned.kept.push(Difference::new(name, why)),
                Err(error) => {
                    is_lost = error.is_connection() || error.is_timeout() || error.is_closed();
                    pruned.failed.push(Difference::new(name, error.to_string()));
                }
            }
        }
        Ok(pruned)
    }

    /// Deletes a queue, or tells why it stays.
    async fn delete(&self, name: &str) -> Result<Option<String>> {
        let up = self.broker.up().await?;
        // Queues that were missing a moment ago may be there again.
        let figures = MissingQueues::default().figures(&up, name).await?;
        if let Some(why) = figures.and_then(leftover::stays) {
            return Ok(Some(why));
        }
        delete(&up, name).await?;
        let names = self.declarer.known().names();
        if let Some(queue) = names.queue_of(name).filter(|queue| names.work(queue) == name) {
            // Otherwise a later queue of this name would begin paused.
            self.control.forget(&up, queue).await;
        }
        Ok(None)
    }
}

fn needs_management() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "AMQP cannot list the queues of the namespace; set the URL of the management API \
         (`ClientBuilder::management` or JOBQ_MANAGEMENT_URL)",
    )
}
