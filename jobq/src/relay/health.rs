//! The state of a relay, for health checks and metrics.

use std::sync::Mutex;
use std::time::SystemTime;

use serde::Serialize;

use super::source::Backlog;
use crate::error::{Error, Result};
use crate::guard::lock;
use crate::job::millis;
use crate::metrics::RelayMetrics;

/// The current state of a relay, from [`RunningRelay::health`](super::RunningRelay::health) or
/// [`PoolHealth::relays`](crate::PoolHealth::relays).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RelayHealth {
    /// The table.
    pub source: String,
    /// Whether it works.
    pub state: RelayState,
    /// The rows that it has sent since it began.
    pub sent: u64,
    /// How often a row was refused since it began.
    pub refused: u64,
    /// The rows that are left, as of a few seconds ago. `None` before the first look, and while another
    /// relay works.
    pub backlog: Option<Backlog>,
}

/// Whether a relay works.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RelayState {
    /// It has not looked at the table yet.
    Starting,
    /// It sends the rows of the table.
    Sending,
    /// Another relay sends them. It takes over when that one ends.
    Standby,
    /// It cannot work, and keeps trying: the database or the engine is away, or a permission is missing.
    Interrupted {
        /// The start of the interruption. In JSON: milliseconds since 1970 (`since_ms`).
        #[serde(rename = "since_ms", serialize_with = "millis::serialize")]
        since: SystemTime,
        /// The cause and a remedy.
        error: Error,
    },
    /// It was stopped.
    Ended,
}

/// The state of a relay, set by its task.
#[derive(Debug)]
pub(crate) struct Board {
    health: Mutex<RelayHealth>,
    metrics: RelayMetrics,
}

impl Board {
    pub(super) fn new(source: String) -> Self {
        let metrics = RelayMetrics::new(&source);
        let health =
            RelayHealth { source, state: RelayState::Starting, sent: 0, refused: 0, backlog: None };
        Self { health: Mutex::new(health), metrics }
    }

    pub(crate) fn health(&self) -> RelayHealth {
        lock(&self.health).clone()
    }

    /// The table, for people.
    pub(super) fn source(&self) -> String {
        lock(&self.health).source.clone()
    }

    pub(super) fn is_sending(&self) -> bool {
        matches!(lock(&self.health).state, RelayState::Sending)
    }

    pub(super) fn set(&self, state: RelayState) {
        let mut health = lock(&self.health);
        if matches!(state, RelayState::Standby | RelayState::Ended) {
            health.backlog = None;
        }
        health.state = state;
        drop(health);
        self.metrics.working(self.is_sending());
    }

    pub(super) fn set_interrupted(&self, error: &Error, now: SystemTime) {
        let since = match lock(&self.health).state {
            RelayState::Interrupted { since, .. } => since,
            _ => now,
        };
        self.set(RelayState::Interrupted { since, error: error.clone() });
    }

    pub(super) fn count(&self, sent: usize, refused: usize) {
        let (sent, refused) = (sent as u64, refused as u64);
        let mut health = lock(&self.health);
        health.sent += sent;
        health.refused += refused;
        self.metrics.count(sent, refused);
    }

    pub(super) fn set_backlog(&self, backlog: Result<Backlog>) {
        // An error of the database is that of the next take, too.
        let Ok(backlog) = backlog else { return };
        let oldest = backlog.oldest.unwrap_or_default().as_secs_f64();
        self.metrics.left(oldest, u32::try_from(backlog.refused).unwrap_or(u32::MAX));
        lock(&self.health).backlog = Some(backlog);
    }
}
