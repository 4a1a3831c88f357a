//! Findings about jobs that wait and do not come through, from the reports of pools. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Management, Queue};
use super::role::{Role, role};
use crate::engine::{Passage, PoolReport};
use crate::finding::{Finding, FindingKind, Severity};
use crate::rabbitmq::topology::names::Names;

/// The findings: one for each queue in trouble, and one for the delay levels. The management API
/// shows which nodes lead their queues, and how much these nodes hold.
pub(super) fn findings(
    reports: &[PoolReport],
    names: &Names,
    management: &Management,
) -> Vec<Finding> {
    let queues: &[Queue] = match management {
        Management::Asked { queues: Ok(queues), .. } => queues,
        _ => &[],
    };
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
            Passage::Stuck => (Severity::Error, "jobs that wait do not come through"),
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
                    "retries and delayed jobs come late or not at all, also those of longer waits, \
                     which are not probed; none is lost",
                )
                .remedy(
                    "where it does not end by itself, restart the node that leads these queues \
                     (`rabbitmqctl list_queues name leader`)",
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
    let (count, messages) = queues.iter().filter(passes_on).fold((0, 0_u64), |sum, queue| {
        (sum.0 + 1, sum.1.saturating_add(queue.messages_dlx.unwrap_or(0)))
    });
    format!(
        "node `{node}` leads {count} of the queues that pass jobs on, which hold back {messages}"
    )
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
            let found = findings(reports, &names, &Management::NotGiven);
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
        let (nodes, bindings) = (Ok(Vec::new()), Ok(Vec::new()));
        let management = Management::Asked {
            queues: Ok(queues),
            nodes,
            bindings,
            dead_lettering: Ok(Vec::new()),
        };
        let found =
            findings(&[report(Passage::Passing, Some(Passage::Stuck))], &names, &management);
        let expected = "node `rabbit@a` leads 3 of the queues that pass jobs on, which hold back 7";
        assert!(found[0].what().ends_with(expected), "{}", found[0]);
    }
}
