//! Job types, and the declaration of their queues.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use super::Client;
use super::outgoing::What;
use crate::background;
use crate::engine::QueueSpec;
use crate::error::{Error, Result};
use crate::job::{Job, JobOptions, Priority, check_name, check_pattern, queue_of};
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

    /// The priority of a job of this type, for which the call may have chosen one.
    ///
    /// # Errors
    ///
    /// A choice for a job whose type has none.
    pub(super) fn priority(&self, chosen: Option<Priority>) -> Result<Priority> {
        match chosen {
            None => Ok(self.options.priority),
            Some(chosen) if self.options.priorities => Ok(chosen),
            Some(_) => Err(Error::invalid(format!(
                "the priority of job `{}` cannot be chosen at enqueue; add the key `priorities` to its \
                 `#[job(...)]`, and deploy the workers first",
                self.name
            ))),
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
        let spec = QueueSpec::new(self.queue).waits(retry::waits(self.options)).patterns(patterns);
        if self.options.has_priorities() { spec.priorities() } else { spec }
    }
}

/// The job types whose queue was declared, with the queue.
pub(super) type Declared = BTreeMap<TypeId, &'static str>;

impl Client {
    /// Declares the queue of a job type, with its subscriptions. The first
    /// [`enqueue`](Self::enqueue) does it, too; call this to do it when a program is deployed or
    /// started.
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job(on = "user.*")] async fn welcome(user: serde_json::Value) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn deploy(client: Client) -> jobq::Result<()> {
    /// client.declare::<Welcome>().await?; // from here on it gets events
    /// # Ok(())
    /// # }
    /// ```
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
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.declare_delays().await?;
    /// # Ok(())
    /// # }
    /// ```
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
