//! The broker connections of an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::epoch::{ConnectionEpoch, Established};
use super::patience::Patience;
use super::supervised::{SupervisedConnection, Target, takes_nothing};
use crate::clock::Clock;
use crate::engine::closed;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::errors::timed_out;

/// A broker with the connection for everything but consuming, until the engine is closed.
#[derive(Debug)]
pub(crate) struct Broker {
    target: Arc<Target>,
    /// The connection name that the broker shows, before the purpose of the connection.
    name: String,
    publishing: SupervisedConnection,
    patience: Patience,
    clock: Clock,
    closing: CancellationToken,
}

impl Broker {
    /// # Errors
    ///
    /// A broker that cannot be reached or refuses, unless the connection is lazy.
    pub(crate) async fn connect(
        target: Target,
        name: String,
        clock: Clock,
        is_lazy: bool,
        fail_fast_after: Option<Duration>,
    ) -> Result<Self> {
        let target = Arc::new(target);
        let (to, purpose) = (Arc::clone(&target), format!("{name} (publishing)"));
        let publishing = if is_lazy {
            SupervisedConnection::open_lazily(to, purpose)
        } else {
            SupervisedConnection::open(to, purpose).await?
        };
        let patience = Patience::with(&publishing, fail_fast_after);
        Ok(Self { target, name, publishing, patience, clock, closing: CancellationToken::new() })
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long a call waits for the broker.
    pub(crate) fn timeout(&self) -> Duration {
        self.target.timeout
    }

    /// The connection for everything but consuming.
    pub(crate) fn publishing(&self) -> &SupervisedConnection {
        &self.publishing
    }

    /// How long calls wait for [`publishing`](Self::publishing) to be up.
    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// [`publishing`](Self::publishing), once it is up.
    pub(crate) async fn up(&self) -> Result<Arc<ConnectionEpoch>> {
        self.publishing.up().await
    }

    /// Opens another connection.
    pub(crate) async fn open(&self, purpose: &str) -> Result<SupervisedConnection> {
        SupervisedConnection::open(Arc::clone(&self.target), format!("{} ({purpose})", self.name))
            .await
    }

    /// Opens another connection that is not supervised, for a request that may end it.
    pub(crate) async fn connect_once(&self, purpose: &str) -> Result<Established> {
        let name = format!("{} ({purpose})", self.name);
        SupervisedConnection::connect_once(Arc::clone(&self.target), name).await
    }

    /// Opens a connection to each node of the URL that answers in time.
    pub(crate) async fn open_on_each_node(
        &self,
        purpose: &str,
        patience: Duration,
    ) -> Vec<SupervisedConnection> {
        let name = format!("{} ({purpose})", self.name);
        let open = |node| {
            timeout(
                patience,
                SupervisedConnection::open_on(Arc::clone(&self.target), name.clone(), node),
            )
        };
        let opened = join_all((0..self.target.address.count()).map(open)).await;
        opened.into_iter().filter_map(|opened| opened.ok()?.ok()).collect()
    }

    /// Cancelled when the engine is closed: there are no new calls, and consumers end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// An error once the engine is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.is_cancelled() { Err(closed()) } else { Ok(()) }
    }

    /// Waits for an answer to a call for no longer than [`timeout`](Self::timeout), and than the
    /// [`patience`](Self::patience).
    pub(crate) async fn within<T>(
        &self,
        doing: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.patiently(doing, Box::pin(self.in_time(doing, work))).await
    }

    /// A call that ends with the [`patience`](Self::patience).
    pub(crate) async fn patiently<T>(
        &self,
        doing: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.patience.ended() => {
                Err(self.patience.error(doing, &self.publishing.trouble()))
            }
        }
    }

    /// Waits for an answer for no longer than [`timeout`](Self::timeout).
    pub(crate) async fn in_time<T>(
        &self,
        doing: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.check_open()?;
        let limit = self.timeout();
        let out_of_time = |_| Err(timed_out(doing, limit, &self.publishing.trouble()));
        timeout(limit, work).await.unwrap_or_else(out_of_time)
    }

    /// [`in_time`](Self::in_time), for work of many answers: the wait begins anew as long as
    /// `answered` grows.
    pub(crate) async fn within_each<T>(
        &self,
        doing: &str,
        answered: &AtomicUsize,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.check_open()?;
        let limit = self.timeout();
        let done = within_each(limit, answered, Box::pin(work)).await;
        done.unwrap_or_else(|| Err(timed_out(doing, limit, &self.publishing.trouble())))
    }

    /// [`within`](Self::within), for questions and orders: it ends at once when the broker has
    /// stopped reading from the connection, since nobody waits for the end of an alarm.
    pub(crate) async fn unless_blocked<T>(
        &self,
        doing: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            done = self.within(doing, work) => done,
            cause = self.publishing.blocked() => {
                let alarm = Error::new(ErrorKind::Timeout, takes_nothing(&cause));
                Err(Error::new(ErrorKind::Timeout, format!("{doing}: {alarm}")).with_source(alarm))
            }
        }
    }
}

/// Does work on a connection, and once more on the next one if it ends meanwhile: a call may begin on one
/// whose end is not noticed yet. The work may be done twice.
pub(crate) async fn on_living<T, F: Future<Output = Result<T>>>(
    link: &SupervisedConnection,
    work: impl Fn(Arc<ConnectionEpoch>) -> F,
) -> Result<T> {
    let up = link.up().await?;
    match work(Arc::clone(&up)).await {
        Err(error) if up.has_ended(&error) => {
            link.lost(up.number).await;
            work(link.up().await?).await
        }
        done => done,
    }
}

/// The outcome of this work; `None` if for this long it did not end, and `answered` did not grow.
async fn within_each<T>(
    limit: Duration,
    answered: &AtomicUsize,
    mut work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    let mut before = answered.load(Ordering::Relaxed);
    loop {
        if let Ok(done) = timeout(limit, &mut work).await {
            return Some(done);
        }
        let now = answered.load(Ordering::Relaxed);
        if now == before {
            return None;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_may_take_long_if_it_is_answered() {
        let limit = Duration::from_secs(10);
        // Answers, the seconds before each, whether there is an outcome.
        for (answers, between, is_done) in
            [(1, 9, true), (1, 11, false), (100, 9, true), (3, 11, false), (2, 30, false)]
        {
            let answered = AtomicUsize::new(0);
            let work = async {
                for _ in 0..answers {
                    sleep(Duration::from_secs(between)).await;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            };
            let done = within_each(limit, &answered, pin!(work)).await;
            assert_eq!(done.is_some(), is_done, "{answers} answers, {between} s each");
        }
    }
}
