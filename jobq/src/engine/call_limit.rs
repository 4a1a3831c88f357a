//! The time limit of a single call.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// More than any call takes, and less than what a clock can add.
const LONGEST: Duration = Duration::from_secs(24 * 24 * 60 * 60);

thread_local! {
    static CURRENT: Cell<Option<CallLimit>> = const { Cell::new(None) };
}

/// How long one call of a client waits for its store, instead of the client's timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    limit: Duration,
    end: Instant,
}

impl CallLimit {
    /// A limit that begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, end: Instant::now() + limit.min(LONGEST) }
    }

    /// The limit of the call on whose behalf this thread polls an engine; `None` for one with the
    /// client's timeout.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// The whole time.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// The time that is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// The [`current`](Self::current) one, or one with this timeout that begins now.
    #[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
    pub(crate) fn or(timeout: Duration) -> Self {
        Self::current().unwrap_or_else(|| Self::new(timeout))
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Has this limit be the current one while a call is polled.
    pub(crate) async fn of<T>(self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|cx| {
            let _before = Before(CURRENT.replace(Some(self)));
            call.as_mut().poll(cx)
        })
        .await
    }
}

/// The limit that is current again when this is dropped.
struct Before(Option<CallLimit>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_that_of_its_call_alone() {
        let second = Duration::from_secs(1);
        let (short, long) = (CallLimit::new(second), CallLimit::new(Duration::MAX));
        let current = || CallLimit::current().map(|current| current.limit());
        let call = async {
            assert_eq!(current(), Some(Duration::MAX));
            short.of(async { assert_eq!(current(), Some(second)) }).await;
            tokio::task::yield_now().await;
            assert_eq!(current(), Some(Duration::MAX));
        };
        let other = async {
            tokio::task::yield_now().await;
            assert_eq!(current(), None);
        };
        tokio::join!(long.of(call), other);
        assert_eq!(CallLimit::or(second), short);
        tokio::time::advance(second * 2).await;
        assert_eq!((short.left(), long.left() + second * 2), (Duration::ZERO, LONGEST));
    }
}
