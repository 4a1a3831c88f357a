//! The acknowledgements to send: a ledger of the deliveries of one channel. Pure.
//!
//! One `basic.ack` with `multiple` settles all finished deliveries up to a tag, at the cost of one
//! for a single delivery. It must never cover an unfinished delivery.

use std::collections::{BTreeMap, BTreeSet};

/// The deliveries of one channel, each settled once. The broker numbers them 1, 2, 3 and so on.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// All deliveries up to this one are settled.
    settled: u64,
    /// The last of these, if the broker must still be sent an acknowledgement up to it.
    due: Option<u64>,
    /// Finished deliveries beyond them, not yet acknowledged.
    finished: BTreeSet<u64>,
    /// Those of them that were there when [`stragglers`](Self::stragglers) were last asked for.
    waited: BTreeSet<u64>,
    /// Settled deliveries beyond them, already sent to the broker.
    sent: Ranges,
    /// Whether no more deliveries are accepted.
    closed: bool,
}

impl Ledger {
    /// Records a finished delivery to acknowledge. False in a closed ledger.
    pub(crate) fn finish(&mut self, tag: u64) -> bool {
        if self.closed {
            return false;
        }
        if tag == self.settled + 1 {
            (self.settled, self.due) = (tag, Some(tag));
            self.advance();
        } else if tag > self.settled && !self.sent.contains(tag) && !self.waited.contains(&tag) {
            self.finished.insert(tag);
        }
        true
    }

    /// Accepts no more deliveries. Those that are finished are still acknowledged.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Records a delivery that another frame has settled.
    pub(crate) fn mark_sent(&mut self, tag: u64) {
        self.take_finished(tag);
        if tag == self.settled + 1 {
            self.settled = tag;
            self.advance();
        } else if tag > self.settled {
            self.sent.insert(tag);
        }
    }

    /// Advances to the first unsettled delivery.
    fn advance(&mut self) {
        loop {
            let next = self.settled + 1;
            if self.take_finished(next) {
                (self.settled, self.due) = (next, Some(next));
            } else if let Some(last) = self.sent.take_from(next) {
                self.settled = last;
            } else {
                return;
            }
        }
    }

    fn take_finished(&mut self, tag: u64) -> bool {
        self.finished.remove(&tag) || self.waited.remove(&tag)
    }

    /// The tag up to which one acknowledgement with `multiple` is due.
    pub(crate) fn prefix(&mut self) -> Option<u64> {
        self.due.take()
    }

    /// Whether finished deliveries wait for an unfinished one before them.
    pub(crate) fn has_stragglers(&self) -> bool {
        !self.finished.is_empty() || !self.waited.is_empty()
    }

    /// Takes the finished deliveries behind an unfinished one, to acknowledge each alone: those that
    /// have waited since the last call, and of a closed ledger all. Jobs that start in order end in
    /// nearly that order, so few of the others are left at the next call.
    pub(crate) fn stragglers(&mut self) -> BTreeSet<u64> {
        let mut stragglers =
            std::mem::replace(&mut self.waited, std::mem::take(&mut self.finished));
        if self.closed {
            stragglers.append(&mut self.waited);
        }
        for tag in &stragglers {
            self.sent.insert(*tag);
        }
        stragglers
    }
}

