//! Examines a broker without changing it: missing parts are not declared.

use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;
#[cfg(feature = "management")]
use tokio::time::Instant;
use tokio::time::{sleep, timeout};

use super::Doctor;
use super::diagnosis::{diagnose, policies};
#[cfg(feature = "management")]
use super::facts::Binding;
use super::facts::{Facts, Management, NEWER, Publishing, Queue, State};
#[cfg(feature = "management")]
use super::in_force::are_behind;
use super::role::specs;
use super::unseen::{held_up, unseen};
use super::waits;
use crate::engine::{PoolReport, QueueSpec};
use crate::error::Result;
#[cfg(feature = "management")]
use crate::error::{Error, ErrorKind};
use crate::finding::{Finding, Report};
use crate::period;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::SupervisedConnection;
use crate::rabbitmq::errors::is_forbidden;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::publish::confirm::send_alone;
use crate::rabbitmq::topology::declare::declare_place;
use crate::rabbitmq::topology::lookup::{Seen, look};
use crate::rabbitmq::topology::plan::Topology;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::values::short;

/// How long the broker may take to confirm an unroutable message.
const CONFIRM: Duration = Duration::from_secs(5);
/// How long the broker may take for a passive declaration. For a queue whose nodes are down it
/// answers at once (measured: 3.10, 4.0 and 4.3).
const ANSWER: Duration = Duration::from_secs(5);
/// After how long the management API shows a queue with a new policy, at most: the queue reports it
/// every five seconds, and so does what it reports to (measured on 3.10: 4.9 to 7.6 s).
#[cfg(feature = "management")]
const SHOWN: Duration = Duration::from_secs(15);
/// The time between two looks at queues that are shown with old policies.
#[cfg(feature = "management")]
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// The routing key of an unroutable message on the default exchange, which routes to the queue
/// of that name. No queue of jobq has this name.
const UNROUTABLE_KEY: &str = "jobq@doctor";

/// Whether there are jobs between the parts of a queue.
#[derive(Debug)]
pub(crate) enum Unseen {
    Nothing,
    /// There may be, for this reason.
    Maybe(String),
    /// There is no management API.
    Unknown,
}

impl Doctor {
    /// All findings about these queues and those that this client knows. With the management API,
    /// about all queues of the namespace. The reports are those of the pools that answered.
    pub(crate) async fn examine(
        &self,
        queues: &[QueueSpec],
        reports: &[PoolReport],
    ) -> Result<Report> {
        let (target, names) = (self.broker.target(), self.known.names());
        let (vhost, management) = (target.address.vhost().to_owned(), self.ask_management().await);
        let mut facts = Facts { vhost, management, ..Facts::default() };
        let found = facts.queues().unwrap_or_default();
        let mut wanted = self.known.all();
        wanted.add(Wanted::queues(queues));
        wanted.add(Wanted::queues(&specs(names, found.iter().map(|q| q.name.as_str()))));
        let levels = found.iter().filter_map(|q| names.level_of(&q.name)).max();
        wanted.levels = wanted.levels.max(levels.map_or(0, |highest| highest + 1));
        let topology = self.known.topology(&wanted);
        // The publishing connection may be blocked, and looking for missing parts uses up its
        // channel numbers.
        let link = self.broker.open("doctor").await?;
        let looking = self.collect_facts(&link, &topology, &mut facts);
        let seen = self.broker.within("examining the broker", looking).await;
        link.close().await;
        seen?;
        let about = format!("RabbitMQ at {}, namespace `{}`", target.address, names.namespace());
        let mut findings = diagnose(&facts, names, &topology);
        let queues = facts.queues().unwrap_or_default();
        findings.extend(waits::findings(reports, names, queues));
        findings.extend(self.held_back(queues).await);
        Ok(Report::new(about, facts.version, findings))
    }

    /// The facts about these declarations alone.
    pub(crate) async fn compare(&self, topology: &Topology) -> Result<Facts> {
        let management = self.ask_management().await;
        let mut facts = Facts { management, ..Facts::default() };
        // Looking for missing parts uses up the channel numbers of a connection.
        let link = self.broker.open("topology").await?;
        let looking = async { look_at(&*link.up().await?, topology, &mut facts).await };
        let seen = self.broker.within("comparing the topology", looking).await;
        link.close().await;
        seen.map(|()| facts)
    }

