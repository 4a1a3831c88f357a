//! The conformance suite for engines (feature `testing`).
//!
//! [`conformance!`](macro@crate::engine::conformance::conformance) turns each case of the suite into a
//! `#[tokio::test]` of the calling crate, so that a failure has a name. It needs a [`Store`], which
//! holds the jobs of one case and is created for each case.
//!
//! ```
//! use std::sync::Arc;
//!
//! use jobq::engine::Engine;
//!
//! struct Memory;
//!
//! #[async_trait::async_trait]
//! impl jobq::engine::conformance::Store for Memory {
//!     async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
//!         jobq::engine::conformance::open("sqlite::memory:", "jobq").await
//!     }
//! }
//!
//! jobq::engine::conformance::conformance!(
//!     sqlite_memory,
//!     Memory,
//!     delays = yes,
//!     control = yes,
//!     shared = no,
//!     admits = yes,
//!     departs = yes
//! );
//! ```
//!
//! The last arguments are capabilities of the engine. Cases that need a missing capability are
//! compiled as ignored tests with the reason, so that they are printed and counted:
//!
//! * `delays`: an [`Envelope`](crate::engine::Envelope) may be pushed with an initial delay;
//! * `control`: its pools can be asked, and its queues paused;
//! * `shared`: several engines can be open on one store at a time;
//! * `admits`, `departs`: it takes jobs of other engines, and hands its own over.
//!
//! An engine that moves jobs and has neither events, solo runs nor an administration gives `delays`
//! alone. `examples/own_engine` is one.
//!
//! The suite never sleeps to let something happen: it waits for the event itself, and compares
//! times only with lower bounds. So it passes on a slow machine, only more slowly.
//!
//! **Unstable**, like the trait that it tests.

mod bench;
pub mod cases;
mod member;

use std::sync::Arc;

use async_trait::async_trait;

pub use crate::conformance;
pub use bench::{Bench, DEADLINE, eventually, soon};

use crate::admin::visits;
use crate::clock::Clock;
use crate::engine::{
    Administer, Certificates, Consume, Consumer, Engine, EngineOptions, QueueName, Verdict,
};
use crate::error::Result;
use crate::job::{FailedJob, JobId};

/// The store of one case.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Opens an engine on this store. If the engine is `shared`, all engines see the same queues.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    async fn open(&self) -> Result<Arc<dyn Engine>>;

    /// Cleans up after a passed case, when its engines are closed. Does nothing by default.
    async fn remove(&self) {}
}

/// Shorthands for tests of an engine.
#[async_trait]
pub trait EngineExt: Engine {
    /// Consumes a queue of this name.
    ///
    /// # Errors
    ///
    /// An invalid name; those of [`Engine::consume`].
    async fn consume_from(&self, queue: &str, prefetch: u16) -> Result<Consumer> {
        self.consume(Consume::new(QueueName::new(queue)?, prefetch)).await
    }

    /// Consumes the solo jobs of a queue.
    ///
    /// # Errors
    ///
    /// As [`consume_from`](Self::consume_from).
    async fn consume_solo(&self, queue: &str) -> Result<Consumer> {
        self.consume(Consume::solo(QueueName::new(queue)?)).await
    }

    /// The administration of the engine.
    ///
    /// # Panics
    ///
    /// If it has none.
    fn admin(&self) -> &dyn Administer {
        self.administer().expect("the engine has an administration")
    }

    /// The failed jobs of a queue, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// As [`Administer::failed_visit`].
    async fn failed_list(&self, queue: &str, limit: usize) -> Result<Vec<FailedJob>> {
        visits::list(self.admin(), queue, limit).await
    }

    /// The oldest failed job of a queue with this id.
    ///
    /// # Errors
    ///
    /// As [`Administer::failed_visit`].
    async fn failed_find(&self, queue: &str, id: JobId) -> Result<Option<FailedJob>> {
        visits::find(self.admin(), queue, id).await
    }

    /// Settles the oldest failed job of a queue with this id, or all, and returns how many.
    ///
    /// # Errors
    ///
    /// As [`Administer::failed_visit`], and those of jobs that cannot be retried.
    async fn failed_settle(&self, queue: &str, id: Option<JobId>, verdict: Verdict) -> Result<u64> {
        visits::settle(self.admin(), queue, id, verdict).await
    }
}

impl<E: Engine + ?Sized> EngineExt for E {}

/// Opens the engine of a URL, as a client does, with defaults for tests.
///
/// # Errors
///
/// As [`Client::connect`](crate::Client::connect).
pub async fn open(url: &str, namespace: &str) -> Result<Arc<dyn Engine>> {
    crate::client::open::open(url, options(namespace)).await
}

/// [`open`] for a `sqlite:` URL, with another lease, after which the jobs of a dead engine are
/// released.
///
/// # Errors
///
/// As [`open`].
#[cfg(feature = "sqlite")]
pub async fn open_with_lease(
    url: &str,
    namespace: &str,
    lease: std::time::Duration,
) -> Result<Arc<dyn Engine>> {
    crate::sqlite::open_with_lease(url, options(namespace), lease).await
}

fn options(namespace: &str) -> EngineOptions {
    EngineOptions {
        namespace: namespace.to_owned(),
        connection_name: "jobq-tests".to_owned(),
        // Long enough for the restart of a broker on a slow machine.
        timeout: DEADLINE,
        clock: Clock::system(),
        certificates: Certificates::default(),
        credentials: None,
        management: None,
        keeps_schema: false,
        fail_fast_after: None,
        is_lazy: false,
    }
}
