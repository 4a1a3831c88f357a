use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use crate::error::Result;
use crate::guard::lock;
use crate::job::check_name;

/// The name of a queue, without a namespace. It is `Copy`: each name is interned for the lifetime
/// of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(&'static str);

static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

impl QueueName {
    /// Interns a name. Its memory is never freed, so do not pass names from untrusted input, such
    /// as requests.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): a name that is not `[A-Za-z0-9_.-]{1,120}`, or has an
    /// empty word between dots.
    pub fn new(name: &str) -> Result<Self> {
        check_name("queue", name)?;
        let mut names = lock(&NAMES);
        if let Some(known) = names.get(name) {
            return Ok(Self(known));
        }
        let kept: &'static str = Box::leak(name.into());
        names.insert(kept);
        Ok(Self(kept))
    }

    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The declaration of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSpec {
    /// The name of the queue, without a namespace.
    pub name: String,
    /// The waits of its jobs' policies. Other waits work as well; an engine may prepare for these.
    pub waits: BTreeSet<Duration>,
    /// The topic patterns of its subscriptions.
    pub patterns: BTreeSet<String>,
    /// Whether it supports solo runs. Pools need it, clients do not.
    pub solo: bool,
    /// Whether its jobs may have a [priority](crate::Priority) other than normal.
    pub priorities: bool,
    /// Whether it has a seat from the start; otherwise it gets one with its first schedule.
    pub seat: bool,
}

impl QueueSpec {
    /// A queue without waits and subscriptions.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            waits: BTreeSet::new(),
            patterns: BTreeSet::new(),
            solo: false,
            priorities: false,
            seat: false,
        }
    }

    /// Adds these waits.
    #[must_use]
    pub fn waits(mut self, waits: impl IntoIterator<Item = Duration>) -> Self {
        self.waits.extend(waits);
        self
    }

    /// Adds support for solo runs.
    #[must_use]
    pub fn solo(mut self) -> Self {
        self.solo = true;
        self
    }

    /// Lets the jobs of the queue have a priority other than normal.
    #[must_use]
    pub fn priorities(mut self) -> Self {
        self.priorities = true;
        self
    }

    /// The same queue with a seat.
    #[must_use]
    pub fn seat(mut self) -> Self {
        self.seat = true;
        self
    }

    /// Adds subscriptions to these topic patterns.
    #[must_use]
    pub fn patterns<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.patterns.extend(patterns.into_iter().map(Into::into));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let names = [QueueName::new("a.queue").unwrap(), QueueName::new("a.queue").unwrap()];
        assert!(std::ptr::eq(names[0].as_str(), names[1].as_str()));
        assert!(QueueName::new("a queue").unwrap_err().is_invalid());
    }
}
