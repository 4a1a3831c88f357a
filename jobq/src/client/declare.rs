//! Declaring the queues of job types.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::Client;
use super::kind::JobKind;
use crate::background;
use crate::error::Result;
use crate::job::{Job, origin};

/// The job types whose queue was declared, with the queue and the origin of their jobs.
pub(super) type Declared = BTreeMap<TypeId, (&'static str, Arc<str>)>;

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
        self.declare_kind(&JobKind::of::<J>()).await.map(drop)
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

    /// Declares the queue of a job type unless this client has done so, and returns the origin of
    /// its jobs.
    pub(super) async fn declare_kind(&self, kind: &JobKind) -> Result<Arc<str>> {
        if let Some(origin) = self.origin(kind) {
            return Ok(origin);
        }
        kind.check()?;
        // Several callers may do so at once, each with its own timeout.
        background::call(self.engine().declare(&[kind.spec()])).await?;
        let origin = origin(self.program(), kind.type_name);
        self.declared().insert(kind.type_id, (kind.queue, Arc::clone(&origin)));
        Ok(origin)
    }

    /// The origin of the jobs of a type whose queue this client has declared.
    pub(super) fn origin(&self, kind: &JobKind) -> Option<Arc<str>> {
        self.declared().get(&kind.type_id).map(|(_, origin)| Arc::clone(origin))
    }

    fn declared(&self) -> MutexGuard<'_, Declared> {
        self.shared.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the declaration, so that the next job declares the queue again.
    pub(super) fn forget(&self, kind: &JobKind) {
        self.declared().retain(|_, (queue, _)| *queue != kind.queue);
    }
}
