//! A connection epoch: one established connection.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lapin::Connection;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::identity::Held;
use super::idle::Idle;
use crate::error::{Error, Result};
use crate::rabbitmq::errors::{lost, refusal};
use crate::rabbitmq::lapin::log::Questions;

/// How long the reason of the end of a connection may come after the end.
const END: Duration = Duration::from_secs(1);

/// An established connection.
pub(crate) struct Established {
    pub(crate) connection: Connection,
    pub(crate) questions: Questions,
    /// The version of the broker, such as `3.10.8`.
    pub(crate) version: Option<String>,
    /// The number of its node in the address.
    pub(crate) node: usize,
    /// The credentials with which it was opened, unless they are those of the URL.
    pub(crate) held: Option<Arc<Held>>,
}

/// A connection epoch.
#[derive(Debug)]
pub(crate) struct ConnectionEpoch {
    pub(crate) connection: Connection,
    /// Unique among the epochs of a supervised connection.
    pub(crate) number: u64,
    /// The version of the broker, such as `3.10.8`.
    pub(crate) version: Option<String>,
    /// The number of its node in the address.
    pub(crate) node: usize,
    /// The credentials with which it was opened, unless they are those of the URL.
    pub(crate) held: Option<Arc<Held>>,
    /// Cancelled when the connection has ended.
    pub(crate) over: CancellationToken,
    /// Why it has ended, unless this client closed it.
    reason: OnceLock<String>,
    /// Requests on its channels that the broker may refuse.
    pub(crate) questions: Questions,
    /// Channels on which questions are asked.
    pub(crate) asking: Idle,
    /// Channels in confirm mode on which control messages are published.
    pub(crate) telling: Idle,
}

impl ConnectionEpoch {
    pub(crate) fn new(established: Established, number: u64) -> Self {
        let Established { connection, questions, version, node, held } = established;
        let over = CancellationToken::new();
        let (asking, telling) = (Idle::default(), Idle::default());
        let reason = OnceLock::new();
        Self { connection, number, version, node, held, over, reason, questions, asking, telling }
    }

    /// Waits for an answer on this connection. `lapin` accepts requests on one that has just ended,
    /// and never answers them.
    pub(crate) async fn answer<T>(
        &self,
        doing: &str,
        asking: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let error = tokio::select! {
            biased;
            answer = asking => match answer {
                // `lapin` says of later requests only that the connection has ended.
                Err(error) if error.is_connection() && !self.connection.status().connected() => {
                    error
                }
                answer => return answer,
            },
            () = self.over.cancelled() => return Err(lost(doing, self.reason())),
        };
        if refusal(&error).is_none() && timeout(END, self.over.cancelled()).await.is_ok() {
            return Err(lost(doing, self.reason()));
        }
        Err(error)
    }

    /// Whether work failed because the connection has ended.
    pub(crate) fn has_ended(&self, error: &Error) -> bool {
        let is_over = self.over.is_cancelled() || !self.connection.status().connected();
        error.is_connection() && is_over
    }

    /// Records that the connection has ended, for this reason.
    pub(crate) fn end(&self, reason: String) {
        let _ = self.reason.set(reason);
        self.over.cancel();
    }

    /// Whether its credentials should have been renewed by now.
    pub(crate) fn is_due_for_renewal(&self) -> bool {
        let renewal = self.held.as_ref().and_then(|held| held.renewal());
        renewal.is_some_and(|due| due <= Instant::now())
    }

    fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}
