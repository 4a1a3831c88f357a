//! The queues of a namespace that declarations have, and those that none has. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::Pruned;
use super::diff::Difference;
use crate::engine::Figure;
use crate::rabbitmq::admin::doctor::facts::Queue;
use crate::rabbitmq::admin::doctor::role::{Role, role};
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::lookup::Figures;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::Topology;
use crate::rabbitmq::topology::routing_key;

impl Topology {
    /// The queues of a namespace that these declarations make, by the names that programs use.
    ///
    /// ```
    /// use jobq::engine::QueueSpec;
    /// use jobq::rabbitmq::Topology;
    ///
    /// let topology = Topology::from_queues("shop", &[QueueSpec::new("mail"), QueueSpec::new("stock")]);
    /// assert_eq!(topology.queues("shop"), ["mail".to_owned(), "stock".to_owned()].into());
    /// assert!(topology.queues("other").is_empty());
    /// ```
    #[must_use]
    pub fn queues(&self, namespace: &str) -> BTreeSet<String> {
        let names = Names::new(namespace);
        let places = self.places().into_iter().map(Declaration::name);
        let work = places.filter(|name| role(&names, name) == Some(Role::Work));
        work.filter_map(|name| names.queue_of(name)).map(str::to_owned).collect()
    }
}

/// The queues that are not declared: those to delete, and those that stay.
///
/// A user's queue that is not declared at all goes with all its parts or stays with all of them: a
/// job that waits in one part comes to another. Queues that belong to no queue of a user, such as
/// the delay levels, are left alone, as their jobs may be of any queue.
pub(super) fn leftover(found: &[Queue], declared: &Topology, names: &Names) -> Pruned {
    let declared: BTreeSet<_> = declared.places().into_iter().map(Declaration::name).collect();
    let mut parts = BTreeMap::<&str, Vec<&Queue>>::new();
    for queue in found {
        let role = role(names, &queue.name);
        let is_shared = matches!(role, None | Some(Role::Orphan | Role::Level));
        if !is_shared
            && let Some(owner) = names.queue_of(&queue.name)
            && !declared.contains(queue.name.as_str())
        {
            parts.entry(owner).or_default().push(queue);
        }
    }
    let mut pruned = Pruned::default();
    for (owner, parts) in parts {
        let is_declared = declared.contains(names.work(owner).as_str());
        let used = |queue: &&Queue| why(queue).or_else(|| awaited(queue, owner, found, names));
        let first = parts.iter().find_map(|queue| Some((queue, used(queue)?)));
        for queue in &parts {
            let reason = match (used(queue), &first) {
                (Some(why), _) => Some(why),
                (None, Some((other, _))) if !is_declared => Some(format!(
                    "it belongs to the same queue as `{}`, which is in use",
                    other.name
                )),
                (None, _) => None,
            };
            match reason {
                None => pruned.deleted.push(queue.name.clone()),
                Some(why) => pruned.kept.push(Difference::new(queue.name.clone(), why)),
            }
        }
    }
    pruned
}

/// Why a queue of a priority may not be deleted: jobs wait in other parts of its owner, such as a
/// tier, which may come to it.
fn awaited(queue: &Queue, owner: &str, found: &[Queue], names: &Names) -> Option<String> {
    let lanes = routing_key::other_lanes(owner);
    if !lanes.iter().any(|lane| [names.work(lane), names.due(lane)].contains(&queue.name)) {
        return None;
    }
    let may_lead_there = |part: &&Queue| {
        names.queue_of(&part.name) == Some(owner) || role(names, &part.name) == Some(Role::Level)
    };
    let mut parts = found.iter().filter(may_lead_there);
    let part = parts.find(|part| part.messages != Some(0))?;
    Some(format!("jobs of its priority may be in `{}`", part.name))
}

/// Why a queue may not be deleted.
fn why(queue: &Queue) -> Option<String> {
    match (queue.messages, queue.consumers) {
        (Some(0), Some(0)) => None,
        (Some(messages), Some(consumers)) => Some(in_use(messages, consumers)),
        _ => Some("the broker has not counted its messages and consumers yet".to_owned()),
    }
}

