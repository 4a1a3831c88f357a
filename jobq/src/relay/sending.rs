//! What becomes of rows: the push of each, and what its error means.

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::source::{Refusal, Settled};
use crate::engine::{Engine, check_events};
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::{Content, retry_in};

/// Whether the row is tried later. Otherwise the engine is away, and all rows are given back.
///
/// A row without an answer is tried later, too: if one queue of a broker does not confirm, its rows must
/// not hold up those of the others.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Closed, Connection, Stale};
    !matches!(error.kind(), Closed | Connection | Stale)
}

/// What became of a batch so far.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) settled: Settled,
    /// The first error of a row that is given back.
    pub(super) given_back: Option<Error>,
}

impl Outcome {
    /// A row was sent, refused, or is given back.
    pub(super) fn add(&mut self, seq: i64, tries: u32, sent: Result<()>) {
        match sent {
            Ok(()) => self.settled.sent.push(seq),
            Err(error) if is_refusal(&error) => {
                // Databases do not store NUL in texts.
                let error = error.to_string().replace('\0', "\\0");
                self.settled.refused.push(Refusal { seq, error, retry_in: retry_in(tries) });
            }
            Err(error) => _ = self.given_back.get_or_insert(error),
        }
    }
}

/// Sends jobs and events, and returns what has become of each by then. The jobs are enqueued in their
/// order.
pub(super) async fn send(
    engine: &dyn Engine,
    contents: Vec<Content>,
    deadline: Instant,
) -> Vec<Result<()>> {
    let sending = contents.into_iter().map(|content| async move {
        let sent = timeout_at(deadline, send_one(engine, content)).await;
        sent.unwrap_or_else(|_| Err(unanswered()))
    });
    join_all(sending).await
}

async fn send_one(engine: &dyn Engine, content: Content) -> Result<()> {
    match content {
        Content::Job(job) => engine.push(job).await.map(drop),
        Content::Event(event) => {
            check_events(engine)?;
            engine.publish(event, false).await
        }
    }
}

fn unanswered() -> Error {
    let text = "the engine gave no answer in time; it may have stored the job";
    Error::new(ErrorKind::Timeout, text).and_maybe_enqueued()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{Capabilities, Consume, Consumer, NotPushed, Pushed, Pushing, QueueSpec};
    use crate::job::{Envelope, EventEnvelope};

    #[test]
    fn only_an_engine_that_is_away_gives_rows_back() {
        use ErrorKind::{
            Closed, Conflict, Connection, Invalid, NotFound, Refused, Stale, Timeout, Unsupported,
        };
        for kind in [Conflict, Invalid, NotFound, Refused, Timeout, Unsupported] {
            assert!(is_refusal(&Error::new(kind, "")), "{kind:?}");
        }
        for kind in [Closed, Connection, Stale] {
            assert!(!is_refusal(&Error::new(kind, "").and_maybe_enqueued()), "{kind:?}");
        }
        let mut outcome = Outcome::default();
        outcome.add(1, 0, Ok(()));
        outcome.add(2, 3, Err(Error::new(Refused, "a\0b")));
        outcome.add(3, 0, Err(Error::new(Connection, "first")));
        outcome.add(4, 0, Err(Error::new(Connection, "second")));
        assert_eq!(outcome.settled.sent, [1]);
        let [refusal] = &*outcome.settled.refused else { panic!("{outcome:?}") };
        assert_eq!((refusal.seq, &*refusal.error), (2, "a\\0b"));
        assert_eq!(refusal.retry_in, Duration::from_secs(40));
        assert_eq!(outcome.given_back.map(|error| error.to_string()).as_deref(), Some("first"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_without_an_answer_holds_up_no_other() {
        let job = |queue: &'static str| Content::Job(Envelope::new(queue, Vec::new()));
        let deadline = Instant::now() + Duration::from_secs(10);
        let sent = send(&HalfDeaf, vec![job("a"), job("deaf"), job("b")], deadline).await;
        let [Ok(()), Err(error), Ok(())] = &*sent else { panic!("{sent:?}") };
        assert!(error.is_timeout() && error.maybe_enqueued(), "{error}");
    }

    /// An engine with a queue that gives no answers.
    #[derive(Debug)]
    struct HalfDeaf;

    #[async_trait::async_trait]
    impl Engine for HalfDeaf {
        async fn declare(&self, _: &[QueueSpec]) -> Result<()> {
            Ok(())
        }

        fn push(&self, job: Envelope) -> Pushing {
            match &*job.queue {
                "deaf" => Box::pin(std::future::pending()),
                _ => Box::pin(std::future::ready(Ok(Pushed::new()))),
            }
        }

        async fn push_all(&self, _: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
            Vec::new()
        }

        async fn publish(&self, _: EventEnvelope, _: bool) -> Result<()> {
            Ok(())
        }

        async fn consume(&self, _: Consume) -> Result<Consumer> {
            Err(Error::invalid("nobody consumes"))
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities::new()
        }

        async fn close(&self) {}
    }
}
