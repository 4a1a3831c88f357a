//! A supervised connection, which reconnects for ever.
//!
//! `lapin`'s own recovery stays off, since it reuses delivery tags: an old acknowledgement would
//! then settle a job that never ran. Channels and consumers end with their connection, and their
//! owners open them again on the next one.

mod connect;
mod end;
mod renewal;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::connect::Connector;
use self::end::end;
use super::address::Address;
use super::epoch::{ConnectionEpoch, Established};
use super::identity::Identity;
use super::tls::Tls;
use crate::background;
use crate::engine::closed;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::ConnectionMetrics;
use crate::repeated::{Line, Repeated};

/// After this uptime of a connection, channel or consumer, the backoff starts afresh.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(20);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a lost connection's first try to come back waits for a node. One that is about to start
/// or to end may take a connection and never answer. The next try waits for twice as long, and none
/// longer than the timeout.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Advice for an alarm.
pub(crate) const ALARM_ADVICE: &str = "free memory or disk space on its nodes, or change the limit \
     (`rabbitmq-diagnostics alarms` shows which)";

/// A connection that is kept up until it is closed.
#[derive(Debug, Clone)]
pub(crate) struct SupervisedConnection {
    state: watch::Receiver<State>,
    unreadable: Arc<AtomicBool>,
    closing: CancellationToken,
}

/// The address, and the options of connections.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
    /// `None` if the credentials are those of the URL.
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) timeout: Duration,
    pub(crate) metrics: ConnectionMetrics,
}

#[derive(Debug, Clone)]
enum State {
    Up(Arc<ConnectionEpoch>),
    /// The broker does not read from the connection, for this reason.
    Blocked(Arc<ConnectionEpoch>, Arc<str>),
    /// With the reason.
    Down(Error),
    Closed,
}

/// The state that the supervisor needs to reconnect.
#[derive(Debug)]
struct Supervisor {
    connector: Connector,
    state: watch::Sender<State>,
    unreadable: Arc<AtomicBool>,
    closing: CancellationToken,
}

impl SupervisedConnection {
    /// Connects to the nodes in an order with a random start, so that clients spread over them.
    /// Only the first connection's error is returned. Later ones are retried.
    pub(crate) async fn open(target: Arc<Target>, name: String) -> Result<Self> {
        Self::open_by(Connector::new(target, name)).await
    }

    /// [`open`](Self::open) to the node of this number.
    pub(crate) async fn open_on(target: Arc<Target>, name: String, node: usize) -> Result<Self> {
        Self::open_by(Connector::to_node(target, name, node)).await
    }

    async fn open_by(connector: Connector) -> Result<Self> {
        let (link, mut supervisor) = Self::supervised(connector);
        // The socket and the heartbeats run on the runtime that opens the connection.
        let opening = background::spawn(async move {
            let connection = supervisor.connector.connect(Duration::MAX).await?;
            let first = Arc::new(ConnectionEpoch::new(connection, 0));
            supervisor.state.send_replace(State::Up(Arc::clone(&first)));
            Ok((supervisor, first))
        });
        let opened = AbortOnDropHandle::new(opening).await;
        let (supervisor, first) = opened.unwrap_or_else(|_| Err(closed()))?;
        background::spawn(supervisor.run(first));
        Ok(link)
    }

    /// [`open`](Self::open) without waiting: the first connection is established like a lost one.
    pub(crate) fn open_lazily(target: Arc<Target>, name: String) -> Self {
        let (link, mut supervisor) = Self::supervised(Connector::new(target, name));
        let text = format!("not connected to {} yet", supervisor.connector.target.address);
        supervisor.state.send_replace(State::Down(Error::new(ErrorKind::Connection, text)));
        background::spawn(async move {
            let closing = supervisor.closing.clone();
            let mut waits = backoff();
            let connection = tokio::select! {
                () = closing.cancelled() => return,
                connection = supervisor.connect_again(&mut waits) => connection,
            };
            let first = Arc::new(ConnectionEpoch::new(connection, 0));
            supervisor.state.send_replace(State::Up(Arc::clone(&first)));
            supervisor.run(first).await;
        });
        link
    }

