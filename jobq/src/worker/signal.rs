use crate::error::{Error, ErrorKind, Result};

/// The signals that ask a program to end: SIGINT and SIGTERM, or Ctrl-C where there are
/// no signals.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|source| {
                Error::new(ErrorKind::Refused, "cannot listen for signals").with_source(source)
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
