//! The parts of the users' queues, as the management API listed them last.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::Doctor;
use super::role::{Role, role, specs};
use crate::engine::{Figure, Part, Place};
use crate::job::Priority;
use crate::period;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing_key;

/// How long a list is used: whoever counts the jobs of many queues requests it once.
const FRESH: Duration = Duration::from_secs(2);
/// How long a list tells which queues there are not.
const RECENT: Duration = Duration::from_secs(60);
/// How long the reason is kept for which there is no list.
const FAILED: Duration = Duration::from_secs(10);
/// How long the list is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

const NOT_GIVEN: &str = "this client has not declared the queue, and AMQP does not list its tiers: \
     set the URL of the management API (`--management`, `ClientBuilder::management` or \
     JOBQ_MANAGEMENT_URL)";

const LEVELS_NOT_GIVEN: &str = "jobs may be in the delay levels, which all queues share, and AMQP \
     does not list them: set the URL of the management API (`--management`, \
     `ClientBuilder::management` or JOBQ_MANAGEMENT_URL)";
const NOT_COUNTED: &str = "the management API has not counted the messages yet";

/// The last list.
#[derive(Debug, Default)]
pub(crate) struct Listing(Mutex<Option<Listed>>);

#[derive(Debug)]
struct Listed {
    at: Instant,
    /// What was found, or why the management API does not show it.
    found: Result<Found, String>,
}

/// The queues of a namespace.
#[derive(Debug, Clone, Default)]
struct Found {
    /// The existing parts of the users' queues.
    parts: Wanted,
    /// The names of the level queues.
    levels: Vec<String>,
    /// How many messages each queue of the broker had, up to five seconds ago.
    messages: HashMap<String, Messages>,
}

/// How many messages a queue has.
#[derive(Debug, Clone, Copy, Default)]
struct Messages {
    /// Those that no consumer holds.
    ready: Option<u64>,
    all: Option<u64>,
    /// Those that were returned and wait for the delay that a policy sets.
    delayed: u64,
}

/// The jobs of a queue that were returned and wait inside their part of it. AMQP does not count
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delayed {
    pub(crate) jobs: u64,
    pub(crate) failed: u64,
}

impl Found {
    fn delayed(&self, names: &Names, queue: &str) -> Delayed {
        let in_queue = |name: String| self.messages.get(&name).map_or(0, |found| found.delayed);
        let places = names.work_queues(queue).into_iter().chain([names.solo(queue)]);
        let jobs = places.map(in_queue).fold(0, u64::saturating_add);
        Delayed { jobs, failed: in_queue(names.failed(queue)) }
    }
}

impl Listed {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < if self.found.is_ok() { FRESH } else { FAILED }
    }
}

impl Doctor {
    /// The names of the users' queues in the namespace, or why the management API does not show
    /// them. `None` without a management API.
    pub(crate) async fn queue_names(&self) -> Option<Result<BTreeSet<String>, String>> {
        let listed = self.list_in_time().await?;
        let names = listed.found.clone().map(|found| found.parts.queues.into_keys().collect());
        *self.listing.0.lock().await = Some(listed);
        Some(names)
    }

    /// The existing tiers of a queue and whether it has a solo queue. `None` if the management API
    /// does not list the queue: it may be new.
    pub(crate) async fn listed(&self, queue: &str) -> Figure<Option<Wanted>> {
        let last = self.last().await;
        found(last.as_ref(), NOT_GIVEN).map(|found| found.parts.part(queue))
    }

    /// The existing parts of all queues.
    pub(crate) async fn listed_parts(&self) -> Figure<Wanted> {
        let last = self.last().await;
        found(last.as_ref(), NOT_GIVEN).map(|found| found.parts.clone())
    }

    /// The names of the existing level queues.
    pub(crate) async fn listed_levels(&self) -> Figure<Vec<String>> {
        let last = self.last().await;
        found(last.as_ref(), LEVELS_NOT_GIVEN).map(|found| found.levels.clone())
    }

