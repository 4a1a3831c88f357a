//! The task of a relay.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::health::{Board, RelayHealth, RelayState};
use super::source::{Refusal, Source};
use super::turn::{Turn, Turns};
use crate::background;
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::guard;
use crate::repeated::Repeated;

/// How often a relay looks at a table without rows.
const IDLE: Duration = Duration::from_millis(200);
/// How soon it looks again after rows.
const BUSY: Duration = Duration::from_millis(20);
/// How soon it looks after this program has made a row, whose transaction commits soon. The next looks
/// come after twice the wait each, up to `IDLE`.
const HINTED: Duration = Duration::from_millis(5);
/// How often a relay looks whether the one that works has ended.
const STANDBY: Duration = Duration::from_secs(1);
/// The wait after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it counts the rows that are left.
const COUNTS: Duration = Duration::from_secs(10);
/// How often it deletes marks.
const CLEANS: Duration = Duration::from_secs(3_600);
/// How long a count may take.
const COUNT: Duration = Duration::from_secs(10);

/// A relay without a pool.
///
/// ```no_run
/// # async fn example(client: jobq::Client, outbox: impl jobq::relay::Source) -> jobq::Result<()> {
/// use jobq::relay::Relay;
///
/// Relay::new(&client, outbox).run_until(jobq::shutdown_signal()?).await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a relay does nothing until `.run_until(..)` or `.spawn()`"]
pub struct Relay(Task);

impl Relay {
    /// A relay from this source to the engine of this client, for rows of its namespace.
    pub fn new(client: &Client, source: impl Source) -> Self {
        Self(Task::new(client, Arc::new(source)))
    }

    /// Runs until the future is ready. Errors of the database and of the engine do not end it: see
    /// [`RunningRelay::health`].
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::ErrorKind::Closed) if the client is closed.
    pub async fn run_until(self, end: impl Future<Output = ()>) -> Result<()> {
        let running = self.spawn()?;
        tokio::select! {
            ended = running.wait() => ended,
            () = end => running.shutdown().await,
        }
    }

    /// Starts it in the background.
    ///
    /// # Errors
    ///
    /// A system that gives no threads.
    pub fn spawn(self) -> Result<RunningRelay> {
        let (end, board) = (CancellationToken::new(), Arc::clone(&self.0.board));
        let (report, ended) = watch::channel(None);
        let task = self.0.run(end.clone());
        background::handle()?.spawn(async move {
            report.send_replace(Some(task.await));
        });
        Ok(RunningRelay { board, end, ended })
    }
}

/// A relay that runs in the background, made by [`Relay::spawn`]. Dropping the handle leaves it running.
#[derive(Debug)]
#[must_use = "keep it to shut the relay down, or `.wait()` for its end"]
pub struct RunningRelay {
    board: Arc<Board>,
    end: CancellationToken,
    ended: watch::Receiver<Option<Result<()>>>,
}

impl RunningRelay {
    /// The state of the relay.
    #[must_use]
    pub fn health(&self) -> RelayHealth {
        self.board.health()
    }

    /// Waits until the relay has ended.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::ErrorKind::Closed) if its client was closed.
    pub async fn wait(&self) -> Result<()> {
        let mut ended = self.ended.clone();
        let gone = || Error::new(ErrorKind::Closed, "the task of the relay ended unexpectedly");
        let ended = ended.wait_for(Option::is_some).await.map_err(|_| gone())?;
        ended.clone().unwrap_or_else(|| Err(gone()))
    }

    /// Ends the relay after the rows that it has taken.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn shutdown(self) -> Result<()> {
        self.end.cancel();
        self.wait().await
    }
}

/// A relay before it runs.
#[derive(Debug)]
pub(crate) struct Task {
    client: Client,
    source: Arc<dyn Source>,
    board: Arc<Board>,
}

impl Task {
    pub(crate) fn new(client: &Client, source: Arc<dyn Source>) -> Self {
        let board = Arc::new(Board::new(source.name()));
        Self { client: client.clone(), source, board }
    }

