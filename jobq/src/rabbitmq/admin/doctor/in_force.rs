//! Which policies are in force for a queue by the policies of now, and whether the management API
//! shows the queue with them: its columns are up to five seconds old. Pure.
//!
//! The queue itself has the last word, since only the broker knows all its rules, such as which of
//! two policies with the same priority it takes.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::facts::Queue;
use super::policy::KEYS;

/// The keys of other types of queues: a policy with one of them is not in force for a quorum queue
/// (`unsupported_policies` of `rabbit_quorum_queue` in 3.10, 4.0 and 4.3).
const OF_OTHER_TYPES: [&str; 13] = [
    "max-priority",
    "queue-mode",
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
    "queue-master-locator",
    "max-age",
    "stream-max-segment-size-bytes",
    "initial-cluster-size",
    "selector-fields",
    "selector-field-max-bytes",
];

/// A policy in the list of the management API, which is current.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) pattern: String,
    #[serde(rename = "apply-to")]
    pub(crate) apply_to: String,
    pub(crate) priority: i64,
    pub(crate) definition: Map<String, Value>,
}

/// A policy and the queues whose names match its pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) policy: Policy,
    pub(crate) queues: BTreeSet<String>,
}

/// The policies of a vhost. Empty if none of them matters to jobq.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Policies {
    pub(crate) of_users: Vec<Named>,
    pub(crate) of_operators: Vec<Named>,
}

impl Policy {
    /// Whether it has a key that can weaken a guarantee of jobq.
    pub(crate) fn matters(&self) -> bool {
        self.definition.keys().any(|key| matters(key))
    }

    /// Whether it may be in force for queues of jobq, which are quorum queues.
    pub(crate) fn is_for_quorum_queues(&self) -> bool {
        matches!(self.apply_to.as_str(), "all" | "queues" | "quorum_queues")
            && self.definition.keys().all(|key| !OF_OTHER_TYPES.contains(&key.as_str()))
    }
}

/// Whether the API still shows some of these queues without the policies in force.
pub(crate) fn are_behind(queues: &[Queue], policies: &Policies) -> bool {
    let are_of_jobs = |queue: &&Queue| queue.kind.as_deref() == Some("quorum");
    queues.iter().filter(are_of_jobs).any(|queue| is_behind(queue, policies))
}

fn is_behind(queue: &Queue, policies: &Policies) -> bool {
    let user = in_force(queue, queue.policy.as_deref(), &policies.of_users);
    let operator = in_force(queue, queue.operator_policy.as_deref(), &policies.of_operators);
    let is_other = |shown: &Option<String>, now: Option<&Policy>| {
        now.is_some_and(|now| now.matters() && shown.as_ref() != Some(&now.name))
    };
    if is_other(&queue.policy, user) || is_other(&queue.operator_policy, operator) {
        return true;
    }
    let (none, now) = (Map::new(), [user, operator]);
    let shown = queue.effective.as_object().unwrap_or(&none);
    let differs = |key: &str| {
        let mut defined = now.iter().flatten().filter_map(|policy| policy.definition.get(key));
        match shown.get(key) {
            // Where both have a key, the key decides which one the queue takes.
            Some(value) => defined.all(|defined| defined != value),
            None => defined.next().is_some(),
        }
    };
    KEYS.into_iter().any(differs)
}

/// The policy with the highest priority among those that match; of several, the one that the API
/// shows.
fn in_force<'p>(queue: &Queue, shown: Option<&str>, all: &'p [Named]) -> Option<&'p Policy> {
    let matches =
        |named: &&Named| named.policy.is_for_quorum_queues() && named.queues.contains(&queue.name);
    let matching = all.iter().filter(matches).map(|named| &named.policy);
    matching.max_by_key(|policy| (policy.priority, shown == Some(policy.name.as_str())))
}