    /// Where the jobs of a queue are by the figures of the management API, which are up to five
    /// seconds old; `None` if it does not list the queue. AMQP has none while an alarm lasts.
    pub(crate) async fn counted(&self, queue: &str) -> Option<Vec<Part>> {
        let last = self.last().await;
        let found = last.as_ref()?.found.as_ref().ok()?;
        let (names, wanted) = (self.known.names(), found.parts.part(queue)?);
        let part = |place, name: String| {
            let counted = found.messages.get(&name).copied().unwrap_or_default();
            // Failed jobs are failed also while somebody looks at them.
            let jobs = if place == Place::Failed { counted.all } else { counted.ready };
            Part::new(place, jobs.map_or_else(|| Figure::unknown(NOT_COUNTED), Figure::Known))
        };
        let mut parts = vec![part(Place::Ready, names.work(queue))];
        for priority in Priority::OTHERS.iter().filter(|_| wanted.priorities.contains(queue)) {
            let lane = routing_key::lane(queue, *priority);
            parts.push(part(Place::of_due(*priority), names.work(&lane)));
            parts.push(part(Place::Due, names.due(&lane)));
        }
        parts.extend(wanted.solo.get(queue).map(|queue| part(Place::Solo, names.solo(queue))));
        for millis in wanted.queues.get(queue).iter().flat_map(|tiers| tiers.iter()) {
            let place = Place::Tier(Duration::from_millis(*millis));
            parts.push(part(place, names.tier(queue, *millis)));
        }
        parts.push(part(Place::Due, names.due(queue)));
        let Delayed { jobs, .. } = found.delayed(names, queue);
        parts.extend((jobs > 0).then(|| Part::new(Place::Waiting, jobs)));
        parts.push(part(Place::Failed, names.failed(queue)));
        Some(parts)
    }

    /// The jobs of a queue that AMQP does not count, by the same figures. None without a management
    /// API.
    pub(crate) async fn delayed(&self, queue: &str) -> Delayed {
        let last = self.last().await;
        let found = last.as_ref().and_then(|listed| listed.found.as_ref().ok());
        found.map_or_else(Delayed::default, |found| found.delayed(self.known.names(), queue))
    }

    /// How many jobs are in the levels, by the same figures.
    pub(crate) async fn counted_in_levels(&self) -> Option<u64> {
        let last = self.last().await;
        let found = last.as_ref()?.found.as_ref().ok()?;
        found
            .levels
            .iter()
            .map(|level| found.messages.get(level).and_then(|counted| counted.all))
            .sum()
    }

    /// The last list, or a new one if that is old; `None` without a management API.
    async fn last(&self) -> MutexGuard<'_, Option<Listed>> {
        let mut last = self.listing.0.lock().await;
        if !last.as_ref().is_some_and(Listed::is_fresh) {
            *last = self.list_in_time().await.or(last.take());
        }
        last
    }

    /// Whether the last list has a queue for solo runs of this one, and whether it has lanes of
    /// priorities; `None` if there is no recent list.
    pub(crate) fn lists(&self, queue: &str) -> Option<(bool, bool)> {
        let last = self.listing.0.try_lock().ok()?;
        let recent = last.as_ref().filter(|listed| listed.at.elapsed() < RECENT)?;
        let parts = &recent.found.as_ref().ok()?.parts;
        Some((parts.solo.contains(queue), parts.priorities.contains(queue)))
    }

    async fn list_in_time(&self) -> Option<Listed> {
        let at = Instant::now();
        let found = timeout(PATIENCE, self.list()).await.unwrap_or_else(|_| {
            let limit = period::format(PATIENCE);
            Some(Err(format!("the management API did not list the queues within {limit}")))
        });
        Some(Listed { at, found: found? })
    }

    async fn list(&self) -> Option<Result<Found, String>> {
        let found = self.queues_by_management().await?;
        let names = self.known.names();
        let read = |found: Vec<super::facts::Queue>| Found {
            parts: Wanted::queues(&specs(names, found.iter().map(|queue| queue.name.as_str()))),
            levels: found
                .iter()
                .filter(|queue| role(names, &queue.name) == Some(Role::Level))
                .map(|queue| queue.name.clone())
                .collect(),
            messages: found
                .into_iter()
                .map(|queue| {
                    let (ready, all) = (queue.ready, queue.messages);
                    let delayed = queue.delayed.unwrap_or(0);
                    (queue.name, Messages { ready, all, delayed })
                })
                .collect(),
        };
        Some(found.map(read))
    }
}

/// What the last list has, or why there is none.
fn found<'l>(last: Option<&'l Listed>, not_given: &'static str) -> Figure<&'l Found> {
    match last.map(|listed| &listed.found) {
        Some(Ok(found)) => Figure::Known(found),
        Some(Err(reason)) => Figure::unknown(reason.clone()),
        None => Figure::unknown(not_given),
    }
}
