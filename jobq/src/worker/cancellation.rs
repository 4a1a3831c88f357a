use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use tokio_util::sync::CancellationToken;

/// Why a running attempt is asked to end, from
/// [`JobContext::cancellation`](crate::JobContext::cancellation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancellation {
    /// The pool is shut down, and its shutdown timeout is over. The job runs again elsewhere.
    Shutdown,
    /// The timeout of the attempt is over; the attempt has failed.
    Timeout,
    /// An operator cancelled the job, with
    /// [`Admin::cancel_running`](crate::admin::Admin::cancel_running). It fails for good.
    Operator,
}

/// The request to an attempt to end, with its reason.
#[derive(Clone, Default)]
pub(super) struct Cancelled(Arc<Inner>);

#[derive(Default)]
struct Inner {
    token: CancellationToken,
    why: OnceLock<Cancellation>,
}

impl Cancelled {
    /// Asks the attempt to end; the first reason stays.
    pub(super) fn cancel(&self, why: Cancellation) {
        let _ = self.0.why.set(why);
        self.0.token.cancel();
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.0.token
    }

    pub(super) fn why(&self) -> Option<Cancellation> {
        self.0.why.get().copied()
    }
}

/// The order of an operator to cancel an attempt, for one task that waits. Each attempt has one, so
/// it costs less than a `Notify`.
#[derive(Debug, Default)]
pub(super) struct CancelOrder {
    is_given: AtomicBool,
    waker: AtomicWaker,
}

impl CancelOrder {
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Acquire)
    }

    /// Waits until it is given.
    pub(super) async fn given(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            // After the waker is registered, so that no order is missed.
            if self.is_given() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why().fmt(f)
    }
}