    /// Where its state is read.
    pub(crate) fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Runs until it is told to end, or the client is closed.
    pub(crate) async fn run(self, end: CancellationToken) -> Result<()> {
        let end = end.child_token();
        let watching = async {
            tokio::select! {
                () = end.cancelled() => {}
                () = self.count() => {}
                () = self.clean() => {}
            }
        };
        let ((), ended) = tokio::join!(watching, async {
            let ended = self.work(&end).await;
            end.cancel();
            ended
        });
        self.board.set(RelayState::Ended);
        ended
    }

    async fn work(&self, end: &CancellationToken) -> Result<()> {
        let mut turns = Turns::new(self.client.clone(), Arc::clone(&self.source));
        let (mut failed, mut refusals) = (Repeated::default(), Repeated::default());
        let (mut rows, mut idle) = (self.client.rows(), IDLE);
        while !end.is_cancelled() {
            // A source is code of the program, or of an adapter.
            let turn = AssertUnwindSafe(turns.take()).catch_unwind().await;
            let turn = turn
                .unwrap_or_else(|panic| Err(Error::new(ErrorKind::Refused, guard::text(panic))));
            let (wait, error) = match turn {
                Ok(Turn::Worked { sent, refused, is_full, given_back }) => {
                    if given_back.is_none() {
                        self.board.set(RelayState::Sending);
                    }
                    self.board.count(sent, refused.len());
                    self.tell(&refused, &mut refusals);
                    (if is_full { Duration::ZERO } else { BUSY }, given_back)
                }
                Ok(Turn::Idle) => {
                    self.board.set(RelayState::Sending);
                    let wait = idle;
                    idle = (idle * 2).min(IDLE);
                    (wait, None)
                }
                Ok(Turn::Standby) => {
                    self.board.set(RelayState::Standby);
                    (STANDBY, None)
                }
                Err(error) => (PAUSE, Some(error)),
            };
            let wait = match error {
                None => wait,
                Some(error) if error.is_closed() => return Err(error),
                Some(error) => {
                    self.board.set_interrupted(&error, self.client.clock().now());
                    if let Some(line) = failed.happens(Instant::now()) {
                        let (outbox, more) = (self.board.source(), line.more);
                        tracing::warn!(outbox, %error, more, "rows of the outbox cannot be sent; retrying");
                    }
                    PAUSE
                }
            };
            let waiting = async {
                tokio::select! {
                    () = sleep(wait) => {}
                    _ = rows.changed(), if wait == IDLE => {
                        idle = HINTED * 2;
                        sleep(HINTED).await;
                    }
                }
            };
            end.run_until_cancelled(waiting).await;
        }
        Ok(())
    }

    fn tell(&self, refused: &[Refusal], refusals: &mut Repeated) {
        for Refusal { seq: row, error, .. } in refused {
            if let Some(line) = refusals.happens(Instant::now()) {
                let (outbox, more) = (self.board.source(), line.more);
                tracing::warn!(
                    outbox,
                    row,
                    error,
                    more,
                    "row of the outbox refused; it is tried again"
                );
            }
        }
    }

    /// Counts the rows that are left, now and then.
    async fn count(&self) {
        let mut times = interval(COUNTS);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            if self.board.is_sending() {
                let counting = self.source.backlog(self.client.namespace());
                let counting = timeout(COUNT, AssertUnwindSafe(counting).catch_unwind());
                if let Ok(Ok(backlog)) = counting.await {
                    self.board.set_backlog(backlog);
                }
            }
        }
    }

    /// Deletes old marks, soon after the relay begins to work and then now and then.
    async fn clean(&self) {
        let mut cleaned: Option<Instant> = None;
        loop {
            sleep(COUNTS).await;
            let is_due = cleaned.is_none_or(|cleaned| cleaned.elapsed() >= CLEANS);
            if !is_due || !self.board.is_sending() {
                continue;
            }
            cleaned = Some(Instant::now());
            let cleaning = self.source.clean(self.client.namespace());
            if let Ok(Err(error)) = AssertUnwindSafe(cleaning).catch_unwind().await {
                let outbox = self.board.source();
                tracing::warn!(outbox, %error, "old marks of the inbox cannot be deleted");
            }
        }
    }
}
