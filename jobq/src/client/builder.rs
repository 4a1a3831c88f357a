use std::sync::Arc;
use std::time::Duration;

use super::Client;
use super::outgoing::{Hooks, Outgoing};
use crate::background;
use crate::clock::Clock;
use crate::engine::{Certificates, EngineOptions, Migrated};
use crate::error::{Error, Result};
use crate::job::{BoxError, check_program, program};
use crate::period::{IntoPeriod, PeriodError};
use crate::setting;
use crate::traces::{Propagation, Trace, Traces};

/// The settings of a [`Client`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let client = jobq::Client::builder("sqlite::memory:").namespace("shop").connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "call `.connect().await`"]
pub struct ClientBuilder {
    url: String,
    program: String,
    hooks: Hooks,
    propagation: Option<Arc<dyn Propagation>>,
    trace: Trace,
    /// The error of a timeout whose text is no duration.
    unread_timeout: Option<PeriodError>,
    /// The error of a [`fail_fast_after`](Self::fail_fast_after) whose text is no duration.
    unread_fail_fast: Option<PeriodError>,
    pub(super) options: EngineOptions,
}

impl ClientBuilder {
    pub(super) fn new(url: &str) -> Self {
        let program = program();
        let options = EngineOptions {
            namespace: "jobq".to_owned(),
            connection_name: format!("{program} {}", std::process::id()),
            timeout: Duration::from_secs(30),
            clock: Clock::system(),
            certificates: Certificates::default(),
            credentials: None,
            management: None,
            keeps_schema: false,
            fail_fast_after: None,
            is_lazy: false,
        };
        Self {
            url: url.to_owned(),
            program,
            hooks: Hooks::default(),
            propagation: None,
            trace: Trace::default(),
            unread_timeout: None,
            unread_fail_fast: None,
            options,
        }
    }

