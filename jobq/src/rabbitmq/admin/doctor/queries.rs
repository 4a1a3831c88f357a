//! The questions of jobq to the broker's management API: facts that AMQP does not show. Each answer
//! is the facts, or the reason for which they are not shown.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::facts::{Binding, Consumer, DeadLettering, Node, Queue};
use super::in_force::{Named, Policies, Policy};
use super::management::Management;

/// The requested columns of queues.
const COLUMNS: &str = "name,type,arguments,policy,operator_policy,effective_policy_definition,members,leader,\
     messages,messages_ready,messages_dlx,messages_delayed,consumers";

/// A queue with its leader.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Led {
    leader: Option<String>,
    arguments: Value,
}

impl Management {
    /// The queues of a namespace.
    pub(super) async fn queues(&self, namespace: &str) -> Result<Vec<Queue>, String> {
        // A namespace has no special characters of patterns.
        let pattern = format!("^{namespace}[:.]");
        let query = [("name", pattern.as_str()), ("use_regex", "true"), ("columns", COLUMNS)];
        self.pages(&["queues", &self.vhost], &query).await
    }

    /// The queues of all vhosts that dead-letter at least once.
    pub(super) async fn dead_lettering(&self) -> Result<Vec<DeadLettering>, String> {
        let of = |queue: Led| {
            let strategy = queue.arguments.get("x-dead-letter-strategy").and_then(Value::as_str);
            (strategy == Some("at-least-once")).then_some(DeadLettering { leader: queue.leader })
        };
        let found = self.pages(&["queues"], &[("columns", "leader,arguments")]).await?;
        Ok(found.into_iter().filter_map(of).collect())
    }

    /// The nodes of the cluster.
    pub(super) async fn nodes(&self) -> Result<Vec<Node>, String> {
        let columns = "name,running,mem_alarm,disk_free_alarm,partitions";
        self.get(&["nodes"], &[("columns", columns)]).await
    }

    /// The bindings of the vhost.
    pub(super) async fn bindings(&self) -> Result<Vec<Binding>, String> {
        let columns = "source,destination,destination_type,routing_key";
        self.get(&["bindings", &self.vhost], &[("columns", columns)]).await
    }

    /// The consumers of the vhost.
    pub(super) async fn consumers(&self) -> Result<Vec<Consumer>, String> {
        let columns = "queue.name,consumer_tag,channel_details.user,channel_details.peer_host";
        let found: Vec<Value> =
            self.get(&["consumers", &self.vhost], &[("columns", columns)]).await?;
        // Channels of other protocols have no details, as an empty list.
        let text = |value: &Value, path: &str| {
            value.pointer(path).and_then(Value::as_str).map(str::to_owned)
        };
        let of = |value: &Value| {
            Some(Consumer {
                queue: text(value, "/queue/name")?,
                tag: text(value, "/consumer_tag")?,
                user: text(value, "/channel_details/user"),
                host: text(value, "/channel_details/peer_host"),
            })
        };
        Ok(found.iter().filter_map(of).collect())
    }

    /// The policies of the vhost as they are now, and those of its queues that each concerns by its
    /// pattern.
    pub(super) async fn policies(&self) -> Result<Policies, String> {
        Ok(Policies {
            of_users: self.policies_at("policies").await?,
            of_operators: self.policies_at("operator-policies").await?,
        })
    }

    async fn policies_at(&self, path: &str) -> Result<Vec<Named>, String> {
        let all: Vec<Policy> = self.get(&[path, &self.vhost], &[]).await?;
        let all: Vec<_> = all.into_iter().filter(Policy::is_for_quorum_queues).collect();
        // Without one that matters, it does not matter which of them are in force.
        if !all.iter().any(Policy::matters) {
            return Ok(Vec::new());
        }
        let mut named = Vec::new();
        for policy in all {
            let queues = self.matched(&policy.pattern).await?;
            named.push(Named { policy, queues });
        }
        Ok(named)
    }

    /// The queues whose names match a pattern. The API applies it as policies do, but for case.
    async fn matched(&self, pattern: &str) -> Result<BTreeSet<String>, String> {
        #[derive(Deserialize)]
        struct Name {
            name: String,
        }
        let pattern = format!("(?-i){pattern}");
        let query = [
            ("name", pattern.as_str()),
            ("use_regex", "true"),
            ("columns", "name"),
            // The records of the queues alone.
            ("disable_stats", "true"),
        ];
        let found: Vec<Name> = self.pages(&["queues", &self.vhost], &query).await?;
        Ok(found.into_iter().map(|queue| queue.name).collect())
    }
}
