//! Two runtimes of jobq's own. One keeps connections, heartbeats, acknowledgements and timeouts
//! going while job functions block the threads of the program's runtime; no job function runs
//! there. The other one gives each plain `fn` a thread.
//!
//! Each is made once per process, on first use, and never shut down. So a function that does not
//! return blocks neither the shutdown of the program's runtime nor, in a limited pool of threads,
//! another function.

use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::available_parallelism;

use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::guard::{self, guarded, lock};

/// The tasks here are short, so more threads would be idle.
const MAX_THREADS: usize = 4;

static RUNTIME: LazyLock<io::Result<Background>> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).thread_name("jobq").enable_all();
    Ok(Background { runtime: builder.build()?, process: std::process::id() })
});

/// More than the slots of any process, which limit the threads.
const MAX_FUNCTIONS: usize = 1 << 24;

/// It runs no tasks, so it needs only the threads of the functions.
static FUNCTIONS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(MAX_FUNCTIONS).thread_name("jobq-fn").build()
});

struct Background {
    runtime: Runtime,
    /// The process of its threads: a forked process does not have them.
    process: u32,
}

/// The background runtime.
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
            format!("cannot start jobq's threads: {error}; check the process limit (`ulimit -u`)"),
        )
    })
}

/// The background runtime of this process.
///
/// # Errors
///
/// A system that gives no threads; a process forked from the one with the threads.
fn own() -> Result<&'static Handle> {
    let Background { runtime, process } = background()?;
    let this = std::process::id();
    if this == *process {
        return Ok(runtime.handle());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "process {this} was forked from process {process}, which owns jobq's threads and \
             connections; fork before you create the first client, and connect in each process"
        ),
    ))
}

/// Enters the background runtime until the guard is dropped, for calls from a thread without a
/// runtime, or with one that has no timers.
///
/// # Errors
///
/// A system that gives no threads; a process forked from the one with the threads.
pub(crate) fn enter() -> Result<EnterGuard<'static>> {
    own().map(Handle::enter)
}

/// Runs a function inside the background runtime. The threads were there before.
pub(crate) fn entered<T>(run: impl FnOnce() -> T) -> T {
    let _entered = handle().ok().map(Handle::enter);
    run()
}

/// Awaits a call of an engine inside the background runtime, so that it works on any thread: with
/// the runtime of the program, with one that has no timers, or with none. The process is looked at
/// when the call begins.
///
/// # Errors
///
/// As [`enter`], and those of the call.
pub(crate) async fn call<T, E: From<Error>>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let (runtime, mut call) = (own()?, pin!(call));
    poll_fn(|cx| {
        let _entered = runtime.enter();
        call.as_mut().poll(cx)
    })
    .await
}

/// Spawns a task in the background runtime.
///
/// # Panics
///
/// If there are no threads: opening the engine or starting the pool has returned that error from
/// [`handle`] before.
#[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    handle().expect("the threads were there before").spawn(future)
}

fn take<F>(queued: &Mutex<Option<F>>) -> Option<F> {
    lock(queued).take()
}

/// Runs a blocking function on an idle or a new thread.
///
/// # Errors
///
/// The system has no thread: the function, unless a thread that became idle has taken it.
pub(crate) fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
    run: F,
) -> Result<JoinHandle<T>, Option<F>> {
    let Ok(functions) = FUNCTIONS.as_ref() else { return Err(Some(run)) };
    // tokio panics if it can start no thread and has none to wait for. The function stays in its
    // queue then, and would run whenever there is one: it is taken back.
    let queued = Arc::new(Mutex::new(Some(run)));
    let taken = Arc::clone(&queued);
    let run = move || match take(&taken) {
        Some(run) => run(),
        // Nobody has the handle of the task.
        None => resume_unwind(Box::new(())),
    };
    guarded(|| functions.spawn_blocking(run)).map_err(|panic| {
        guard::dispose(panic);
        take(&queued)
    })
}
