//! The writer's side of a consumer.

use tokio::sync::mpsc;

use crate::engine::Delivery;
use crate::error::{Error, Result};

/// The most jobs that a feed takes within one transaction, so that others are not kept
/// waiting. More are hardly faster (measured: docs/performance.md).
const MOST: usize = 256;

/// The writer's side of a consumer.
pub(super) struct Feed {
    pub(super) id: u64,
    pub(super) queue: i64,
    pub(super) name: &'static str,
    /// Whether it takes the jobs that are run alone.
    pub(super) solo: bool,
    /// The job whose start was recorded, and which is to be handed over for it.
    pub(super) started: Option<i64>,
    pub(super) prefetch: usize,
    /// Deliveries that are not settled.
    pub(super) in_hand: usize,
    /// When the next job of the queue is due, as far as is known: the smallest number
    /// where it has to be looked up.
    pub(super) next_due: Option<i64>,
    pub(super) deliveries: mpsc::UnboundedSender<Result<Delivery>>,
}

impl Feed {
    /// How many jobs it may take now, within one transaction.
    pub(super) fn room(&self) -> usize {
        if self.deliveries.is_closed() {
            return 0;
        }
        self.prefetch.saturating_sub(self.in_hand).min(MOST)
    }

    /// Ends the consumer with an error.
    pub(super) fn fail(self, error: Error) {
        let _ = self.deliveries.send(Err(error));
    }
}