    /// A connection that is not supervised, for a request that may end it.
    pub(crate) async fn connect_once(target: Arc<Target>, name: String) -> Result<Established> {
        // As in `open`.
        let connecting =
            background::spawn(async { Connector::new(target, name).connect(Duration::MAX).await });
        AbortOnDropHandle::new(connecting).await.unwrap_or_else(|_| Err(closed()))
    }

    /// The version of the broker; `None` without a connection.
    pub(crate) fn version(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Up(up) | State::Blocked(up, _) => up.version.clone(),
            State::Down(_) | State::Closed => None,
        }
    }

    fn supervised(connector: Connector) -> (Self, Supervisor) {
        let closing = CancellationToken::new();
        let (sender, state) = watch::channel(State::Closed);
        let unreadable = Arc::new(AtomicBool::new(false));
        let supervisor = Supervisor {
            connector,
            state: sender,
            unreadable: Arc::clone(&unreadable),
            closing: closing.clone(),
        };
        (Self { state, unreadable, closing }, supervisor)
    }

    /// The connection, once there is one that the broker reads from. Otherwise outgoing data would
    /// accumulate in this process.
    pub(crate) async fn up(&self) -> Result<Arc<ConnectionEpoch>> {
        self.up_or_tell(|_| ()).await
    }

    /// [`up`](Self::up), with a call of `tell` for each reason for the wait.
    pub(crate) async fn up_or_tell(
        &self,
        mut tell: impl FnMut(&Error),
    ) -> Result<Arc<ConnectionEpoch>> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                State::Up(up) => return Ok(Arc::clone(up)),
                State::Blocked(_, cause) => {
                    tell(&Error::new(ErrorKind::Connection, takes_nothing(cause)));
                }
                State::Down(error) => tell(error),
                State::Closed => return Err(closed()),
            }
            if state.changed().await.is_err() {
                return Err(closed());
            }
        }
    }

    /// Whether there is a connection, from which the broker reads.
    pub(crate) fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), State::Up(_))
    }

    /// Waits until there is no connection that the broker reads from.
    pub(super) async fn down(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|state| !matches!(state, State::Up(_))).await;
    }

    /// Whether the broker has stopped reading.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(*self.state.borrow(), State::Blocked(..))
    }

    /// Waits until the broker reads again, or the connection has ended.
    pub(crate) async fn unblocked(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|state| !matches!(state, State::Blocked(..))).await;
    }

    /// The likely reason for a missing answer, for error messages.
    pub(crate) fn trouble(&self) -> String {
        match &*self.state.borrow() {
            State::Blocked(_, cause) => takes_nothing(cause),
            State::Down(error) => {
                format!("there is currently no connection to it, and jobq keeps trying: {error}")
            }
            State::Up(_) | State::Closed => "it may be overloaded or have no quorum".into(),
        }
    }

    /// Waits until an alarm stops the broker from reading, and returns its reason.
    pub(crate) async fn blocked(&self) -> Arc<str> {
        let mut state = self.state.clone();
        let blocked = |state: &State| matches!(state, State::Blocked(..));
        let cause = match state.wait_for(blocked).await.as_deref() {
            Ok(State::Blocked(_, cause)) => Some(Arc::clone(cause)),
            _ => None,
        };
        match cause {
            Some(cause) => cause,
            // The connection has ended.
            None => std::future::pending().await,
        }
    }

    /// Waits until this epoch of the connection has ended.
    pub(crate) async fn lost(&self, number: u64) {
        let mut state = self.state.clone();
        let other = |state: &State| match state {
            State::Up(up) | State::Blocked(up, _) => up.number != number,
            State::Down(_) | State::Closed => true,
        };
        let _ = state.wait_for(other).await;
    }

    /// Whether a message that `lapin` cannot parse ever ended the connection. The broker sends it
    /// again on the next one.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Acquire)
    }

    /// Closes the connection.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        let mut state = self.state.clone();
        let over = state.wait_for(|state| matches!(state, State::Closed));
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, over).await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.state.send_replace(State::Closed);
    }
}

