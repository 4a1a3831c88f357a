//! Jobs that AMQP does not count: those between two parts of a queue, which the broker has taken out
//! of one part and its dead-lettering has not passed on, and those that wait after a return for the
//! delay that a policy sets. Pure.

use super::facts::Queue;
use super::role::{Role, role};
use crate::engine::{Passage, PoolReport};
use crate::rabbitmq::topology::names::Names;

/// Why there may be such jobs of this queue, of which the management API shows these parts. `None` if
/// there are certainly none.
pub(crate) fn unseen(names: &Names, queue: &str, found: &[Queue]) -> Option<String> {
    let of_queue = found.iter().filter(|part| names.queue_of(&part.name) == Some(queue));
    of_queue.into_iter().find_map(|part| {
        let (name, dead_lettering) = (&part.name, part.messages_dlx.unwrap_or(0));
        let delayed = part.delayed.unwrap_or(0);
        let messages = match role(names, name)? {
            Role::Tier | Role::Due => part.messages.map(|messages| messages.max(dead_lettering)),
            // AMQP counts the others of these.
            Role::Work | Role::Solo => Some(dead_lettering.saturating_add(delayed)),
            Role::Level | Role::Failed | Role::Orphan | Role::Seat => Some(0),
        };
        match messages {
            Some(0) => None,
            Some(messages) => {
                Some(format!("the management API shows {messages} messages in `{name}`"))
            }
            None => {
                Some(format!("the management API has not counted the messages of `{name}` yet"))
            }
        }
    })
}

/// Why there may be such jobs of this queue by the reports of pools, whose probes are newer than the
/// figures of the management API.
pub(crate) fn held_up(queue: &str, reports: &[PoolReport]) -> Option<String> {
    let passages = reports.iter().filter_map(|report| report.queue(queue)?.waits);
    match passages.max()? {
        Passage::Unknown | Passage::Passing => None,
        Passage::Late => Some("a pool reports that a probe in its tiers is late".to_owned()),
        Passage::Stuck => Some("a pool reports that jobs do not leave its tiers".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::engine::{PoolId, PoolQueue};

    #[test]
    fn no_part_of_a_queue_may_hold_jobs_that_amqp_does_not_count() {
        let names = Names::new("jobq");
        let (due, tier) = (names.due("mail"), names.tier("mail", 30_000));
        let table = [
            (due.clone(), Some(0), None, None),
            (tier.clone(), Some(0), Some(0), None),
            (tier.clone(), Some(3), None, Some("3 messages in `jobq:mail@wait.30s`")),
            // All of them are with the supervisor.
            (tier, Some(0), Some(7), Some("7 messages")),
            (due, None, None, Some("has not counted the messages of `jobq:mail@due`")),
            // AMQP counts these, but for those that the supervisor has.
            (names.work("mail"), Some(5), None, None),
            (names.work("mail"), None, Some(0), None),
            (names.work("mail"), Some(5), Some(2), Some("2 messages in `jobq:mail`")),
            (names.solo("mail"), Some(5), Some(1), Some("1 messages in `jobq:mail@solo`")),
            // These have no dead-lettering, or belong to others.
            (names.failed("mail"), Some(5), None, None),
            (names.due("other"), Some(5), None, None),
            (names.level_queue(0, 1), Some(5), None, None),
        ];
        for (name, messages, dead_lettering, expected) in table {
            let part = Queue {
                name: name.clone(),
                messages,
                messages_dlx: dead_lettering,
                ..Queue::default()
            };
            let found = unseen(&names, "mail", &[part]);
            assert_eq!(found.is_some(), expected.is_some(), "{name}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(expected.unwrap_or("-"))), "{name}");
        }
        assert_eq!(unseen(&names, "mail", &[]), None);
        // Returned, and delayed by a policy.
        for (name, expected) in [(names.work("mail"), true), (names.failed("mail"), false)] {
            let part = Queue { name, delayed: Some(4), messages: Some(9), ..Queue::default() };
            let found = unseen(&names, "mail", &[part]);
            assert_eq!(found.is_some_and(|found| found.contains("4 messages")), expected);
        }
    }

    #[test]
    fn the_worst_that_pools_report_of_a_queue_counts() {
        use Passage::{Late, Passing, Stuck, Unknown};
        let report = |queue: &str, waits| {
            let mut queue = PoolQueue::new(queue, 1);
            queue.waits = waits;
            PoolReport::new(PoolId::new(), String::new(), SystemTime::UNIX_EPOCH, vec![queue])
        };
        let mail = |waits| report("mail", Some(waits));
        let table = [
            (vec![], None),
            // The management API decides.
            (vec![report("mail", None)], None),
            (vec![mail(Unknown)], None),
            (vec![mail(Passing)], None),
            (vec![report("video", Some(Stuck)), mail(Passing)], None),
            (vec![mail(Passing), mail(Late), mail(Unknown)], Some("is late")),
            (vec![mail(Stuck), mail(Late)], Some("do not leave its tiers")),
        ];
        for (reports, expected) in table {
            let found = held_up("mail", &reports);
            assert_eq!(found.is_some(), expected.is_some(), "{reports:?}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(expected.unwrap_or("-"))));
        }
    }
}
