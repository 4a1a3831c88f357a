//! What jobq asks the broker's management API: facts that AMQP does not show. Each answer is the
//! facts, or the reason for which they are not shown.

use serde::Deserialize;
use serde_json::Value;

use super::facts::{Binding, Consumer, DeadLettering, Node, Queue};
use super::management::Management;

/// The requested columns of queues.
const COLUMNS: &str = "name,type,arguments,policy,operator_policy,effective_policy_definition,members,leader,\
     messages,messages_ready,messages_dlx,consumers";

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
}
