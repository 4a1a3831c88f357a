//! Jobs between two parts of a queue, which AMQP does not count: the broker has taken them out of a
//! tier or of `@due`, and its dead-lettering has not passed them on. Pure.

use super::facts::Queue;
use super::role::{Role, role};
use crate::rabbitmq::topology::names::Names;

/// Why there may be such jobs of this queue, of which the management API shows these parts. `None` if
/// there are certainly none.
pub(crate) fn unseen(names: &Names, queue: &str, found: &[Queue]) -> Option<String> {
    let of_queue = found.iter().filter(|part| {
        names.queue_of(&part.name) == Some(queue)
            && matches!(role(names, &part.name), Some(Role::Tier | Role::Due))
    });
    of_queue.into_iter().find_map(|part| {
        let name = &part.name;
        match (part.messages, part.messages_dlx.unwrap_or(0)) {
            (Some(0), 0) => None,
            (Some(messages), dead_lettering) => {
                let messages = messages.max(dead_lettering);
                Some(format!("the management API shows {messages} messages in `{name}`"))
            }
            (None, _) => {
                Some(format!("the management API has not counted the messages of `{name}` yet"))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_and_the_queue_out_of_the_levels_must_be_known_to_be_empty() {
        let names = Names::new("jobq");
        let (due, tier) = (names.due("mail"), names.tier("mail", 30_000));
        let table = [
            (due.clone(), Some(0), None, None),
            (tier.clone(), Some(0), Some(0), None),
            (tier.clone(), Some(3), None, Some("3 messages in `jobq:mail@wait.30s`")),
            // All of them are with the supervisor.
            (tier, Some(0), Some(7), Some("7 messages")),
            (due, None, None, Some("has not counted the messages of `jobq:mail@due`")),
            // These are counted by AMQP, or belong to others.
            (names.work("mail"), Some(5), None, None),
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
    }
}
