//! Diagnosis: from the facts about a broker to findings. Pure.

use std::collections::BTreeMap;

use super::consumers::others;
use super::facts::{Facts, Management, Node, Publishing, Queue};
use super::few;
use super::leaders::leaders;
use super::policy::{Effect, effects};
use super::presence::presence;
use super::role::{Role, role};
use super::version::version;
use crate::finding::{Finding, FindingKind as Kind, Severity};
use crate::rabbitmq::connection::supervised::ALARM_ADVICE;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::Topology;
use crate::rabbitmq::topology::temporary::QueueType;

/// A queue with this many replicas survives the loss of one node.
const REPLICAS: usize = 3;

/// The findings. The topology has the expected queues.
pub(crate) fn diagnose(facts: &Facts, names: &Names, topology: &Topology) -> Vec<Finding> {
    let mut findings = version(facts.version.as_deref());
    findings.extend(queue_types(facts.temporary));
    findings.extend(heartbeat(facts.heartbeat));
    findings.extend(publishing(&facts.publishing));
    findings.extend(presence(facts, names, topology));
    let Some(Management { queues, nodes, bindings, dead_lettering, consumers }) = &facts.management
    else {
        findings.push(not_given());
        return findings;
    };
    match nodes {
        Ok(nodes) => findings.extend(cluster(nodes)),
        Err(why) => findings.push(not_shown("the broker's nodes", why)),
    }
    if let (Ok(queues), Ok(nodes)) = (queues, nodes) {
        findings.extend(replicas(queues, nodes));
    }
    // An API that hides these hides the queues as well.
    if let (Ok(dead_lettering), Ok(nodes)) = (dead_lettering, nodes) {
        findings.extend(leaders(dead_lettering, nodes));
    }
    match queues {
        Ok(queues) => {
            findings.extend(policies(queues, names, &facts.vhost));
            findings.extend(unconsumed(queues, names));
        }
        Err(why) => findings.push(not_shown("the policies and bindings of the queues", why)),
    }
    // If the queues are not shown either, one finding says so.
    if let (Ok(_), Err(why)) = (queues, bindings) {
        findings.push(not_shown("the bindings of the queues", why));
    }
    match (queues, consumers) {
        (_, Ok(consumers)) => findings.extend(others(consumers, names)),
        (Ok(_), Err(why)) => findings.push(not_shown("the consumers of the queues", why)),
        (Err(_), Err(_)) => {}
    }
    findings
}

/// The lanes of queues whose jobs nobody takes, although pools take the normal ones.
fn unconsumed(queues: &[Queue], names: &Names) -> Vec<Finding> {
    let consumed = |queue: &str| {
        let name = names.work(queue);
        queues.iter().any(|queue| queue.name == name && queue.consumers > Some(0))
    };
    let found = |queue: &Queue| {
        let of = names.queue_of(&queue.name)?;
        let is_lane = role(names, &queue.name) == Some(Role::Work) && queue.name != names.work(of);
        let jobs = queue.messages.filter(|jobs| *jobs > 0)?;
        (is_lane && queue.consumers == Some(0) && consumed(of)).then(|| {
            Finding::new(Kind::Queue, Severity::Error, format!("queue `{}`", queue.name))
                .found(format!("has {jobs} jobs and no consumer, but `{}` has one", names.work(of)))
                .matters("no pool runs the jobs of this priority")
                .remedy(format!(
                    "restart the pools of queue `{of}`: a pool looks for the queues of priorities only when it starts"
                ))
        })
    };
    queues.iter().filter_map(found).collect()
}

fn queue_types(temporary: QueueType) -> Option<Finding> {
    (temporary == QueueType::Quorum).then(|| {
        Finding::new(Kind::QueueTypes, Severity::Note, "the broker")
            .found("does not support classic queues (`queue_types.classic.enabled = false`)")
            .matters(
                "jobq uses quorum queues instead: when a client dies, its locks on failed jobs \
                 last for about eight more seconds, and its control queue for a minute",
            )
    })
}

