//! The run of a job function: in a task of its own, so that neither its panic nor its
//! endless loop is the pool's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span};

use super::run::{Call, Kind};
use crate::job::Outcome;

/// One attempt: its place among those in hand, which others have after it, and its number in
/// this queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) place: usize,
    pub(crate) number: u64,
}

/// How the run of a job function ended.
#[derive(Debug)]
pub(crate) enum Ran {
    Ended(Outcome),
    /// It was dropped: it was aborted, or its runtime shut down.
    Cancelled,
}

/// Where runs report. A clone of the sender alone would count itself twice.
pub(crate) type Reports = Arc<mpsc::UnboundedSender<(Run, Ran)>>;

/// Tells how a run ended, whatever becomes of its task.
#[derive(Debug)]
pub(crate) struct Reporter {
    run: Run,
    reports: Option<Reports>,
}

impl Reporter {
    pub(crate) fn new(run: Run, reports: Reports) -> Self {
        Self { run, reports: Some(reports) }
    }

    fn ended(mut self, ended: thread::Result<Outcome>) {
        self.report(Ran::Ended(ended.unwrap_or_else(|panic| panicked(&*panic))));
    }

    fn report(&mut self, ran: Ran) {
        if let Some(reports) = self.reports.take() {
            // An error says that its pool has ended.
            let _ = reports.send((self.run, ran));
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.report(Ran::Cancelled);
    }
}

/// Runs a job function, and reports its end.
pub(crate) fn spawn(
    runtime: &Handle,
    call: Call,
    span: Span,
    reporter: Reporter,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(match call.0 {
        Kind::Future(future) => {
            let caught = AssertUnwindSafe(future).catch_unwind();
            runtime.spawn(async move { reporter.ended(caught.await) }.instrument(span))
        }
        Kind::Blocking(function) => runtime.spawn_blocking(move || {
            reporter.ended(span.in_scope(|| catch_unwind(AssertUnwindSafe(function))));
        }),
    })
}

/// The outcome of a panic.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) => Outcome::failed(format!("it panicked: {text}")),
        None => Outcome::failed("it panicked"),
    }
}
