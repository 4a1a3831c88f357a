//! Declaring the queues of job types.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use super::Client;
use super::kind::JobKind;
use crate::background;
use crate::error::Result;
use crate::job::Job;

/// The job types whose queue was declared, with the queue.
pub(super) type Declared = BTreeMap<TypeId, &'static str>;

impl Client {
    /// Declares the queue of a job type, with its subscriptions. The first
    /// [`enqueue`](Self::enqueue) does it, too; call this to do it when a program is deployed or
    /// started.
    ///
    /// # Errors
    ///
    /// An invalid name; an engine that cannot be reached or refuses;
    /// [`Conflict`](crate::ErrorKind::Conflict) if something that is not a queue of jobq has the
    /// queue's name.
    pub async fn declare<J: Job>(&self) -> Result<()> {
        self.declare_kind(&JobKind::of::<J>()).await
    }

    /// Declares the queues for jobs with a [delay](crate::Enqueue::delay) of any length, and for
    /// retries whose wait grows or is set at run time: on RabbitMQ 116 queues. The first such job
    /// declares those that its wait needs, which takes a second or two. A namespace needs it once;
    /// calling it again changes nothing. On SQLite it does nothing.
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    pub async fn declare_delays(&self) -> Result<()> {
        self.declare_delays_up_to(Duration::MAX).await
    }

    /// [`declare_delays`](Self::declare_delays) for waits up to this one: fewer queues. On RabbitMQ
    /// they are 60 up to 1.8 hours, 75 up to 29 hours and 90 up to 19 days.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.declare_delays_up_to(std::time::Duration::from_secs(3_600)).await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`declare`](Self::declare).
    pub async fn declare_delays_up_to(&self, longest: Duration) -> Result<()> {
        background::call(self.engine().declare_delays(longest)).await
    }

    /// Declares the queue of a job type unless this client has done so.
    pub(super) async fn declare_kind(&self, kind: &JobKind) -> Result<()> {
        if self.has_declared(kind) {
            return Ok(());
        }
        kind.check()?;
        // Several callers may do so at once, each with its own timeout.
        background::call(self.engine().declare(&[kind.spec()])).await?;
        self.change_declared(|declared| _ = declared.insert(kind.type_id, kind.queue));
        Ok(())
    }

    /// Whether this client has declared the queue of a job type.
    pub(super) fn has_declared(&self, kind: &JobKind) -> bool {
        let declared = self.shared.declared.read().unwrap_or_else(PoisonError::into_inner);
        declared.contains_key(&kind.type_id)
    }

    fn change_declared(&self, change: impl FnOnce(&mut Declared)) {
        change(&mut self.shared.declared.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Forgets the declaration, so that the next job declares the queue again.
    pub(super) fn forget(&self, kind: &JobKind) {
        self.change_declared(|declared| declared.retain(|_, queue| *queue != kind.queue));
    }
}
