//! The task of a queue: it takes jobs until the pool ends, and rests for solo runs and while all of
//! its slots are lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Queue;
use crate::engine::{Consume, Consumer, QueueName};
use crate::error::{Error, ErrorKind, Result};
use crate::repeated::{Line, Repeated};
use crate::telemetry;
use crate::worker::flow::Rest;
use crate::worker::health::Status;
use crate::worker::shared::Shared;
use crate::worker::solo_lock::Entered;

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
    queue.observer.has_slots(|| queue.plan().slots().count);
    let ended = loop {
        match queue.run(&mut consumer, &status).await {
            Ok(Rest::Solo) => {
                status.set_resting();
                queue.drain(&mut consumer, || ()).await;
            }
            Ok(Rest::SlotsLost) => {
                let lost = || status.set_slots_lost(slots_lost(&queue), queue.now());
                queue.drain(&mut consumer, lost).await;
            }
            Ok(Rest::Quiet) => {
                queue.drain(&mut consumer, || status.set_quiet()).await;
                drop(entered);
                break shared.stay_quiet().await;
            }
            Ok(Rest::Stopped) => break Ok(()),
            Err(error) => break Err(error),
        }
        drop(entered);
        let prefetch = queue.prefetch();
        let again = async {
            queue.plan().slots_regained().await;
            let entered = shared.solo_lock.enter().await;
            consume_again(&shared, name, prefetch, &status)
                .await
                .map(|consumer| (entered, consumer))
        };
        tokio::select! {
            biased;
            () = shared.enough.cancelled() => {
                status.set_quiet();
                break shared.stay_quiet().await;
            }
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
    queue.drain(&mut consumer, || ()).await;
    shared.settled(&consumer, name).await;
    queue.observer.has_no_slots();
    ended
}

/// Why a queue whose slots are all lost is interrupted.
fn slots_lost(queue: &Queue) -> Error {
    let text = format!(
        "functions that run past their timeout hold all {} slots of queue `{}`; restart the \
         process if they do not end, and check `JobContext::is_cancelled` in long loops",
        queue.plan().slots().count,
        queue.name
    );
    Error::new(ErrorKind::Timeout, text)
}

/// Starts a new consumer, retrying while the error may pass.
async fn consume_again(
    shared: &Shared,
    name: &'static str,
    prefetch: u16,
    status: &Status,
) -> Result<Consumer> {
    let mut failed = Repeated::default();
    loop {
        let only_job = shared.plan.queues[name].only_job;
        let what = Consume::new(QueueName::new(name)?, prefetch);
        let what = what.pool(shared.joined()).only_job(only_job);
        match shared.resources.client.engine().consume(what).await {
            Err(error) if error.may_pass() => {
                status.set_trying(&error, shared.clock().now());
                if let Some(Line { more }) = failed.happens(Instant::now()) {
                    tracing::warn!(
                        queue = name, %error, more,
                        "could not start the consumer; retrying"
                    );
                }
                sleep(RETRY_PAUSE).await;
            }
            consumed => return consumed,
        }
    }
}
