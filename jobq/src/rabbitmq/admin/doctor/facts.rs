//! The facts about a broker.

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
    /// The missing queues, by their names on the broker.
    pub(crate) missing: Vec<String>,
    /// The missing exchanges.
    pub(crate) missing_exchanges: Vec<String>,
    /// The refused declarations, each with its error.
    pub(crate) refused: Vec<(String, Error)>,
    /// The queues and exchanges that exist but may not be declared by this user, so that they
    /// were not compared.
    pub(crate) uncompared: Vec<String>,
    /// Those that this user may not look for.
    pub(crate) hidden: Vec<String>,
    /// The one for which the broker did not answer. The examination ended there.
    pub(crate) unanswered: Option<String>,
    pub(crate) management: Management,
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

/// The facts from the management API.
#[derive(Debug, Default)]
pub(crate) enum Management {
    /// No URL was given.
    #[default]
    NotGiven,
    #[cfg_attr(
        not(any(feature = "management", test)),
        expect(dead_code, reason = "nobody can be asked")
    )]
    Asked {
        /// The queues of the namespace, or why they were not shown.
        queues: Result<Vec<Queue>, String>,
        /// The nodes, or why they were not shown.
        nodes: Result<Vec<Node>, String>,
        /// The bindings of the vhost, or why they were not shown.
        bindings: Result<Vec<Binding>, String>,
        /// The queues of the whole broker that dead-letter at least once, or why they were not shown.
        dead_lettering: Result<Vec<DeadLettering>, String>,
    },
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
