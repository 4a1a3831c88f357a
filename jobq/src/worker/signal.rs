use crate::background;
use crate::error::{Error, ErrorKind, Result};

/// Returns a future that ends when the program gets SIGINT, SIGTERM or SIGHUP, or Ctrl-C where
/// there are no signals: for the graceful shutdown of a web server, or for
/// [`WorkerPool::run_until`](crate::WorkerPool::run_until).
///
/// From this call on, these signals do not end the process. A signal between the call and the first
/// poll ends the future. On Linux a SIGHUP that the process ignores, as under `nohup`, stays
/// ignored.
///
/// [`WorkerPool::run`](crate::WorkerPool::run) waits for the same signals.
///
/// ```no_run
/// # use jobq::{Client, WorkerPool, job};
/// # #[job] async fn mail() -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: Client) -> jobq::Result<()> {
/// let signal = jobq::shutdown_signal()?;
/// WorkerPool::new(&client).register::<Mail>().run_until(signal).await
/// # }
/// ```
///
/// # Errors
///
/// A system that gives no threads, or refuses to tell of signals; a process
/// [forked](crate::ErrorKind::Unsupported) from the one with jobq's threads.
pub fn shutdown_signal() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = Signals::listen()?;
    Ok(async move { signals.next().await })
}

/// The signals that ask a program to end: SIGINT, SIGTERM and SIGHUP, or Ctrl-C where there are no
/// signals.
pub(super) struct Signals {
    #[cfg(unix)]
    signals: Vec<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Listens from now on.
    #[cfg(unix)]
    pub(super) fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let _entered = background::enter()?;
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        let hangup = SignalKind::hangup();
        // Without `/proc` it counts as not ignored.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !is_ignored(&status, hangup.as_raw_value()) {
            kinds.push(hangup);
        }
        let signals = kinds.into_iter().map(signal).collect::<std::io::Result<_>>();
        let signals = signals.map_err(|source| {
            Error::new(ErrorKind::Refused, "cannot listen for signals").with_source(source)
        })?;
        Ok(Self { signals })
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub(super) fn listen() -> Result<Self> {
        background::enter()?;
        Ok(Self {})
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        {
            let next = self.signals.iter_mut().map(|signal| Box::pin(signal.recv()));
            futures_util::future::select_all(next).await;
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a process with this `/proc/self/status` ignores a signal.
#[cfg(unix)]
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status_of_the_process() {
        let status = |mask| format!("Name:\tshop\nSigBlk:\tffffffffffffffff\nSigIgn:\t{mask}\n");
        for (status, hangup, terminate) in [
            (status("0000000000000001"), true, false),
            (status("0000000000005000"), false, true),
            (status("0000000000000000"), false, false),
            (status("no number"), false, false),
            (String::new(), false, false),
        ] {
            assert_eq!((is_ignored(&status, 1), is_ignored(&status, 15)), (hangup, terminate));
        }
    }
}
