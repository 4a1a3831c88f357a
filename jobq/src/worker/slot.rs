//! A slot of a queue: makes one attempt after the other.

use std::pin::pin;
use std::sync::Arc;

use super::execution::{self, Lingering};
use super::queue::Queue;

/// A slot of a queue. Dropping it frees the slot.
pub(super) struct Slot(Arc<Queue>);

impl Slot {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self(queue)
    }

    /// Makes one attempt after the other, until the queue rests.
    pub(super) async fn run(self) {
        let queue = Arc::clone(&self.0);
        let mut halt = pin!(queue.pool.halt.cancelled());
        while let Some((key, delivery)) = queue.next().await {
            let attempt = execution::attempt(&queue.pool, queue.name, delivery, halt.as_mut());
            let mut decided = attempt.await;
            let function = decided.function.take();
            if decided.is_completed() {
                // Fast, so no task of its own.
                let settled = decided.settle(&queue.pool).await;
                queue.conclude(key, settled);
            } else {
                let settling = Arc::clone(&queue);
                queue.spawn(async move {
                    let settled = decided.settle(&settling.pool).await;
                    settling.conclude(key, settled);
                });
            }
            if let Some(function) = function {
                return self.keep(function);
            }
        }
    }

    /// Keeps the slot until the function ends, outside of the tasks of the queue.
    pub(super) fn keep(self, function: Lingering) {
        tokio::spawn(async move { function.ended(&self.0.pool).await });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.free_slot();
    }
}
