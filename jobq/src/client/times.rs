use std::time::{Duration, SystemTime};

use crate::clock;

/// When a job is due, and until when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) start: Start,
    pub(super) expires_in: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Start {
    #[default]
    Now,
    In(Duration),
    At(SystemTime),
}

/// What times mean at one moment.
pub(super) struct Moments {
    pub(super) now: SystemTime,
    pub(super) delay: Duration,
    pub(super) expires_at: Option<SystemTime>,
}

impl Times {
    /// What they mean now; without a limit of their own, this one counts.
    pub(super) fn moments(self, limit: Option<Duration>) -> Moments {
        let now = clock::now();
        let delay = match self.start {
            Start::Now => Duration::ZERO,
            Start::In(delay) => delay,
            Start::At(time) => time.duration_since(now).unwrap_or_default(),
        };
        // A time beyond what the clock can hold never comes.
        let end = |limit: Duration| now.checked_add(delay.checked_add(limit)?);
        Moments { now, delay, expires_at: self.expires_in.or(limit).and_then(end) }
    }
}
