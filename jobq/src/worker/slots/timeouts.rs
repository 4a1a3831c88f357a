//! When the functions that run in slots have to be over. Pure.

use std::collections::BTreeSet;

use tokio::time::Instant;

/// The slots whose functions have a timeout, by when it is up.
#[derive(Default)]
pub(super) struct Timeouts {
    ends: BTreeSet<(Instant, usize)>,
    /// When they are looked at next.
    alarm: Option<Instant>,
}

impl Timeouts {
    /// When they are to be looked at next.
    pub(super) fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// One more, whether they are to be looked at earlier for it.
    pub(super) fn add(&mut self, end: Instant, slot: usize) -> bool {
        self.ends.insert((end, slot));
        let is_earlier = self.alarm.is_none_or(|alarm| end < alarm);
        if is_earlier {
            self.alarm = Some(end);
        }
        is_earlier
    }

    /// The function is over before. The alarm stays: to move it costs more than to look in vain.
    pub(super) fn remove(&mut self, end: Instant, slot: usize) {
        self.ends.remove(&(end, slot));
    }

    /// A slot whose time is up, which is to be [removed](Self::remove). None when there is no
    /// more; the alarm is set anew then.
    pub(super) fn up(&mut self, now: Instant) -> Option<usize> {
        let first = self.ends.first().copied();
        let up = first.filter(|(end, _)| *end <= now);
        if up.is_none() {
            self.alarm = first.map(|(end, _)| end);
        }
        up.map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_alarm_is_the_earliest_end_and_moves_when_it_was_looked_at() {
        let mut timeouts = Timeouts::default();
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(timeouts.up(now), None);
        assert_eq!(timeouts.alarm(), None);
        for (seconds, slot, is_earlier) in [(3, 1, true), (5, 2, false), (2, 3, true)] {
            assert_eq!(timeouts.add(at(seconds), slot), is_earlier);
        }
        timeouts.remove(at(2), 3);
        assert_eq!(timeouts.alarm(), Some(at(2)), "it stays");
        assert_eq!(timeouts.up(at(2)), None);
        assert_eq!(timeouts.alarm(), Some(at(3)));
        for slot in [1, 2] {
            assert_eq!(timeouts.up(at(9)), Some(slot));
            timeouts.remove(at(if slot == 1 { 3 } else { 5 }), slot);
        }
        assert_eq!(timeouts.up(at(9)), None);
        assert_eq!(timeouts.alarm(), None);
    }
}
