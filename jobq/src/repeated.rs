//! Rate-limited log lines for repeated events: at most one a minute, with the number of events since
//! the last line.

#[cfg(feature = "rabbitmq")]
use std::collections::HashMap;
#[cfg(feature = "rabbitmq")]
use std::hash::Hash;
#[cfg(feature = "rabbitmq")]
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

#[cfg(feature = "rabbitmq")]
use crate::guard::lock;

/// The shortest time between two lines about the same thing.
const BETWEEN: Duration = Duration::from_secs(60);

/// An event that repeats.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// When it was logged last.
    logged: Option<Instant>,
    /// The number of events without a line since then.
    more: u64,
}

/// A line that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The number of events without a line since the last one; `None` if there were none.
    pub(crate) more: Option<u64>,
}

impl Repeated {
    /// Records that it happens now, and returns the line if one is due.
    pub(crate) fn happens(&mut self, now: Instant) -> Option<Line> {
        if self.logged.is_some_and(|logged| now.saturating_duration_since(logged) < BETWEEN) {
            self.more += 1;
            return None;
        }
        self.logged = Some(now);
        let more = std::mem::take(&mut self.more);
        Some(Line { more: (more > 0).then_some(more) })
    }
}

/// Events that repeat, by what they concern.
#[cfg(feature = "rabbitmq")]
#[derive(Debug)]
pub(crate) struct RepeatedBy<K>(Mutex<HashMap<K, Repeated>>);

#[cfg(feature = "rabbitmq")]
impl<K> Default for RepeatedBy<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(feature = "rabbitmq")]
impl<K: Eq + Hash> RepeatedBy<K> {
    /// Records an event of this key now, and returns the line if one is due.
    pub(crate) fn happens(&self, concerned: K, now: Instant) -> Option<Line> {
        lock(&self.0).entry(concerned).or_default().happens(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_minute_says_how_many_more_there_were() {
        let start = Instant::now();
        let mut repeated = Repeated::default();
        // Seconds from the start, and whether there is a line, with how many more.
        let table = [
            (0, Some(None)),
            (1, None),
            (30, None),
            (59, None),
            (60, Some(Some(3))),
            (61, None),
            (200, Some(Some(1))),
            (260, Some(None)),
            (319, None),
            (320, Some(Some(1))),
        ];
        for (seconds, expected) in table {
            let line = repeated.happens(start + Duration::from_secs(seconds));
            assert_eq!(line.map(|line| line.more), expected, "{seconds}");
        }
    }

    #[cfg(feature = "rabbitmq")]
    #[test]
    fn each_has_a_minute_of_its_own() {
        let (start, repeated) = (Instant::now(), RepeatedBy::default());
        let later = start + Duration::from_secs(60);
        let table = [
            ("mail", start, Some(None)),
            ("video", start, Some(None)),
            ("mail", start, None),
            ("mail", later, Some(Some(1))),
            ("video", later, Some(None)),
        ];
        for (queue, now, expected) in table {
            let line = repeated.happens(queue, now);
            assert_eq!(line.map(|line| line.more), expected, "{queue}");
        }
    }
}