impl Supervisor {
    /// Keeps the connection until it is closed, or nobody uses it any more.
    async fn run(mut self, mut up: Arc<ConnectionEpoch>) {
        let mut waits = backoff();
        let (closing, state) = (self.closing.clone(), self.state.clone());
        let over = async || {
            tokio::select! {
                () = closing.cancelled() => {}
                () = state.closed() => {}
            }
        };
        loop {
            let since = Instant::now();
            let events = up.connection.events_listener();
            let told = |cause| self.blocked(&up, cause);
            let (reason, unreadable) = tokio::select! {
                () = over() => break,
                ended = end(&up.connection, events, told) => ended,
                reason = self.connector.renew(&up, self.state.subscribe()) => {
                    let goodbye = up.connection.close(200, "new credentials".into());
                    let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
                    (reason, false)
                }
            };
            let Connector { target, name, node, .. } = &self.connector;
            let broker = &target.address;
            tracing::warn!(%broker, node, connection = name, reason, "connection lost");
            self.unreadable.fetch_or(unreadable, Ordering::AcqRel);
            let lost = format!("the connection to {broker} was lost: {reason}");
            up.end(reason);
            self.state.send_replace(State::Down(Error::new(ErrorKind::Connection, lost)));
            if since.elapsed() > STABLE_AFTER {
                waits = backoff();
            }
            let number = up.number + 1;
            drop(up);
            let connection = tokio::select! {
                () = over() => return,
                connection = self.connect_again(&mut waits) => connection,
            };
            let Connector { target, name, node, .. } = &self.connector;
            tracing::info!(
                broker = %target.address, node, connection = name,
                "connection restored"
            );
            target.metrics.reconnected();
            up = Arc::new(ConnectionEpoch::new(connection, number));
            self.state.send_replace(State::Up(Arc::clone(&up)));
        }
        up.questions.end();
        let goodbye = up.connection.close(200, "closed".into());
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
        up.over.cancel();
    }

    /// Records that the broker has stopped reading, or reads again.
    fn blocked(&self, up: &Arc<ConnectionEpoch>, cause: Option<String>) {
        let (broker, connection) = (&self.connector.target.address, &self.connector.name);
        let state = if let Some(cause) = cause {
            tracing::warn!(
                %broker, connection, cause,
                "connection blocked by the broker; publishing is suspended"
            );
            State::Blocked(Arc::clone(up), cause.into())
        } else {
            tracing::info!(
                %broker, connection,
                "connection unblocked by the broker; publishing resumes"
            );
            State::Up(Arc::clone(up))
        };
        self.state.send_replace(state);
    }

    /// Tries until there is a connection. Each outage has log lines of its own.
    async fn connect_again(&mut self, waits: &mut ExponentialBackoff) -> Established {
        let mut answer = FIRST_ANSWER;
        let (mut unreachable, mut refused) = (Repeated::default(), Repeated::default());
        loop {
            tokio::time::sleep(waits.next().unwrap_or(LONGEST_WAIT)).await;
            let since = Instant::now();
            match self.connector.connect(answer).await {
                Ok(connection) => return connection,
                Err(error) => {
                    if since.elapsed() >= answer {
                        answer = answer.saturating_mul(2);
                    }
                    // Waiting alone does not resolve a refusal.
                    let connection = &self.connector.name;
                    if error.kind() == ErrorKind::Connection || error.is_timeout() {
                        if let Some(Line { more }) = unreachable.happens(Instant::now()) {
                            tracing::warn!(%error, connection, more, "reconnect failed; retrying");
                        }
                    } else if let Some(Line { more }) = refused.happens(Instant::now()) {
                        tracing::error!(%error, connection, more, "reconnect failed; retrying");
                    }
                    self.state.send_replace(State::Down(error));
                }
            }
        }
    }
}

/// The message that an alarm stops the broker from reading.
pub(super) fn takes_nothing(cause: &str) -> String {
    format!(
        "the broker currently accepts no messages because of an alarm (`{cause}`): {ALARM_ADVICE}; \
         jobq continues by itself when the alarm ends"
    )
}

/// The waits between failed tries: 50 ms to 10 s, then 10 s for ever, with jitter.
pub(crate) fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(LONGEST_WAIT)
        .with_jitter()
        .without_max_times()
        .build()
}
