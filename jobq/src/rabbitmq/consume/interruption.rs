//! The reason for which a consumer gets no jobs, for callers and for the log.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::engine::Interruption;
use crate::error::{Error, ErrorKind};
use crate::repeated::{Line, RepeatedBy};

/// Whether one consumer is interrupted.
#[derive(Debug, Clone)]
pub(crate) struct Interruptions {
    current: Arc<watch::Sender<Option<Interruption>>>,
    clock: Clock,
}

impl Interruptions {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { current: Arc::default(), clock }
    }

    /// Records why no jobs arrive, and the time if they arrived before.
    pub(crate) fn begin(&self, error: &Error) {
        self.current.send_modify(|interruption| {
            let before = interruption.as_ref().map(|before| before.since);
            let since = before.unwrap_or_else(|| self.clock.now());
            *interruption = Some(Interruption { since, error: error.clone() });
        });
    }

    /// Records that jobs arrive again.
    pub(crate) fn end(&self) {
        self.current.send_replace(None);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Interruption>> {
        self.current.subscribe()
    }
}

/// The broker has ended the consumer only.
pub(crate) fn ended(queue: &str, reason: &str) -> Error {
    let text = format!("the broker ended the consumer of queue `{queue}`: {reason}");
    Error::new(ErrorKind::Connection, text)
}

/// The log lines about consumers that cannot begin: once a minute for each queue, whose consumers
/// are two.
#[derive(Debug, Default)]
pub(crate) struct Troubles(RepeatedBy<(&'static str, Trouble)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Trouble {
    Unreachable,
    Refused,
    NotReplaced,
}

impl Troubles {
    /// Logs a refusal as an error, since waiting alone does not resolve it.
    pub(crate) fn not_started(&self, queue: &'static str, error: &Error) {
        let is_refused = !error.is_connection() && !error.is_timeout();
        let trouble = if is_refused { Trouble::Refused } else { Trouble::Unreachable };
        let Some(Line { more }) = self.0.happens((queue, trouble), Instant::now()) else {
            return;
        };
        if is_refused {
            tracing::error!(queue, %error, more, "could not start the consumer; retrying");
        } else {
            tracing::warn!(queue, %error, more, "could not start the consumer; retrying");
        }
    }

    pub(crate) fn not_replaced(&self, queue: &'static str, error: &Error) {
        let trouble = (queue, Trouble::NotReplaced);
        if let Some(Line { more }) = self.0.happens(trouble, Instant::now()) {
            tracing::warn!(queue, %error, more, "could not replace the consumer; resubscribing");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_lasts_from_its_first_reason_to_its_end() {
        let interruptions = Interruptions::new(Clock::system());
        let seen = interruptions.subscribe();
        assert!(seen.borrow().is_none());
        interruptions.begin(&ended("mail", "first"));
        let first = seen.borrow().clone().unwrap();
        interruptions.begin(&ended("mail", "second"));
        let second = seen.borrow().clone().unwrap();
        assert_eq!(first.since, second.since);
        assert!(second.error.to_string().ends_with("second"), "{}", second.error);
        interruptions.end();
        assert!(seen.borrow().is_none());
    }
}
