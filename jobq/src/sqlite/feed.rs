//! The writer's side of a consumer.

use tokio::sync::{mpsc, watch};

use super::members;
use crate::engine::{Delivery, Pause};
use crate::error::{Error, Result};

/// The most jobs that a feed takes in one transaction, so that other callers do not wait long. More
/// are hardly faster (measured: docs/performance.md).
const MAX_JOBS: usize = 256;

/// The writer's side of a consumer.
pub(super) struct Feed {
    pub(super) id: u64,
    /// The name of its queue.
    pub(super) name: &'static str,
    /// Its row in the file.
    pub(super) consumer: members::Consumer,
    /// Whether it takes solo jobs.
    pub(super) solo: bool,
    /// The job whose start was recorded and that is to be delivered again.
    pub(super) started: Option<i64>,
    pub(super) prefetch: usize,
    /// Deliveries that are not settled.
    pub(super) in_flight: usize,
    /// When the next job of the queue is due, as far as is known; `i64::MIN` if it has to be looked
    /// up.
    pub(super) next_due: Option<i64>,
    pub(super) deliveries: mpsc::UnboundedSender<Result<Delivery>>,
    pub(super) pauses: watch::Sender<Option<Pause>>,
}

impl Feed {
    /// How many jobs it may take in the next transaction.
    pub(super) fn room(&self) -> usize {
        if self.deliveries.is_closed() {
            return 0;
        }
        self.prefetch.saturating_sub(self.in_flight).min(MAX_JOBS)
    }

    /// Tells the consumer of the pause of its queue, or of its end.
    pub(super) fn tell(&mut self, pause: Option<&Pause>) {
        let changed = self.pauses.send_if_modified(|known| {
            let differs = known.as_ref() != pause;
            if differs {
                *known = pause.cloned();
            }
            differs
        });
        if changed {
            self.next_due = Some(i64::MIN);
        }
    }

    /// Ends the consumer with an error.
    pub(super) fn fail(self, error: Error) {
        let _ = self.deliveries.send(Err(error));
    }
}
