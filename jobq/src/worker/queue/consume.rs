//! The task of a queue: it takes jobs until the pool ends, and rests for solo runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{End, Queue};
use crate::engine::{Consume, Consumer, QueueName};
use crate::error::Result;
use crate::telemetry;
use crate::worker::health::Status;
use crate::worker::shared::Shared;
use crate::worker::solo_lock::Entered;

/// How long a pool whose shutdown timeout is over still waits for the engine to record outcomes.
pub(in crate::worker) const RECORD_LIMIT: Duration = Duration::from_secs(5);

/// The pause between two tries to consume again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Consumes a queue until `stop` is cancelled or the engine fails for good.
pub(in crate::worker) async fn consume(
    queue: Arc<Queue>,
    mut consumer: Consumer,
    mut entered: Entered,
    status: Status,
) -> Result<()> {
    let (shared, name) = (Arc::clone(&queue.pool), queue.name);
    let stop = &shared.stop;
    let _slots = shared.metrics.queue(name).has_slots(shared.plan.queues[name].concurrency);
    let ended = loop {
        match queue.run(&mut consumer, &status).await {
            Ok(End::Rest) => {}
            Ok(End::Quiet) => {
                queue.rest(&mut consumer, || status.set_quiet()).await;
                drop(entered);
                stop.cancelled().await;
                break Ok(());
            }
            Ok(End::Stop) => break Ok(()),
            Err(error) => break Err(error),
        }
        status.set_resting();
        queue.rest(&mut consumer, || ()).await;
        drop(entered);
        let prefetch = *queue.prefetch.borrow();
        let again = async {
            let entered = shared.solo_lock.enter().await;
            consume_again(&shared, name, prefetch, &status)
                .await
                .map(|consumer| (entered, consumer))
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break Ok(()),
            again = again => match again {
                Ok(again) => {
                    (entered, consumer) = again;
                    status.set_begun(&consumer);
                }
                Err(error) => break Err(error),
            },
        }
    };
    status.set_ended(&ended);
    if let Err(error) = &ended {
        telemetry::queue_stopped(name, error);
        if error.is_closed() {
            // Running jobs are released already, and nothing can be recorded any more.
            shared.halt.cancel();
        }
    }
    let too_late = async {
        shared.halt.cancelled().await;
        sleep(RECORD_LIMIT).await;
    };
    tokio::select! {
        () = queue.rest(&mut consumer, || ()) => {}
        () = too_late => queue.abandon().await,
    }
    // The program may end when the pool does.
    let _ = tokio::time::timeout(RECORD_LIMIT, consumer.settled()).await;
    ended
}

/// Starts a new consumer, retrying while the error may pass.
async fn consume_again(
    shared: &Shared,
    name: &'static str,
    prefetch: u16,
    status: &Status,
) -> Result<Consumer> {
    loop {
        let what = Consume::new(QueueName::new(name)?, prefetch).pool(shared.joined());
        match shared.resources.client.engine().consume(what).await {
            Err(error) if error.may_pass() => {
                status.set_trying(&error, shared.clock().now());
                tracing::warn!(queue = name, %error, "not consuming yet");
                sleep(RETRY_PAUSE).await;
            }
            consumed => return consumed,
        }
    }
}