/// Why a queue stays that has these figures just before it is deleted.
pub(super) fn stays(figures: Figure<Figures>) -> Option<String> {
    match figures {
        Figure::Known(Figures { ready: 0, consumers: 0 }) => None,
        Figure::Known(Figures { ready, consumers }) => Some(in_use(ready, consumers.into())),
        Figure::Unknown(why) => Some(why.into_owned()),
    }
}

/// The reason of a queue that is in use.
fn in_use(messages: u64, consumers: u64) -> String {
    format!("it has {messages} messages and {consumers} consumers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueueSpec;

    fn found(name: &str, messages: u64, consumers: u64) -> Queue {
        let (messages, consumers) = (Some(messages), Some(consumers));
        Queue { name: name.into(), messages, consumers, ..Queue::default() }
    }

    #[test]
    fn a_queue_goes_with_all_its_parts_or_stays_with_them() {
        let names = Names::new("jobq");
        let declared = Topology::from_queues("jobq", &[QueueSpec::new("mail")]);
        let uncounted = Queue { name: "jobq:new".into(), ..Queue::default() };
        let table: [(&[Queue], &[&str], &[&str]); 6] = [
            (&[found("jobq:mail", 0, 0), found("jobq:mail@failed", 0, 0)], &[], &[]),
            // A tier of an earlier delay.
            (
                &[found("jobq:mail", 5, 1), found("jobq:mail@wait.7s", 0, 0)],
                &["jobq:mail@wait.7s"],
                &[],
            ),
            (&[found("jobq:mail@wait.7s", 1, 0)], &[], &["jobq:mail@wait.7s"]),
            (
                &[found("jobq:old", 0, 0), found("jobq:old@failed", 0, 0)],
                &["jobq:old", "jobq:old@failed"],
                &[],
            ),
            (
                &[found("jobq:old", 0, 0), found("jobq:old@failed", 3, 0)],
                &[],
                &["jobq:old", "jobq:old@failed"],
            ),
            (
                &[
                    uncounted,
                    found("jobq.orphan", 0, 0),
                    found("jobq:orphan@failed", 0, 0),
                    found("jobq.level.0.1", 0, 0),
                    found("jobq:old@paused", 0, 0),
                    found("jobq.control.x", 0, 0),
                    found("other", 0, 0),
                ],
                &[],
                &["jobq:new"],
            ),
        ];
        for (found, deleted, kept) in table {
            let pruned = leftover(found, &declared, &names);
            assert_eq!(pruned.deleted, deleted, "{found:?}");
            let names: Vec<_> = pruned.kept.iter().map(|kept| &*kept.about).collect();
            assert_eq!(names, kept, "{found:?}");
        }
    }

    #[test]
    fn the_queue_of_a_priority_stays_while_jobs_may_come_to_it() {
        let names = Names::new("jobq");
        let mail = || QueueSpec::new("mail").waits([std::time::Duration::from_secs(7)]);
        let declared = Topology::from_queues("jobq", &[mail()]);
        let lanes = ["jobq:mail@high", "jobq:mail@low@due"];
        for (of_tier, of_level, is_kept) in [(1, 0, true), (0, 1, true), (0, 0, false)] {
            let found = [
                found("jobq:mail@wait.7s", of_tier, 0),
                found("jobq.level.0.1", of_level, 0),
                found(lanes[0], 0, 0),
                found(lanes[1], 0, 0),
            ];
            let pruned = leftover(&found, &declared, &names);
            let kept: Vec<_> = pruned.kept.iter().map(|kept| &*kept.about).collect();
            let expected: [&[&str]; 2] = if is_kept { [&lanes, &[]] } else { [&[], &lanes] };
            assert_eq!(
                [&kept[..], &pruned.deleted.iter().map(|n| &**n).collect::<Vec<_>>()],
                expected
            );
        }
    }

    #[test]
    fn a_queue_whose_figures_are_unknown_stays() {
        let known = |ready, consumers| Figure::Known(Figures { ready, consumers });
        for (figures, expected) in [
            (known(0, 0), None),
            (known(3, 0), Some("it has 3 messages and 0 consumers")),
            (known(0, 2), Some("it has 0 messages and 2 consumers")),
            (Figure::unknown("its queue has no leader"), Some("its queue has no leader")),
        ] {
            assert_eq!(stays(figures).as_deref(), expected);
        }
    }
}
