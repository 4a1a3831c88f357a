//! A supervised connection, which reconnects for ever.
//!
//! `lapin`'s own recovery stays off, since it reuses delivery tags: an old acknowledgement would
//! then settle a job that never ran. Channels and consumers end with their connection, and their
//! owners open them again on the next one.

mod end;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::end::end;
use super::address::{Address, host_and_port};
use super::alert;
use super::connect_error::{Unconnected, cannot_connect};
use super::epoch::{Established, Up};
use super::socket::{self, Handshake};
use super::tls::Tls;
use crate::engine::closed;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::ConnectionMetrics;
use crate::rabbitmq::lapin::log::{LogFilter, Questions};
use crate::{background, host};

/// After this uptime of a connection, channel or consumer, the backoff starts afresh.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(20);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a lost connection's first try to come back waits for a node. One that is about to start
/// or to end may take a connection and never answer. The next try waits for twice as long, and none
/// longer than the timeout.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Advice for an alarm.
pub(crate) const ALARM_ADVICE: &str = "free memory or disk on its nodes, or raise the limit \
                                       (`rabbitmq-diagnostics alarms` says which)";

/// A connection that is kept up until it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    state: watch::Receiver<State>,
    unreadable: Arc<AtomicBool>,
    closing: CancellationToken,
}

/// The address, and the options of connections.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
    pub(crate) timeout: Duration,
    pub(crate) metrics: ConnectionMetrics,
}

#[derive(Debug, Clone)]
enum State {
    Up(Arc<Up>),
    /// The broker does not read from the connection, for this reason.
    Blocked(Arc<Up>, Arc<str>),
    /// With the reason.
    Down(Error),
    Closed,
}

/// The state that the supervisor needs to reconnect.
#[derive(Debug)]
struct Supervisor {
    target: Arc<Target>,
    name: String,
    /// The number of the node to try first.
    next: usize,
    /// The node of the last connection, for the log.
    node: String,
    state: watch::Sender<State>,
    unreadable: Arc<AtomicBool>,
    closing: CancellationToken,
}

