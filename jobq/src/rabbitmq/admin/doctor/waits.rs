//! Findings about jobs that wait and do not come through: from the reports of pools, and from the
//! figures of the management API. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::diagnosis::enumeration;
use super::facts::Queue;
use super::role::{Role, role};
use crate::engine::{Passage, PoolReport};
use crate::finding::{Finding, FindingKind, Severity};
use crate::rabbitmq::topology::names::Names;

/// The findings: one for each queue in trouble, and one for the delay levels. These queues, which the
/// management API shows, tell which nodes lead them, and how much these nodes hold.
pub(super) fn findings(reports: &[PoolReport], names: &Names, queues: &[Queue]) -> Vec<Finding> {
    // What several pools say of a queue: the worst. `None` stands for the levels.
    let mut worst = BTreeMap::<Option<&str>, Passage>::new();
    for report in reports {
        let of_queues = report.queues.iter().map(|queue| (Some(&*queue.queue), queue.waits));
        for (queue, passage) in of_queues.chain([(None, report.levels)]) {
            let known = worst.entry(queue).or_insert(Passage::Unknown);
            *known = (*known).max(passage.unwrap_or(Passage::Unknown));
        }
    }
    let finding = |(queue, passage): (Option<&str>, Passage)| {
        let (severity, found) = match passage {
            Passage::Stuck => (Severity::Error, "waiting jobs are stuck"),
            Passage::Late => (Severity::Warning, "a probe of waiting jobs is late"),
            Passage::Unknown | Passage::Passing => return None,
        };
        let (about, wanted) = match queue {
            Some(queue) => (format!("the tiers of queue `{queue}`"), Role::Tier),
            None => ("the delay levels".to_owned(), Role::Level),
        };
        let is_part = |found: &&Queue| {
            role(names, &found.name) == Some(wanted)
                && queue.is_none_or(|queue| names.queue_of(&found.name) == Some(queue))
        };
        let nodes = queues.iter().filter(is_part).filter_map(|found| found.leader.as_deref());
        let held: Vec<_> =
            nodes.collect::<BTreeSet<_>>().into_iter().map(|n| held(n, queues)).collect();
        let found = if held.is_empty() {
            found.to_owned()
        } else {
            format!("{found}; {}", held.join("; "))
        };
        Some(
            Finding::new(FindingKind::Queue, severity, about)
                .found(found)
                .matters(
                    "retries and delayed jobs run late or not at all, including those with longer \
                     waits, which are not probed; no job is lost",
                )
                .remedy(
                    "if this persists, restart the node that leads these queues (`rabbitmqctl \
                     list_queues name leader`)",
                ),
        )
    };
    worst.into_iter().filter_map(finding).collect()
}

/// What a node leads and holds.
fn held(node: &str, queues: &[Queue]) -> String {
    let passes_on = |queue: &&Queue| {
        queue.leader.as_deref() == Some(node)
            && queue.arguments["x-dead-letter-strategy"] == "at-least-once"
    };
    let (count, messages) = queues
        .iter()
        .filter(passes_on)
        .fold((0, 0_u64), |sum, queue| (sum.0 + 1, sum.1.saturating_add(holds(queue))));
    format!(
        "node `{node}` leads {count} dead-lettering queues, which hold back {messages} messages"
    )
}

/// The queues that hold back jobs whose wait is over: those that did at one look, and no fewer at a
/// later one. One finding covers those that a node leads. It needs no pool, and no tier that is
/// probed; how long the jobs have been there is not known, so it is no error.
pub(super) fn held_back(first: &[Queue], later: &[Queue]) -> Vec<Finding> {
    let before: BTreeMap<_, _> = first.iter().map(|queue| (&queue.name, holds(queue))).collect();
    let stays = |queue: &&Queue| {
        before.get(&queue.name).is_some_and(|before| *before > 0 && holds(queue) >= *before)
    };
    let mut by_node = BTreeMap::<_, Vec<&Queue>>::new();
    for queue in later.iter().filter(stays) {
        by_node.entry(queue.leader.as_deref().unwrap_or("?")).or_default().push(queue);
    }
    let finding = |(node, queues): (&str, Vec<&Queue>)| {
        let names: Vec<_> = queues.iter().map(|queue| &*queue.name).collect();
        let jobs = queues.iter().map(|queue| holds(queue)).fold(0, u64::saturating_add);
        Finding::new(FindingKind::Queue, Severity::Warning, enumeration("queue", &names))
            .found(format!("{jobs} jobs are due but do not leave; the leader is node `{node}`"))
            .matters(
                "these jobs run late or not at all, and so may jobs of the other queues that the \
                 node leads; no job is lost",
            )
            .remedy(
                "if this persists, check whether their target queues are full or have no quorum, \
                 then restart the node (docs/operations.md, When waits stand still)",
            )
    };
    by_node.into_iter().map(finding).collect()
}

