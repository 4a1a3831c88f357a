use std::fmt;
use std::sync::{Arc, OnceLock};

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

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why().fmt(f)
    }
}