fn heartbeat(seconds: u16) -> Option<Finding> {
    (seconds == 0).then(|| {
        Finding::new(Kind::Heartbeat, Severity::Warning, "the connection")
            .found("has no heartbeat")
            .matters(
                "if the peer disappears without closing the connection, a pool seems healthy but \
                 receives no jobs",
            )
            .remedy("remove `heartbeat=0` from the URL and from the broker's settings")
    })
}

fn publishing(publishing: &Publishing) -> Option<Finding> {
    let finding = |kind| Finding::new(kind, Severity::Error, "the broker");
    match publishing {
        Publishing::Unknown | Publishing::Taken => None,
        Publishing::Blocked(cause) => Some(
            finding(Kind::Alarm)
                .found(format!("accepts no messages because of an alarm: `{cause}`"))
                .matters(
                    "no job can be enqueued; workers still complete the jobs that are in the \
                     queues",
                )
                .remedy(ALARM_ADVICE),
        ),
        Publishing::Silent(limit) => Some(
            finding(Kind::Alarm)
                .found(format!("did not confirm a message within {limit}"))
                .matters("calls to enqueue would time out")
                .remedy("check its load, its log and `rabbitmq-diagnostics alarms`"),
        ),
    }
}

fn not_given() -> Finding {
    Finding::new(Kind::Unchecked, Severity::Warning, "policies, nodes and bindings")
        .found("were not checked: AMQP does not show them, but the management API does")
        .matters(
            "a policy that limits a queue or the lifetime of its jobs can silently lose or stall \
             jobs, and so can a deleted binding",
        )
        .remedy(
            "enable the plugin (`rabbitmq-plugins enable rabbitmq_management`), and set its URL \
             with `.management(\"http://host:15672\")` or JOBQ_MANAGEMENT_URL",
        )
}

fn not_shown(about: &str, why: &str) -> Finding {
    Finding::new(Kind::Unchecked, Severity::Warning, about)
        .found(format!("could not be checked: {why}"))
        .matters("this report does not cover problems with them")
}

fn cluster(nodes: &[Node]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if nodes.len() < REPLICAS {
        let found = match nodes.len() {
            1 => "has a single node".to_owned(),
            count => format!("has {count} nodes"),
        };
        let matters = if nodes.len() < 2 {
            "the jobs are only as safe as its disk, and the service is unavailable while the node \
             is down"
        } else {
            "two nodes have a quorum only together: the service is unavailable while one is down"
        };
        findings.push(
            Finding::new(Kind::Replicas, Severity::Warning, "the broker")
                .found(found)
                .matters(matters)
                .remedy("run a cluster of three or more nodes, and name all of them in the URL"),
        );
    }
    for node in nodes {
        let about = format!("node `{}`", node.name);
        let finding = |kind, severity| Finding::new(kind, severity, about.clone());
        if !node.running {
            findings.push(
                finding(Kind::Node, Severity::Warning)
                    .found("is down")
                    .matters("the loss of another node may stop the service")
                    .remedy(
                        "start it, or remove it with `rabbitmqctl forget_cluster_node` if it is \
                         gone for good",
                    ),
            );
        }
        if !node.partitions.is_empty() {
            findings.push(
                finding(Kind::Node, Severity::Error)
                    .found(format!("is partitioned from {}", node.partitions.join(", ")))
                    .matters("queues without a quorum accept and deliver no jobs")
                    .remedy("repair the network, then restart the nodes of the smaller partition"),
            );
        }
        for (alarm, what) in [(node.mem_alarm, "memory"), (node.disk_free_alarm, "disk")] {
            if alarm {
                findings.push(
                    finding(Kind::Alarm, Severity::Error)
                        .found(format!("is low on {what}"))
                        .matters("the whole broker accepts no jobs until the alarm ends")
                        .remedy(format!("free {what}, or change the limit in rabbitmq.conf")),
                );
            }
        }
    }
    findings
}

