//! Which acknowledgements to send: a pure ledger of the deliveries of one channel.
//!
//! One `basic.ack` with `multiple` settles a whole finished prefix and costs as much as
//! one for a single delivery. It must never reach past a delivery that is unfinished.

use std::collections::BTreeSet;

/// The deliveries of one channel, each of which is settled once. The broker numbers them 1, 2,
/// 3 and so on.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// All deliveries up to this one are settled.
    settled: u64,
    /// The last of these that the broker is to be told of, with all before it.
    due: Option<u64>,
    /// Finished ones beyond them that the broker has not been told of.
    finished: BTreeSet<u64>,
    /// Settled ones beyond them: the broker knows.
    told: BTreeSet<u64>,
    /// Whether the broker is told of nothing more.
    closed: bool,
}

impl Ledger {
    /// The delivery is finished and is to be acknowledged. Whether that is written down: not
    /// in a closed ledger.
    pub(crate) fn finish(&mut self, tag: u64) -> bool {
        if self.closed {
            return false;
        }
        if tag == self.settled + 1 {
            (self.settled, self.due) = (tag, Some(tag));
            self.go_on();
        } else if tag > self.settled && !self.told.contains(&tag) {
            self.finished.insert(tag);
        }
        true
    }

    /// Takes nothing more. What is finished is still to be told.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// The broker was told of this delivery by another frame, which was sent before.
    pub(crate) fn tell(&mut self, tag: u64) {
        self.finished.remove(&tag);
        if tag == self.settled + 1 {
            self.settled = tag;
            self.go_on();
        } else if tag > self.settled {
            self.told.insert(tag);
        }
    }

    /// Goes on to the first delivery that is not settled.
    fn go_on(&mut self) {
        loop {
            let next = self.settled + 1;
            if self.finished.remove(&next) {
                self.due = Some(next);
            } else if !self.told.remove(&next) {
                return;
            }
            self.settled = next;
        }
    }

    /// The tag up to which one acknowledgement with `multiple` is right, if one is due.
    pub(crate) fn prefix(&mut self) -> Option<u64> {
        self.due.take()
    }

    /// Whether there are finished deliveries that wait for one before them.
    pub(crate) fn has_stragglers(&self) -> bool {
        !self.finished.is_empty()
    }

    /// The finished deliveries behind an unfinished one: each to be acknowledged alone.
    pub(crate) fn stragglers(&mut self) -> BTreeSet<u64> {
        let stragglers = std::mem::take(&mut self.finished);
        self.told.extend(&stragglers);
        stragglers
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
        assert_eq!(ledger.stragglers(), (2..=10).collect());
        assert!(ledger.stragglers().is_empty(), "each only once");
        ledger.finish(1);
        assert_eq!(ledger.prefix(), Some(1), "the others are known to the broker");
        ledger.finish(11);
        assert_eq!(ledger.prefix(), Some(11));
    }

    #[test]
    fn what_was_returned_does_not_hold_the_prefix_open() {
        let mut ledger = Ledger::default();
        ledger.tell(1);
        ledger.finish(2);
        ledger.tell(3);
        assert_eq!(ledger.prefix(), Some(2));
        ledger.tell(4);
        assert_eq!(ledger.prefix(), None);
        ledger.finish(5);
        assert_eq!(ledger.prefix(), Some(5));
    }

    #[test]
    fn settling_twice_is_settling_once() {
        let mut ledger = Ledger::default();
        ledger.tell(1);
        ledger.finish(1);
        assert!(!ledger.has_stragglers());
        ledger.finish(2);
        assert_eq!(ledger.prefix(), Some(2));
        ledger.finish(2);
        ledger.tell(1);
        assert_eq!(ledger.prefix(), None);
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
                    ledger.tell(tag);
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
        assert!(ledger.finished.is_empty() && ledger.told.is_empty());
    }
}
