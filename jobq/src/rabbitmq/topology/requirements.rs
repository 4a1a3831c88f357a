//! Queues with their requirements, to be declared. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::QueueSpec;
use crate::period;

/// The waits of a queue that have a tier, in whole milliseconds.
pub(crate) type Tiers = BTreeSet<u64>;

/// The tiers for these waits, in whole milliseconds: none for no wait, none longer than the longest
/// period.
fn tiers(waits: &BTreeSet<Duration>) -> Tiers {
    waits.iter().map(|wait| period::millis((*wait).min(period::MAX))).filter(|ms| *ms > 0).collect()
}

/// Requirements to declare. The shared part of a namespace is always included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The queues with their tiers.
    pub(crate) queues: BTreeMap<String, Arc<Tiers>>,
    /// The subscriptions: queues and patterns.
    pub(crate) subscriptions: BTreeSet<(String, String)>,
    /// The queues whose jobs may have to run alone.
    pub(crate) solo: BTreeSet<String>,
    /// The queues whose jobs may have priorities.
    pub(crate) priorities: BTreeSet<String>,
    /// The queues whose seats are taken.
    pub(crate) seats: BTreeSet<String>,
    /// How many levels are required, from the lowest.
    pub(crate) levels: u32,
    /// Whether anything is required, at least the shared part.
    pub(crate) shared: bool,
}

impl Wanted {
    /// The part that all queues share.
    pub(crate) fn shared() -> Self {
        Self { shared: true, ..Self::default() }
    }

    /// So many levels, from the lowest.
    pub(crate) fn levels(levels: u32) -> Self {
        Self { levels, ..Self::shared() }
    }

    /// The seat of a queue.
    pub(crate) fn seat(queue: &str) -> Self {
        Self { seats: [queue.to_owned()].into(), ..Self::shared() }
    }

    /// These queues. The requirements of a queue that occurs twice are merged.
    pub(crate) fn queues(specs: &[QueueSpec]) -> Self {
        let mut wanted = Self::shared();
        for spec in specs {
            wanted.add_queue(&spec.name, &tiers(&spec.waits));
            wanted.solo.extend(spec.solo.then(|| spec.name.clone()));
            wanted.priorities.extend(spec.priorities.then(|| spec.name.clone()));
            wanted.seats.extend(spec.seat.then(|| spec.name.clone()));
            let patterns = spec.patterns.iter().cloned();
            wanted.subscriptions.extend(patterns.map(|pattern| (spec.name.clone(), pattern)));
        }
        wanted
    }

    /// Whether this includes all of the other.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let has = |(queue, tiers): (&String, &Arc<Tiers>)| {
            self.queues.get(queue).is_some_and(|known| tiers.is_subset(known))
        };
        (self.shared || !other.shared)
            && self.levels >= other.levels
            && other.subscriptions.is_subset(&self.subscriptions)
            && other.solo.is_subset(&self.solo)
            && other.priorities.is_subset(&self.priorities)
            && other.seats.is_subset(&self.seats)
            && other.queues.iter().all(has)
    }

    /// Adds all of the other.
    pub(crate) fn add(&mut self, other: Self) {
        self.shared |= other.shared;
        self.levels = self.levels.max(other.levels);
        self.subscriptions.extend(other.subscriptions);
        self.solo.extend(other.solo);
        self.priorities.extend(other.priorities);
        self.seats.extend(other.seats);
        for (queue, tiers) in other.queues {
            self.add_queue(&queue, &tiers);
        }
    }

    fn add_queue(&mut self, queue: &str, tiers: &Tiers) {
        let known = self.queues.entry(queue.to_owned()).or_default();
        *known = Arc::new(known.union(tiers).copied().collect());
    }

    /// The requirements of one queue, if it is included.
    pub(crate) fn part(&self, queue: &str) -> Option<Self> {
        let tiers = self.queues.get(queue)?;
        let own = |(name, _): &&(String, String)| name == queue;
        Some(Self {
            queues: [(queue.to_owned(), Arc::clone(tiers))].into(),
            subscriptions: self.subscriptions.iter().filter(own).cloned().collect(),
            solo: self.solo.get(queue).cloned().into_iter().collect(),
            priorities: self.priorities.get(queue).cloned().into_iter().collect(),
            seats: self.seats.get(queue).cloned().into_iter().collect(),
            ..Self::shared()
        })
    }

    /// Adds the solo queues of these queues.
    pub(crate) fn with_solo(mut self) -> Self {
        self.solo = self.queues.keys().cloned().collect();
        self
    }

    /// The queues as they are declared.
    pub(crate) fn specs(&self) -> Vec<QueueSpec> {
        let spec = |(name, tiers): (&String, &Arc<Tiers>)| {
            let of_queue = |(queue, _): &&(String, String)| queue == name;
            let patterns = self.subscriptions.iter().filter(of_queue).map(|(_, pattern)| pattern);
            let mut spec = QueueSpec::new(name.as_str()).patterns(patterns);
            spec.waits = tiers.iter().map(|millis| Duration::from_millis(*millis)).collect();
            spec.solo = self.solo.contains(name);
            spec.priorities = self.priorities.contains(name);
            spec.seat = self.seats.contains(name);
            spec
        };
        self.queues.iter().map(spec).collect()
    }

    /// Adds the lanes of priorities of these queues.
    pub(crate) fn with_priorities(mut self) -> Self {
        self.priorities = self.queues.keys().cloned().collect();
        self
    }

    /// Removes a queue.
    pub(crate) fn remove(&mut self, queue: &str) {
        self.queues.remove(queue);
        self.solo.remove(queue);
        self.priorities.remove(queue);
        self.seats.remove(queue);
        self.subscriptions.retain(|(name, _)| name != queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, seconds: &[u64], patterns: &[&str]) -> QueueSpec {
        let waits = seconds.iter().map(|seconds| Duration::from_secs(*seconds));
        QueueSpec::new(name).waits(waits).patterns(patterns.iter().copied())
    }

    #[test]
    fn requirements_cover_their_parts() {
        let mut known = Wanted::default();
        let both = [spec("a", &[1], &["x"]), spec("a", &[2], &["y"]), spec("b", &[], &[])];
        for wanted in
            [Wanted::shared(), Wanted::levels(4), Wanted::levels(5), Wanted::queues(&both)]
        {
            assert!(!known.covers(&wanted), "{wanted:?}");
            known.add(wanted.clone());
            assert!(known.covers(&wanted), "{wanted:?}");
        }
        assert!(known.covers(&Wanted::levels(3)) && !known.covers(&Wanted::levels(6)));
        let more = [
            spec("a", &[3], &[]),
            spec("a", &[], &["z"]),
            spec("b", &[], &["x"]),
            spec("a", &[], &[]).solo(),
            spec("a", &[], &[]).priorities(),
            spec("a", &[], &[]).seat(),
        ];
        for more in more {
            assert!(!known.covers(&Wanted::queues(&[more])));
        }
        let part = known.part("a").unwrap();
        assert_eq!(part, Wanted::queues(&[spec("a", &[1, 2], &["x", "y"])]));
        known.remove("a");
        assert_eq!((known.part("a"), known.subscriptions.len()), (None, 0));
        assert!(known.part("b").is_some());
    }

    #[test]
    fn a_tier_is_of_whole_milliseconds() {
        let waits = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
        let wanted = Wanted::queues(&[QueueSpec::new("a").waits(waits)]);
        assert_eq!(*wanted.queues["a"], [1, period::millis(period::MAX)].into());
    }
}
