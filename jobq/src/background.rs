//! A runtime of jobq's own, for what must go on while job functions block the threads of the
//! program's: connections with their heartbeats, acknowledgements, timeouts. No job function
//! runs here.
//!
//! There is one for the whole process, made when it is first needed.

use std::future::Future;
use std::io;
use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};

/// What runs here is short, so more threads would be idle.
const MOST_THREADS: usize = 4;

static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    Builder::new_multi_thread().worker_threads(threads).thread_name("jobq").enable_all().build()
});

/// The runtime.
///
/// # Errors
///
/// A system that gives no threads.
pub(crate) fn handle() -> Result<&'static Handle> {
    RUNTIME.as_ref().map(Runtime::handle).map_err(|error| {
        Error::new(
            ErrorKind::Refused,
            format!("jobq's threads cannot be started: {error}; look at the limit of processes"),
        )
    })
}

/// Runs it there.
///
/// # Panics
///
/// If there are no threads for it, which whoever opened the engine or started the pool was
/// told by [`handle`].
#[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    handle().expect("the threads were there before").spawn(future)
}
