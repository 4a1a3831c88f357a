//! One supervised connection: it comes back by itself, for ever.
//!
//! `lapin`'s own recovery stays off, since it uses delivery tags again: an old
//! acknowledgement would then settle a job that nobody ran. What was opened on a
//! connection dies with it, and its owner opens it again on the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::{Stream, StreamExt};
use lapin::{Connection, ConnectionProperties, ErrorKind, Event};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::failure::{cannot_connect, timed_out};
use crate::engine::closed;
use crate::error::Result;

/// How often the state is looked at where no event told of its end.
const LOOK: Duration = Duration::from_millis(500);
/// How long the event that says why a connection ended may come after its end.
const EPILOGUE: Duration = Duration::from_millis(50);
/// A connection, channel or consumer that lived for so long starts its waits afresh.
pub(crate) const LASTING: Duration = Duration::from_secs(20);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(5);

/// A connection that is kept up until it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    state: watch::Receiver<State>,
    unreadable: Arc<AtomicBool>,
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
    unreadable: Arc<AtomicBool>,
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
        let unreadable = Arc::new(AtomicBool::new(false));
        let supervisor = Supervisor {
            address,
            name,
            timeout,
            state: sender,
            unreadable: Arc::clone(&unreadable),
            closing: closing.clone(),
        };
        let connection = supervisor.connect().await?;
        let first = Arc::new(Up { connection, generation: 0 });
        supervisor.state.send_replace(State::Up(Arc::clone(&first)));
        tokio::spawn(supervisor.run(first));
        Ok(Self { state, unreadable, closing })
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

    /// Whether the connection has ever ended because of a message that `lapin` cannot read.
    /// The broker sends that again on the next one.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Acquire)
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
                (reason, unreadable) = end(&up.connection, events, &self.address) => {
                    tracing::warn!(broker = %self.address, connection = self.name, reason, "the connection was lost");
                    self.unreadable.fetch_or(unreadable, Ordering::AcqRel);
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

/// Waits until the connection has ended, and gives the reason and whether it is that a
/// message could not be read.
///
/// The streams of its consumers may stay silent when it does.
async fn end(
    connection: &Connection,
    events: impl Stream<Item = Event>,
    address: &Address,
) -> (String, bool) {
    let mut events = std::pin::pin!(events.fuse());
    let mut reason = None;
    loop {
        let connected = connection.status().connected();
        if !connected && let Some(reason) = reason {
            return reason;
        }
        // The event that says why may come a moment before the end, or after it.
        let patience = if connected && reason.is_none() { LOOK } else { EPILOGUE };
        match tokio::time::timeout(patience, events.next()).await {
            Ok(Some(Event::Error(error))) => {
                let unreadable = matches!(error.kind(), ErrorKind::ParsingError(_));
                reason = Some((error.to_string(), unreadable));
            }
            Ok(Some(Event::ConnectionBlocked(cause))) => {
                tracing::warn!(broker = %address, cause, "the broker takes no jobs for now");
            }
            Ok(Some(Event::ConnectionUnblocked)) => {
                tracing::info!(broker = %address, "the broker takes jobs again");
            }
            Ok(None) | Err(_) if !connected => return ("it was closed".to_owned(), false),
            Ok(None) => tokio::time::sleep(EPILOGUE).await,
            Ok(Some(_)) | Err(_) => {}
        }
    }
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
