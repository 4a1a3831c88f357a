//! The users' queues that were seen once.
//!
//! AMQP does not list queues. A queue that only its pool named would vanish with that pool, and
//! nobody would be told that its jobs wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::guard::lock;

/// How long a queue is named that does not exist any more.
const MISSING: Duration = Duration::from_secs(3_600);

/// The names, each with the time since which there is no such queue.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<BTreeMap<String, Option<Instant>>>);

impl Roster {
    /// The names. Those of queues that have been missing for an hour are dropped.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let mut queues = lock(&self.0);
        queues.retain(|_, missing| missing.is_none_or(|since| since.elapsed() < MISSING));
        queues.keys().cloned().collect()
    }

    /// Adds queues that somebody named.
    pub(crate) fn add<'n>(&self, names: impl IntoIterator<Item = &'n String>) {
        let mut queues = lock(&self.0);
        for name in names {
            if !queues.contains_key(name) {
                queues.insert(name.clone(), None);
            }
        }
    }

    /// Records whether there is such a queue. One that nobody has named stays unknown.
    pub(crate) fn looked(&self, name: &str, exists: bool) {
        if let Some(missing) = lock(&self.0).get_mut(name) {
            *missing = if exists { None } else { Some(missing.unwrap_or_else(Instant::now)) };
        }
    }

    /// Forgets a queue that was deleted on purpose.
    pub(crate) fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_named_until_it_has_been_missing_for_an_hour() {
        let roster = Roster::default();
        roster.add([&"mail".to_owned(), &"stock".to_owned()]);
        // The minutes that pass, what is found then, and the names.
        for (minutes, stock, expected) in [
            (600, Some(true), &["mail", "stock"][..]),
            (1, Some(false), &["mail", "stock"]),
            (59, Some(false), &["mail", "stock"]),
            (0, Some(true), &["mail", "stock"]),
            (600, Some(false), &["mail", "stock"]),
            (60, None, &["mail"]),
            (0, Some(true), &["mail"]),
        ] {
            tokio::time::advance(Duration::from_secs(minutes * 60)).await;
            if let Some(exists) = stock {
                roster.looked("stock", exists);
            }
            let names = roster.names();
            assert_eq!(names.iter().collect::<Vec<_>>(), expected, "{minutes} {stock:?}");
        }
        roster.forget("mail");
        assert!(roster.names().is_empty());
    }
}
