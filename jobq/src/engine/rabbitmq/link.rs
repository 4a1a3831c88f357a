//! One supervised connection: it comes back by itself, for ever.
//!
//! `lapin`'s own recovery stays off, since it uses delivery tags again: an old
//! acknowledgement would then settle a job that nobody ran. What was opened on a
//! connection dies with it, and its owner opens it again on the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::{Stream, StreamExt};
use lapin::{Connection, ConnectionProperties, Event};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::failure::{cannot_connect, timed_out};
use crate::engine::closed;
use crate::error::Result;

/// How often the state is looked at where no event told of its end.
const LOOK: Duration = Duration::from_millis(500);
/// A connection, channel or consumer that lived for so long starts its waits afresh.
pub(crate) const LASTING: Duration = Duration::from_secs(20);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(5);

/// A connection that is kept up until it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    state: watch::Receiver<State>,
    closing: CancellationToken,
}

/// One life of the connection.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) connection: Connection,
    /// Tells this life from the others.
    pub(crate) generation: u64,
}

#[derive(Debug, Clone)]
enum State {
    Up(Arc<Up>),
    Down,
    Closed,
}

/// What the supervisor needs to open the connection again.
#[derive(Debug)]
struct Supervisor {
    address: Arc<Address>,
    name: String,
    timeout: Duration,
    state: watch::Sender<State>,
    closing: CancellationToken,
}

impl Link {
    /// Connects. Only the first connection's error is returned; later ones are waited
    /// out.
    pub(crate) async fn open(
        address: Arc<Address>,
        name: String,
        timeout: Duration,
    ) -> Result<Self> {
        let closing = CancellationToken::new();
        let (sender, state) = watch::channel(State::Down);
        let supervisor =
            Supervisor { address, name, timeout, state: sender, closing: closing.clone() };
        let connection = supervisor.connect().await?;
        let first = Arc::new(Up { connection, generation: 0 });
        supervisor.state.send_replace(State::Up(Arc::clone(&first)));
        tokio::spawn(supervisor.run(first));
        Ok(Self { state, closing })
    }

    /// The connection, as soon as there is one.
    pub(crate) async fn up(&self) -> Result<Arc<Up>> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Down)).await;
        match settled.as_deref() {
            Ok(State::Up(up)) => Ok(Arc::clone(up)),
            _ => Err(closed()),
        }
    }

    /// Returns when this life of the connection is over.
    pub(crate) async fn lost(&self, generation: u64) {
        let mut state = self.state.clone();
        let other = |state: &State| !matches!(state, State::Up(up) if up.generation == generation);
        let _ = state.wait_for(other).await;
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        let mut state = self.state.clone();
        let over = state.wait_for(|state| matches!(state, State::Closed));
        let _ = tokio::time::timeout(FAREWELL, over).await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.state.send_replace(State::Closed);
    }
}

impl Supervisor {
    async fn run(self, mut up: Arc<Up>) {
        let mut waits = backoff();
        loop {
            let since = Instant::now();
            let events = up.connection.events_listener();
            tokio::select! {
                () = self.closing.cancelled() => break,
                reason = end(&up.connection, events, &self.address) => {
                    tracing::warn!(broker = %self.address, connection = self.name, reason, "the connection was lost");
                }
            }
            self.state.send_replace(State::Down);
            if since.elapsed() > LASTING {
                waits = backoff();
            }
            let generation = up.generation + 1;
            drop(up);
            let again = async { self.connect_again(&mut waits).await };
            let connection = tokio::select! {
                () = self.closing.cancelled() => return,
                connection = again => connection,
            };
            tracing::info!(broker = %self.address, connection = self.name, "connected again");
            up = Arc::new(Up { connection, generation });
            self.state.send_replace(State::Up(Arc::clone(&up)));
        }
        let goodbye = up.connection.close(200, "closed".into());
        let _ = tokio::time::timeout(FAREWELL, goodbye).await;
    }

    async fn connect_again(&self, waits: &mut ExponentialBackoff) -> Connection {
        loop {
            tokio::time::sleep(waits.next().unwrap_or(LONGEST_WAIT)).await;
            match self.connect().await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::warn!(%error, connection = self.name, "still not connected");
                }
            }
        }
    }

    async fn connect(&self) -> Result<Connection> {
        let properties =
            ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let connecting = Connection::connect_uri(self.address.uri.clone(), properties);
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(result) => result.map_err(|error| cannot_connect(&self.address, error)),
            Err(_) => Err(timed_out(&format!("connecting to {}", self.address), self.timeout)),
        }
    }
}

/// Waits until the connection has ended, and gives the reason.
///
/// The streams of its consumers may stay silent when it does.
async fn end(
    connection: &Connection,
    events: impl Stream<Item = Event>,
    address: &Address,
) -> String {
    let mut events = std::pin::pin!(events.fuse());
    let mut reason = None;
    while connection.status().connected() {
        tokio::select! {
            Some(event) = events.next() => match event {
                Event::Error(error) => reason = Some(error.to_string()),
                Event::ConnectionBlocked(cause) => {
                    tracing::warn!(broker = %address, cause, "the broker takes no jobs for now");
                }
                Event::ConnectionUnblocked => {
                    tracing::info!(broker = %address, "the broker takes jobs again");
                }
                _ => (),
            },
            () = tokio::time::sleep(LOOK) => (),
        }
    }
    reason.unwrap_or_else(|| "it was closed".to_owned())
}

/// The waits between tries that failed: 50 ms to 10 s, then 10 s for ever, with jitter.
pub(crate) fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(LONGEST_WAIT)
        .with_jitter()
        .without_max_times()
        .build()
}
