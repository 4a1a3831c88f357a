//! Where a message goes: by a route that is known, or by the wait that is left.
//!
//! The route of a wait is made when the message is sent, so that the wait is shorter by the time that
//! went by before: declaring levels, reconnecting, an alarm.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::levels::End;
use super::memory::Declared;
use super::requirements::Tiers;
use super::routing::{Route, Routing};
use super::routing_key;
use crate::error::Result;
use crate::period;

/// Where a message goes.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// The same way whenever it is sent.
    Route(Arc<Route>),
    /// By way of the wait that is left when it is sent.
    Wait(Box<Wait>),
}

impl Destination {
    /// The route of a message that is sent now.
    pub(crate) fn route(&self) -> Arc<Route> {
        match self {
            Self::Route(route) => Arc::clone(route),
            Self::Wait(wait) => Arc::new(wait.route()),
        }
    }

    /// When the wait is over, if there is one.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        match self {
            Self::Route(_) => None,
            Self::Wait(wait) => (wait.asked > 0).then_some(wait.until),
        }
    }
}

impl From<Arc<Route>> for Destination {
    fn from(route: Arc<Route>) -> Self {
        Self::Route(route)
    }
}

impl From<Route> for Destination {
    fn from(route: Route) -> Self {
        Self::Route(Arc::new(route))
    }
}

impl From<Wait> for Destination {
    fn from(wait: Wait) -> Self {
        Self::Wait(Box::new(wait))
    }
}

/// The wait of a message before it reaches its queue or its subscribers.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    known: Arc<Declared>,
    /// The wait in whole milliseconds, as it was asked for.
    asked: u64,
    due: Instant,
    /// The same by the clock of this machine, for others.
    until: SystemTime,
    end: OwnedEnd,
    tiers: Arc<Tiers>,
    /// The tier of the first retry, for a message that is due already.
    retry: Option<u64>,
}

#[derive(Debug, Clone)]
enum OwnedEnd {
    Queue(String),
    Topic(String),
}

impl OwnedEnd {
    fn get(&self) -> End<'_> {
        match self {
            Self::Queue(queue) => End::Queue(queue),
            Self::Topic(topic) => End::Topic(topic),
        }
    }
}

impl Wait {
    /// A wait of which so much is left now, at this time.
    ///
    /// # Errors
    ///
    /// A wait beyond the limit of the levels; an invalid name of a queue or a topic.
    pub(crate) fn new(
        known: &Arc<Declared>,
        (asked, left): (Duration, Duration),
        now: SystemTime,
        end: End<'_>,
        retry: Option<Duration>,
    ) -> Result<Self> {
        let (tiers, owned) = match end {
            End::Queue(lane) => {
                let queue = routing_key::read(lane).queue;
                (known.tiers(queue).unwrap_or_default(), OwnedEnd::Queue(lane.to_owned()))
            }
            End::Topic(topic) => (Arc::default(), OwnedEnd::Topic(topic.to_owned())),
        };
        let asked = period::millis(asked);
        // Later routes are shorter.
        Routing::new(asked, end, &tiers)?.route(known.names(), end)?;
        let retry = retry.map(period::millis).filter(|millis| tiers.contains(millis));
        let (known, due) = (Arc::clone(known), Instant::now() + left);
        let until = now.checked_add(left).unwrap_or(now);
        Ok(Self { known, asked, due, until, end: owned, tiers, retry })
    }

    /// The number of levels that the route needs now.
    pub(crate) fn levels(&self) -> u32 {
        match self.routing(u32::MAX) {
            Routing::Levels(entry) => entry.level + 1,
            Routing::Now(_) | Routing::Tier(_) => 0,
        }
    }

    /// The route for a message that is sent now.
    pub(crate) fn route(&self) -> Route {
        self.routing(self.known.level_count()).short_route(self.known.names(), self.end.get())
    }

    fn routing(&self, levels: u32) -> Routing {
        let left = self.due.saturating_duration_since(Instant::now());
        let rest = (self.asked, period::millis(left));
        Routing::of_rest(rest, self.end.get(), &self.tiers, levels, self.retry)
    }
}