    /// The effects of policies on these queues and on the shared ones, if there is a management
    /// API.
    pub(crate) async fn examine_policies(&self, queues: &[QueueSpec]) -> Result<Vec<Finding>> {
        let (target, names) = (self.broker.target(), self.known.names());
        let found = match self.queues_with_policies().await {
            None => return Ok(Vec::new()),
            Some(Ok(found)) => found,
            Some(Err(reason)) => {
                tracing::warn!(reason, "could not check the queue policies");
                return Ok(Vec::new());
            }
        };
        let concerned = |queue: &Queue| match names.queue_of(&queue.name) {
            Some(name) => queues.iter().any(|spec| spec.name == name),
            None => true,
        };
        let found: Vec<_> = found.into_iter().filter(concerned).collect();
        Ok(policies(&found, names, target.address.vhost()))
    }

    /// The queues that hold back jobs, by a second look if any may.
    async fn held_back(&self, first: &[Queue]) -> Vec<Finding> {
        if !first.iter().any(|queue| waits::holds(queue) > 0) {
            return Vec::new();
        }
        sleep(NEWER).await;
        match self.queues_by_management().await {
            Some(Ok(later)) => waits::held_back(first, &later),
            _ => Vec::new(),
        }
    }

    /// Why there may be jobs between the parts of a queue, by these reports and by the management
    /// API, or why that does not tell. `Unknown` without a management API.
    pub(crate) async fn unseen(&self, queue: &str, reports: &[PoolReport]) -> Unseen {
        if let Some(why) = held_up(queue, reports) {
            return Unseen::Maybe(why);
        }
        // The figures of a second look are of a time after the call.
        for pause in [Duration::ZERO, NEWER] {
            sleep(pause).await;
            match self.queues_by_management().await {
                None => return Unseen::Unknown,
                Some(Err(why)) => return Unseen::Maybe(why),
                Some(Ok(found)) => {
                    if let Some(why) = unseen(self.known.names(), queue, &found) {
                        return Unseen::Maybe(why);
                    }
                }
            }
        }
        Unseen::Nothing
    }

    async fn collect_facts(
        &self,
        link: &SupervisedConnection,
        topology: &Topology,
        facts: &mut Facts,
    ) -> Result<()> {
        let up = link.up().await?;
        facts.version.clone_from(&up.version);
        facts.temporary = self.queue_types.temporary(up.version.as_deref()).await;
        facts.heartbeat = up.connection.configuration().heartbeat();
        look_at(&up, topology, facts).await?;
        facts.publishing = publish_unroutable(link, &up).await;
        Ok(())
    }

    #[cfg(feature = "management")]
    async fn ask_management(&self) -> Option<Management> {
        let api = self.management.as_ref()?;
        Some(Management {
            queues: self.queues_with_policies().await?,
            nodes: api.nodes().await,
            bindings: api.bindings().await,
            dead_lettering: api.dead_lettering().await,
            consumers: api.consumers().await,
        })
    }

    /// The queues of the namespace, or why the management API does not show them. `None` without a
    /// management API.
    #[cfg(feature = "management")]
    pub(crate) async fn queues_by_management(&self) -> Option<Result<Vec<Queue>, String>> {
        Some(self.management.as_ref()?.queues(self.known.names().namespace()).await)
    }

    /// The subscriptions of the namespace, as queues and patterns; none without a management API.
    ///
    /// # Errors
    ///
    /// An API that does not show them.
    #[cfg(feature = "management")]
    pub(crate) async fn subscriptions(&self) -> Result<Vec<(String, String)>> {
        let Some(api) = &self.management else { return Ok(Vec::new()) };
        let bindings = api.bindings().await.map_err(|why| {
            let text = format!("the subscriptions of the queues are unknown: {why}");
            Error::new(ErrorKind::Connection, text)
        })?;
        let (names, events) = (self.known.names(), self.known.names().events());
        let of_queue = |binding: Binding| {
            let is_subscription = binding.source == events && binding.destination_type == "queue";
            let queue = names.queue_of(&binding.destination).filter(|_| is_subscription)?;
            Some((queue.to_owned(), binding.routing_key))
        };
        Ok(bindings.into_iter().filter_map(of_queue).collect())
    }

