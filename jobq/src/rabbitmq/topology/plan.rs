//! Every exchange, queue and binding of jobq, by name and argument. Pure: the declarations of a
//! client or a pool can be printed without a broker.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::declaration::{Argument, Declaration, ExchangeType};
use super::levels::{self, End};
use super::names::{Names, ORPHAN};
use super::requirements::{Tiers, Wanted};
use super::routing_key;

/// The delivery limit of each queue: in practice none, on every version. -1 means 0 to `RabbitMQ`
/// 3.10, and without a limit 4.x deletes a job after 21 returns.
const DELIVERY_LIMIT: i64 = 2_147_483_647;
/// How long a job may run before the broker takes it back, in milliseconds: a day. 3.10 ignores it
/// and has its own limit, of half an hour by default.
pub(crate) const CONSUMER_TIMEOUT: i64 = 86_400_000;
/// How long RabbitMQ 4.3 waits for the holder of a seat whose node is out of reach, in milliseconds.
const AWAY: i64 = 5_000;
pub(crate) const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
/// How long a job stays in the queue through which it leaves the levels, in milliseconds. Without a
/// wait the broker had more work (measured: docs/delays.md), probably since it then passes on each
/// job by itself.
const DUE: u64 = 10;

/// The declarations of a client or a pool, in order. Prints one line for each exchange, queue and
/// binding. As JSON it is the file that the command `jobq topology` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    declarations: Vec<Declaration>,
}

impl Topology {
    /// The declarations for these requirements in this namespace.
    pub(crate) fn new(names: &Names, wanted: &Wanted) -> Self {
        let mut topology = Self { declarations: Vec::new() };
        topology.namespace(names);
        // The lowest level comes first, so that no level passes messages on to one that is missing.
        (0..wanted.levels).for_each(|level| topology.level(names, level));
        for (queue, tiers) in &wanted.queues {
            topology.queue(names, queue, tiers);
        }
        for queue in &wanted.priorities {
            let tiers = wanted.queues.get(queue).cloned().unwrap_or_default();
            for lane in routing_key::other_lanes(queue) {
                tiers.iter().for_each(|millis| topology.tier_key(names, (queue, &lane), *millis));
                topology.lane(names, &lane, &tiers);
            }
        }
        for queue in &wanted.solo {
            topology.solo(names, queue);
        }
        for queue in &wanted.seats {
            topology.seat(names, queue);
        }
        for (queue, pattern) in &wanted.subscriptions {
            topology.subscription(names, queue, pattern);
        }
        topology
    }

    /// The declarations of one level.
    pub(crate) fn of_level(names: &Names, level: u32) -> Self {
        let mut topology = Self { declarations: Vec::new() };
        topology.level(names, level);
        topology
    }

    /// The declarations of control alone.
    pub(crate) fn of_control(names: &Names) -> Self {
        let mut topology = Self { declarations: Vec::new() };
        topology.control(names);
        topology
    }

    /// The declarations of the record of a pause.
    pub(crate) fn of_pause_record(names: &Names, queue: &str) -> Self {
        let mut topology = Self { declarations: Vec::new() };
        // One reader at a time: a message that one holds is hidden from the others.
        let single = ("x-single-active-consumer", Argument::Truth(true));
        let record = names.pause_record(queue);
        topology.declare_queue(record.clone(), [limit(), single]);
        topology.bind(names.control(), record, Names::record_key(queue));
        topology
    }

    pub(crate) fn into_declarations(self) -> impl Iterator<Item = Declaration> {
        self.declarations.into_iter()
    }

    pub(crate) fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Adds the declarations of another topology that this one does not have, such as those of
    /// another program of the namespace.
    pub fn add(&mut self, other: Self) {
        for declaration in other.declarations {
            if !self.declarations.contains(&declaration) {
                self.declarations.push(declaration);
            }
        }
    }