    /// Sets the namespace, which separates the queues of this client from others on the same broker
    /// or file: `[a-z0-9_-]{1,32}`. Defaults to `jobq`.
    ///
    /// ```
    /// # async fn example() -> jobq::Result<()> {
    /// let client = jobq::Client::builder("amqp://localhost").namespace("shop").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = namespace.into();
        self
    }

    /// Sets the name of the connections in the broker's list. Defaults to the name of the program
    /// and its process id. The embedded engine ignores it.
    ///
    /// ```
    /// let builder = jobq::Client::builder("amqp://localhost").connection_name("shop-web, pod 7");
    /// ```
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.options.connection_name = name.into();
        self
    }

    /// Sets the name of this program, which its jobs and events carry
    /// ([`JobContext::enqueued_by`](crate::JobContext::enqueued_by),
    /// [`FailedJob::enqueued_by`](crate::FailedJob::enqueued_by), on RabbitMQ the property
    /// `app_id`): 1 to 60 characters without control characters. Defaults to the name of the
    /// executable.
    ///
    /// ```
    /// # async fn example() -> jobq::Result<()> {
    /// let client = jobq::Client::builder("amqp://localhost").program("shop-web").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = name.into();
        self
    }

    /// Adds a hook that is called for each job and event of this client before it is enqueued: for
    /// each [`enqueue`](Client::enqueue), each job of an [`enqueue_all`](Client::enqueue_all) and
    /// each [`publish`](Client::publish), but not for the retry of an attempt or of a failed job.
    /// It may set headers, which [`JobContext::header`](crate::JobContext::header) returns. Hooks
    /// run in the order in which they were added, in the task that enqueues.
    ///
    /// If a hook returns an error or panics, the call fails as
    /// [`Invalid`](crate::ErrorKind::Invalid), and the job is certainly not enqueued.
    ///
    /// ```
    /// use jobq::{Client, Outgoing};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = Client::builder("sqlite::memory:")
    ///     .on_enqueue(|job: &mut Outgoing| job.header("tenant", "7"))
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_enqueue(
        mut self,
        hook: impl Fn(&mut Outgoing) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.add(hook);
        self
    }

    /// Passes traces on from this client to the attempts of its jobs, in headers of the jobs, and
    /// makes the spans of OpenTelemetry's messaging conventions: `send {queue}` around each
    /// [`enqueue`](Client::enqueue) and [`enqueue_all`](Client::enqueue_all), `send {topic}` around
    /// each [`publish`](Client::publish), and, in pools on this client, `process {queue}` around
    /// each attempt. Defaults to none: then attempts have a span for the log alone.
    ///
    /// The crate `jobq-opentelemetry` has the one for OpenTelemetry.
    ///
    /// ```
    /// # fn example(context: impl jobq::Propagation) -> jobq::ClientBuilder {
    /// jobq::Client::builder("amqp://localhost").propagation(context)
    /// # }
    /// ```
    pub fn propagation(mut self, propagation: impl Propagation) -> Self {
        self.propagation = Some(Arc::new(propagation));
        self
    }

    /// Sets how pools on this client relate the span of an attempt to the one that sent the job.
    /// Defaults to [`Trace::Link`]. It has no effect without a [`propagation`](Self::propagation).
    ///
    /// ```
    /// # fn example(context: impl jobq::Propagation) -> jobq::ClientBuilder {
    /// jobq::Client::builder("amqp://localhost").propagation(context).trace(jobq::Trace::Child)
    /// # }
    /// ```
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// Sets the clock of this client and its pools. Defaults to the system's; see [`Clock`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let clock = jobq::Clock::stopped_at(std::time::SystemTime::UNIX_EPOCH);
    /// let client = jobq::Client::builder("sqlite::memory:").clock(clock).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }

    /// Keeps the schema of a SQLite file of the version before, for a tool beside the programs that use
    /// the file. Without this call the file is migrated by pools, [`declare`](Client::declare), and the
    /// first [`enqueue`](Client::enqueue) or [`publish`](Client::publish), and programs of that version
    /// cannot open it any more. With it these calls, too, use the file as it is. All other calls always
    /// do. A file that is older still is refused with an error: by [`connect`](Self::connect) after
    /// this call, else by all calls that do not migrate it. [`migrate`](Self::migrate) brings it up to
    /// date. On RabbitMQ it has no effect.
    ///
    /// ```
    /// let builder = jobq::Client::builder("sqlite://jobs.db").keep_schema();
    /// ```
    pub fn keep_schema(mut self) -> Self {
        self.options.keeps_schema = true;
        self
    }

    /// Sets how long a call waits for the broker's answer, or for other processes to unlock the
    /// file, before it fails with a [timeout](crate::ErrorKind::Timeout): a `Duration`, or its
    /// text, such as `"10s"`. Declaring many queues may take longer, as long as the broker answers.
    /// Defaults to 30 seconds. More than 24 days count as 24 days.
    ///
    /// ```
    /// # async fn example() -> jobq::Result<()> {
    /// let client = jobq::Client::builder("amqp://localhost").timeout("5s").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: impl IntoPeriod) -> Self {
        let read = timeout.into_period().map(|timeout| self.options.timeout = timeout);
        self.unread_timeout = read.err();
        self
    }

    /// Makes calls fail before their [`timeout`](Self::timeout) while the broker is out of reach:
    /// once there has been no connection, or an alarm has stopped the broker from reading, for longer
    /// than this. So a web service can shed requests. The error is a
    /// [timeout](crate::ErrorKind::Timeout) with the reason, and the call's job is certainly not
    /// enqueued. The exception is a job that was sent before the alarm: its call waits for the answer
    /// until the timeout. Calls succeed again as soon as the broker is back. Pools are not affected:
    /// what they record waits for the broker. Defaults to off. It has no effect on SQLite.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let client = jobq::Client::builder("amqp://localhost:1")
    ///     .fail_fast_after("100ms")
    ///     .connect_lazy()
    ///     .await?;
    /// // Nothing listens there; the timeout is 30 s.
    /// let error = client.counts("mail").await.unwrap_err();
    /// assert_eq!(error.kind(), jobq::ErrorKind::Timeout);
    /// assert!(error.to_string().contains("out of reach for longer than 100ms"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_fast_after(mut self, limit: impl IntoPeriod) -> Self {
        let read = limit.into_period().map(|limit| self.options.fail_fast_after = Some(limit));
        self.unread_fail_fast = read.err();
        self
    }

    /// Connects to the broker or opens the file.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`]; an invalid namespace, name of the program or URL of the management
    /// API; a timeout of zero, or one that is no duration; certificates that cannot be read, or for
    /// a URL that does not use them.
    pub async fn connect(self) -> Result<Client> {
        self.open().await
    }

    /// Returns a client without waiting for the broker, for a web service that must start while its
    /// broker is down. jobq keeps trying to connect, and each call waits for the connection until
    /// its [`timeout`](Self::timeout). A file is opened as by [`connect`](Self::connect), and a
    /// pool needs its broker to start.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # use std::time::Duration;
    /// let client = jobq::Client::builder("amqp://localhost:1")
    ///     .timeout(Duration::from_millis(200))
    ///     .connect_lazy()
    ///     .await?;
    /// // Nothing listens there.
    /// let error = client.counts("mail").await.unwrap_err();
    /// assert_eq!(error.kind(), jobq::ErrorKind::Timeout);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), except for a broker that cannot be reached or refuses: the
    /// reason is logged and part of the errors of later calls.
    pub async fn connect_lazy(mut self) -> Result<Client> {
        self.options.is_lazy = true;
        self.open().await
    }

    /// Brings the SQLite file of this URL to the schema of this version of jobq, without a client.
    /// Programs of earlier versions cannot open it any more; those that have it open go on. The jobs
    /// stay.
    ///
    /// A file whose clock is that of another time namespace (Linux), which is refused otherwise, gets
    /// the clock of this process, if no process has it open.
    ///
    /// ```
    /// # async fn example() -> jobq::Result<()> {
    /// jobq::Client::builder("sqlite://jobs.db").migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::connect`]; a file that does not exist, or that this user may not write;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a URL of a broker.
    pub async fn migrate(self) -> Result<Migrated> {
        self.check_text()?;
        background::call(super::open::migrate(&self.url, self.options)).await
    }

    /// Checks the settings that are text.
    fn check_text(&self) -> Result<()> {
        setting::check("the URL of the client", &self.url)?;
        setting::check("the namespace", &self.options.namespace)?;
        if let Some(problem) = &self.unread_timeout {
            return Err(Error::invalid(format!("the timeout of the client: {problem}")));
        }
        if let Some(problem) = &self.unread_fail_fast {
            return Err(Error::invalid(format!("`fail_fast_after` of the client: {problem}")));
        }
        let management = self.options.management.as_ref();
        management.map_or(Ok(()), |url| setting::check("the URL of the management API", &url.0))
    }

    async fn open(self) -> Result<Client> {
        self.check_text()?;
        check_namespace(&self.options.namespace)?;
        check_program(&self.program)?;
        if self.options.timeout.is_zero() {
            return Err(Error::invalid(
                "the client's timeout is zero, so every call would fail; set a longer one",
            ));
        }
        let namespace = self.options.namespace.clone();
        let engine = background::call(super::open::open(&self.url, self.options)).await?;
        let traces = self
            .propagation
            .map(|propagation| Traces::new(propagation, self.trace, engine.system()));
        Ok(Client::from_parts(engine, namespace, &self.program, self.hooks, traces))
    }
}

impl std::fmt::Debug for ClientBuilder {
    /// Omits the URL, which may have a password, and keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

pub(crate) fn check_namespace(namespace: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if (1..=32).contains(&namespace.len()) && namespace.chars().all(allowed) {
        return Ok(());
    }
    let shown: String = namespace.chars().take(64).collect();
    Err(Error::invalid(format!(
        "`{shown}` is not a valid namespace; use 1 to 32 characters from a-z 0-9 _ -"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_follow_the_rule() {
        for good in ["jobq", "a", "shop-2_x", &"n".repeat(32)] {
            assert!(check_namespace(good).is_ok(), "{good}");
        }
        for bad in ["", "Shop", "a.b", "a:b", "ü", &"n".repeat(33)] {
            assert!(check_namespace(bad).unwrap_err().is_invalid(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let builder = ClientBuilder::new("amqp://ann:secret@localhost")
            .root_certificate("secret")
            .client_certificate("secret", "secret");
        let shown = format!("{builder:?} {builder:#?}");
        // "secret" as text and as bytes, but not the number of the process.
        assert!(!shown.contains("secret") && !shown.contains("115,"), "{shown}");
    }
}