fn matters(key: &str) -> bool {
    KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(name: &str, apply_to: &str, priority: i64, definition: &Value) -> Named {
        let policy = json!({"vhost": "/", "name": name, "pattern": "^jobq:", "apply-to": apply_to,
            "priority": priority, "definition": definition});
        let queues = ["jobq:mail", "other"].map(str::to_owned).into();
        Named { policy: serde_json::from_value(policy).unwrap(), queues }
    }

    fn shown(policy: &str, operator: &str, effective: Value) -> Queue {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Queue {
            name: "jobq:mail".into(),
            kind: Some("quorum".into()),
            policy: named(policy),
            operator_policy: named(operator),
            effective,
            ..Queue::default()
        }
    }

    #[test]
    fn a_queue_is_behind_until_it_is_shown_with_what_is_in_force() {
        let (five, nine) = (json!({"max-length": 5}), json!({"max-length": 9}));
        let ha = json!({"ha-mode": "all", "max-length": 5});
        let both = json!({"expires": 1, "max-length": 9});
        let leaders = json!({"queue-leader-locator": "balanced"});
        let set = |name, priority, definition| policy(name, "queues", priority, definition);
        let table = [
            // Nothing is set, and nothing is shown.
            (vec![], vec![], shown("", "", Value::Null), false),
            (vec![], vec![], shown("", "", json!({})), false),
            // Set a moment ago, shown, and deleted a moment ago.
            (vec![set("a", 0, &five)], vec![], shown("", "", json!({})), true),
            (vec![set("a", 0, &five)], vec![], shown("a", "", five.clone()), false),
            (vec![], vec![], shown("a", "", five.clone()), true),
            // Changed, and set under another name.
            (vec![set("a", 0, &nine)], vec![], shown("a", "", five.clone()), true),
            (vec![set("b", 0, &five)], vec![], shown("a", "", five.clone()), true),
            // The priority decides, and of two with the same the queue.
            (
                vec![set("a", 0, &five), set("b", 1, &nine)],
                vec![],
                shown("a", "", five.clone()),
                true,
            ),
            (
                vec![set("a", 0, &five), set("b", 1, &nine)],
                vec![],
                shown("b", "", nine.clone()),
                false,
            ),
            (
                vec![set("a", 0, &five), set("b", 0, &nine)],
                vec![],
                shown("a", "", five.clone()),
                false,
            ),
            (
                vec![set("a", 0, &five), set("b", 0, &nine)],
                vec![],
                shown("b", "", nine.clone()),
                false,
            ),
            // One without a key that matters may hide another.
            (
                vec![set("a", 0, &five), set("leaders", 1, &leaders)],
                vec![],
                shown("leaders", "", leaders.clone()),
                false,
            ),
            // One with a key of another type of queue is not in force.
            (vec![set("ha", 1, &ha)], vec![], shown("", "", json!({})), false),
            (vec![set("a", 0, &five), set("ha", 1, &ha)], vec![], shown("", "", json!({})), true),
            // For others.
            (vec![policy("a", "exchanges", 0, &five)], vec![], shown("", "", json!({})), false),
            (
                vec![policy("a", "classic_queues", 0, &five)],
                vec![],
                shown("", "", json!({})),
                false,
            ),
            (vec![policy("a", "streams", 0, &five)], vec![], shown("", "", json!({})), false),
            (vec![policy("a", "quorum_queues", 0, &five)], vec![], shown("", "", json!({})), true),
            (vec![policy("a", "all", 0, &five)], vec![], shown("", "", json!({})), true),
            // Both kinds: the broker takes one of the two values.
            (vec![], vec![set("op", 0, &five)], shown("", "", json!({})), true),
            (vec![], vec![set("op", 0, &five)], shown("", "op", five.clone()), false),
            (
                vec![set("a", 0, &nine)],
                vec![set("op", 0, &five)],
                shown("a", "op", five.clone()),
                false,
            ),
            (
                vec![set("a", 0, &nine)],
                vec![set("op", 0, &five)],
                shown("a", "op", json!({"max-length": 7})),
                true,
            ),
            (
                vec![set("a", 0, &both)],
                vec![set("op", 0, &five)],
                shown("a", "op", five.clone()),
                true,
            ),
        ];
        for (of_users, of_operators, queue, expected) in table {
            let policies = Policies { of_users, of_operators };
            assert_eq!(
                are_behind(std::slice::from_ref(&queue), &policies),
                expected,
                "{policies:#?} {queue:#?}"
            );
        }
        let classic = Queue { kind: Some("classic".into()), ..shown("", "", json!({})) };
        let policies = Policies { of_users: vec![set("a", 0, &five)], ..Policies::default() };
        assert!(!are_behind(&[classic], &policies), "a control queue, or a lock");
        let unnamed = Queue { name: "jobq:video".into(), ..shown("", "", json!({})) };
        let policies = Policies { of_users: vec![set("a", 0, &five)], ..Policies::default() };
        assert!(!are_behind(&[unnamed], &policies), "the pattern does not match it");
        assert!(!are_behind(&[], &policies));
    }

    #[test]
    fn only_keys_that_weaken_jobq_matter() {
        let table = [
            (json!({"max-length": 1}), true),
            (json!({"delayed-retry-type": "all"}), true),
            (json!({"ha-mode": "all", "overflow": "drop-head"}), true),
            (json!({"ha-mode": "all"}), false),
            (json!({"target-group-size": 3}), false),
            (json!({}), false),
        ];
        for (definition, expected) in table {
            assert_eq!(policy("a", "queues", 0, &definition).policy.matters(), expected);
        }
        // An API that lists no definition.
        assert_eq!(serde_json::from_value::<Policy>(json!({})).unwrap(), Policy::default());
    }
}
