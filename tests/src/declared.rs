//! What is declared on a broker, in the words of `jobq::rabbitmq::Topology`.

use serde_json::Value;

use crate::vhost::Vhost;

/// Each exchange, queue and binding of a namespace in a vhost, in order, without the control queues of
/// clients, which end with them.
///
/// # Panics
///
/// Where the broker does not tell, or an exchange is not durable.
pub async fn declared_in(vhost: &Vhost, namespace: &str) -> Vec<String> {
    let column = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    // The broker has exchanges of its own.
    let is_ours = |name: &str| {
        let rest = name.strip_prefix(namespace);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
    };
    let control = format!("{namespace}.control.");
    let is_control = |queue: &str| queue.starts_with(&control) && queue.len() > control.len() + 30;
    let mut found = Vec::new();
    for row in rows(vhost, "list_exchanges", &["name", "type", "durable", "arguments"]).await {
        let (name, kind) = (column(&row, "name"), column(&row, "type"));
        if is_ours(&name) {
            assert!(row["durable"] == true || row["durable"] == "true", "{row}");
            found.push(format!("exchange {name} {kind}{}", arguments(&row)));
        }
    }
    for row in rows(vhost, "list_queues", &["name", "arguments"]).await {
        let name = column(&row, "name");
        if is_ours(&name) && !is_control(&name) {
            found.push(format!("queue {name}{}", arguments(&row)));
        }
    }
    let columns = ["source_name", "destination_name", "routing_key", "arguments"];
    for row in rows(vhost, "list_bindings", &columns).await {
        let (source, queue) = (column(&row, "source_name"), column(&row, "destination_name"));
        if is_ours(&source) && !is_control(&queue) {
            let key = column(&row, "routing_key");
            let key = if key.is_empty() { key } else { format!(" key={key}") };
            found.push(format!("binding {source} -> {queue}{key}{}", arguments(&row)));
        }
    }
    found.sort();
    found
}

/// Each row of `rabbitmqctl`, as an object.
async fn rows(vhost: &Vhost, what: &str, columns: &[&str]) -> Vec<Value> {
    let columns = [columns, &["--formatter", "json"]].concat();
    serde_json::from_str(&vhost.list(what, &columns).await).expect("JSON")
}

/// An argument as `Topology` prints it.
fn argument(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// ` key=value` for each argument, in their order.
fn arguments(row: &Value) -> String {
    // rabbitmqctl writes [key, type, value] triples or an object, by its version.
    let mut pairs: Vec<_> = match &row["arguments"] {
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), argument(value))).collect()
        }
        Value::Array(triples) => {
            triples.iter().map(|triple| (argument(&triple[0]), argument(&triple[2]))).collect()
        }
        _ => Vec::new(),
    };
    pairs.sort();
    pairs.iter().fold(String::new(), |text, (key, value)| format!("{text} {key}={value}"))
}
