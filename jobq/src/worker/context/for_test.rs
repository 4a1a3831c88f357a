//! Contexts for calling job functions in tests.

use std::sync::Arc;
#[cfg(feature = "schedules")]
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::JobContext;
use crate::client::Client;
use crate::engine::Detached;
#[cfg(feature = "schedules")]
use crate::job::headers::{MISSED, SCHEDULE};
use crate::job::{Envelope, Priority};
use crate::worker::cancellation::Cancelled;

impl JobContext {
    /// A context for calling a job function in a test: the first and only attempt of a
    /// job with a new id in the queue `test`; see [`with_attempt`](Self::with_attempt). Its client
    /// fails every call; see [`with_client`](Self::with_client).
    #[must_use]
    pub fn for_test() -> Self {
        let envelope = Envelope::new("test", Vec::new());
        Self {
            envelope: Arc::new(envelope),
            attempt: 1,
            max_attempts: 1,
            client: Client::with_engine(Arc::new(Detached), "test"),
            cancelled: Cancelled::default(),
            shutdown: CancellationToken::new(),
        }
    }

    /// The same context with this client.
    ///
    /// ```
    /// # async fn example() -> jobq::Result<()> {
    /// use jobq::{Client, JobContext};
    ///
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let context = JobContext::for_test().with_client(client);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// The same context with this attempt, from 1, and number of attempts.
    ///
    /// ```
    /// use jobq::JobContext;
    ///
    /// let context = JobContext::for_test().with_attempt(3, 4);
    /// assert_eq!((context.attempt(), context.max_attempts()), (3, 4));
    /// ```
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32, max_attempts: u32) -> Self {
        (self.attempt, self.max_attempts) = (attempt, max_attempts);
        self
    }

    /// The same context for an event of this topic.
    ///
    /// ```
    /// use jobq::JobContext;
    ///
    /// let context = JobContext::for_test().with_topic("user.created");
    /// assert_eq!(context.topic(), Some("user.created"));
    /// ```
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.envelope).topic = Some(topic.into());
        self
    }

    /// Returns the same context for a job that the schedule `name` enqueued, that was due at `due`, and
    /// that covers `missed` missed times in addition.
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use jobq::JobContext;
    ///
    /// let context = JobContext::for_test().with_schedule("report", SystemTime::UNIX_EPOCH, 2);
    /// assert_eq!((context.schedule(), context.missed()), (Some("report"), 2));
    /// assert_eq!(context.due(), SystemTime::UNIX_EPOCH);
    /// ```
    #[cfg(feature = "schedules")]
    #[must_use]
    pub fn with_schedule(mut self, name: &str, due: SystemTime, missed: u64) -> Self {
        let headers = &mut Arc::make_mut(&mut self.envelope).headers;
        headers.put(SCHEDULE, name);
        headers.put(MISSED, missed.to_string());
        headers.set_due(due);
        self
    }

    /// Returns the same context for a job with this priority.
    ///
    /// ```
    /// use jobq::{JobContext, Priority};
    ///
    /// let context = JobContext::for_test().with_priority(Priority::High);
    /// assert_eq!(context.priority(), Priority::High);
    /// ```
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        Arc::make_mut(&mut self.envelope).set_priority(priority);
        self
    }

    /// The same context for a job with this header.
    ///
    /// ```
    /// use jobq::JobContext;
    ///
    /// let context = JobContext::for_test().with_header("tenant", "7");
    /// assert_eq!(context.header("tenant"), Some("7"));
    /// ```
    ///
    /// # Panics
    ///
    /// If [`Headers::set`](crate::Headers::set) refuses it.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        let headers = &mut Arc::make_mut(&mut self.envelope).headers;
        if let Err(error) = headers.set(name, value) {
            panic!("{error}");
        }
        self
    }
}
