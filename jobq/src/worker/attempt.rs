//! One attempt, as the arguments of its function and whoever waits for its end see it.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::registry::Registered;
use super::state::States;
use crate::client::Client;
use crate::job::Envelope;

/// One attempt of a job.
#[derive(Debug)]
pub struct Attempt {
    pub(crate) resources: Arc<Resources>,
    pub(crate) job: Arc<Registered>,
    pub(crate) envelope: Arc<Envelope>,
    pub(crate) number: u32,
    started: OnceLock<Instant>,
    /// Made when somebody asks for it: most functions do not.
    cancelled: OnceLock<CancellationToken>,
}

/// What a pool has for the arguments of its functions.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) client: Client,
    pub(crate) states: States,
}

impl Attempt {
    pub(crate) fn new(
        resources: &Arc<Resources>,
        job: &Arc<Registered>,
        envelope: Arc<Envelope>,
        number: u32,
    ) -> Self {
        Self {
            resources: Arc::clone(resources),
            job: Arc::clone(job),
            envelope,
            number,
            started: OnceLock::new(),
            cancelled: OnceLock::new(),
        }
    }

    /// Its function starts now.
    pub(super) fn start(&self) {
        let _ = self.started.set(Instant::now());
    }

    /// How long its function has run.
    pub(super) fn took(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Cancelled when the outcome of the function does not count any more.
    pub(crate) fn cancelled(&self) -> &CancellationToken {
        self.cancelled.get_or_init(CancellationToken::new)
    }

    /// Returns when the function has run for this long.
    pub(super) async fn timed_out(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return pending().await };
        let mut from = Instant::now();
        loop {
            let Some(end) = from.checked_add(limit) else { return pending().await };
            sleep_until(end).await;
            // The function may have waited for a thread before it started.
            from = match self.started.get() {
                Some(started) if *started <= from => return,
                Some(started) => *started,
                None => Instant::now(),
            };
        }
    }
}
