//! The end of a client.

use super::Client;
use crate::background;
use crate::error::Error;

impl Client {
    /// Closes the connection. Pools on this client end too, and their jobs in flight are released.
    /// Every later call of this client or a clone fails as [`Closed`](crate::ErrorKind::Closed).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = jobq::Client::connect("sqlite::memory:").await?;
    /// client.close().await;
    /// assert!(client.counts("mail").await.is_err_and(|error| error.is_closed()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) {
        let closing = async {
            self.engine().close().await;
            self.shared.closed.cancel();
            Ok::<_, Error>(())
        };
        // A forked process has nothing to close.
        let _ = background::call(closing).await;
    }

    /// Waits until this client or a clone is [closed](Self::close), for what has to end with it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = jobq::Client::connect("sqlite::memory:").await?;
    /// let other = client.clone();
    /// let (_, ()) = tokio::join!(client.close(), other.closed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn closed(&self) {
        self.shared.closed.cancelled().await;
    }
}