impl Link {
    /// Connects to the nodes in an order with a random start, so that clients spread over them.
    /// Only the first connection's error is returned. Later ones are retried.
    pub(crate) async fn open(target: Arc<Target>, name: String) -> Result<Self> {
        let (link, mut supervisor) = Self::supervised(target, name);
        // The socket and the heartbeats run on the runtime that opens the connection.
        let opening = background::spawn(async move {
            let connection = supervisor.connect(Duration::MAX).await?;
            let first = Arc::new(Up::new(connection, 0));
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
        let (link, mut supervisor) = Self::supervised(target, name);
        let text = format!("there is no connection to {} yet", supervisor.target.address);
        supervisor.state.send_replace(State::Down(Error::new(ErrorKind::Connection, text)));
        background::spawn(async move {
            let closing = supervisor.closing.clone();
            let mut waits = backoff();
            let connection = tokio::select! {
                () = closing.cancelled() => return,
                connection = supervisor.connect_again(&mut waits) => connection,
            };
            let first = Arc::new(Up::new(connection, 0));
            supervisor.state.send_replace(State::Up(Arc::clone(&first)));
            supervisor.run(first).await;
        });
        link
    }

    fn supervised(target: Arc<Target>, name: String) -> (Self, Supervisor) {
        let closing = CancellationToken::new();
        let (sender, state) = watch::channel(State::Closed);
        let unreadable = Arc::new(AtomicBool::new(false));
        let supervisor = Supervisor {
            next: fastrand::usize(..target.address.count()),
            node: String::new(),
            target,
            name,
            state: sender,
            unreadable: Arc::clone(&unreadable),
            closing: closing.clone(),
        };
        (Self { state, unreadable, closing }, supervisor)
    }

    /// The connection, once there is one that the broker reads from. Otherwise outgoing data would
    /// accumulate in this process.
    pub(crate) async fn up(&self) -> Result<Arc<Up>> {
        self.up_or_tell(|_| ()).await
    }

    /// [`up`](Self::up), with a call of `tell` for each reason for the wait.
    pub(crate) async fn up_or_tell(&self, mut tell: impl FnMut(&Error)) -> Result<Arc<Up>> {
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
            State::Down(_) => {
                "there is no connection to it for now, and jobq goes on trying".into()
            }
            State::Up(_) | State::Closed => "it may be overloaded or without a quorum".into(),
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
    pub(crate) async fn lost(&self, generation: u64) {
        let mut state = self.state.clone();
        let other = |state: &State| match state {
            State::Up(up) | State::Blocked(up, _) => up.generation != generation,
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
    /// Keeps the connection until it is closed, or nobody has a link to it any more.
    async fn run(mut self, mut up: Arc<Up>) {
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
            tokio::select! {
                () = over() => break,
                (reason, unreadable) = end(&up.connection, events, told) => {
                    tracing::warn!(broker = %self.target.address, node = self.node, connection = self.name, reason, "the connection was lost");
                    up.over.cancel();
                    self.unreadable.fetch_or(unreadable, Ordering::AcqRel);
                    let lost = format!("the connection to {} was lost: {reason}", self.target.address);
                    self.state.send_replace(State::Down(Error::new(ErrorKind::Connection, lost)));
                }
            }
            if since.elapsed() > STABLE_AFTER {
                waits = backoff();
            }
            let generation = up.generation + 1;
            drop(up);
            let connection = tokio::select! {
                () = over() => return,
                connection = self.connect_again(&mut waits) => connection,
            };
            tracing::info!(broker = %self.target.address, node = self.node, connection = self.name, "connected again");
            self.target.metrics.reconnected();
            up = Arc::new(Up::new(connection, generation));
            self.state.send_replace(State::Up(Arc::clone(&up)));
        }
        up.questions.end();
        let goodbye = up.connection.close(200, "closed".into());
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
        up.over.cancel();
    }

    /// Records that the broker has stopped reading, or reads again.
    fn blocked(&self, up: &Arc<Up>, cause: Option<String>) {
        let broker = &self.target.address;
        let state = if let Some(cause) = cause {
            tracing::warn!(%broker, connection = self.name, cause, "the broker takes no jobs for now");
            State::Blocked(Arc::clone(up), cause.into())
        } else {
            tracing::info!(%broker, connection = self.name, "the broker takes jobs again");
            State::Up(Arc::clone(up))
        };
        self.state.send_replace(state);
    }

    async fn connect_again(&mut self, waits: &mut ExponentialBackoff) -> Established {
        let mut answer = FIRST_ANSWER;
        loop {
            tokio::time::sleep(waits.next().unwrap_or(LONGEST_WAIT)).await;
            let since = Instant::now();
            match self.connect(answer).await {
                Ok(connection) => return connection,
                Err(error) => {
                    if since.elapsed() >= answer {
                        answer = answer.saturating_mul(2);
                    }
                    // Waiting alone does not resolve a refusal.
                    if error.kind() == ErrorKind::Connection || error.is_timeout() {
                        tracing::warn!(%error, connection = self.name, "still not connected");
                    } else {
                        tracing::error!(%error, connection = self.name, "still not connected");
                    }
                    self.state.send_replace(State::Down(error));
                }
            }
        }
    }

    /// Tries each node once, starting after the node of the last connection: so the clients of a
    /// node that died reconnect at once. Each has so long to answer, or less.
    async fn connect(&mut self, answer: Duration) -> Result<Established> {
        let target = Arc::clone(&self.target);
        let mut failures = Vec::new();
        for (number, node) in target.address.nodes_from(self.next) {
            // The TLS future is large.
            match Box::pin(self.connect_to(node, answer)).await {
                Ok(connection) => {
                    self.next = number + 1;
                    self.node = host_and_port(node);
                    return Ok(connection);
                }
                Err(failure) => {
                    let last = failure.everywhere;
                    failures.push(failure);
                    if last {
                        break;
                    }
                }
            }
        }
        Err(cannot_connect(&target.address, failures))
    }

    async fn connect_to(
        &self,
        node: &AMQPUri,
        answer: Duration,
    ) -> Result<Established, Unconnected> {
        let Target { address, tls, timeout, .. } = &*self.target;
        let stated = node.query.connection_timeout.map(Duration::from_millis);
        let limit = stated.unwrap_or(*timeout).min(*timeout).min(answer);
        let because = |error| Unconnected::because(address, tls, node, error);
        let properties = properties(&self.name);
        // `lapin` opens the socket on a thread of its own. If nothing answers, that would go on for
        // minutes, even after the caller is dropped.
        let (target, questions) = (Arc::clone(&self.target), Questions::default());
        let handshake = Handshake::default();
        let (giving_up, begun) = (handshake.guard(), handshake.clone());
        let filter = LogFilter::new(questions.clone());
        let of_thread = filter.clone();
        let open = async move |node: AMQPUri, _| {
            of_thread.filter_this_thread();
            let opening = socket::open(&node, &target.tls, &begun);
            let opened = tokio::time::timeout(limit, opening).await;
            Ok(opened.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))?)
        };
        let connecting =
            Connection::connector(node.clone(), socket::runtime(filter), open, properties);
        match tokio::time::timeout(limit, connecting).await {
            Ok(Err(error)) if address.is_tls() => {
                Err(because(alert::after_a_reset(error, node, tls).await))
            }
            Ok(Ok(connection)) => match Unconnected::too_narrow(node, &connection) {
                None => {
                    handshake.succeeded(giving_up);
                    Ok(Established { connection, questions })
                }
                Some(narrow) => {
                    let _ =
                        tokio::time::timeout(CLOSE_TIMEOUT, connection.close(200, "closed".into()))
                            .await;
                    Err(narrow)
                }
            },
            Ok(Err(error)) => Err(because(error)),
            Err(_) => Err(Unconnected::silent(host_and_port(node), limit)),
        }
    }
}

/// What the broker shows of a connection. It belongs to a client, whose pools share it: the tags of
/// the consumers name those.
fn properties(name: &str) -> ConnectionProperties {
    ConnectionProperties::default()
        .with_connection_name(name.into())
        .with_client_property("product".into(), "jobq".into())
        .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
        .with_client_property("host".into(), host::name().into())
        .with_client_property("pid".into(), std::process::id().to_string().into())
}

/// The message that an alarm stops the broker from reading.
pub(super) fn takes_nothing(cause: &str) -> String {
    format!(
        "the broker takes no messages for now, since it is `{cause}` (an alarm): {ALARM_ADVICE}; \
         jobq goes on by itself when the alarm ends"
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