/// How many messages a queue has passed on that are not confirmed.
pub(super) fn holds(queue: &Queue) -> u64 {
    queue.messages_dlx.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::{PoolId, PoolQueue};

    fn report(levels: Passage, mail: Option<Passage>) -> PoolReport {
        let mut queue = PoolQueue::new("mail", 1);
        queue.waits = mail;
        let started = std::time::SystemTime::UNIX_EPOCH;
        let mut report = PoolReport::new(PoolId::new(), String::new(), started, vec![queue]);
        report.levels = Some(levels);
        report
    }

    /// What a finding is about, and how severe it is.
    type Expected<'t> = &'t [(&'t str, Severity)];

    #[test]
    fn the_worst_that_pools_report_is_found() {
        use Passage::{Late, Passing, Stuck, Unknown};
        let names = Names::new("jobq");
        let mail = "the tiers of queue `mail`";
        let table: [(&[PoolReport], Expected<'_>); 5] = [
            (&[], &[]),
            (&[report(Passing, None), report(Unknown, Some(Passing))], &[]),
            (&[report(Passing, Some(Late)), report(Passing, None)], &[(mail, Severity::Warning)]),
            (
                &[report(Passing, Some(Late)), report(Passing, Some(Stuck))],
                &[(mail, Severity::Error)],
            ),
            (&[report(Stuck, Some(Passing))], &[("the delay levels", Severity::Error)]),
        ];
        for (reports, expected) in table {
            let found = findings(reports, &names, &[]);
            let found: Vec<_> = found.iter().map(|f| (f.about(), f.severity())).collect();
            assert_eq!(found, expected, "{reports:?}");
        }
    }

    #[test]
    fn the_management_api_names_the_node() {
        let names = Names::new("jobq");
        let queue = |name: &str, leader: &str, held| Queue {
            name: name.into(),
            arguments: json!({"x-dead-letter-strategy": "at-least-once"}),
            leader: Some(leader.into()),
            messages_dlx: held,
            ..Queue::default()
        };
        let queues = vec![
            queue("jobq:mail@wait.1s", "rabbit@a", Some(3)),
            queue("jobq:mail@wait.1h", "rabbit@a", Some(4)),
            queue("jobq:video@wait.1s", "rabbit@b", Some(100)),
            queue("jobq:mail", "rabbit@a", None),
        ];
        let found = findings(&[report(Passage::Passing, Some(Passage::Stuck))], &names, &queues);
        let expected = "node `rabbit@a` leads 3 dead-lettering queues, which hold back 7 messages";
        assert!(found[0].what().ends_with(expected), "{}", found[0]);
    }

    /// Queues with their leaders, and how many messages each holds back.
    type Look<'t> = &'t [(&'t str, Option<&'t str>, Option<u64>)];
    /// The subjects of the findings, each with a part of its text.
    type Found<'t> = &'t [(&'t str, &'t str)];

    #[test]
    fn what_stays_between_two_looks_is_found_by_its_node() {
        let queue = |(name, leader, held): &(&str, Option<&str>, Option<u64>)| Queue {
            name: (*name).into(),
            leader: leader.map(Into::into),
            messages_dlx: *held,
            ..Queue::default()
        };
        let (tier, due, work) = ("jobq:mail@wait.1h", "jobq:mail@due", "jobq:mail");
        let (a, b) = (Some("rabbit@a"), Some("rabbit@b"));
        let table: [(Look<'_>, Look<'_>, Found<'_>); 6] = [
            (&[(tier, a, Some(0)), (due, a, None)], &[(tier, a, Some(9)), (due, a, Some(1))], &[]),
            // They pass.
            (&[(tier, a, Some(9))], &[(tier, a, Some(8))], &[]),
            (&[(tier, a, Some(9))], &[(tier, a, None)], &[]),
            (&[(tier, a, Some(9))], &[], &[]),
            (
                &[(tier, a, Some(3)), (due, b, Some(1)), (work, a, Some(1))],
                &[(tier, a, Some(3)), (due, b, Some(2)), (work, a, Some(4))],
                &[
                    ("queues `jobq:mail@wait.1h`, `jobq:mail`", "7 jobs"),
                    ("queue `jobq:mail@due`", "2 jobs"),
                ],
            ),
            (
                &[(tier, a, Some(3))],
                &[(tier, None, Some(3))],
                &[("queue `jobq:mail@wait.1h`", "`?`")],
            ),
        ];
        for (first, later, expected) in table {
            let [first, later] =
                [first, later].map(|look| look.iter().map(queue).collect::<Vec<_>>());
            let found = held_back(&first, &later);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, (about, what)) in found.iter().zip(expected) {
                assert_eq!((found.about(), found.severity()), (*about, Severity::Warning));
                assert!(found.what().contains(what), "{found}");
            }
        }
    }
}
