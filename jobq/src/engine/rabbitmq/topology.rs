//! Every exchange, queue and binding of jobq, by name and argument. Pure: what a client
//! or a pool would declare can be printed without a broker.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::engine::QueueSpec;
use crate::period;

/// How often the broker may count a delivery as returned before it acts by itself: in
/// practice never, on every version. -1 means 0 to `RabbitMQ` 3.10, and without it 4.x
/// deletes a job after 21 returns.
const DELIVERY_LIMIT: i64 = 2_147_483_647;
/// How long a job may run before the broker takes it back, in milliseconds: a day.
const CONSUMER_TIMEOUT: i64 = 86_400_000;
/// The header by which a job names the tier that it waits in: milliseconds as text.
pub(crate) const WAIT_HEADER: &str = "jobq-wait";
/// The queue whose failed jobs are those that belong nowhere.
pub(crate) const ORPHAN: &str = "orphan";

/// The names that jobq uses on the broker, in one namespace. `:` and `@` cannot occur in
/// the names of users, so nothing clashes; the longest has 178 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    namespace: String,
}

impl Names {
    pub(crate) fn new(namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into() }
    }

    /// The exchange of clients.
    pub(crate) fn jobs(&self) -> String {
        self.namespace.clone()
    }

    /// The exchange through which jobs come back from a tier.
    pub(crate) fn deliver(&self) -> String {
        format!("{}.deliver", self.namespace)
    }

    /// The exchange of failed jobs.
    pub(crate) fn failed_jobs(&self) -> String {
        format!("{}.failed", self.namespace)
    }

    /// The exchange and the queue of what belongs nowhere.
    pub(crate) fn orphan(&self) -> String {
        format!("{}.orphan", self.namespace)
    }

    /// The work queue.
    pub(crate) fn work(&self, queue: &str) -> String {
        format!("{}:{queue}", self.namespace)
    }

    /// The exchange that leads to the tiers of a queue.
    pub(crate) fn retry(&self, queue: &str) -> String {
        format!("{}:{queue}@retry", self.namespace)
    }

    /// The tier of a wait of whole milliseconds.
    pub(crate) fn tier(&self, queue: &str, millis: u64) -> String {
        let wait = period::format(Duration::from_millis(millis));
        format!("{}:{queue}@wait.{wait}", self.namespace)
    }

    /// The queue of the failed jobs of a queue.
    pub(crate) fn failed(&self, queue: &str) -> String {
        format!("{}:{queue}@failed", self.namespace)
    }

    /// The queue whose exclusive declaration is the right to change failed jobs.
    pub(crate) fn failed_lock(&self, queue: &str) -> String {
        format!("{}:{queue}@failed.lock", self.namespace)
    }

    /// The user's queue that a queue of this namespace belongs to.
    pub(crate) fn queue_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let rest = name.strip_prefix(&self.namespace)?.strip_prefix(':')?;
        Some(rest.split_once('@').map_or(rest, |(queue, _)| queue))
    }
}

/// The waits of a queue that have a tier, in whole milliseconds.
pub(crate) type Tiers = BTreeSet<u64>;

/// The tiers for these waits: of whole milliseconds, none for no wait, none longer than
/// the longest period.
pub(crate) fn tiers(waits: &BTreeSet<Duration>) -> Tiers {
    waits.iter().map(|wait| period::millis((*wait).min(period::MAX))).filter(|ms| *ms > 0).collect()
}

/// The way of a job that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// There is nothing to wait for.
    Now,
    /// Through the tier of this wait, after which some of the wait may be left. All in
    /// milliseconds.
    Tier { millis: u64, rest: u64 },
    /// The queue has no tier.
    None,
}

/// The way of a job that has to wait for so long: the tier of this wait, else the next
/// longer one, else the longest as often as needed. It is never too short.
pub(crate) fn way(millis: u64, tiers: &Tiers) -> Way {
    if millis == 0 {
        return Way::Now;
    }
    if let Some(tier) = tiers.range(millis..).next() {
        return Way::Tier { millis: *tier, rest: 0 };
    }
    match tiers.last() {
        Some(tier) => Way::Tier { millis: *tier, rest: millis - tier },
        None => Way::None,
    }
}

/// What a client or a pool declares on the broker, in the order in which it does. It
/// prints as one line for each exchange, queue and binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    declarations: Vec<Declaration>,
}

/// One thing that exists on the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Declaration {
    /// A durable exchange.
    Exchange { name: String, kind: &'static str, alternate: Option<String> },
    /// A durable quorum queue.
    Queue { name: String, arguments: Arguments },
    /// The way from an exchange to a queue.
    Binding { exchange: String, queue: String, by: By },
}

/// The arguments of a queue, by name.
pub(crate) type Arguments = BTreeMap<&'static str, Argument>;

/// The value of a queue's argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Number(i64),
    Text(String),
}

/// What a binding matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum By {
    /// Every message.
    All,
    /// The routing key.
    Key(String),
    /// The header [`WAIT_HEADER`].
    Wait(String),
}

