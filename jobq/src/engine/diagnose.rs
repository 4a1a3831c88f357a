use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::QueueSpec;
use crate::error::{Error, Result};
use crate::finding::{Finding, Report};

/// Diagnosis of an engine's store. Returned by [`Engine::diagnose`](super::Engine::diagnose).
#[async_trait]
pub trait Diagnose: fmt::Debug + Send + Sync {
    /// The engine's name and version, and its limit on unsettled jobs, as far as known.
    async fn about(&self) -> About;

    /// The error if the store has lost something that this engine declared and may not declare
    /// again. Jobs may wait for it. Defaults to `None`.
    fn missing(&self) -> Option<Error> {
        None
    }

    /// The error if the credentials in use could not be renewed, with the time that is left.
    /// Defaults to `None`.
    fn credentials(&self) -> Option<Error> {
        None
    }

    /// Looks for settings that weaken the guarantees of jobq: of these queues, the queues that this
    /// engine knows, and the store itself. It changes nothing.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached or refuses.
    async fn examine(&self, queues: &[QueueSpec]) -> Result<Report>;

    /// Looks for visible external policies that weaken these queues; pools call it when they start.
    /// Defaults to none.
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
    /// The name and version, for people, without secrets.
    pub name: String,
    /// Set if the engine takes jobs back from workers that still run them.
    pub hold: Option<Hold>,
}

impl About {
    /// An engine of this name and version that takes no job back from a running worker.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), hold: None }
    }
}

/// The longest time that a worker may hold a job before the engine delivers it to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The limit, as far as is known.
    pub limit: Duration,
    /// How to raise the limit, for people.
    pub remedy: String,
}

impl Hold {
    /// A limit and its remedy.
    #[must_use]
    pub fn new(limit: Duration, remedy: impl Into<String>) -> Self {
        Self { limit, remedy: remedy.into() }
    }
}
