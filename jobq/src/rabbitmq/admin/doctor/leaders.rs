//! Nodes that lead too many of the queues that dead-letter. Pure.

use std::collections::BTreeMap;

use super::facts::{DeadLettering, Node};
use crate::finding::{Finding, FindingKind, Severity};

/// The most dead-lettering queues of a node whose supervisor lived through the end of all of them at
/// once (measured on 4.3: 60 and 98 lived, 104 and more did not).
const MOST_LED: usize = 80;

/// The nodes that lead many of the queues that dead-letter, where another node could lead some.
pub(super) fn leaders(dead_lettering: &[DeadLettering], nodes: &[Node]) -> Vec<Finding> {
    if nodes.iter().filter(|node| node.running).count() < 2 {
        return Vec::new();
    }
    let mut led = BTreeMap::<&str, usize>::new();
    for leader in dead_lettering.iter().filter_map(|queue| queue.leader.as_deref()) {
        *led.entry(leader).or_default() += 1;
    }
    let many = led.into_iter().filter(|(_, led)| *led > MOST_LED);
    many.map(|(node, led)| {
        let all = dead_lettering.len();
        Finding::new(FindingKind::Node, Severity::Warning, format!("node `{node}`"))
            .found(format!("leads {led} of {all} dead-lettering queues"))
            .matters(
                "a single process dead-letters for all queues that a node leads; if many of them \
                 fail at once, this process may end for good, and delayed jobs and retries stop \
                 until the node restarts",
            )
            .remedy(
                "distribute the leaders with `rabbitmq-queues rebalance quorum` or `POST \
                 /api/rebalance/queues` of the management API; for new queues, set \
                 `queue_leader_locator = balanced` in rabbitmq.conf and name all nodes in the URL",
            )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_leads_most_of_the_dead_lettering_queues_is_named() {
        let leading = |led: &[(&str, usize)], nodes: &[&str]| {
            let queue = |leader: &str| DeadLettering { leader: Some(leader.to_owned()) };
            let mut queues: Vec<_> =
                led.iter().flat_map(|(node, led)| vec![queue(node); *led]).collect();
            // One without a leader.
            queues.push(DeadLettering::default());
            let node =
                |name: &&str| Node { name: (*name).into(), running: true, ..Node::default() };
            leaders(&queues, &nodes.iter().map(node).collect::<Vec<_>>())
        };
        let all = ["a", "b", "c"];
        let found = leading(&[("a", 116), ("b", 23)], &all);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what(), "leads 116 of 140 dead-lettering queues");
        assert_eq!((found[0].kind(), found[0].severity()), (FindingKind::Node, Severity::Warning));
        assert!(found[0].advice().contains("POST /api/rebalance/queues"), "{found:?}");
        assert!(found[0].advice().contains("queue_leader_locator = balanced"), "{found:?}");
        assert_eq!(leading(&[("a", 80), ("b", 80), ("c", 80)], &all), []);
        assert_eq!(leading(&[("a", 81), ("b", 300)], &all).len(), 2);
        // No other node could lead any.
        assert_eq!(leading(&[("a", 116)], &["a"]), []);
    }
}