/// A set of tags that takes no more memory than it has gaps: behind a job of hours are millions.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn contains(&self, tag: u64) -> bool {
        self.0.range(..=tag).next_back().is_some_and(|(_, last)| tag <= *last)
    }

    fn insert(&mut self, tag: u64) {
        if self.contains(tag) {
            return;
        }
        let last = self.0.remove(&(tag + 1)).unwrap_or(tag);
        match self.0.range_mut(..tag).next_back() {
            Some((_, before)) if *before + 1 == tag => *before = last,
            _ => {
                self.0.insert(tag, last);
            }
        }
    }

    /// Removes the range that begins with this tag, and returns its last one.
    fn take_from(&mut self, first: u64) -> Option<u64> {
        self.0.remove(&first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finished_prefix_is_acknowledged_at_once() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.prefix(), None);
        for tag in [2, 1, 3, 5] {
            ledger.finish(tag);
        }
        assert_eq!(ledger.prefix(), Some(3));
        assert_eq!(ledger.prefix(), None);
        assert!(ledger.has_stragglers());
        ledger.finish(4);
        assert_eq!(ledger.prefix(), Some(5));
        assert!(!ledger.has_stragglers());
    }

    #[test]
    fn never_past_an_unfinished_one() {
        let mut ledger = Ledger::default();
        (2..=10).for_each(|tag| assert!(ledger.finish(tag)));
        assert_eq!(ledger.prefix(), None, "1 still runs");
        assert!(ledger.stragglers().is_empty(), "1 may finish soon");
        assert!(ledger.finish(11) && ledger.has_stragglers());
        assert_eq!(ledger.stragglers(), (2..=10).collect());
        ledger.finish(1);
        assert_eq!(ledger.prefix(), Some(11), "the broker knows 2 to 10");
        assert!(ledger.stragglers().is_empty(), "each only once");
        ledger.finish(12);
        assert_eq!(ledger.prefix(), Some(12));
    }

    #[test]
    fn requeued_deliveries_do_not_block_the_prefix() {
        let mut ledger = Ledger::default();
        ledger.mark_sent(1);
        ledger.finish(2);
        ledger.mark_sent(3);
        assert_eq!(ledger.prefix(), Some(2));
        ledger.mark_sent(4);
        assert_eq!(ledger.prefix(), None);
        ledger.finish(5);
        assert_eq!(ledger.prefix(), Some(5));
    }

    #[test]
    fn settling_twice_is_settling_once() {
        let mut ledger = Ledger::default();
        ledger.mark_sent(1);
        ledger.finish(1);
        assert!(!ledger.has_stragglers());
        ledger.finish(2);
        assert_eq!(ledger.prefix(), Some(2));
        ledger.finish(2);
        ledger.mark_sent(1);
        assert_eq!(ledger.prefix(), None);
        assert!(!ledger.has_stragglers());
        assert!(ledger.finish(4) && ledger.stragglers().is_empty());
        ledger.finish(4);
        assert_eq!(ledger.stragglers(), [4].into());
        ledger.finish(4);
        assert!(!ledger.has_stragglers());
        ledger.finish(3);
        assert_eq!(ledger.prefix(), Some(3));
    }

    #[test]
    fn a_closed_ledger_takes_nothing_more() {
        let mut ledger = Ledger::default();
        assert!(ledger.finish(1) && ledger.finish(3));
        ledger.close();
        assert!(!ledger.finish(2));
        assert_eq!(ledger.prefix(), Some(1), "what was finished before is told");
        assert_eq!(ledger.stragglers(), [3].into());
    }

    #[test]
    fn in_any_order_each_is_acknowledged_once() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut tags: Vec<u64> = (1..=500).collect();
        random.shuffle(&mut tags);
        let (mut ledger, mut unfinished) = (Ledger::default(), tags.iter().copied().collect());
        let mut acknowledged = BTreeSet::new();
        let mut returned = BTreeSet::new();
        for tag in tags {
            BTreeSet::remove(&mut unfinished, &tag);
            match random.u8(0..4) {
                0 => {
                    ledger.mark_sent(tag);
                    returned.insert(tag);
                }
                _ => assert!(ledger.finish(tag)),
            }
            if let Some(last) = ledger.prefix() {
                let newly: BTreeSet<_> = (1..=last)
                    .filter(|tag| !acknowledged.contains(tag) && !returned.contains(tag))
                    .collect();
                assert!(newly.iter().all(|tag| !unfinished.contains(tag)), "past an unfinished");
                acknowledged.extend(newly);
            }
            if random.u8(0..20) == 0 {
                for tag in ledger.stragglers() {
                    assert!(acknowledged.insert(tag), "{tag} twice");
                }
            }
        }
        assert_eq!(acknowledged.len() + returned.len(), 500);
        assert!(!ledger.has_stragglers() && ledger.sent.0.is_empty());
    }

    #[test]
    fn what_follows_an_unfinished_one_is_one_range() {
        let mut ledger = Ledger::default();
        for tag in 2..=10_000 {
            match tag % 3 {
                0 => ledger.mark_sent(tag),
                _ => assert!(ledger.finish(tag)),
            }
            ledger.stragglers();
        }
        ledger.stragglers();
        assert_eq!(ledger.sent.0, BTreeMap::from([(2, 10_000)]));
        assert!((2..=10_000).all(|tag| ledger.sent.contains(tag)));
        assert!(!ledger.sent.contains(1) && !ledger.sent.contains(10_001));
        assert!(ledger.finish(1) && ledger.sent.0.is_empty());
        assert_eq!((ledger.prefix(), ledger.settled), (Some(1), 10_000));
    }

    #[test]
    fn ranges_are_a_set() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
        for _ in 0..200 {
            let tag = random.u64(1..=100);
            ranges.insert(tag);
            set.insert(tag);
            assert!((0..=101).all(|tag| ranges.contains(tag) == set.contains(&tag)));
            let gaps = set.iter().filter(|tag| !set.contains(&(**tag + 1))).count();
            assert_eq!(ranges.0.len(), gaps);
        }
    }
}