impl Topology {
    /// What these queues need in this namespace.
    pub(crate) fn new<'q>(
        names: &Names,
        queues: impl IntoIterator<Item = (&'q str, &'q Tiers)>,
    ) -> Self {
        let mut topology = Self { declarations: Vec::new() };
        topology.namespace(names);
        for (queue, tiers) in queues {
            topology.queue(names, queue, tiers);
        }
        topology
    }

    /// What these queues need, as the engine is told of them.
    #[must_use]
    pub fn of(namespace: &str, queues: &[QueueSpec]) -> Self {
        let mut merged: BTreeMap<&str, Tiers> = BTreeMap::new();
        for queue in queues {
            merged.entry(&queue.name).or_default().extend(tiers(&queue.waits));
        }
        Self::new(&Names::new(namespace), merged.iter().map(|(queue, tiers)| (*queue, tiers)))
    }

    pub(crate) fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// What all queues of the namespace share. The orphan queue comes first, so that
    /// nothing can be published before it has a place to go.
    fn namespace(&mut self, names: &Names) {
        let orphan = names.orphan();
        self.exchange(orphan.clone(), "fanout", None);
        // The limit keeps 4.x from deleting what pools took 21 times and could not move.
        self.declare_queue(orphan.clone(), [limit()]);
        self.bind(orphan.clone(), orphan.clone(), By::All);
        for name in [names.jobs(), names.deliver(), names.failed_jobs()] {
            self.exchange(name, "direct", Some(orphan.clone()));
        }
        self.failed(names, ORPHAN);
    }

    fn queue(&mut self, names: &Names, queue: &str, tiers: &Tiers) {
        let (work, retry) = (names.work(queue), names.retry(queue));
        let by_name = || By::Key(queue.to_owned());
        self.exchange(retry.clone(), "headers", Some(names.orphan()));
        for millis in tiers {
            let tier = names.tier(queue, *millis);
            let ttl = i64::try_from(*millis).unwrap_or(i64::MAX);
            let ttl = ("x-message-ttl", Argument::Number(ttl));
            self.declare_queue(
                tier.clone(),
                dead_letters(names.deliver()).into_iter().chain([ttl]),
            );
            self.bind(retry.clone(), tier, By::Wait(millis.to_string()));
        }
        if queue != ORPHAN {
            self.failed(names, queue);
        }
        let own = [
            ("x-dead-letter-routing-key", Argument::Text(queue.to_owned())),
            limit(),
            ("x-consumer-timeout", Argument::Number(CONSUMER_TIMEOUT)),
        ];
        self.declare_queue(work.clone(), dead_letters(retry).into_iter().chain(own));
        self.bind(names.jobs(), work.clone(), by_name());
        self.bind(names.deliver(), work, by_name());
    }

    fn failed(&mut self, names: &Names, queue: &str) {
        let failed = names.failed(queue);
        self.declare_queue(failed.clone(), [limit()]);
        self.bind(names.failed_jobs(), failed, By::Key(queue.to_owned()));
    }

    fn exchange(&mut self, name: String, kind: &'static str, alternate: Option<String>) {
        self.declarations.push(Declaration::Exchange { name, kind, alternate });
    }

    fn declare_queue(
        &mut self,
        name: String,
        arguments: impl IntoIterator<Item = (&'static str, Argument)>,
    ) {
        let quorum = ("x-queue-type", Argument::Text("quorum".to_owned()));
        let arguments = arguments.into_iter().chain([quorum]).collect();
        self.declarations.push(Declaration::Queue { name, arguments });
    }

    fn bind(&mut self, exchange: String, queue: String, by: By) {
        self.declarations.push(Declaration::Binding { exchange, queue, by });
    }
}

fn limit() -> (&'static str, Argument) {
    ("x-delivery-limit", Argument::Number(DELIVERY_LIMIT))
}

/// Dead letters are moved at least once: at most once loses them when the broker dies.
fn dead_letters(exchange: String) -> [(&'static str, Argument); 3] {
    let text = |text: &str| Argument::Text(text.to_owned());
    [
        ("x-dead-letter-exchange", Argument::Text(exchange)),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
    ]
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.declarations.iter().try_for_each(|declaration| writeln!(f, "{declaration}"))
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange { name, kind, alternate } => {
                write!(f, "exchange {name} {kind}")?;
                match alternate {
                    Some(alternate) => write!(f, " alternate-exchange={alternate}"),
                    None => Ok(()),
                }
            }
            Self::Queue { name, arguments } => {
                write!(f, "queue {name}")?;
                arguments.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
            }
            Self::Binding { exchange, queue, by } => {
                write!(f, "binding {exchange} -> {queue}")?;
                match by {
                    By::All => Ok(()),
                    By::Key(key) => write!(f, " key={key}"),
                    By::Wait(wait) => write!(f, " {WAIT_HEADER}={wait}"),
                }
            }
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
