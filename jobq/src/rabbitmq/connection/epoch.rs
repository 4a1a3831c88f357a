//! A connection epoch: one established connection.

use std::sync::Arc;

use lapin::Connection;
use tokio_util::sync::CancellationToken;

use super::identity::Held;
use super::idle::Idle;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::lapin::log::Questions;

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
        Self { connection, number, version, node, held, over, questions, asking, telling }
    }

    /// Waits for an answer on this connection. `lapin` accepts requests on one that has just ended,
    /// and never answers them.
    pub(crate) async fn answer<T>(
        &self,
        doing: &str,
        asking: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            answer = asking => answer,
            () = self.over.cancelled() => {
                let text = format!("{doing} failed: the connection was lost");
                Err(Error::new(ErrorKind::Connection, text))
            }
        }
    }
}
