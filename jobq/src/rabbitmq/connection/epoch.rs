//! One life of a connection.

use lapin::Connection;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::lapin::log::Questions;

/// A connection that was made.
pub(crate) struct Made {
    pub(crate) connection: Connection,
    pub(crate) questions: Questions,
}

/// One life of the connection.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) connection: Connection,
    /// Tells this life from the others.
    pub(crate) generation: u64,
    /// Cancelled when the connection is over.
    pub(crate) over: CancellationToken,
    /// The questions on its channels.
    pub(crate) questions: Questions,
}

impl Up {
    pub(crate) fn new(made: Made, generation: u64) -> Self {
        let Made { connection, questions } = made;
        Self { connection, generation, over: CancellationToken::new(), questions }
    }

    /// The answer to what is asked on this connection. One that has just ended may take a
    /// question, and then `lapin` never answers.
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
