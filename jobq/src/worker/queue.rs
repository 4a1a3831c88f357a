//! One queue of a pool: takes its jobs and runs as many at once as it may.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attempt::Shared;
use super::attempts::Attempts;
use super::gate::{Gate, Passed};
use super::health::Post;
use crate::engine::{Consumer, Settlement, closed};
use crate::error::Result;
use crate::telemetry;

/// How long a pool whose grace period is over still waits for the engine to record the
/// outcomes that there are.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Between two tries to consume again.
const AGAIN: Duration = Duration::from_secs(1);

/// Consumes a queue until `stop` is cancelled, or the engine says that it cannot.
pub(crate) async fn consume(
    shared: Arc<Shared>,
    name: &'static str,
    mut consumer: Consumer,
    mut passed: Passed,
    post: Post,
    stop: CancellationToken,
) -> Result<()> {
    let mut queue = Queue::new(&shared, name);
    let ended = loop {
        match queue.run(&mut consumer, &stop, &shared.gate).await {
            Ok(End::Rest) => {}
            Ok(End::Stop) => break Ok(()),
            Err(error) => break Err(error),
        }
        post.rests();
        queue.rest(&mut consumer).await;
        drop(passed);
        let prefetch = queue.attempts.prefetch();
        let again = async {
            let passed = shared.gate.pass().await;
            consume_again(&shared, name, prefetch, &post).await.map(|consumer| (passed, consumer))
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break Ok(()),
            again = again => match again {
                Ok(again) => {
                    (passed, consumer) = again;
                    post.consumes(&consumer);
                }
                Err(error) => break Err(error),
            },
        }
    };
    post.ended(&ended);
    if let Err(error) = &ended {
        telemetry::queue_stopped(name, error);
        if error.is_closed() {
            // What runs was handed back already, and nothing can be recorded any more.
            shared.halt.cancel();
        }
    }
    // What runs may end while the engine takes its time to stop.
    tokio::join!(consumer.stop(), queue.finish(&shared.halt));
    // The program may end when the pool does.
    let _ = tokio::time::timeout(LAST_WORD, consumer.settled()).await;
    ended
}

/// Takes jobs again, as soon as the engine lets it.
async fn consume_again(
    shared: &Shared,
    name: &'static str,
    prefetch: u16,
    post: &Post,
) -> Result<Consumer> {
    loop {
        match shared.client.engine().consume(name, prefetch).await {
            Err(error) if error.may_pass() => {
                post.tries(&error);
                tracing::warn!(queue = name, %error, "not consuming yet");
                tokio::time::sleep(AGAIN).await;
            }
            consumed => return consumed,
        }
    }
}

/// Why a queue takes no more jobs.
enum End {
    /// The pool is shut down.
    Stop,
    /// A job is to be run alone.
    Rest,
}

struct Queue {
    attempts: Attempts,
}

impl Queue {
    fn new(shared: &Arc<Shared>, name: &'static str) -> Self {
        let concurrency = shared.plan.queues[name].concurrency.into();
        Self { attempts: Attempts::new(Arc::clone(shared), name, concurrency) }
    }

    async fn run(
        &mut self,
        consumer: &mut Consumer,
        stop: &CancellationToken,
        gate: &Gate,
    ) -> Result<End> {
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut closing = std::pin::pin!(gate.closing());
        self.attempts.set_open(true);
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(End::Stop),
                () = &mut closing => return Ok(End::Rest),
                finished = self.attempts.next() => {
                    if let Some(finished) = finished {
                        self.attempts.conclude(finished);
                    }
                    if let Some(prefetch) = self.attempts.new_prefetch() {
                        consumer.set_prefetch(prefetch).await;
                    }
                }
                item = consumer.next() => {
                    self.attempts.start(item.ok_or_else(closed)??);
                    while let Some(item) = consumer.ready() {
                        self.attempts.start(item?);
                    }
                }
            }
        }
    }

    /// Takes nothing more, hands back what does not run yet, and lets the rest end.
    async fn rest(&mut self, consumer: &mut Consumer) {
        self.attempts.set_open(false);
        // What runs may end while the engine takes its time to stop.
        let mut stopping = std::pin::pin!(consumer.stop());
        let mut stopped = false;
        loop {
            for delivery in self.attempts.take_waiting() {
                // Stale means that it is handed back already.
                let _ = delivery.settle(Settlement::Release).await;
            }
            tokio::select! {
                () = &mut stopping, if !stopped => stopped = true,
                finished = self.attempts.next(), if !self.attempts.is_empty() => {
                    if let Some(finished) = finished {
                        self.attempts.conclude(finished);
                    }
                }
                else => return,
            }
        }
    }

    /// Waits for what runs, for as long as the grace period lasts.
    async fn finish(mut self, halt: &CancellationToken) {
        self.attempts.set_open(false);
        let waiting = self.attempts.take_waiting();
        for delivery in waiting.into_iter().chain(self.attempts.take_held()) {
            // Stale means that it is handed back already.
            let _ = delivery.settle(Settlement::Release).await;
        }
        let too_late = async {
            halt.cancelled().await;
            tokio::time::sleep(LAST_WORD).await;
        };
        let all = async {
            while !self.attempts.is_empty() {
                self.attempts.next().await;
            }
        };
        tokio::select! {
            () = all => {}
            // What is dropped unsettled is handed back.
            () = too_late => {}
        }
    }
}
