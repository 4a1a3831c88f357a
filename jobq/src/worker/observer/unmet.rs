//! The needs of jobs that this version of jobq lacks. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// How long a need is reported after a job had it, and how often it is logged. Jobs with it are
/// snoozed for half of this.
const MINUTE: Duration = Duration::from_secs(60);
/// The most needs that are kept. Others are not reported.
const MOST: usize = 16;

/// The needs of the last minute, by their word in `jobq-needs`.
#[derive(Debug, Default)]
pub(super) struct UnmetNeeds(BTreeMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    last: SystemTime,
    logged: SystemTime,
}

impl UnmetNeeds {
    /// A job had this need. True if that is to be logged.
    pub(super) fn add(&mut self, word: &str, now: SystemTime) -> bool {
        self.forget(now);
        let has_room = self.0.len() < MOST;
        let Some(seen) = self.0.get_mut(word) else {
            if has_room {
                self.0.insert(word.to_owned(), Seen { last: now, logged: now });
            }
            return has_room;
        };
        seen.last = now;
        let is_due = is_past(seen.logged, now);
        if is_due {
            seen.logged = now;
        }
        is_due
    }

    /// The needs of the last minute.
    pub(super) fn read(&mut self, now: SystemTime) -> Vec<String> {
        self.forget(now);
        self.0.keys().cloned().collect()
    }

    fn forget(&mut self, now: SystemTime) {
        self.0.retain(|_, seen| !is_past(seen.last, now));
    }
}

/// Whether a minute has passed since then, or the clock was set back.
fn is_past(then: SystemTime, now: SystemTime) -> bool {
    now.duration_since(then).map_or(true, |age| age >= MINUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_logged_once_a_minute_and_reported_for_one() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + seconds);
        let mut needs = UnmetNeeds::default();
        for (word, second, is_logged) in [
            ("zip", 0, true),
            ("zip", 1, false),
            ("seat", 2, true),
            ("zip", 31, false),
            ("zip", 60, true),
            ("zip", 90, false),
        ] {
            assert_eq!(needs.add(word, at(second)), is_logged, "{word} at {second}");
        }
        for (second, expected) in [(90, &["zip"][..]), (149, &["zip"]), (150, &[])] {
            assert_eq!(needs.read(at(second)), expected, "at {second}");
        }
    }

    #[test]
    fn the_number_of_needs_is_bounded() {
        let (mut needs, now) = (UnmetNeeds::default(), SystemTime::UNIX_EPOCH);
        let logged = (0..100).filter(|number| needs.add(&number.to_string(), now)).count();
        assert_eq!((logged, needs.read(now).len()), (MOST, MOST));
    }
}
