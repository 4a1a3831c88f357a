//! The ledger of probes: which are due, on their way, late and stuck. Pure: the time comes in from
//! outside, as the time since any fixed moment.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use crate::engine::Passage;
use crate::rabbitmq::topology::probes::WaitQueue;

/// How often each queue is probed, by all pools of the namespace together.
const EVERY: Duration = Duration::from_secs(60);
/// A probe that comes so long after its time is late.
const LATE: Duration = Duration::from_secs(30);
/// A probe that does not come so long after its time is stuck. The broker sends again what was not
/// confirmed for three minutes.
const STUCK: Duration = Duration::from_secs(210);
/// The most probes of a queue that are remembered: the oldest, and the latest.
const ON_THEIR_WAY: usize = 8;

/// A change that is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The key of its probes.
    pub(super) key: String,
    /// The queue of the broker.
    pub(super) name: String,
    /// The user's queue; `None` for a level.
    pub(super) queue: Option<String>,
    pub(super) passage: Passage,
}

/// The probed queues, by the key of their probes.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    probed: WaitQueue,
    /// When anybody sent the last probe.
    sent: Option<Duration>,
    /// With the times at which they were sent, the oldest first.
    on_their_way: VecDeque<(Uuid, Duration)>,
    passage: Passage,
}

impl Entry {
    fn new(probed: WaitQueue) -> Self {
        Self { probed, sent: None, on_their_way: VecDeque::new(), passage: Passage::Unknown }
    }

    fn change(&self) -> Change {
        let WaitQueue { name, queue, key, .. } = self.probed.clone();
        Change { key, name, queue, passage: self.passage }
    }

    /// Whether the next probe is due. A queue that passes nothing on gets few.
    fn is_due(&self, now: Duration) -> bool {
        let pause = if self.passage == Passage::Stuck { STUCK } else { EVERY };
        self.sent.is_none_or(|sent| now.saturating_sub(sent) >= pause)
    }

    /// How the oldest probe on its way is, by its time.
    fn judge(&self, now: Duration) -> Passage {
        let Some((_, sent)) = self.on_their_way.front() else {
            return Passage::Unknown;
        };
        let over = now.saturating_sub(*sent + self.probed.wait);
        match over {
            over if over >= STUCK => Passage::Stuck,
            over if over >= LATE => Passage::Late,
            _ => Passage::Unknown,
        }
    }
}

impl Ledger {
    /// Keeps a ledger of these queues alone.
    pub(super) fn keep(&mut self, probed: Vec<WaitQueue>) {
        let mut before = std::mem::take(&mut self.0);
        let entry = |probed: WaitQueue| {
            let known = before.remove(&probed.key);
            (probed.key.clone(), known.unwrap_or_else(|| Entry::new(probed)))
        };
        self.0 = probed.into_iter().map(entry).collect();
    }

    /// The queues whose probes are due, those first that wait the longest.
    pub(super) fn due(&self, now: Duration, most: usize) -> Vec<WaitQueue> {
        let mut due: Vec<_> = self.0.values().filter(|entry| entry.is_due(now)).collect();
        due.sort_by_key(|entry| entry.sent);
        due.into_iter().take(most).map(|entry| entry.probed.clone()).collect()
    }

    /// A probe was sent, by this pool or another.
    pub(super) fn sent(&mut self, key: &str, id: Uuid, now: Duration) {
        let Some(entry) = self.0.get_mut(key) else { return };
        if entry.on_their_way.iter().any(|(other, _)| *other == id) {
            return;
        }
        entry.sent = Some(now);
        if entry.on_their_way.len() == ON_THEIR_WAY {
            entry.on_their_way.remove(1);
        }
        entry.on_their_way.push_back((id, now));
    }

    /// A probe came back. Those that were sent before it are not waited for any more.
    pub(super) fn came(&mut self, key: &str, id: Uuid) -> Option<Change> {
        let entry = self.0.get_mut(key)?;
        let place = entry.on_their_way.iter().position(|(other, _)| *other == id);
        if let Some(place) = place {
            entry.on_their_way.drain(..=place);
        }
        let before = std::mem::replace(&mut entry.passage, Passage::Passing);
        (before > Passage::Passing).then(|| entry.change())
    }

    /// Probes may have come back unheard, or are held up by an alarm: those on their way do not count, and
    /// the next ones are due.
    pub(super) fn interrupt(&mut self) {
        for entry in self.0.values_mut() {
            entry.on_their_way.clear();
            entry.sent = None;
            if entry.passage == Passage::Passing {
                entry.passage = Passage::Unknown;
            }
        }
    }

    /// Judges the probes on their way.
    pub(super) fn judge(&mut self, now: Duration) -> Vec<Change> {
        let judge = |entry: &mut Entry| {
            let passage = entry.judge(now);
            let is_worse = passage > entry.passage;
            (is_worse && passage > Passage::Passing).then(|| {
                entry.passage = passage;
                entry.change()
            })
        };
        self.0.values_mut().filter_map(judge).collect()
    }

    /// How many probes the broker counts among the jobs that wait in the tiers of a queue, or with
    /// `None` in the levels: those that are not due yet.
    pub(super) fn waiting(&self, queue: Option<&str>, now: Duration) -> u32 {
        let of_queue = self.0.values().filter(|entry| entry.probed.queue.as_deref() == queue);
        let waiting = |entry: &Entry| {
            let waits = |(_, sent): &&(Uuid, Duration)| now < *sent + entry.probed.wait;
            entry.on_their_way.iter().filter(waits).count()
        };
        u32::try_from(of_queue.map(waiting).sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// The worst passage of the tiers of a queue, or with `None` of the levels; `None` without any.
    pub(super) fn passage(&self, queue: Option<&str>) -> Option<Passage> {
        let of_queue = self.0.values().filter(|entry| entry.probed.queue.as_deref() == queue);
        let passages: Vec<_> = of_queue.map(|entry| entry.passage).collect();
        let worst = passages.iter().max().copied()?;
        let is_unknown = worst == Passage::Passing && passages.contains(&Passage::Unknown);
        Some(if is_unknown { Passage::Unknown } else { worst })
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
