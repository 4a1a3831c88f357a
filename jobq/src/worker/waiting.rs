//! The deliveries of a queue that wait for a slot, in the order in which they start: by priority, then
//! by arrival. Pure.

use std::collections::VecDeque;

use crate::job::Priority;

/// Of so many starts in a row before jobs of a lower priority, the last one is of the job among those
/// that has waited longest.
const FAIR: u32 = 10;

/// A delivery, as far as its order matters.
pub(super) trait Ranked {
    fn priority(&self) -> Priority;
}

/// The deliveries that wait for a slot.
#[derive(Debug)]
pub(super) struct Waiting<D> {
    /// Those of each priority, from the highest, with the numbers of their arrival.
    lanes: [VecDeque<(u64, D)>; 3],
    /// How many have arrived.
    arrived: u64,
    /// How many in a row have been taken before deliveries of a lower priority.
    ahead: u32,
    /// Whether a delivery of a lower priority never comes before another one.
    is_strict: bool,
}

impl<D: Ranked> Waiting<D> {
    pub(super) fn new(is_strict: bool) -> Self {
        Self { lanes: Default::default(), arrived: 0, ahead: 0, is_strict }
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    pub(super) fn push(&mut self, delivery: D) {
        self.arrived += 1;
        self.lanes[delivery.priority().rank()].push_back((self.arrived, delivery));
    }

    /// How many have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether one of the first `arrived` that have arrived is left.
    pub(super) fn has_one_of_the_first(&self, arrived: u64) -> bool {
        let mut fronts = self.lanes.iter().filter_map(VecDeque::front);
        fronts.any(|(number, _)| *number <= arrived)
    }

    /// The delivery that starts next.
    pub(super) fn first(&self) -> Option<&D> {
        Some(&self.lanes[self.next()?].front()?.1)
    }

    /// Takes the delivery that starts next.
    pub(super) fn pop(&mut self) -> Option<D> {
        let lane = self.next()?;
        let is_ahead = self.lanes[lane + 1..].iter().any(|lower| !lower.is_empty());
        self.ahead = if is_ahead && self.ahead + 1 < FAIR { self.ahead + 1 } else { 0 };
        Some(self.lanes[lane].pop_front()?.1)
    }

    /// Removes the deliveries at the front of each priority for which this holds.
    pub(super) fn drop_front(&mut self, is_gone: impl Fn(&D) -> bool) {
        for lane in &mut self.lanes {
            while lane.front().is_some_and(|(_, delivery)| is_gone(delivery)) {
                lane.pop_front();
            }
        }
    }

    /// Takes all deliveries: those of each priority in the order of their arrival.
    pub(super) fn take(&mut self) -> VecDeque<D> {
        let lanes = std::mem::take(&mut self.lanes).into_iter().flatten();
        lanes.map(|(_, delivery)| delivery).collect()
    }

    /// The lane of the next delivery.
    fn next(&self) -> Option<usize> {
        let highest = self.lanes.iter().position(|lane| !lane.is_empty())?;
        if self.is_strict || self.ahead + 1 < FAIR {
            return Some(highest);
        }
        let lower = (highest + 1..self.lanes.len())
            .filter_map(|lane| Some((self.lanes[lane].front()?.0, lane)))
            .min();
        Some(lower.map_or(highest, |(_, lane)| lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ranked for (Priority, u32) {
        fn priority(&self) -> Priority {
            self.0
        }
    }

    const HIGH: Priority = Priority::High;
    const NORMAL: Priority = Priority::Normal;
    const LOW: Priority = Priority::Low;

    fn starts(is_strict: bool, arrivals: &[(Priority, u32)]) -> Vec<u32> {
        let mut waiting = Waiting::new(is_strict);
        for arrival in arrivals {
            waiting.push(*arrival);
        }
        let mut starts = Vec::new();
        while let Some(next) = waiting.first().copied() {
            assert_eq!(waiting.pop(), Some(next));
            starts.push(next.1);
        }
        assert!(waiting.is_empty() && waiting.pop().is_none());
        starts
    }

    #[test]
    fn jobs_start_by_priority_then_by_arrival() {
        let arrivals = [(LOW, 1), (NORMAL, 2), (HIGH, 3), (LOW, 4), (HIGH, 5), (NORMAL, 6)];
        assert_eq!(starts(false, &arrivals), [3, 5, 2, 6, 1, 4]);
        assert_eq!(starts(true, &arrivals), [3, 5, 2, 6, 1, 4]);
    }

    #[test]
    fn one_start_in_ten_is_of_the_job_of_a_lower_priority_that_waits_longest() {
        let high = (100..130).map(|number| (HIGH, number));
        let arrivals: Vec<_> = [(LOW, 1), (NORMAL, 2), (LOW, 3)].into_iter().chain(high).collect();
        let found = starts(false, &arrivals);
        let places = [1, 2, 3].map(|lower| found.iter().position(|n| *n == lower).unwrap());
        assert_eq!(places, [9, 19, 29], "{found:?}");
        let found = starts(true, &arrivals);
        assert_eq!(found[30..], [2, 1, 3], "{found:?}");
    }

    #[test]
    fn starts_count_only_while_jobs_of_a_lower_priority_wait() {
        let mut waiting = Waiting::new(false);
        for number in 0..50 {
            waiting.push((NORMAL, number));
            assert_eq!(waiting.pop(), Some((NORMAL, number)));
        }
        waiting.push((LOW, 50));
        for number in 51..60 {
            waiting.push((NORMAL, number));
        }
        assert_eq!(waiting.pop(), Some((NORMAL, 51)), "the low one has only just come");
        waiting.drop_front(|(priority, _)| *priority == NORMAL);
        let (arrived, first) = (waiting.arrived(), waiting.has_one_of_the_first(51));
        assert_eq!((arrived, first, waiting.has_one_of_the_first(50)), (60, true, false));
        assert_eq!((waiting.len(), waiting.take()), (1, [(LOW, 50)].into()));
    }
}