    #[cfg(not(feature = "management"))]
    #[allow(clippy::unused_async)] // the variant above awaits
    pub(crate) async fn subscriptions(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// [`queues_by_management`](Self::queues_by_management), shown with the policies that are in force now. The API shows a queue with a new
    /// policy only after some seconds, so it is asked again until then.
    #[cfg(feature = "management")]
    async fn queues_with_policies(&self) -> Option<Result<Vec<Queue>, String>> {
        let (api, began) = (self.management.as_ref()?, Instant::now());
        loop {
            let policies = match api.policies().await {
                Ok(policies) => policies,
                Err(reason) if began.elapsed() >= api.timeout => return Some(Err(reason)),
                Err(reason) => {
                    tracing::debug!(
                        reason,
                        "could not list the policies; using those of the queues"
                    );
                    return self.queues_by_management().await;
                }
            };
            let queues = self.queues_by_management().await?;
            let is_old = queues.as_ref().is_ok_and(|queues| are_behind(queues, &policies));
            if !is_old || began.elapsed() >= SHOWN {
                return Some(queues);
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    #[cfg(not(feature = "management"))]
    #[allow(clippy::unused_async)] // the variant above awaits
    async fn queues_with_policies(&self) -> Option<Result<Vec<Queue>, String>> {
        None
    }

    #[cfg(not(feature = "management"))]
    #[allow(clippy::unused_async)] // the variant above awaits
    async fn ask_management(&self) -> Option<Management> {
        None
    }

    #[cfg(not(feature = "management"))]
    #[allow(clippy::unused_async)] // the variant above awaits
    pub(crate) async fn queues_by_management(&self) -> Option<Result<Vec<Queue>, String>> {
        None
    }
}

/// Looks for these queues and exchanges, and compares them with their declarations.
async fn look_at(up: &ConnectionEpoch, topology: &Topology, facts: &mut Facts) -> Result<()> {
    let mut may_declare = true;
    for place in topology.places() {
        let state = match timeout(ANSWER, look(up, &[place])).await {
            Err(_) => State::Unanswered,
            Ok(Err(error)) if error.is_connection() => return Err(error),
            Ok(Err(error)) => error.into(),
            Ok(Ok(Seen::Missing(_))) => State::Missing,
            Ok(Ok(Seen::Forbidden(_))) => State::Hidden,
            Ok(Ok(Seen::All)) if !may_declare => State::Uncompared,
            // It exists, so this only returns an error if it differs.
            Ok(Ok(Seen::All)) => match declare_place(up, place).await {
                Ok(()) => continue,
                Err(error) if error.is_connection() => return Err(error),
                Err(error) if is_forbidden(&error) => {
                    may_declare = false;
                    State::Uncompared
                }
                Err(error) => error.into(),
            },
        };
        let is_over = state == State::Unanswered;
        facts.places.insert(place.title(), state);
        if is_over {
            break;
        }
    }
    Ok(())
}

/// Publishes an unroutable message: a broker reports an alarm only to clients that publish.
async fn publish_unroutable(link: &SupervisedConnection, up: &ConnectionEpoch) -> Publishing {
    let confirming = async {
        let route = Arc::new(Route { exchange: short("").ok()?, key: short(UNROUTABLE_KEY).ok()? });
        let properties = BasicProperties::default();
        let message = Message { to: route.into(), properties, payload: Vec::new() };
        send_alone(up, &message, false).await.ok()?.ok()
    };
    let answered = tokio::select! {
        answered = timeout(CONFIRM, confirming) => answered,
        cause = link.blocked() => return Publishing::Blocked(cause.to_string()),
    };
    match answered {
        Ok(Some(_)) => Publishing::Taken,
        // The user may not publish to the default exchange, for example.
        Ok(None) => Publishing::Unknown,
        Err(_) => Publishing::Silent(period::format(CONFIRM)),
    }
}
