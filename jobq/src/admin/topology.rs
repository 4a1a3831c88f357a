//! The exchanges, queues and bindings of a RabbitMQ broker.

use std::any::Any;

use super::Admin;
use crate::background;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::{Applied, Pruned, Rabbit, Topology, TopologyDiff};

impl Admin {
    /// Compares the broker with the declarations of programs
    /// ([`WorkerPool::topology`](crate::WorkerPool::topology)), and changes nothing. With the
    /// management API ([`ClientBuilder::management`](crate::ClientBuilder::management)) also the
    /// bindings are compared.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool};
    /// # async fn example(client: Client, pool: WorkerPool) -> jobq::Result<()> {
    /// let diff = client.admin().topology(&pool.topology()?).await?;
    /// assert!(diff.is_same(), "{diff:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) on an engine other than RabbitMQ; declarations of
    /// another namespace; a broker that cannot be reached.
    pub async fn topology(&self, wanted: &Topology) -> Result<TopologyDiff> {
        let provision = self.rabbit()?.provision();
        background::call(provision.diff(wanted)).await
    }

    /// Declares the declarations of programs. What is there already stays as it is.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool};
    /// # async fn example(client: Client, pool: WorkerPool) -> jobq::Result<()> {
    /// client.admin().by("ann").apply_topology(&pool.topology()?).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`topology`](Self::topology); [`Conflict`](ErrorKind::Conflict) if a part exists with
    /// other properties; a missing permission. What was declared before the error stays.
    pub async fn apply_topology(&self, wanted: &Topology) -> Result<Applied> {
        let provision = self.rabbit()?.provision();
        background::call(async {
            let applied = provision.apply(wanted).await;
            tracing::info!(
                target: "jobq::audit",
                actor = %self.actor, action = "apply_topology", is_finished = applied.is_ok(),
                "topology declared"
            );
            applied
        })
        .await
    }

    /// Deletes the queues of the namespace that these declarations do not have, if they are empty
    /// and unused; with `dry_run` it only tells which. Give it the declarations of *all* programs of
    /// the namespace. A queue that is not declared at all is deleted with all its parts and its
    /// pause, or not at all. A queue stays while the broker cannot count its messages. Jobs in the
    /// delay levels are not seen: if their queue is deleted, they become failed jobs of `orphan`
    /// when their wait is over.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool};
    /// # async fn example(client: Client, pool: WorkerPool) -> jobq::Result<()> {
    /// let unused = client.admin().prune_topology(&pool.topology()?, true).await?;
    /// println!("without the dry run these would be deleted: {unused:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`topology`](Self::topology); [`Unsupported`](ErrorKind::Unsupported) without the
    /// management API. The error of a single queue is in [`failed`](Pruned::failed), and the others
    /// are deleted nevertheless.
    pub async fn prune_topology(&self, wanted: &Topology, dry_run: bool) -> Result<Pruned> {
        let provision = self.rabbit()?.provision();
        // Its future is large.
        background::call(Box::pin(async {
            let pruned = provision.prune(wanted, dry_run).await;
            if !dry_run {
                tracing::info!(
                    target: "jobq::audit",
                    actor = %self.actor, action = "prune_topology", is_finished = pruned.is_ok(),
                    "undeclared queues deleted"
                );
            }
            pruned
        }))
        .await
    }

    /// The engine, if it is RabbitMQ.
    fn rabbit(&self) -> Result<&Rabbit> {
        let engine: &dyn Any = &*self.engine;
        engine.downcast_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "only RabbitMQ has a topology of exchanges and queues; this engine creates what it \
                 needs by itself, so there is nothing to compare, declare or delete",
            )
        })
    }
}
