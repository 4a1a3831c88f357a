use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::attempt::Shared;
use super::queue;
use crate::engine::Consumer;
use crate::error::{Error, ErrorKind, Result};

/// A pool that runs in the background, made by
/// [`WorkerPool::spawn`](crate::WorkerPool::spawn). Dropping the handle leaves the pool
/// running.
#[derive(Debug)]
#[must_use = "keep it to shut the pool down, or `.wait()` for its end"]
pub struct RunningPool {
    stop: CancellationToken,
    halt: CancellationToken,
    ended: watch::Receiver<Option<Result<()>>>,
}

impl RunningPool {
    pub(crate) fn start(
        shared: &Arc<Shared>,
        consumers: Vec<(&'static str, Consumer)>,
        grace: Duration,
    ) -> Self {
        let stop = CancellationToken::new();
        let halt = shared.halt.clone();
        let (report, ended) = watch::channel(None);
        let mut queues = JoinSet::new();
        for (name, consumer) in consumers {
            queues.spawn(queue::consume(Arc::clone(shared), name, consumer, stop.clone()));
        }
        let (stopping, halting) = (stop.clone(), halt.clone());
        tokio::spawn(async move {
            let all_ended = async {
                let mut result = Ok(());
                while let Some(ended) = queues.join_next().await {
                    let ended = ended.unwrap_or_else(|problem| {
                        Err(Error::new(ErrorKind::Refused, "a queue's task ended").because(problem))
                    });
                    result = result.and(ended);
                }
                result
            };
            let patience = async {
                stopping.cancelled().await;
                tokio::time::sleep(grace).await;
                halting.cancel();
                std::future::pending::<()>().await;
            };
            let result = tokio::select! {
                result = all_ended => result,
                () = patience => Ok(()),
            };
            report.send_replace(Some(result));
        });
        Self { stop, halt, ended }
    }

    /// Waits until the pool has ended: after a shutdown, or because none of its queues
    /// can be consumed any more.
    ///
    /// # Errors
    ///
    /// Why a queue could not be consumed any more. The pool goes on with its other
    /// queues and logs the error at once; this returns when the last one has ended.
    pub async fn wait(&self) -> Result<()> {
        let mut ended = self.ended.clone();
        let gone = || Error::new(ErrorKind::Closed, "the runtime of the pool was shut down");
        let result = ended.wait_for(Option::is_some).await.map_err(|_| gone())?;
        result.clone().unwrap_or_else(|| Err(gone()))
    }

    /// Shuts the pool down: it takes no further jobs, lets running attempts finish for
    /// the grace period, cancels the rest and hands back every job that was not
    /// finished. No job loses an attempt.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn shutdown(self) -> Result<()> {
        self.stop();
        self.wait().await
    }

    /// Begins the shutdown.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends the grace period.
    pub(crate) fn halt(&self) {
        self.halt.cancel();
    }
}
