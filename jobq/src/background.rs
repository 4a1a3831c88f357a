//! Two runtimes of jobq's own. One is for what must go on while job functions block the threads
//! of the program's: connections with their heartbeats, acknowledgements, timeouts. No job
//! function runs there. The other one gives each plain `fn` a thread.
//!
//! There is one of each for the whole process, made when it is first needed and never ended: a
//! function that does not return holds up neither the end of the program's runtime nor, in a
//! pool of threads that has only so many, another function.

use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZero;
use std::pin::pin;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::guard::{self, guarded};

/// What runs here is short, so more threads would be idle.
const MOST_THREADS: usize = 4;

static RUNTIME: LazyLock<io::Result<Background>> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).thread_name("jobq").enable_all();
    Ok(Background { runtime: builder.build()?, process: std::process::id() })
});

/// More than there are slots in any process. What bounds the threads are the slots.
const MOST_FUNCTIONS: usize = 1 << 24;

/// No task runs in it, so that it needs no thread but those of the functions.
static FUNCTIONS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(MOST_FUNCTIONS).thread_name("jobq-fn").build()
});

struct Background {
    runtime: Runtime,
    /// Where its threads are: a process that was forked from this one has none of them.
    process: u32,
}

/// The runtime.
///
/// # Errors
///
/// A system that gives no threads.
pub(crate) fn handle() -> Result<&'static Handle> {
    background().map(|background| background.runtime.handle())
}

fn background() -> Result<&'static Background> {
    RUNTIME.as_ref().map_err(|error| {
        Error::new(
            ErrorKind::Refused,
            format!("jobq's threads cannot be started: {error}; look at the limit of processes"),
        )
    })
}

/// Makes it the runtime of this thread until the guard is dropped, for calls from a thread
/// without one, or with one that has no timers.
///
/// # Errors
///
/// A system that gives no threads; a process that was forked from the one with the threads.
pub(crate) fn enter() -> Result<EnterGuard<'static>> {
    let Background { runtime, process } = background()?;
    let this = std::process::id();
    if this == *process {
        return Ok(runtime.enter());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "process {this} was forked from process {process}, which has jobq's threads and \
             connections; fork before the first client is made, and connect in each process"
        ),
    ))
}

/// Awaits a call of an engine, which works on any thread then: with the runtime of the program,
/// with one that has no timers, or with none.
///
/// # Errors
///
/// As [`enter`], and those of the call.
pub(crate) async fn call<T, E: From<Error>>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut call = pin!(call);
    poll_fn(|cx| {
        let _entered = enter()?;
        call.as_mut().poll(cx)
    })
    .await
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

/// Runs what may block on a thread of its own, or one that has become idle. None where the system
/// gives no thread.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
    let functions = FUNCTIONS.as_ref().ok()?;
    // tokio panics where there is neither another thread nor one to wait for.
    guarded(|| functions.spawn_blocking(run)).map_err(guard::dispose).ok()
}
