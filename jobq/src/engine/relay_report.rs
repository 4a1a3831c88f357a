//! Relays in the reports of pools.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::job::{millis, rfc3339};

/// A relay in the report of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolRelay {
    /// The table of its rows.
    pub source: String,
    /// Whether it sends them.
    pub state: RelayActivity,
    /// The start of an interruption, by the clock of its machine.
    #[serde(with = "rfc3339::option")]
    pub since: Option<SystemTime>,
    /// The problem, if it is interrupted.
    pub problem: Option<String>,
    /// The rows that were not tried yet, as of a few seconds ago. `None` if it does not send.
    pub waiting: Option<u64>,
    /// The age of the oldest of them. In JSON: whole milliseconds (`oldest_ms`).
    #[serde(rename = "oldest_ms", with = "millis::duration::option")]
    pub oldest: Option<Duration>,
    /// The rows that were refused and are tried again.
    pub refused: Option<u64>,
}

impl PoolRelay {
    /// A relay that begins to work on this table.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            state: RelayActivity::Starting,
            since: None,
            problem: None,
            waiting: None,
            oldest: None,
            refused: None,
        }
    }
}

/// Whether a relay sends rows, for reports. [`RelayState`](crate::relay::RelayState) has more about a
/// relay of one's own program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RelayActivity {
    /// It has not looked at the table yet.
    Starting,
    /// It sends the rows.
    Sending,
    /// Another relay sends them.
    Standby,
    /// It cannot work, and keeps trying.
    Interrupted,
    /// It was stopped.
    Ended,
}

impl RelayActivity {
    /// Its name, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Sending => "sending",
            Self::Standby => "standby",
            Self::Interrupted => "interrupted",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for RelayActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