/// The effects of policies on these queues. One finding covers all queues with the same effect.
pub(crate) fn policies(queues: &[Queue], names: &Names, vhost: &str) -> Vec<Finding> {
    let mut effects_of: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for queue in queues {
        let Some(role) = role(names, &queue.name) else {
            continue;
        };
        for effect in effects(role, queue) {
            let stated = |name: &Option<String>| name.clone().unwrap_or_default();
            let by = (stated(&queue.policy), stated(&queue.operator_policy));
            effects_of.entry((by, role, effect)).or_default().push(&queue.name);
        }
    }
    let finding =
        |(((policy, operator), _, effect), queues): (((String, String), _, Effect), Vec<&str>)| {
            let (by, remedy) = blame(&policy, &operator, vhost);
            Finding::new(Kind::Policy, effect.severity, enumeration("queue", &queues))
                .found(format!("{by} sets `{}` to {}", effect.key, effect.value))
                .matters(effect.why)
                .remedy(format!("{remedy}, or exclude jobq's queues from its pattern"))
        };
    effects_of.into_iter().map(finding).collect()
}

/// The name of the policy, and how to remove it. If there are both kinds, the broker does not
/// report which one sets a key.
fn blame(policy: &str, operator: &str, vhost: &str) -> (String, String) {
    let clear = |what: &str, name: &str| format!("`rabbitmqctl {what} -p {vhost} {name}`");
    match (policy.is_empty(), operator.is_empty()) {
        (_, true) => (format!("policy `{policy}`"), clear("clear_policy", policy)),
        (true, false) => {
            (format!("operator policy `{operator}`"), clear("clear_operator_policy", operator))
        }
        (false, false) => (
            format!("policy `{policy}` or operator policy `{operator}`"),
            format!(
                "{} or {}",
                clear("clear_policy", policy),
                clear("clear_operator_policy", operator)
            ),
        ),
    }
}

/// The first few names.
pub(super) fn enumeration(what: &str, names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{what}{plural} {}", few(&quoted))
}

/// The queues with too few replicas, or with replicas on stopped nodes.
///
/// The broker also reports the online members of a queue, but for a new queue it may report none.
fn replicas(queues: &[Queue], nodes: &[Node]) -> Vec<Finding> {
    let runs = |name: &&String| nodes.iter().any(|node| node.running && node.name == **name);
    let nodes = nodes.len();
    let mut few: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut down: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
    for queue in queues {
        let Some(members) = &queue.members else {
            continue;
        };
        if members.len() < REPLICAS.min(nodes) {
            few.entry(members.len()).or_default().push(&queue.name);
        }
        let up = members.iter().filter(runs).count();
        if up < members.len() {
            down.entry((up, members.len())).or_default().push(&queue.name);
        }
    }
    let few = few.into_iter().map(|(members, names)| {
        Finding::new(Kind::Replicas, Severity::Warning, enumeration("queue", &names))
            .found(format!("has replicas on {members} of {nodes} nodes"))
            .matters("the queue does not survive the loss of a node")
            .remedy(
                "run `rabbitmq-queues grow NODE all` for each node without a replica, or set \
                 `quorum_queue.continuous_membership_reconciliation.enabled = true` in \
                 rabbitmq.conf",
            )
    });
    let down = down.into_iter().map(|((up, members), names)| {
        let lost = up <= members / 2;
        let severity = if lost { Severity::Error } else { Severity::Warning };
        Finding::new(Kind::Replicas, severity, enumeration("queue", &names))
            .found(format!("{up} of the {members} nodes with its replicas are up"))
            .matters(if lost {
                "without a quorum, the queue accepts and delivers no jobs"
            } else {
                "the loss of another node may stop the queue"
            })
            .remedy("start the nodes that are down")
    });
    few.chain(down).collect()
}

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
