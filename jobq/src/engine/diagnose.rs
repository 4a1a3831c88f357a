use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::QueueSpec;
use crate::error::{Error, Result};
use crate::finding::{Finding, Report};

/// What an engine knows of its store's health. Given by
/// [`Engine::diagnose`](super::Engine::diagnose).
#[async_trait]
pub trait Diagnose: fmt::Debug + Send + Sync {
    /// The engine's name and version, and how long a worker may keep a job unsettled, as far as
    /// the store tells.
    async fn about(&self) -> About;

    /// The error of a part of what this engine declared that the store has lost and that it may
    /// not declare again, once that was noticed. Jobs may wait for it.
    fn missing(&self) -> Option<Error> {
        None
    }

    /// Looks for what weakens the promises of jobq: about these queues, those that this
    /// engine knows, and the store itself. Nothing changes.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn examine(&self, queues: &[QueueSpec]) -> Result<Report>;

    /// What was set from outside of jobq that weakens these queues, as far as it can be
    /// seen: what a pool that starts wants to know.
    ///
    /// # Errors
    ///
    /// As [`examine`](Self::examine).
    async fn examine_policies(&self, queues: &[QueueSpec]) -> Result<Vec<Finding>> {
        let _ = queues;
        Ok(Vec::new())
    }
}

/// The description of an engine: its name, its version and its limit on unsettled jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// Its name and version, for a person, without secrets.
    pub name: String,
    /// Set if it takes jobs back from workers that are still running them.
    pub hold: Option<Hold>,
}

impl About {
    /// An engine of this name and version, which takes no job back from a worker that runs it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), hold: None }
    }
}

/// How long a worker may have a job in hand before the engine gives it to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// How long, as far as is known.
    pub limit: Duration,
    /// What to change to make it longer, for a person.
    pub remedy: String,
}

impl Hold {
    /// This long, and what to change.
    #[must_use]
    pub fn new(limit: Duration, remedy: impl Into<String>) -> Self {
        Self { limit, remedy: remedy.into() }
    }
}
