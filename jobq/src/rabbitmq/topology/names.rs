//! The names of jobq's exchanges and queues, built and parsed. Pure.

use std::time::Duration;

use uuid::Uuid;

use super::levels::{self, End};
use super::routing_key;
use crate::period;

/// The queue whose failed jobs are the unroutable messages.
pub(crate) const ORPHAN: &str = "orphan";
/// The tag of the consumer of a seat.
pub(crate) const SEAT_TAG: &str = "seat";

/// The names on the broker, in one namespace. `:` and `@` cannot occur in users' names, so no names
/// clash. The longest has 178 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    namespace: String,
}

impl Names {
    pub(crate) fn new(namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into() }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The exchange of clients.
    pub(crate) fn jobs(&self) -> String {
        self.namespace.clone()
    }

    /// The exchange of events.
    pub(crate) fn events(&self) -> String {
        format!("{}.events", self.namespace)
    }

    /// The exchange through which jobs return from a tier.
    pub(crate) fn deliver(&self) -> String {
        format!("{}.deliver", self.namespace)
    }

    /// The exchange of a level.
    pub(crate) fn level(&self, level: u32) -> String {
        format!("{}.level.{level}", self.namespace)
    }

    /// Whether an exchange is that of a level.
    pub(crate) fn is_level(&self, exchange: &str) -> bool {
        let rest = exchange.strip_prefix(&self.namespace);
        rest.is_some_and(|rest| rest.starts_with(".level."))
    }

    /// The queue of a digit of a level.
    pub(crate) fn level_queue(&self, level: u32, digit: u64) -> String {
        format!("{}.level.{level}.{digit}", self.namespace)
    }

    /// The level that a queue is of.
    pub(crate) fn level_of(&self, queue: &str) -> Option<u32> {
        let of_level = queue.strip_prefix(&self.namespace)?.strip_prefix(".level.")?;
        let level = of_level.split_once('.')?.0.parse().ok()?;
        (level < levels::LEVELS).then_some(level)
    }

    /// The exchange through which jobs and events leave the levels. It is not that of the tiers,
    /// since the routing key is still the levels'.
    pub(crate) fn level_deliver(&self) -> String {
        format!("{}.level.deliver", self.namespace)
    }

