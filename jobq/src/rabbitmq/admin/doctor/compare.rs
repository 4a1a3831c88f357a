//! Comparison of a broker with declarations, by the facts about it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::facts::{Binding, Facts, Queue, State};
use crate::rabbitmq::topology::declaration::{Argument, Arguments, Declaration};
use crate::rabbitmq::topology::plan::Topology;

/// The parts of a topology that are not certainly as declared, in its order. Bindings, and the
/// arguments of queues that this user may not declare, are compared where the management API shows
/// them.
pub(crate) fn compare<'t>(facts: &Facts, topology: &'t Topology) -> Vec<(&'t Declaration, State)> {
    let queues = facts.queues().unwrap_or_default().iter();
    let queues: BTreeMap<_, _> = queues.map(|queue| (queue.name.as_str(), queue)).collect();
    let bindings = facts.management.as_ref().and_then(|shown| shown.bindings.as_ref().ok());
    let bindings = bindings.map(|found| found.iter().collect::<BTreeSet<_>>());
    let state = |part: &Declaration| {
        if let Some(binding) = Binding::of(part) {
            let found = bindings.as_ref()?;
            return (!found.contains(&binding)).then_some(State::Missing);
        }
        let known = facts.places.get(&part.title());
        let shown = match (part, known) {
            (Declaration::Queue { name, arguments }, None | Some(State::Uncompared)) => {
                queues.get(name.as_str()).map(|queue| differences(arguments, queue))
            }
            _ => None,
        };
        match shown {
            Some(differences) if differences.is_empty() => None,
            Some(differences) => Some(State::Different(differences.join("; "))),
            None => known.cloned(),
        }
    };
    topology.declarations().iter().filter_map(|part| Some((part, state(part)?))).collect()
}

impl Binding {
    /// The binding of this declaration, if it is one.
    pub(crate) fn of(declaration: &Declaration) -> Option<Self> {
        let (source, destination, kind, key) = match declaration {
            Declaration::Binding { exchange, queue, key } => {
                (exchange, queue, "queue", key.as_deref().unwrap_or_default())
            }
            Declaration::ExchangeBinding { from, to, key } => (from, to, "exchange", &**key),
            Declaration::Exchange { .. } | Declaration::Queue { .. } => return None,
        };
        Some(Self {
            source: source.clone(),
            destination: destination.clone(),
            destination_type: kind.to_owned(),
            routing_key: key.to_owned(),
        })
    }
}

/// How the arguments of a queue differ from these.
fn differences(expected: &Arguments, queue: &Queue) -> Vec<String> {
    let empty = serde_json::Map::new();
    let found = queue.arguments.as_object().unwrap_or(&empty);
    let mut differences = Vec::new();
    for (key, wanted) in expected {
        let is = match found.get(key.as_ref()) {
            // If the broker's default type is quorum, the argument may be missing.
            None if key == "x-queue-type" => queue.kind.clone().map(Value::from),
            other => other.cloned(),
        };
        let same = match (wanted, &is) {
            (Argument::Number(wanted), Some(is)) => is.as_i64() == Some(*wanted),
            (Argument::Text(wanted), Some(is)) => is.as_str() == Some(wanted),
            (Argument::Truth(wanted), Some(is)) => is.as_bool() == Some(*wanted),
            (_, None) => false,
        };
        if !same {
            let is = is.map_or_else(|| "missing".to_owned(), |is| is.to_string());
            differences.push(format!("`{key}` is {is}, jobq needs {wanted}"));
        }
    }
    for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(key.as_str())) {
        differences.push(format!("`{key}` is {value}, jobq has none"));
    }
    differences
}