    /// The declarations without these exchanges and queues, and the bindings of them.
    pub(crate) fn without(&self, names: &BTreeSet<String>) -> Self {
        let source = |declaration: &Declaration| match declaration {
            Declaration::Binding { exchange: from, .. }
            | Declaration::ExchangeBinding { from, .. } => names.contains(from),
            _ => false,
        };
        let stays = |declaration: &&Declaration| {
            !names.contains(declaration.name()) && !source(declaration)
        };
        Self { declarations: self.declarations.iter().filter(stays).cloned().collect() }
    }

    /// The exchanges and queues.
    pub(crate) fn places(&self) -> Vec<&Declaration> {
        self.declarations.iter().filter(|declaration| declaration.is_place()).collect()
    }

    /// The part that all queues of the namespace share. The orphan queue comes first, so that no
    /// message is published before it exists.
    fn namespace(&mut self, names: &Names) {
        let orphan = names.orphan();
        self.exchange(orphan.clone(), ExchangeType::Fanout, None);
        // The limit keeps 4.x from deleting messages that pools returned 21 times.
        self.declare_queue(orphan.clone(), [limit()]);
        self.bind(orphan.clone(), orphan.clone(), None);
        for name in [names.jobs(), names.retry(), names.deliver(), names.failed_jobs()] {
            self.exchange(name, ExchangeType::Direct, Some(orphan.clone()));
        }
        self.exchange(names.level_deliver(), ExchangeType::Topic, Some(orphan));
        // An event without subscribers has no other destination.
        self.exchange(names.events(), ExchangeType::Topic, None);
        self.control(names);
        self.failed(names, ORPHAN);
    }

    /// The exchanges of control. None has an alternate exchange: a question that reaches nobody has
    /// no answer, and a queue that is not paused no binding.
    fn control(&mut self, names: &Names) {
        self.exchange(names.control(), ExchangeType::Direct, None);
        self.exchange(names.control_echo(), ExchangeType::Topic, None);
        self.exchange(names.paused(), ExchangeType::Topic, None);
    }

    fn level(&mut self, names: &Names, level: u32) {
        let next = match level.checked_sub(1) {
            Some(lower) => names.level(lower),
            None => names.level_deliver(),
        };
        let exchange = names.level(level);
        self.exchange(exchange.clone(), ExchangeType::Topic, Some(names.orphan()));
        let key = levels::pattern(level, 0);
        let binding =
            Declaration::ExchangeBinding { from: exchange.clone(), to: next.clone(), key };
        self.declarations.push(binding);
        for digit in levels::digits(level) {
            let queue = names.level_queue(level, digit);
            let waits = ttl(levels::ttl(level, digit));
            let arguments = dead_letters(next.clone()).into_iter().chain([waits]);
            self.declare_queue(queue.clone(), arguments);
            self.bind(exchange.clone(), queue, levels::pattern(level, digit));
        }
    }

    fn queue(&mut self, names: &Names, queue: &str, tiers: &Tiers) {
        for millis in tiers {
            let arguments = dead_letters(names.deliver()).into_iter().chain([ttl(*millis)]);
            self.declare_queue(names.tier(queue, *millis), arguments);
            self.tier_key(names, (queue, queue), *millis);
        }
        if queue != ORPHAN {
            self.failed(names, queue);
        }
        self.lane(names, queue, tiers);
    }

    /// The binding of a queue's tier for a lane. All lanes share the tiers.
    fn tier_key(&mut self, names: &Names, (queue, lane): (&str, &str), millis: u64) {
        let key = routing_key::write(lane, Some(millis));
        self.bind(names.retry(), names.tier(queue, millis), key);
    }

