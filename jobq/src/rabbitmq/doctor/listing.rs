//! The parts of the users' queues, as the management API listed them last.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::examine::Doctor;
use super::role::specs;
use crate::engine::Read;
use crate::period;
use crate::rabbitmq::topology::requirements::Wanted;

/// How long a list is used: whoever counts the jobs of many queues requests it once.
const FRESH: Duration = Duration::from_secs(2);
/// How long a list tells which queues there are not.
const RECENT: Duration = Duration::from_secs(60);
/// How long the reason is kept for which there is no list.
const FAILED: Duration = Duration::from_secs(10);
/// How long counting waits for the list.
const PATIENCE: Duration = Duration::from_secs(2);

const NOT_GIVEN: &str = "this client has declared no job of the queue, and AMQP does not list its \
     tiers: give the URL of the management API (`--management`, `ClientBuilder::management` or \
     JOBQ_MANAGEMENT_URL)";

/// The last list.
#[derive(Debug, Default)]
pub(crate) struct Listing(Mutex<Option<Listed>>);

#[derive(Debug)]
struct Listed {
    at: Instant,
    /// The existing parts of the users' queues, or why the management API does not show them.
    parts: Result<Wanted, String>,
}

impl Listed {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < if self.parts.is_ok() { FRESH } else { FAILED }
    }
}

impl Doctor {
    /// The names of the users' queues in the namespace, or why the management API does not show
    /// them. `None` without a management API.
    pub(crate) async fn queue_names(&self) -> Option<Result<BTreeSet<String>, String>> {
        let at = Instant::now();
        let parts = self.list().await?;
        let names = parts.clone().map(|parts| parts.queues.into_keys().collect());
        *self.listing.0.lock().await = Some(Listed { at, parts });
        Some(names)
    }

    /// The existing tiers of a queue and whether it has a solo queue. `None` if the management API
    /// does not list the queue: it may be new.
    ///
    /// Only names are taken from the list. Its figures may be five seconds old.
    pub(crate) async fn listed(&self, queue: &str) -> Read<Option<Wanted>> {
        let mut last = self.listing.0.lock().await;
        if !last.as_ref().is_some_and(Listed::is_fresh) {
            let at = Instant::now();
            let listed = timeout(PATIENCE, self.list()).await.unwrap_or_else(|_| {
                let limit = period::format(PATIENCE);
                Some(Err(format!("the management API does not list the queues within {limit}")))
            });
            let Some(parts) = listed else { return Read::unknown(NOT_GIVEN) };
            *last = Some(Listed { at, parts });
        }
        match last.as_ref().map(|listed| &listed.parts) {
            Some(Ok(parts)) => Read::Known(parts.part(queue)),
            Some(Err(reason)) => Read::unknown(reason.clone()),
            None => Read::unknown(NOT_GIVEN),
        }
    }

    /// Whether the last list has a queue for solo runs of this one; `None` if there is no recent list.
    pub(crate) fn lists_solo(&self, queue: &str) -> Option<bool> {
        let last = self.listing.0.try_lock().ok()?;
        let recent = last.as_ref().filter(|listed| listed.at.elapsed() < RECENT)?;
        recent.parts.as_ref().ok().map(|parts| parts.solo.contains(queue))
    }

    async fn list(&self) -> Option<Result<Wanted, String>> {
        let found = self.queues_by_management().await?;
        let names = self.known.names();
        let parts = |found: Vec<super::facts::Queue>| {
            Wanted::queues(&specs(names, found.iter().map(|queue| queue.name.as_str())))
        };
        Some(found.map(parts))
    }
}
