//! The roles of a namespace's queues, from their names. Pure.

use std::time::Duration;

use crate::engine::QueueSpec;
use crate::period;
use crate::rabbitmq::topology::names::{Names, ORPHAN};

/// The role of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// The jobs of a lane.
    Work,
    Tier,
    Level,
    Due,
    Solo,
    /// The schedules of a queue.
    Seat,
    Failed,
    Orphan,
}

/// The role of a queue with this name, if it belongs to the namespace and holds jobs: records of
/// pauses and control queues do not.
pub(crate) fn role(names: &Names, name: &str) -> Option<Role> {
    if name == names.orphan() {
        return Some(Role::Orphan);
    }
    let level = names.level(0);
    if name.starts_with(level.trim_end_matches('0')) {
        return Some(Role::Level);
    }
    match name.strip_prefix(&names.work(names.queue_of(name)?))? {
        "" | "@high" | "@low" => Some(Role::Work),
        "@due" | "@high@due" | "@low@due" => Some(Role::Due),
        "@solo" => Some(Role::Solo),
        "@seat" => Some(Role::Seat),
        "@failed" => Some(Role::Failed),
        other => other.starts_with("@wait.").then_some(Role::Tier),
    }
}

/// The users' queues of these queues, with the waits of their tiers.
pub(crate) fn specs<'n>(names: &Names, found: impl Iterator<Item = &'n str>) -> Vec<QueueSpec> {
    let spec = |name: &str| {
        let queue = names.queue_of(name)?;
        let spec = QueueSpec::new(queue);
        match role(names, name)? {
            Role::Work if name != names.work(queue) => Some(spec.priorities()),
            Role::Work | Role::Due => Some(spec),
            Role::Solo => Some(spec.solo()),
            Role::Seat => Some(spec.seat()),
            Role::Tier => Some(spec.waits(wait(name))),
            // The queue of unroutable messages is not a user's.
            Role::Failed => (queue != ORPHAN).then_some(spec),
            Role::Level | Role::Orphan => None,
        }
    };
    found.filter_map(spec).collect()
}

/// The wait of a tier.
fn wait(name: &str) -> Option<Duration> {
    period::parse(name.split_once("@wait.")?.1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_states_its_role() {
        let names = Names::new("jobq");
        let table = [
            (names.work("mail"), Some(Role::Work)),
            (names.tier("mail", 90_000), Some(Role::Tier)),
            (names.due("mail"), Some(Role::Due)),
            (names.work("mail@high"), Some(Role::Work)),
            (names.due("mail@low"), Some(Role::Due)),
            (names.solo("mail"), Some(Role::Solo)),
            (names.seat("mail"), Some(Role::Seat)),
            (names.failed("mail"), Some(Role::Failed)),
            (names.failed(ORPHAN), Some(Role::Failed)),
            (names.orphan(), Some(Role::Orphan)),
            (names.level_queue(3, 11), Some(Role::Level)),
            (names.pause_record("mail"), None),
            (names.control_queue(uuid::Uuid::nil()), None),
            (names.failed_lock("mail"), None),
            ("jobq:mail@else".to_owned(), None),
            ("jobqs:mail".to_owned(), None),
            ("other".to_owned(), None),
            (String::new(), None),
        ];
        for (name, expected) in table {
            assert_eq!(role(&names, &name), expected, "{name}");
        }
    }

    #[test]
    fn found_queues_state_their_specs() {
        let names = Names::new("jobq");
        let wait = Duration::from_secs(90);
        let found = [
            names.work("mail"),
            names.work("mail@low"),
            names.tier("mail", 90_000),
            names.solo("mail"),
            names.seat("mail"),
        ];
        let found = specs(&names, found.iter().map(String::as_str));
        let mail = || QueueSpec::new("mail");
        assert_eq!(
            found,
            [mail(), mail().priorities(), mail().waits([wait]), mail().solo(), mail().seat()]
        );
        let others = [
            names.orphan(),
            names.failed(ORPHAN),
            names.level_queue(0, 1),
            names.pause_record("a"),
        ];
        assert_eq!(specs(&names, others.iter().map(String::as_str)), []);
    }
}
