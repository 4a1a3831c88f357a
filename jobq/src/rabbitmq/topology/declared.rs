//! The topology that was declared: to declare it again where it is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::declarations::Topology;
use super::ensure::{FIRST_MOMENTS, apply};
use super::levels::End;
use super::names::Names;
use super::requirements::{Tiers, Wanted};
use super::route::Route;
use super::routing::Way;
use crate::error::{Error, Result};
use crate::period;
use crate::rabbitmq::connection::epoch::Up;

/// All that was declared, to declare it again on the next connection.
#[derive(Debug)]
pub(crate) struct Declared {
    names: Names,
    known: RwLock<Wanted>,
    routes: RwLock<BTreeMap<String, Routes>>,
    missing: Mutex<Option<Error>>,
}

/// The routes into a queue of jobs that wait for nothing.
#[derive(Debug)]
struct Routes {
    plain: Arc<Route>,
    /// With the tier of the first retry, by its milliseconds.
    tiers: BTreeMap<u64, Arc<Route>>,
}

impl Routes {
    fn new(names: &Names, queue: &str, tiers: &Tiers) -> Result<Self> {
        let route = |tier| Way::Now(tier).route(names, End::Queue(queue)).map(Arc::new);
        let with_tier = |tier: &u64| Ok((*tier, route(Some(*tier))?));
        Ok(Self { plain: route(None)?, tiers: tiers.iter().map(with_tier).collect::<Result<_>>()? })
    }
}

impl Declared {
    pub(crate) fn new(names: Names) -> Self {
        let (known, routes, missing) = (RwLock::default(), RwLock::default(), Mutex::default());
        Self { names, known, routes, missing }
    }

    fn known(&self) -> RwLockReadGuard<'_, Wanted> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Wanted> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The route of a job into a queue that was declared, where it waits for nothing: with the
    /// tier of its first retry, if that has one.
    pub(crate) fn route(&self, queue: &str, retry_wait: Option<Duration>) -> Option<Arc<Route>> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let Routes { plain, tiers } = routes.get(queue)?;
        let tier = retry_wait.and_then(|wait| tiers.get(&period::millis(wait)));
        Some(Arc::clone(tier.unwrap_or(plain)))
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
        let queues: Vec<_> = declared.queues.keys().cloned().collect();
        self.change().add(declared);
        for queue in queues {
            let tiers = self.tiers(&queue).unwrap_or_default();
            // A queue without routes has them made for each of its jobs.
            if let Ok(routes) = Routes::new(&self.names, &queue, &tiers) {
                self.change_routes().insert(queue, routes);
            }
        }
    }

    /// Forgets a subscription that was ended.
    pub(crate) fn forget_subscription(&self, queue: &str, pattern: &str) {
        self.change().subscriptions.remove(&(queue.to_owned(), pattern.to_owned()));
    }

    fn change_routes(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Routes>> {
        self.routes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a queue that was deleted.
    pub(crate) fn forget(&self, queue: &str) {
        self.change_routes().remove(queue);
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