    /// The destination in a routing key, if the exchange is one of the levels'.
    pub(crate) fn end_of_levels<'k>(&self, exchange: &str, key: &'k str) -> Option<End<'k>> {
        if self.is_level(exchange) { levels::end_of(key) } else { None }
    }

    /// The topic of an event with this routing key from this exchange.
    pub(crate) fn topic_of<'k>(&self, exchange: &str, key: &'k str) -> Option<&'k str> {
        // Called for every delivery, so no names are built.
        match (exchange.strip_prefix(&self.namespace)?, self.end_of_levels(exchange, key)) {
            (".events", _) => Some(key),
            (_, Some(End::Topic(topic))) => Some(topic),
            _ => None,
        }
    }

    /// Whether an exchange is neither jobq's nor the default one.
    pub(crate) fn is_foreign(&self, exchange: &str) -> bool {
        let rest = exchange.strip_prefix(&self.namespace);
        !exchange.is_empty() && rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('.'))
    }

    /// Whether an event came out of the levels, as opposed to an exchange on the way into them.
    pub(crate) fn is_out_of_levels(&self, exchange: &str, key: &str) -> bool {
        exchange == self.level_deliver()
            || (0..levels::LEVELS)
                .any(|level| exchange == self.level(level) && levels::is_over(key, level))
    }

    /// The exchange of failed jobs.
    pub(crate) fn failed_jobs(&self) -> String {
        format!("{}.failed", self.namespace)
    }

    /// The exchange and the queue of unroutable messages.
    pub(crate) fn orphan(&self) -> String {
        format!("{}.orphan", self.namespace)
    }

    /// The work queue of a lane.
    pub(crate) fn work(&self, lane: &str) -> String {
        format!("{}:{lane}", self.namespace)
    }

    /// The work queues of all lanes that a queue may have.
    pub(crate) fn work_queues(&self, queue: &str) -> Vec<String> {
        let others = routing_key::other_lanes(queue).map(|lane| self.work(&lane));
        [self.work(queue)].into_iter().chain(others).collect()
    }

    /// The exchange that leads to the tiers.
    pub(crate) fn retry(&self) -> String {
        format!("{}.retry", self.namespace)
    }

    /// The tier of a wait of whole milliseconds.
    pub(crate) fn tier(&self, queue: &str, millis: u64) -> String {
        let wait = period::format(Duration::from_millis(millis));
        format!("{}:{queue}@wait.{wait}", self.namespace)
    }

    /// The queue through which the jobs of a lane leave the levels. It holds only jobs that the
    /// queue refuses, which otherwise would block a level, and so all other queues.
    pub(crate) fn due(&self, lane: &str) -> String {
        format!("{}:{lane}@due", self.namespace)
    }

    /// The queue of the failed jobs of a queue.
    pub(crate) fn failed(&self, queue: &str) -> String {
        format!("{}:{queue}@failed", self.namespace)
    }

    /// The queue for solo runs of a queue's jobs.
    pub(crate) fn solo(&self, queue: &str) -> String {
        format!("{}:{}", self.namespace, Self::solo_key(queue))
    }

    /// The routing key of the solo queue, on the exchange of clients.
    pub(crate) fn solo_key(queue: &str) -> String {
        format!("{queue}@solo")
    }

    /// The queue whose single active consumer holds the seat of a queue.
    pub(crate) fn seat(&self, queue: &str) -> String {
        format!("{}:{queue}@seat", self.namespace)
    }

    /// The routing key of that queue, on the exchange of control.
    pub(crate) fn seat_key(queue: &str) -> String {
        format!("seat:{queue}")
    }

    /// The exchange of questions, orders and answers between clients and pools.
    pub(crate) fn control(&self) -> String {
        format!("{}.control", self.namespace)
    }

    /// The exchange from which a client gets its own question back if a queue is paused.
    pub(crate) fn control_echo(&self) -> String {
        format!("{}.control.echo", self.namespace)
    }

    /// The control queue of one connection epoch of a client.
    pub(crate) fn control_queue(&self, address: Uuid) -> String {
        format!("{}.control.{address}", self.namespace)
    }

    /// The queue of probes.
    pub(crate) fn probe(&self) -> String {
        format!("{}.probe", self.namespace)
    }

    /// The exchange whose bindings are the paused queues.
    pub(crate) fn paused(&self) -> String {
        format!("{}.paused", self.namespace)
    }

    /// The queue with the record of a pause.
    pub(crate) fn pause_record(&self, queue: &str) -> String {
        format!("{}:{queue}@paused", self.namespace)
    }

    /// The routing key of that queue, on the exchange of control.
    pub(crate) fn record_key(queue: &str) -> String {
        format!("record:{queue}")
    }

    /// The queue whose exclusive declaration is the lock on failed jobs.
    pub(crate) fn failed_lock(&self, queue: &str) -> String {
        format!("{}:{queue}@failed.lock", self.namespace)
    }

    /// The bindings of a subscription, as exchange, queue and key: for events at once and for
    /// delayed ones.
    pub(crate) fn subscription(&self, queue: &str, pattern: &str) -> [(String, String, String); 2] {
        let from_levels = levels::end_pattern(End::Topic(pattern));
        [
            (self.events(), self.work(queue), pattern.to_owned()),
            (self.level_deliver(), self.due(queue), from_levels),
        ]
    }

    /// The lane of a work queue of this namespace.
    pub(crate) fn lane_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.namespace)?.strip_prefix(':')
    }

    /// The user's queue to which a queue of this namespace belongs.
    pub(crate) fn queue_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let rest = self.lane_of(name)?;
        Some(rest.split_once('@').map_or(rest, |(queue, _)| queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_told_from_the_names_made_of_it() {
        let names = Names::new("shop");
        let table = [
            ("shop:mail.welcome", Some("mail.welcome")),
            ("shop:mail@failed", Some("mail")),
            ("shop:mail@due", Some("mail")),
            ("shop:mail@high", Some("mail")),
            ("shop:mail@high@due", Some("mail")),
            ("shop:mail@wait.1h30m", Some("mail")),
            ("shop:mail@paused", Some("mail")),
            ("shop.control.echo", None),
            ("shop.orphan", None),
            ("shop", None),
            ("shopping:mail", None),
            ("", None),
        ];
        for (name, queue) in table {
            assert_eq!(names.queue_of(name), queue, "{name}");
        }
    }

    #[test]
    fn an_event_is_recognized_by_its_exchange_and_key() {
        let names = Names::new("jobq");
        let waited = "0.0.0.0.0.2.0.0.e.user.created";
        let table = [
            ("jobq.events", "user.created", Some("user.created"), false),
            ("jobq.events", waited, Some(waited), false),
            ("jobq.level.deliver", waited, Some("user.created"), true),
            ("jobq.level.1", waited, Some("user.created"), true),
            ("jobq.level.2", waited, Some("user.created"), false),
            ("jobq.level.deliver", "0.0.0.0.0.2.0.0.q.mail", None, true),
            ("jobq", "user.created", None, false),
            ("jobq", waited, None, false),
            ("other.events", "user.created", None, false),
        ];
        for (exchange, key, topic, out) in table {
            assert_eq!(names.topic_of(exchange, key), topic, "{exchange} {key}");
            assert_eq!(names.is_out_of_levels(exchange, key), out, "{exchange} {key}");
        }
    }
}
