//! Queues that end with their client: control queues, and locks on failed jobs. Pure.
//!
//! They are exclusive classic queues, which end with their connection. A broker may have no classic
//! queues, and quorum queues are never exclusive: there they end some time after their consumer.

use uuid::Uuid;

use super::declaration::{Argument, Arguments};
use super::names::Names;

/// The most messages in a control queue. The oldest are dropped.
const MAX_LENGTH: i64 = 1_000;
/// How long a message waits for its client, in milliseconds: nobody waits longer for an answer.
const TTL: i64 = 10_000;
/// After how many milliseconds without a consumer a control queue is deleted.
const UNUSED: i64 = 60_000;
/// The same for a lock: what a dead client had locked is free some seconds after that.
const UNLOCKED: i64 = 6_000;

/// The type of temporary queues.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueType {
    #[default]
    Classic,
    Quorum,
}

/// A queue that ends with its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemporaryQueue {
    pub(crate) name: String,
    pub(crate) kind: QueueType,
    /// Those beside its type.
    pub(crate) arguments: Arguments,
}

impl TemporaryQueue {
    /// A control queue.
    pub(crate) fn control(names: &Names, address: Uuid, kind: QueueType) -> Self {
        let arguments = [
            ("x-max-length", Argument::Number(MAX_LENGTH)),
            ("x-message-ttl", Argument::Number(TTL)),
            // Without it, a queue whose opening is given up stays as long as its connection.
            ("x-expires", Argument::Number(UNUSED)),
            ("x-overflow", Argument::Text("drop-head".to_owned())),
        ];
        Self::new(names.control_queue(address), kind, arguments)
    }

    /// The lock on the failed jobs of a queue. A quorum queue is its owner's by the owner's number,
    /// since the broker refuses another declaration of it, and has a consumer while it is held.
    pub(crate) fn failed_lock(names: &Names, queue: &str, kind: QueueType, owner: u32) -> Self {
        let name = names.failed_lock(queue);
        match kind {
            QueueType::Classic => Self::new(name, kind, []),
            QueueType::Quorum => {
                let arguments = [
                    ("x-max-length", Argument::Number(owner.into())),
                    ("x-expires", Argument::Number(UNLOCKED)),
                ];
                Self::new(name, kind, arguments)
            }
        }
    }

    fn new(
        name: String,
        kind: QueueType,
        arguments: impl IntoIterator<Item = (&'static str, Argument)>,
    ) -> Self {
        let stated = match kind {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
        };
        let stated = ("x-queue-type", Argument::Text(stated.to_owned()));
        let arguments = arguments.into_iter().chain([stated]);
        let arguments = arguments.map(|(key, value)| (key.into(), value)).collect();
        Self { name, kind, arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_arguments() {
        let names = Names::new("jobq");
        let control = "x-expires=60000 x-max-length=1000 x-message-ttl=10000 x-overflow=drop-head";
        let id = Uuid::nil();
        let table = [
            (
                TemporaryQueue::control(&names, id, QueueType::Classic),
                format!("jobq.control.{id} {control} x-queue-type=classic"),
            ),
            (
                TemporaryQueue::control(&names, id, QueueType::Quorum),
                format!("jobq.control.{id} {control} x-queue-type=quorum"),
            ),
            (
                TemporaryQueue::failed_lock(&names, "mail", QueueType::Classic, 7),
                "jobq:mail@failed.lock x-queue-type=classic".to_owned(),
            ),
            (
                TemporaryQueue::failed_lock(&names, "mail", QueueType::Quorum, u32::MAX),
                "jobq:mail@failed.lock x-expires=6000 x-max-length=4294967295 x-queue-type=quorum"
                    .to_owned(),
            ),
        ];
        for (TemporaryQueue { name, arguments, .. }, expected) in table {
            let arguments = arguments.iter().map(|(key, value)| format!(" {key}={value}"));
            assert_eq!(name + &arguments.collect::<String>(), expected);
        }
    }
}
