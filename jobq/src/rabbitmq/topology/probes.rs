//! Probes: messages that pass through the tiers and levels as jobs do, and end in a queue of their
//! own. Pure.
//!
//! The queue of probes is bound to each exchange that a probe meets, so that none is unroutable, and
//! none reaches a queue of jobs. Jobs need none of it: a namespace without it works.

use std::collections::BTreeSet;
use std::time::Duration;

use super::declaration::Argument;
use super::levels;
use super::names::Names;
use super::plan::Topology;
use super::requirements::Wanted;
use super::routing_key;
use crate::engine::{Passage, QueueSpec};
use crate::rabbitmq::connection::probe::ProbeRoute;
use crate::rabbitmq::values::fits;

/// The longest wait that is probed, in milliseconds.
const LONGEST: u64 = Passage::LONGEST_MS;
/// The levels that have such a wait.
pub(crate) const LEVELS: u32 = (LONGEST / levels::UNIT).ilog(levels::RADIX) + 1;
/// The most probes in their queue, and how long one is kept, in milliseconds. Nobody reads them.
const MAX_LENGTH: i64 = 100;
const TTL: i64 = 60_000;
/// The routing key of probes of a node, on the exchange of control.
const NODE: &str = "probe";

/// A queue of the broker in which jobs wait, with the route of its probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitQueue {
    /// The user's queue; `None` for a level, which belongs to all.
    pub(crate) queue: Option<String>,
    /// Its name on the broker.
    pub(crate) name: String,
    pub(crate) wait: Duration,
    pub(crate) exchange: String,
    pub(crate) key: String,
}

/// The queues that are probed: the tiers of these queues, and those of so many levels.
pub(crate) fn wait_queues(names: &Names, wanted: &Wanted, levels: u32) -> Vec<WaitQueue> {
    let tiers = wanted.queues.iter().flat_map(|(queue, tiers)| {
        tiers.iter().filter(|millis| **millis <= LONGEST).map(move |millis| WaitQueue {
            queue: Some(queue.clone()),
            name: names.tier(queue, *millis),
            wait: Duration::from_millis(*millis),
            exchange: names.retry(),
            key: routing_key::probe(queue, *millis),
        })
    });
    let digits = (0..levels.min(LEVELS)).flat_map(|level| {
        levels::digits(level).map(move |digit| (level, digit, levels::ttl(level, digit)))
    });
    let levels = digits.filter(|(_, _, wait)| *wait <= LONGEST).map(|(level, digit, wait)| {
        let (name, wait) = (names.level_queue(level, digit), Duration::from_millis(wait));
        let key = levels::probe(level, digit);
        WaitQueue { queue: None, name, wait, exchange: names.level(level), key }
    });
    tiers.chain(levels).collect()
}

/// The exchanges and keys by which whoever is bound hears of probes of these queues: as they are
/// sent, and as they come back.
pub(crate) fn heard(names: &Names, probed: &[WaitQueue]) -> BTreeSet<(String, String)> {
    let both = |WaitQueue { queue, exchange, key, .. }: &WaitQueue| {
        let (by, back) = if queue.is_some() {
            (key.clone(), names.deliver())
        } else {
            (levels::probe_pattern(), names.level_deliver())
        };
        [(exchange.clone(), by.clone()), (back, by)]
    };
    probed.iter().flat_map(both).collect()
}

/// Whether a probe with this key comes back, when it passes this exchange.
pub(crate) fn comes_back(names: &Names, exchange: &str, key: &str) -> bool {
    exchange == names.deliver() || names.is_out_of_levels(exchange, key)
}

/// The route of probes of a node.
pub(crate) fn node_probe(names: &Names) -> ProbeRoute {
    ProbeRoute { exchange: fits(names.control()), key: fits(NODE) }
}

impl Topology {
    /// The declarations for these queues. All levels, which the engine declares when a job needs
    /// them, are always included.
    #[must_use]
    pub fn from_queues(namespace: &str, queues: &[QueueSpec]) -> Self {
        let wanted = Wanted { levels: levels::LEVELS, ..Wanted::queues(queues) };
        let names = Names::new(namespace);
        let mut topology = Self::new(&names, &wanted);
        topology.add(Self::of_probes(&names, &wait_queues(&names, &wanted, levels::LEVELS)));
        topology
    }

