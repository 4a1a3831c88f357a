//! What was seen of a broker.

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) vhost: String,
    /// As the broker greets with it, such as `3.10.8`.
    pub(crate) version: Option<String>,
    /// The seconds that were agreed on; 0 is none.
    pub(crate) heartbeat: u16,
    /// Whether the broker takes messages.
    pub(crate) publishing: Publishing,
    /// The queues that were asked after and are not there, by the broker's names.
    pub(crate) missing: Vec<String>,
    /// The exchanges that were, too.
    pub(crate) missing_exchanges: Vec<String>,
    /// The declarations that the broker refused: the thing, and the refusal.
    pub(crate) refused: Vec<(String, Error)>,
    /// The queues and exchanges that are there and may not be declared by this user, so that
    /// nobody said whether they are as they should be.
    pub(crate) uncompared: Vec<String>,
    /// Those that this user may not even ask for.
    pub(crate) hidden: Vec<String>,
    /// The one that the broker did not answer for. No other was asked for after it.
    pub(crate) unanswered: Option<String>,
    pub(crate) management: Management,
}

/// Whether the broker takes a message that reaches no queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Publishing {
    #[default]
    Unknown,
    Taken,
    /// It said that it takes none, for this reason.
    Blocked(String),
    /// It said nothing for this long.
    Silent(String),
}

/// What the management API showed.
#[derive(Debug, Default)]
pub(crate) enum Management {
    /// No URL was given.
    #[default]
    NotGiven,
    #[cfg_attr(not(feature = "management"), expect(dead_code, reason = "nobody can be asked"))]
    Asked {
        /// The queues of the namespace, or why they were not shown.
        queues: Result<Vec<Queue>, String>,
        /// The nodes, or why they were not shown.
        nodes: Result<Vec<Node>, String>,
        /// The bindings of the vhost, or why they were not shown.
        bindings: Result<Vec<Binding>, String>,
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
    /// What both policies together say.
    #[serde(rename = "effective_policy_definition")]
    pub(crate) effective: Value,
    /// The nodes that have it.
    pub(crate) members: Option<Vec<String>>,
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
