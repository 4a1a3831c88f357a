use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// The priority of a job among those of its queue.
///
/// The key `priority` of [`#[job]`](macro@crate::job) sets it for all jobs of a type. With the key
/// `priorities`, each enqueue may [choose a priority](crate::Enqueue::priority).
///
/// ```
/// use jobq::Priority;
///
/// assert!(Priority::High > Priority::Normal && Priority::Normal > Priority::Low);
/// assert_eq!(Priority::default(), Priority::Normal);
/// assert_eq!("low".parse::<Priority>().unwrap(), Priority::Low);
/// assert_eq!(Priority::High.to_string(), "high");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Starts after the waiting normal and high jobs, with the exception of
    /// [one start in ten](crate::WorkerPool::strict_priorities).
    Low,
    /// The priority of a job without one.
    #[default]
    Normal,
    /// Starts before the waiting normal and low jobs, with the exception of
    /// [one start in ten](crate::WorkerPool::strict_priorities).
    High,
}

impl Priority {
    /// All priorities, from the highest.
    pub(crate) const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];
    /// Those whose jobs have a place of their own in an engine.
    #[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
    pub(crate) const OTHERS: [Self; 2] = [Self::High, Self::Low];

    /// Its name, as in the attribute.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }

    /// Its position among all, from the highest.
    pub(crate) fn rank(self) -> usize {
        match self {
            Self::High => 0,
            Self::Normal => 1,
            Self::Low => 2,
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|priority| priority.as_str() == text);
        found.ok_or_else(|| {
            let text = text.escape_debug();
            Error::invalid(format!("`{text}` is not a priority; write `high`, `normal` or `low`"))
        })
    }
}