    /// The declarations that probes of these queues need, beside the queues themselves.
    pub(crate) fn of_probes(names: &Names, probed: &[WaitQueue]) -> Self {
        let mut topology = Self::default();
        let own = [
            ("x-max-length", Argument::Number(MAX_LENGTH)),
            ("x-message-ttl", Argument::Number(TTL)),
            ("x-overflow", Argument::Text("drop-head".to_owned())),
        ];
        topology.declare_queue(names.probe(), own);
        topology.bind(names.control(), names.probe(), NODE.to_owned());
        for (exchange, key) in heard(names, probed) {
            topology.bind(exchange, names.probe(), key);
        }
        for WaitQueue { name, exchange, key, .. } in probed.iter().filter(|q| q.queue.is_some()) {
            topology.bind(exchange.clone(), name.clone(), key.clone());
        }
        topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_have_a_queue_that_is_bound_wherever_they_pass() {
        let names = Names::new("jobq");
        let waits = [1_000, 60_000, 60_001].map(Duration::from_millis);
        let wanted = Wanted::queues(&[QueueSpec::new("mail").waits(waits)]);
        let probed = wait_queues(&names, &wanted, 0);
        let expected = "\
queue jobq.probe x-max-length=100 x-message-ttl=60000 x-overflow=drop-head x-queue-type=quorum
binding jobq.control -> jobq.probe key=probe
binding jobq.deliver -> jobq.probe key=mail@1000@probe
binding jobq.deliver -> jobq.probe key=mail@60000@probe
binding jobq.retry -> jobq.probe key=mail@1000@probe
binding jobq.retry -> jobq.probe key=mail@60000@probe
binding jobq.retry -> jobq:mail@wait.1s key=mail@1000@probe
binding jobq.retry -> jobq:mail@wait.1m key=mail@60000@probe
";
        assert_eq!(Topology::of_probes(&names, &probed).to_string(), expected);
    }

    #[test]
    fn each_level_queue_of_up_to_a_minute_is_probed() {
        let names = Names::new("jobq");
        for (levels, count) in [(0, 0), (1, 15), (2, 30), (3, 32), (8, 32)] {
            assert_eq!(wait_queues(&names, &Wanted::shared(), levels).len(), count, "{levels}");
        }
        let probed = wait_queues(&names, &Wanted::shared(), 8);
        let last = &probed[31];
        let expected = ("jobq.level.2.2", "jobq.level.2", "0.0.0.0.0.2.0.0.p");
        assert_eq!((&*last.name, &*last.exchange, &*last.key), expected);
        assert_eq!(last.wait, Duration::from_millis(51_200));
        let printed = Topology::of_probes(&names, &probed).to_string();
        let bound = |exchange| format!("{exchange} -> jobq.probe key=*.*.*.*.*.*.*.*.p\n");
        for exchange in ["jobq.level.0", "jobq.level.1", "jobq.level.2", "jobq.level.deliver"] {
            assert!(printed.contains(&bound(exchange)), "{printed}");
        }
        assert_eq!(printed.lines().count(), 6, "the level queues take them as they take jobs");
    }

    #[test]
    fn a_probe_comes_back_where_no_wait_is_left() {
        let names = Names::new("jobq");
        let table = [
            ("jobq.retry", "mail@1000@probe", false),
            ("jobq.deliver", "mail@1000@probe", true),
            ("jobq.level.1", "0.0.0.0.0.0.7.0.p", false),
            ("jobq.level.0", "0.0.0.0.0.0.7.0.p", true),
            ("jobq.level.0", "0.0.0.0.0.0.0.7.p", false),
            ("jobq.level.deliver", "0.0.0.0.0.0.0.7.p", true),
        ];
        for (exchange, key, expected) in table {
            assert_eq!(comes_back(&names, exchange, key), expected, "{exchange} {key}");
        }
    }
}
