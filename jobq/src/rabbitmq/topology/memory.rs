//! The declared topology, to declare it again where parts are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::ensure::{NEW_QUEUE_WAIT, apply};
use super::levels::End;
use super::lookup::MissingQueues;
use super::names::Names;
use super::plan::{Declaration, Topology};
use super::requirements::{Tiers, Wanted};
use super::routing::Route;
use super::routing::Routing;
use crate::error::{Error, Result};
use crate::guard::lock;
use crate::job::topic;
use crate::period;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;

/// Everything that was declared, to declare it again on the next connection.
#[derive(Debug)]
pub(crate) struct Declared {
    names: Names,
    known: RwLock<Wanted>,
    routes: RwLock<BTreeMap<String, Routes>>,
    missing: Mutex<Option<Error>>,
    /// Queues and exchanges that were looked for and missing, declared or not.
    pub(crate) missing_queues: MissingQueues,
}

/// The routes into a queue for jobs without a delay.
#[derive(Debug)]
struct Routes {
    plain: Arc<Route>,
    /// By the milliseconds of the tier of the first retry.
    tiers: BTreeMap<u64, Arc<Route>>,
}

impl Routes {
    fn new(names: &Names, queue: &str, tiers: &Tiers) -> Result<Self> {
        let route = |tier| Routing::Now(tier).route(names, End::Queue(queue)).map(Arc::new);
        let with_tier = |tier: &u64| Ok((*tier, route(Some(*tier))?));
        Ok(Self { plain: route(None)?, tiers: tiers.iter().map(with_tier).collect::<Result<_>>()? })
    }
}

impl Declared {
    pub(crate) fn new(names: Names) -> Self {
        let (known, routes, missing) = (RwLock::default(), RwLock::default(), Mutex::default());
        Self { names, known, routes, missing, missing_queues: MissingQueues::default() }
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

    /// The route of a job without a delay into a declared queue, with the tier of its first retry
    /// if that exists.
    pub(crate) fn route(&self, queue: &str, retry_wait: Option<Duration>) -> Option<Arc<Route>> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let Routes { plain, tiers } = routes.get(queue)?;
        let tier = retry_wait.and_then(|wait| tiers.get(&period::millis(wait)));
        Some(Arc::clone(tier.unwrap_or(plain)))
    }

    /// The tiers of a declared queue.
    pub(crate) fn tiers(&self, queue: &str) -> Option<Arc<Tiers>> {
        self.known().queues.get(queue).cloned()
    }

    /// Whether a declared queue subscribes to a topic.
    pub(crate) fn subscribes(&self, queue: &str, topic: &str) -> bool {
        let known = self.known();
        let mut patterns = known.subscriptions.iter().filter(|(name, _)| name == queue);
        patterns.any(|(_, pattern)| topic::matches(pattern, topic))
    }

    /// The requirements of a declared queue.
    pub(crate) fn part(&self, queue: &str) -> Option<Wanted> {
        self.known().part(queue)
    }

    /// Everything that was declared.
    pub(crate) fn all(&self) -> Wanted {
        self.known().clone()
    }

    /// The names of the level queues that were declared.
    pub(crate) fn levels(&self) -> BTreeSet<String> {
        let Wanted { levels, .. } = *self.known();
        let of = |wanted: &Wanted| {
            let places = self.topology(wanted).into_declarations();
            let queue = |place| match place {
                Declaration::Queue { name, .. } => Some(name),
                _ => None,
            };
            places.filter_map(queue).collect::<BTreeSet<_>>()
        };
        &of(&Wanted { levels, ..Wanted::shared() }) - &of(&Wanted::shared())
    }

    /// How many levels were declared, from the lowest.
    pub(crate) fn level_count(&self) -> u32 {
        self.known().levels
    }

    /// Whether all of this was declared.
    pub(crate) fn covers(&self, wanted: &Wanted) -> bool {
        self.known().covers(wanted)
    }

    /// Records declared requirements.
    pub(crate) fn add(&self, declared: Wanted) {
        let queues: Vec<_> = declared.queues.keys().cloned().collect();
        self.change().add(declared);
        for queue in queues {
            let tiers = self.tiers(&queue).unwrap_or_default();
            // Without stored routes, each job of the queue builds its own.
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

    /// The error of a missing part that could not be declared again.
    pub(crate) fn missing(&self) -> Option<Error> {
        lock(&self.missing).clone()
    }

    /// Stores the error of a missing part, and returns the previous one.
    pub(crate) fn set_missing(&self, missing: Option<Error>) -> Option<Error> {
        std::mem::replace(&mut *lock(&self.missing), missing)
    }

    /// The declarations for these requirements.
    pub(crate) fn topology(&self, wanted: &Wanted) -> Topology {
        Topology::new(&self.names, wanted)
    }

    /// Declares everything that was declared before, on a new connection.
    pub(crate) async fn restore(&self, up: &ConnectionEpoch) -> Result<()> {
        let known = self.all();
        if !known.shared {
            return Ok(());
        }
        if apply(up, &self.topology(&known)).await? {
            tracing::warn!("exchanges or queues lost by the broker; redeclared without their jobs");
            tokio::time::sleep(NEW_QUEUE_WAIT).await;
        }
        Ok(())
    }
}
