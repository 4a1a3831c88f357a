//! The declared topology, to declare it again where parts are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::declaration::Declaration;
use super::ensure::{NEW_QUEUE_WAIT, apply};
use super::levels::End;
use super::lookup::MissingQueues;
use super::names::Names;
use super::plan::Topology;
use super::requirements::{Tiers, Wanted};
use super::routing::Route;
use super::routing::Routing;
use super::routing_key;
use crate::error::{Error, Result};
use crate::guard::lock;
use crate::job::topic;
use crate::period;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::is_forbidden;

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

/// The routes into a lane for jobs without a delay.
#[derive(Debug)]
struct Routes {
    plain: Arc<Route>,
    /// By the milliseconds of the tier of the first retry.
    tiers: BTreeMap<u64, Arc<Route>>,
}

impl Routes {
    fn new(names: &Names, lane: &str, tiers: &Tiers) -> Result<Self> {
        let route = |tier| Routing::Now(tier).route(names, End::Queue(lane)).map(Arc::new);
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

    /// The route of a job without a delay into a lane of a declared queue, with the tier of its first retry
    /// if that exists.
    pub(crate) fn route(&self, lane: &str, retry_wait: Option<Duration>) -> Option<Arc<Route>> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let Routes { plain, tiers } = routes.get(lane)?;
        let tier = retry_wait.and_then(|wait| tiers.get(&period::millis(wait)));
        Some(Arc::clone(tier.unwrap_or(plain)))
    }

    /// The tiers of a declared queue.
    pub(crate) fn tiers(&self, queue: &str) -> Option<Arc<Tiers>> {
        self.known().queues.get(queue).cloned()
    }

    /// Whether the jobs of a declared queue may have priorities.
    pub(crate) fn has_priorities(&self, queue: &str) -> bool {
        self.known().priorities.contains(queue)
    }

    /// Whether the jobs of a queue may have priorities: by what was declared, else by a look for one of
    /// the lanes, which are declared together. A lane that was missing within the last ten minutes is
    /// looked for only if it is `wanted`: each look in vain costs a channel number.
    pub(crate) async fn finds_priorities(
        &self,
        up: &ConnectionEpoch,
        queue: &str,
        wanted: bool,
    ) -> Result<bool> {
        if self.has_priorities(queue) {
            return Ok(true);
        }
        let [lane, _] = routing_key::other_lanes(queue);
        let name = self.names.work(&lane);
        if !wanted && self.missing_queues.was_missing(&name) {
            return Ok(false);
        }
        match self.missing_queues.has_queue(up, &name).await {
            // This user does not take its jobs either.
            Err(error) if is_forbidden(&error) => Ok(false),
            found => found,
        }
    }

    /// These requirements with the lanes and tiers that are known of their queues, if the jobs of one
    /// may have priorities: each lane has a binding for each tier.
    pub(crate) fn completed(&self, mut wanted: Wanted) -> Wanted {
        let known = self.known();
        let mixed = wanted.queues.keys().filter(|queue| {
            wanted.priorities.contains(*queue) || known.priorities.contains(*queue)
        });
        for queue in mixed.cloned().collect::<Vec<_>>() {
            wanted.add(known.part(&queue).unwrap_or_default());
            wanted.priorities.insert(queue);
        }
        wanted
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
            let others = self.has_priorities(&queue).then(|| routing_key::other_lanes(&queue));
            for lane in others.into_iter().flatten().chain([queue]) {
                // Without stored routes, each job of the lane builds its own.
                if let Ok(routes) = Routes::new(&self.names, &lane, &tiers) {
                    self.change_routes().insert(lane, routes);
                }
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
        self.change_routes().retain(|lane, _| routing_key::read(lane).queue != queue);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueueSpec;

    #[test]
    fn each_lane_gets_the_tiers_of_all_that_was_declared() {
        let spec = |seconds: u64| QueueSpec::new("mail").waits([Duration::from_secs(seconds)]);
        let (plain, with) = ([spec(60)], [spec(30).priorities()]);
        for [first, second] in [[&plain, &with], [&with, &plain]] {
            let known = Declared::new(Names::new("jobq"));
            known.add(known.completed(Wanted::queues(first)));
            let second = known.completed(Wanted::queues(second));
            let bindings = known.topology(&second).to_string();
            known.add(second);
            for key in ["mail@high@60000", "mail@low@30000"] {
                assert!(bindings.contains(&format!("jobq:mail@{}", &key[5..8])), "{bindings}");
                assert!(bindings.contains(&format!("key={key}\n")), "{bindings}");
            }
            let route = known.route("mail@high", Some(Duration::from_secs(60))).unwrap();
            assert_eq!(route.key.as_str(), "mail@high@60000");
        }
        let known = Declared::new(Names::new("jobq"));
        known.add(Wanted::queues(&with));
        let other = Wanted::queues(&[QueueSpec::new("other")]);
        assert_eq!(known.completed(other.clone()), other);
    }
}
