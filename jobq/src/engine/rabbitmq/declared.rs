//! The topology that was declared: to declare it again where it is gone.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::ensure::{FIRST_MOMENTS, apply};
use super::names::Names;
use super::topology::Topology;
use super::up::Up;
use super::wanted::{Tiers, Wanted};
use crate::error::{Error, Result};

/// All that was declared, to declare it again on the next connection.
#[derive(Debug)]
pub(crate) struct Declared {
    names: Names,
    known: RwLock<Wanted>,
    missing: Mutex<Option<Error>>,
}

impl Declared {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, known: RwLock::default(), missing: Mutex::default() }
    }

    fn known(&self) -> RwLockReadGuard<'_, Wanted> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Wanted> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tiers of a queue that was declared.
    pub(crate) fn tiers(&self, queue: &str) -> Option<Arc<Tiers>> {
        self.known().queues.get(queue).cloned()
    }

    /// What a queue that was declared needs.
    pub(crate) fn part(&self, queue: &str) -> Option<Wanted> {
        self.known().part(queue)
    }

    /// All that was declared.
    pub(crate) fn all(&self) -> Wanted {
        self.known().clone()
    }

    /// Whether there is nothing new in this.
    pub(crate) fn covers(&self, wanted: &Wanted) -> bool {
        self.known().covers(wanted)
    }

    /// Remembers what was declared.
    pub(crate) fn add(&self, declared: Wanted) {
        self.change().add(declared);
    }

    /// Forgets a subscription that was ended.
    pub(crate) fn forget_subscription(&self, queue: &str, pattern: &str) {
        self.change().subscriptions.remove(&(queue.to_owned(), pattern.to_owned()));
    }

    /// Forgets a queue that was deleted.
    pub(crate) fn forget(&self, queue: &str) {
        self.change().remove(queue);
    }

    /// The error of a part that is missing on the broker and could not be declared again.
    pub(crate) fn missing(&self) -> Option<Error> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what is missing, and gives what was noted before.
    pub(crate) fn set_missing(&self, missing: Option<Error>) -> Option<Error> {
        std::mem::replace(
            &mut *self.missing.lock().unwrap_or_else(PoisonError::into_inner),
            missing,
        )
    }

    /// What this needs.
    pub(crate) fn topology(&self, wanted: &Wanted) -> Topology {
        Topology::new(&self.names, wanted)
    }

    /// Declares everything that was declared before, on a new connection.
    pub(crate) async fn restore(&self, up: &Up) -> Result<()> {
        let known = self.all();
        if !known.shared {
            return Ok(());
        }
        if apply(up, &self.topology(&known)).await? {
            tracing::warn!(
                "the broker had lost exchanges or queues; they were declared again, without their jobs"
            );
            tokio::time::sleep(FIRST_MOMENTS).await;
        }
        Ok(())
    }
}