    /// The work queue of a lane, and the queue through which its jobs leave the levels.
    fn lane(&mut self, names: &Names, lane: &str, tiers: &Tiers) {
        let work = names.work(lane);
        // A job is dead-lettered with its own key, which names the tier.
        let own = [limit(), timeout()];
        self.declare_queue(work.clone(), dead_letters(names.retry()).into_iter().chain(own));
        for wait in std::iter::once(None).chain(tiers.iter().copied().map(Some)) {
            for exchange in [names.jobs(), names.deliver()] {
                self.bind(exchange, work.clone(), routing_key::write(lane, wait));
            }
        }
        let due = names.due(lane);
        let own = [dead_key(lane), ttl(DUE)];
        self.declare_queue(due.clone(), dead_letters(names.deliver()).into_iter().chain(own));
        let from_levels = levels::end_pattern(End::Queue(lane));
        self.bind(names.level_deliver(), due, from_levels);
    }

    /// One consumer at a time across all processes: a job that crashes its worker must not affect
    /// another one.
    fn solo(&mut self, names: &Names, queue: &str) {
        let solo = names.solo(queue);
        let single = ("x-single-active-consumer", Argument::Truth(true));
        self.declare_queue(solo.clone(), [limit(), single, timeout()]);
        self.bind(names.jobs(), solo, Names::solo_key(queue));
    }

    /// One holder at a time across all processes. RabbitMQ 4.3 waits a minute for a consumer whose node
    /// is out of reach, unless the queue says otherwise; earlier versions ignore that.
    fn seat(&mut self, names: &Names, queue: &str) {
        let single = ("x-single-active-consumer", Argument::Truth(true));
        let away = ("x-consumer-disconnected-timeout", Argument::Number(AWAY));
        let seat = names.seat(queue);
        self.declare_queue(seat.clone(), [limit(), single, timeout(), away]);
        self.bind(names.control(), seat, Names::seat_key(queue));
    }

    fn subscription(&mut self, names: &Names, queue: &str, pattern: &str) {
        for (exchange, queue, key) in names.subscription(queue, pattern) {
            self.bind(exchange, queue, key);
        }
    }

    fn failed(&mut self, names: &Names, queue: &str) {
        let failed = names.failed(queue);
        self.declare_queue(failed.clone(), [limit()]);
        self.bind(names.failed_jobs(), failed, queue.to_owned());
    }

    fn exchange(&mut self, name: String, kind: ExchangeType, alternate: Option<String>) {
        self.declarations.push(Declaration::Exchange { name, kind, alternate });
    }

    pub(super) fn declare_queue(
        &mut self,
        name: String,
        arguments: impl IntoIterator<Item = (&'static str, Argument)>,
    ) {
        let quorum = ("x-queue-type", Argument::Text("quorum".to_owned()));
        let arguments = arguments.into_iter().chain([quorum]);
        let arguments = arguments.map(|(key, value)| (key.into(), value)).collect();
        self.declarations.push(Declaration::Queue { name, arguments });
    }

    pub(super) fn bind(&mut self, exchange: String, queue: String, key: impl Into<Option<String>>) {
        self.declarations.push(Declaration::Binding { exchange, queue, key: key.into() });
    }
}

fn limit() -> (&'static str, Argument) {
    ("x-delivery-limit", Argument::Number(DELIVERY_LIMIT))
}

fn timeout() -> (&'static str, Argument) {
    ("x-consumer-timeout", Argument::Number(CONSUMER_TIMEOUT))
}

fn ttl(millis: u64) -> (&'static str, Argument) {
    ("x-message-ttl", Argument::Number(i64::try_from(millis).unwrap_or(i64::MAX)))
}

fn dead_key(key: &str) -> (&'static str, Argument) {
    ("x-dead-letter-routing-key", Argument::Text(key.to_owned()))
}

/// At-least-once dead-lettering: at-most-once loses messages when the broker dies.
fn dead_letters(exchange: String) -> [(&'static str, Argument); 3] {
    let text = |text: &str| Argument::Text(text.to_owned());
    [
        (DEAD_LETTER_EXCHANGE, Argument::Text(exchange)),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
    ]
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.declarations.iter().try_for_each(|declaration| writeln!(f, "{declaration}"))
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
