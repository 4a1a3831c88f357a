//! The facts about a broker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::rabbitmq::topology::temporary::QueueType;

/// After how long the management API has newer figures: they are up to five seconds old.
pub(super) const NEWER: Duration = Duration::from_secs(6);

/// All facts.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) vhost: String,
    /// From the server properties, such as `3.10.8`.
    pub(crate) version: Option<String>,
    /// The type of jobq's temporary queues.
    pub(crate) temporary: QueueType,
    /// The negotiated seconds. 0 means none.
    pub(crate) heartbeat: u16,
    /// Whether the broker accepts messages.
    pub(crate) publishing: Publishing,
    /// The exchanges and queues that are not certainly as declared, by their titles.
    pub(crate) places: BTreeMap<String, State>,
    /// The answers of the management API, if its URL was given.
    pub(crate) management: Option<Management>,
}

impl Facts {
    /// Whether this `exchange` or `queue` is missing.
    pub(crate) fn lacks(&self, kind: &str, name: &str) -> bool {
        self.places.get(&format!("{kind} `{name}`")) == Some(&State::Missing)
    }

    /// The queues of the namespace, if the management API shows them.
    pub(crate) fn queues(&self) -> Option<&[Queue]> {
        self.management.as_ref()?.queues.as_deref().ok()
    }
}

/// The state of an exchange, a queue or a binding that is not certainly as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Missing,
    /// It has other properties than the declaration: these.
    Different(String),
    /// It could not be looked at, for this reason.
    Refused(String),
    /// It exists, and this user may not declare it, so that it was not compared.
    Uncompared,
    /// This user may not look for it.
    Hidden,
    /// The broker did not answer, and was asked for no other.
    Unanswered,
}

impl From<Error> for State {
    /// The state of a part that the broker refused to declare, or to look for.
    fn from(refusal: Error) -> Self {
        let text = refusal.to_string();
        if refusal.is_conflict() { Self::Different(text) } else { Self::Refused(text) }
    }
}

/// Whether the broker accepts an unroutable message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Publishing {
    #[default]
    Unknown,
    Taken,
    /// It stopped reading, for this reason.
    Blocked(String),
    /// It did not answer for this long.
    Silent(String),
}

/// The facts from the management API, or why it does not show them.
#[derive(Debug)]
pub(crate) struct Management {
    /// The queues of the namespace.
    pub(crate) queues: Result<Vec<Queue>, String>,
    /// The nodes.
    pub(crate) nodes: Result<Vec<Node>, String>,
    /// The bindings of the vhost.
    pub(crate) bindings: Result<Vec<Binding>, String>,
    /// The queues of the whole broker that dead-letter at least once.
    pub(crate) dead_lettering: Result<Vec<DeadLettering>, String>,
    /// The consumers of the vhost.
    pub(crate) consumers: Result<Vec<Consumer>, String>,
}

/// A queue as the management API shows it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) arguments: Value,
    pub(crate) policy: Option<String>,
    pub(crate) operator_policy: Option<String>,
    /// The combined definition of both policies.
    #[serde(rename = "effective_policy_definition")]
    pub(crate) effective: Value,
    /// The nodes that have it.
    pub(crate) members: Option<Vec<String>>,
    /// The node that leads it.
    pub(crate) leader: Option<String>,
    /// The messages that were passed on and are not confirmed.
    pub(crate) messages_dlx: Option<u64>,
    /// Those that were returned and wait for the delay that a policy sets (RabbitMQ 4.3).
    #[serde(rename = "messages_delayed")]
    pub(crate) delayed: Option<u64>,
    /// All messages, those in flight included. `None` if the broker has not counted yet.
    pub(crate) messages: Option<u64>,
    /// Those that no consumer holds.
    #[serde(rename = "messages_ready")]
    pub(crate) ready: Option<u64>,
    pub(crate) consumers: Option<u64>,
}

/// A queue of any vhost that dead-letters at least once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeadLettering {
    /// The node that leads it, if any does.
    pub(crate) leader: Option<String>,
}

/// A consumer as the management API shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Consumer {
    /// The name of its queue.
    pub(crate) queue: String,
    pub(crate) tag: String,
    /// The user of its connection, and where that comes from. `None` for some protocols.
    pub(crate) user: Option<String>,
    pub(crate) host: Option<String>,
}

/// A binding as the management API shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(crate) struct Binding {
    pub(crate) source: String,
    pub(crate) destination: String,
    /// `queue` or `exchange`.
    pub(crate) destination_type: String,
    pub(crate) routing_key: String,
}

/// A node as the management API shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) running: bool,
    pub(crate) mem_alarm: bool,
    pub(crate) disk_free_alarm: bool,
    /// The nodes that it takes for cut off.
    pub(crate) partitions: Vec<String>,
}
